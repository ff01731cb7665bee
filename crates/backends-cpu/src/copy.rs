//! Copies, with a cast where the dtypes differ. The column is the destination's dtype; the source's is matched here.

use tensor_core::iter::TensorIter;
use tensor_core::{Result, check, dispatch};

use crate::elementwise;
use crate::isa::Isa;
use crate::loops::{Elementwise, map};
use crate::simd::{Cast, Number, Value};

/// Copies input 0, of any dtype, to the output.
///
/// # Errors
/// When there is no input.
pub fn copy<I: Isa, T: Number>(iter: &TensorIter) -> Result<()> {
    check!(iter.operands().len() == 2, "copy takes one input and one output, got {} operands", iter.operands().len());
    let source = iter.dtype(1);
    if source == T::DTYPE { same::<I, T>(iter) } else { dispatch!(source, S => map::<I, (S,), T, _>(iter, Convert)) }
}

elementwise! {
    fn same<T: Number>(x: T) -> T { x }
}

#[derive(Clone, Copy)]
struct Convert;

impl<S: Value, T: Value> Elementwise<(S,), T> for Convert {
    #[inline(always)]
    fn apply<I: Isa>(self, (x,): (S,)) -> T {
        T::down(x.up().cast::<T::Op>())
    }
}
