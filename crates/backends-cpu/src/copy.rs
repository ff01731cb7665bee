//! Copies, with a cast where the dtypes differ. The column is the destination's dtype; the source's is matched here.

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Result, check, dispatch};

use crate::elementwise;
use crate::isa::{Baseline, Isa};
use crate::loops::{Elementwise, map, map_from};
use crate::simd::{Cast, Number, Value};

/// Copies input 0, of any dtype, to the output.
///
/// # Errors
/// When there is no input.
pub fn copy<I: Isa, T: Number>(iter: &TensorIter) -> Result<()> {
    check!(iter.operands().len() == 2, "copy takes one input and one output, got {} operands", iter.operands().len());
    let source = iter.dtype(1);
    if source == T::DTYPE { same::<I, T>(iter) } else { dispatch!(source, S => convert::<I, S, T>(iter)) }
}

/// A cast. Those that programs run all the time are compiled for each level, the others once: there are a hundred and more.
fn convert<I: Isa, S: Value, T: Value>(iter: &TensorIter) -> Result<()> {
    if const { common(S::DTYPE, T::DTYPE) } {
        map_from::<I, (S,), T, (S::Lift,), T::Lift, _>(iter, Convert)
    } else {
        map::<Baseline, (S,), T, _>(iter, Convert)
    }
}

/// True for casts of f32 from or to real dtypes, and of the other dtypes of indices, masks and numbers.
const fn common(from: DType, to: DType) -> bool {
    const fn often(dtype: DType) -> bool {
        matches!(dtype, DType::F64 | DType::I64 | DType::I32 | DType::Bool)
    }
    const fn real(dtype: DType) -> bool {
        !matches!(dtype, DType::C64 | DType::C128)
    }
    matches!(from, DType::F32) && real(to) || matches!(to, DType::F32) && real(from) || often(from) && often(to)
}

elementwise! {
    fn same<T: (Number)>(x: T) -> T { x }
}

#[derive(Clone, Copy)]
struct Convert;

impl<S: Value, T: Value> Elementwise<(S,), T> for Convert {
    #[inline(always)]
    fn apply<I: Isa>(self, (x,): (S,)) -> T {
        T::down(x.up().cast::<T::Op>())
    }
}
