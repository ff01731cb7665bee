//! Elementary functions of complex numbers, with the branch cuts and infinities of C's Annex G where they are cheap.

use tensor_core::Complex;

use super::math::RealMath;
use crate::isa::Isa;
use num_traits::{Float, FloatConst};

macro_rules! through {
    ($($f:ident $method:ident;)*) => { $(
        #[inline(always)]
        pub(super) fn $f<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
            z.$method()
        }
    )* };
}
through! {
    exp exp; exp2 exp2; log ln; log2 log2; log10 log10; sin sin; cos cos; tan tan; asin asin; acos acos; atan atan; sinh sinh;
    cosh cosh; tanh tanh; asinh asinh; acosh acosh; atanh atanh; sqrt sqrt;
}

/// The modulus, without overflow.
#[inline(always)]
pub(super) fn abs<I: Isa, T: RealMath>(z: Complex<T>) -> T {
    z.re.hypot::<I>(z.im)
}

/// `x / y` by Smith's method, as PyTorch's CPU kernels.
#[inline(always)]
pub(super) fn div<T: RealMath + Float + FloatConst>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    x / y
}

/// `1 / z`
#[inline(always)]
pub(super) fn reciprocal<T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    z.inv()
}

/// `exp(z) - 1`
#[inline(always)]
pub(super) fn expm1<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    z.exp() - Complex::new(num_traits::one(), num_traits::zero())
}

/// `log(1 + z)`
#[inline(always)]
pub(super) fn log1p<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    (z + num_traits::one::<T>()).ln()
}

/// `1 / (1 + exp(-z))`
#[inline(always)]
pub(super) fn sigmoid<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    reciprocal((-z).exp() + num_traits::one::<T>())
}

/// `1 / sqrt(z)`
#[inline(always)]
pub(super) fn rsqrt<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    reciprocal(z.sqrt())
}

/// `x` to the power of `y`
#[inline(always)]
pub(super) fn pow<I: Isa, T: RealMath + Float + FloatConst>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    x.powc(y)
}
