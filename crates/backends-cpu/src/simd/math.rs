//! [`Math`] and [`RealMath`]: the elementary functions of the types that kernels compute in.

use tensor_core::{Complex, Element};

use super::arith::{Arith, Real};
use super::{complex, float32, float64};
use crate::isa::Isa;

/// Elementary functions of f32, f64 and the complex numbers over them.
pub trait Math: Arith + Element {
    /// The parts' type of a complex number; the type itself for a real one.
    type Part: RealMath;
    /// From a number, rounded; the imaginary part is 0.
    fn from_f64(value: f64) -> Self;
    /// `self / y`
    fn div(self, y: Self) -> Self;
    /// `self * y`
    fn scale(self, y: Self::Part) -> Self;
    /// `self * y + z`, rounded once where the level can.
    fn mul_add<I: Isa>(self, y: Self, z: Self) -> Self;
    /// `1 / self`
    fn reciprocal(self) -> Self;
    /// The square root.
    fn sqrt<I: Isa>(self) -> Self;
    /// `1 / sqrt(self)`
    fn rsqrt<I: Isa>(self) -> Self;
    /// e to the power of `self`.
    fn exp<I: Isa>(self) -> Self;
    /// 2 to the power of `self`.
    fn exp2<I: Isa>(self) -> Self;
    /// `exp(self) - 1`
    fn expm1<I: Isa>(self) -> Self;
    /// The natural logarithm.
    fn log<I: Isa>(self) -> Self;
    /// `log(1 + self)`
    fn log1p<I: Isa>(self) -> Self;
    /// The logarithm to base 2.
    fn log2<I: Isa>(self) -> Self;
    /// The logarithm to base 10.
    fn log10<I: Isa>(self) -> Self;
    /// `self` to the power of `y`.
    fn pow<I: Isa>(self, y: Self) -> Self;
    /// The sine.
    fn sin<I: Isa>(self) -> Self;
    /// The cosine.
    fn cos<I: Isa>(self) -> Self;
    /// The tangent.
    fn tan<I: Isa>(self) -> Self;
    /// True where [`Math::sin_near`] and its siblings are not right: beyond a million.
    #[inline(always)]
    fn is_far(self) -> bool {
        false
    }
    /// [`Math::sin`] without its branch for far arguments.
    #[inline(always)]
    fn sin_near<I: Isa>(self) -> Self {
        self.sin::<I>()
    }
    /// [`Math::cos`] without its branch for far arguments.
    #[inline(always)]
    fn cos_near<I: Isa>(self) -> Self {
        self.cos::<I>()
    }
    /// [`Math::tan`] without its branch for far arguments.
    #[inline(always)]
    fn tan_near<I: Isa>(self) -> Self {
        self.tan::<I>()
    }
    /// The inverse sine.
    fn asin<I: Isa>(self) -> Self;
    /// The inverse cosine.
    fn acos<I: Isa>(self) -> Self;
    /// The inverse tangent.
    fn atan<I: Isa>(self) -> Self;
    /// The hyperbolic sine.
    fn sinh<I: Isa>(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh<I: Isa>(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic sine.
    fn asinh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic cosine.
    fn acosh<I: Isa>(self) -> Self;
    /// The inverse hyperbolic tangent.
    fn atanh<I: Isa>(self) -> Self;
    /// `1 / (1 + exp(-self))`
    fn sigmoid<I: Isa>(self) -> Self;
}

/// Functions of real floats alone.
pub trait RealMath: Math<Part = Self> + Real {
    /// The C remainder: the dividend's sign. By a call.
    fn fmod(self, y: Self) -> Self;
    /// [`RealMath::fmod`] without a call, unless [`RealMath::fmod_is_far`].
    fn fmod_near<I: Isa>(self, y: Self) -> Self;
    /// True where the quotient is too large, or a number is special, for [`RealMath::fmod_near`].
    fn fmod_is_far(self, y: Self) -> bool;
    /// e to the power of `self`, which is at most 0; it may be 0 where no normal number is as small.
    fn exp_falling<I: Isa>(self) -> Self;
    /// The error function.
    fn erf<I: Isa>(self) -> Self;
    /// `1 - erf(self)`
    fn erfc<I: Isa>(self) -> Self;
    /// `(1 + erf(self / sqrt(2))) / 2`, the distribution function of the normal distribution. In f32 it is off by up to 3e-7.
    fn normal_cdf<I: Isa>(self) -> Self;
    /// The angle of the point (`x`, `self`).
    fn atan2<I: Isa>(self, x: Self) -> Self;
    /// `sqrt(self^2 + y^2)` without overflow.
    fn hypot<I: Isa>(self, y: Self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// The magnitude with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
}

macro_rules! floats {
    ($($t:ident $m:ident [$($low:literal)?];)*) => { $(
        impl Math for $t {
            type Part = $t;
            #[inline(always)]
            fn from_f64(value: f64) -> Self { value as $t }
            #[inline(always)]
            fn div(self, y: Self) -> Self { self / y }
            #[inline(always)]
            fn scale(self, y: Self) -> Self { self * y }
            #[inline(always)]
            fn mul_add<I: Isa>(self, y: Self, z: Self) -> Self { I::mul_add(self, y, z) }
            #[inline(always)]
            fn reciprocal(self) -> Self { 1.0 / self }
            #[inline(always)]
            fn sqrt<I: Isa>(self) -> Self { <$t>::sqrt(self) }
            #[inline(always)]
            fn rsqrt<I: Isa>(self) -> Self { 1.0 / <$t>::sqrt(self) }
            floats!(@unary $m [$($low)?] exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh
                atanh sigmoid sin_near cos_near tan_near);
            #[inline(always)]
            fn is_far(self) -> bool { $m::is_far(self) }
            #[inline(always)]
            fn pow<I: Isa>(self, y: Self) -> Self { $m::pow::<I $(, $low)?>(self, y) }
        }
        impl RealMath for $t {
            #[inline(always)]
            fn fmod(self, y: Self) -> Self { self % y }
            #[inline(always)]
            fn fmod_near<I: Isa>(self, y: Self) -> Self { $m::fmod_near::<I $(, $low)?>(self, y) }
            #[inline(always)]
            fn fmod_is_far(self, y: Self) -> bool { !((self / y).abs() < $m::FMOD_FAR) }
            floats!(@unary $m [$($low)?] exp_falling erf erfc normal_cdf);
            #[inline(always)]
            fn atan2<I: Isa>(self, x: Self) -> Self { $m::atan2::<I $(, $low)?>(self, x) }
            #[inline(always)]
            fn hypot<I: Isa>(self, y: Self) -> Self { $m::hypot::<I $(, $low)?>(self, y) }
            #[inline(always)]
            fn abs(self) -> Self { <$t>::abs(self) }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self { <$t>::copysign(self, sign) }
        }
        impl Math for Complex<$t> {
            type Part = $t;
            #[inline(always)]
            fn from_f64(value: f64) -> Self { Complex::new(value as $t, 0.0) }
            #[inline(always)]
            fn scale(self, y: $t) -> Self { Complex::new(self.re * y, self.im * y) }
            #[inline(always)]
            fn mul_add<I: Isa>(self, y: Self, z: Self) -> Self { self * y + z }
            #[inline(always)]
            fn div(self, y: Self) -> Self { complex::div(self, y) }
            #[inline(always)]
            fn reciprocal(self) -> Self { complex::reciprocal(self) }
            floats!(@complex exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh
                atanh sigmoid sqrt rsqrt);
            #[inline(always)]
            fn pow<I: Isa>(self, y: Self) -> Self { complex::pow::<I, $t>(self, y) }
        }
    )* };
    (@unary $m:ident [$low:literal] $($f:ident)*) => { $(
        #[inline(always)]
        fn $f<I: Isa>(self) -> Self { $m::$f::<I, $low>(self) }
    )* };
    (@unary $m:ident [] $($f:ident)*) => { $(
        #[inline(always)]
        fn $f<I: Isa>(self) -> Self { $m::$f::<I>(self) }
    )* };
    (@complex $($f:ident)*) => { $(
        #[inline(always)]
        fn $f<I: Isa>(self) -> Self { complex::$f::<I, _>(self) }
    )* };
}
floats! { f32 float32 []; f64 float64 [false]; }
