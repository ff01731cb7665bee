//! Elementary functions of complex numbers, with the branch cuts and infinities of C's Annex G where they are cheap.

use tensor_core::Complex;

use num_traits::{Float, FloatConst};

use super::arith::Arith;
use super::math::{Math, RealMath};
use crate::isa::Isa;

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

/// `x / y` by Smith's method: scaled by the larger part of the divisor. A zero divides each part.
#[inline(always)]
pub(super) fn div<T: RealMath + Float>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    let (p, q) = (RealMath::abs(y.re), RealMath::abs(y.im));
    let steep = p < q;
    let (large, small) = if steep { (y.im, y.re) } else { (y.re, y.im) };
    let ratio = small / large;
    let scale = Math::reciprocal(large + small * ratio);
    let (a, b) = if steep { (x.im, x.re) } else { (x.re, x.im) };
    // (re, im) = (a + b r, b - a r) / d, with the parts of x exchanged and im negated where y is steep.
    let re = (a + b * ratio) * scale;
    let im = (b - a * ratio) * scale;
    let im = if steep { -im } else { im };
    let zero = <T as Arith>::ZERO;
    if (p == zero) & (q == zero) { Complex::new(x.re / p, x.im / q) } else { Complex::new(re, im) }
}

/// `1 / z`
#[inline(always)]
pub(super) fn reciprocal<T: RealMath + Float>(z: Complex<T>) -> Complex<T> {
    div(<Complex<T> as num_traits::One>::one(), z)
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
