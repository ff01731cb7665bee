//! Powers. Integers wrap; a negative integer exponent is 0 but for bases 1 and -1.

use tensor_core::iter::TensorIter;
use tensor_core::{Bool, Complex, Result, bf16, f16};

use super::arithmetic::param;
use crate::elementwise;
use crate::isa::Isa;
use crate::loops::{Elementwise, map};
use crate::simd::{Arith, Floating, Integer, Math, Value};

/// Powers of a dtype.
pub trait Power: Value {
    /// `self` to the power of `exponent`.
    fn power<I: Isa>(self, exponent: Self) -> Self;
    /// `self` to the power of one number: quick for small whole and half exponents.
    fn power_scalar<I: Isa>(iter: &TensorIter) -> Result<()>;
}

#[derive(Clone, Copy)]
struct By<T>(T);

impl<T: Power> Elementwise<(T,), T> for By<T> {
    #[inline(always)]
    fn apply<I: Isa>(self, (x,): (T,)) -> T {
        x.power::<I>(self.0)
    }
}

elementwise! {
    /// `a` to the power of `b`.
    pub fn pow<T: Power>(a: T, b: T) -> T { a.power::<I>(b) }

    fn one_over_square<T: Floating>(x: T) -> T { T::down(x.up().mul(x.up()).reciprocal()) }
    fn cube<T: Floating>(x: T) -> T { T::down(x.up().mul(x.up()).mul(x.up())) }
    fn by_float<T: Floating>(x: T; exponent: T::Op) -> T { T::down(x.up().pow::<I>(exponent)) }
}

/// `x` to the power of parameter 0.
pub fn pow_tensor_scalar<I: Isa, T: Power>(iter: &TensorIter) -> Result<()> {
    T::power_scalar::<I>(iter)
}

/// The quick forms round as repeated products do, within the tolerance of `pow`.
fn floating<I: Isa, T: Floating>(iter: &TensorIter) -> Result<()> {
    let exponent = iter.param(0);
    if exponent.equals(2.0) {
        super::square::<I, T>(iter)
    } else if exponent.equals(3.0) {
        cube::<I, T>(iter)
    } else if exponent.equals(0.5) {
        super::sqrt::<I, T>(iter)
    } else if exponent.equals(-0.5) {
        super::rsqrt::<I, T>(iter)
    } else if exponent.equals(-1.0) {
        super::reciprocal::<I, T>(iter)
    } else if exponent.equals(-2.0) {
        one_over_square::<I, T>(iter)
    } else {
        by_float::<I, T>(iter)
    }
}

macro_rules! powers {
    (integers: $($int:ty)*; floats: $($float:ty)*;) => {
        $(
            impl Power for $int {
                #[inline(always)]
                fn power<I: Isa>(self, exponent: Self) -> Self {
                    Integer::power(self, exponent)
                }
                fn power_scalar<I: Isa>(iter: &TensorIter) -> Result<()> {
                    let exponent: i64 = param(iter, 0);
                    match <$int>::try_from(exponent) {
                        Ok(exponent) => map::<I, ($int,), $int, _>(iter, By(exponent)),
                        // More than the dtype holds: as a 64-bit exponent.
                        Err(_) => map::<I, ($int,), $int, _>(iter, ByLong(exponent)),
                    }
                }
            }
        )*
        $(
            impl Power for $float {
                #[inline(always)]
                fn power<I: Isa>(self, exponent: Self) -> Self {
                    Self::down(self.up().pow::<I>(exponent.up()))
                }
                fn power_scalar<I: Isa>(iter: &TensorIter) -> Result<()> {
                    floating::<I, $float>(iter)
                }
            }
        )*
    };
}
powers! {
    integers: u8 i8 i16 i32 i64;
    floats: f16 bf16 f32 f64 Complex<f32> Complex<f64>;
}

#[derive(Clone, Copy)]
struct ByLong(i64);

impl<T: Integer> Elementwise<(T,), T> for ByLong {
    #[inline(always)]
    fn apply<I: Isa>(self, (x,): (T,)) -> T {
        T::from_i64(Integer::power(x.to_i64(), self.0))
    }
}

impl Power for Bool {
    #[inline(always)]
    fn power<I: Isa>(self, exponent: Self) -> Self {
        Bool::new(self.get() || !exponent.get())
    }
    fn power_scalar<I: Isa>(iter: &TensorIter) -> Result<()> {
        let exponent: i64 = param(iter, 0);
        map::<I, (Bool,), Bool, _>(iter, By(Bool::new(exponent != Arith::ZERO)))
    }
}
