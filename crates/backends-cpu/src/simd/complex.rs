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
    exp2 exp2; log2 log2; log10 log10; asin asin; acos acos; atan atan; asinh asinh; acosh acosh; atanh atanh;
}

/// `value`, or 0 with a sign where the factor that it was made of is 0: infinities times 0 are 0 here.
#[inline(always)]
fn product<T: Float>(factor: T, other: T) -> T {
    if factor == T::zero() { factor * Float::signum(other) } else { factor * other }
}

/// e to the power of `z`.
#[inline(always)]
pub(super) fn exp<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let real = Float::exp(z.re);
    if z.im == T::zero() { Complex::new(real, z.im) } else { z.exp() }
}

/// The natural logarithm.
#[inline(always)]
pub(super) fn log<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let norm = RealMath::hypot::<I>(z.re, z.im);
    if Float::is_infinite(norm) && Float::is_finite(z.re) && Float::is_finite(z.im) {
        // A modulus beyond the largest number: half of it is none.
        let half = T::one() / (T::one() + T::one());
        let near = Float::ln(RealMath::hypot::<I>(z.re * half, z.im * half)) - Float::ln(half);
        return Complex::new(near, Float::atan2(z.im, z.re));
    }
    z.ln()
}

/// The sine: `sin(re) cosh(im) + i cos(re) sinh(im)`.
#[inline(always)]
pub(super) fn sin<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let (sin, cos) = Float::sin_cos(z.re);
    let (sinh, cosh) = (Float::sinh(z.im), Float::cosh(z.im));
    let re = if z.re == T::zero() { z.re } else { sin * cosh };
    let im = if z.im == T::zero() { z.im } else { cos * sinh };
    let wild = Float::is_infinite(z.im) && !Float::is_finite(z.re);
    Complex::new(re, if wild { T::infinity() } else { im })
}

/// The cosine: `cos(re) cosh(im) - i sin(re) sinh(im)`.
#[inline(always)]
pub(super) fn cos<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let (sin, cos) = Float::sin_cos(z.re);
    let (sinh, cosh) = (Float::sinh(z.im), Float::cosh(z.im));
    let wild = Float::is_infinite(z.im) && !Float::is_finite(z.re);
    let re = if wild { T::infinity() } else { cos * cosh };
    let im = match (z.re == T::zero(), z.im == T::zero()) {
        (true, _) => {
            if Float::is_nan(z.im) {
                T::zero()
            } else {
                -product(z.re, z.im)
            }
        }
        (_, true) => {
            if Float::is_finite(z.re) {
                -(sin * z.im)
            } else {
                T::zero()
            }
        }
        _ => -(sin * sinh),
    };
    Complex::new(re, im)
}

/// `i z` and back: circular functions of z are hyperbolic ones of i z.
#[inline(always)]
fn turned<T: Float>(z: Complex<T>, f: impl FnOnce(Complex<T>) -> Complex<T>) -> Complex<T> {
    let w = f(Complex::new(-z.im, z.re));
    Complex::new(w.im, -w.re)
}

/// The hyperbolic sine.
#[inline(always)]
pub(super) fn sinh<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    turned(z, sin::<I, T>)
}

/// The hyperbolic cosine.
#[inline(always)]
pub(super) fn cosh<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    cos::<I, T>(Complex::new(-z.im, z.re))
}

/// The hyperbolic tangent, whose real part is +-1 long before its quotients overflow.
#[inline(always)]
pub(super) fn tanh<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let four = <T as Math>::from_f64(4.0);
    let zero = T::zero();
    if z.im == zero {
        return Complex::new(Float::tanh(z.re), z.im);
    }
    if !Float::is_finite(z.im) && !Float::is_infinite(z.re) {
        return Complex::new(if z.re == zero { z.re } else { T::nan() }, T::nan());
    }
    if Float::abs(z.re) > <T as Math>::from_f64(20.0) {
        let flat = Complex::new(Float::signum(z.re), zero);
        if !Float::is_finite(z.im) {
            return flat;
        }
        let (sin, cos) = Float::sin_cos(z.im);
        return Complex::new(flat.re, four * sin * cos * Float::exp(-(Float::abs(z.re) + Float::abs(z.re))));
    }
    let tan = Float::tan(z.im);
    let (sinh, cosh) = (Float::sinh(z.re), Float::cosh(z.re));
    // Kahan's: (b c s + i t) / (1 + b s^2), b = 1 + t^2.
    let b = T::one() + tan * tan;
    let scale = T::one() + b * sinh * sinh;
    if Float::is_nan(z.re) {
        Complex::new(T::nan(), T::nan())
    } else {
        Complex::new(b * cosh * sinh / scale, tan / scale)
    }
}

/// The tangent.
#[inline(always)]
pub(super) fn tan<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    turned(z, tanh::<I, T>)
}

/// The square root with a real part that is not negative.
#[inline(always)]
pub(super) fn sqrt<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    let (zero, infinity) = (T::zero(), T::infinity());
    if Float::is_infinite(z.im) {
        return Complex::new(infinity, z.im);
    }
    if Float::is_infinite(z.re) {
        let im = if Float::is_nan(z.im) { z.im } else { Float::copysign(zero, z.im) };
        return match (z.re > zero, Float::is_nan(z.im)) {
            (true, _) => Complex::new(z.re, im),
            (false, true) => Complex::new(z.im, infinity),
            (false, false) => Complex::new(zero, Float::copysign(infinity, z.im)),
        };
    }
    if Float::is_nan(z.re) || Float::is_nan(z.im) {
        return Complex::new(T::nan(), T::nan());
    }
    if z.re == zero && z.im == zero {
        return Complex::new(zero, z.im);
    }
    let quarter = <T as Math>::from_f64(0.25);
    let two = <T as Math>::from_f64(2.0);
    // Scaled where the modulus would overflow or lose bits.
    let large = Float::max(Float::abs(z.re), Float::abs(z.im));
    let many = T::one() / T::epsilon();
    let (down, up) = if large > T::max_value() * quarter {
        (quarter, two)
    } else if large < T::min_positive_value() * many {
        (many * many, T::one() / many)
    } else {
        (T::one(), T::one())
    };
    let (re, im) = (z.re * down, z.im * down);
    let root = Float::sqrt((Float::abs(re) + RealMath::hypot::<I>(re, im)) / two);
    let other = Float::abs(im) / (root + root);
    let (re, im) = if re >= zero { (root, other) } else { (other, root) };
    Complex::new(re * up, Float::copysign(im * up, z.im))
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
    exp::<I, T>(z) - Complex::new(num_traits::one(), num_traits::zero())
}

/// `log(1 + z)`
#[inline(always)]
pub(super) fn log1p<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    (z + num_traits::one::<T>()).ln()
}

/// `1 / (1 + exp(-z))`
#[inline(always)]
pub(super) fn sigmoid<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    reciprocal(exp::<I, T>(-z) + num_traits::one::<T>())
}

/// `1 / sqrt(z)`
#[inline(always)]
pub(super) fn rsqrt<I: Isa, T: RealMath + Float + FloatConst>(z: Complex<T>) -> Complex<T> {
    reciprocal(sqrt::<I, T>(z))
}

/// `x` to the power of `y`
#[inline(always)]
pub(super) fn pow<I: Isa, T: RealMath + Float + FloatConst>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    let zero = Complex::new(T::zero(), T::zero());
    // e to the power of 0 times infinity
    if x == zero && y == zero { Complex::new(T::nan(), T::nan()) } else { x.powc(y) }
}
