//! [`Units`]: what the elements of a product are packed as, and how packed ones multiply.

use std::any::TypeId;
use std::marker::PhantomData;

use crate::isa::{Isa, Level};
use crate::simd::{Arith, Value};

/// A way to pack and to multiply.
pub(super) trait Units: 'static {
    /// The element type of the operands.
    type In: Copy + Send + Sync;
    /// What is packed: [`Units::GROUP`] elements that follow each other in the inner dimension.
    type Unit: Copy;
    /// What products are summed in.
    type Sum: Arith + Value<Op = Self::Sum>;
    /// Elements of a unit.
    const GROUP: usize;
    /// True if what [`Units::run`] runs may use vectors of 32 bytes.
    const WIDE: bool;
    /// A unit of zeros.
    const ZERO: Self::Unit;

    /// True if elements are units, so that a panel may stay where it lies.
    fn as_is() -> bool;

    /// True if units are their elements as these lie side by side, bit for bit.
    #[inline(always)]
    fn side_by_side() -> bool {
        Self::as_is()
    }

    /// The unit of the elements at `at`, `at + stride`, ..
    ///
    /// # Safety
    /// They are valid for reads.
    unsafe fn gather(at: *const Self::In, stride: isize) -> Self::Unit;

    /// The unit of the element at `at` and zeros.
    ///
    /// # Safety
    /// It is valid for reads.
    unsafe fn gather_one(at: *const Self::In) -> Self::Unit;

    /// `sums[i] += x * y[i]`, over the elements of the units.
    fn accumulate<const L: usize>(sums: &mut [Self::Sum; L], x: Self::Unit, y: &[Self::Unit; L]);

    /// Runs `f` compiled for the instructions that [`Units::accumulate`] needs.
    fn run<R>(f: impl FnOnce() -> R) -> R;
}

/// Elements are packed one by one, as what they are computed in: f32 for the halves.
pub(super) struct Single<I, T>(PhantomData<(I, T)>);

impl<I: Isa, T: Value<Op: Value<Op = T::Op>>> Units for Single<I, T> {
    type In = T;
    type Unit = T::Op;
    type Sum = T::Op;
    const GROUP: usize = 1;
    const WIDE: bool = cfg!(target_arch = "x86_64") && I::LEVEL as u8 >= Level::V3 as u8;
    const ZERO: T::Op = <T::Op as Arith>::ZERO;

    #[inline(always)]
    fn as_is() -> bool {
        TypeId::of::<T>() == TypeId::of::<T::Op>()
    }

    #[inline(always)]
    unsafe fn gather(at: *const T, _: isize) -> T::Op {
        // SAFETY: forwarded from the caller.
        unsafe { *at }.up()
    }

    #[inline(always)]
    unsafe fn gather_one(at: *const T) -> T::Op {
        // SAFETY: forwarded from the caller.
        unsafe { *at }.up()
    }

    #[inline(always)]
    fn accumulate<const L: usize>(sums: &mut [T::Op; L], x: T::Op, y: &[T::Op; L]) {
        for l in 0..L {
            sums[l] = sums[l].mul_accumulate::<I>(x, y[l]);
        }
    }

    #[inline(always)]
    fn run<R>(f: impl FnOnce() -> R) -> R {
        I::run(f)
    }
}
