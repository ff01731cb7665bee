//! Special functions: gamma and its relatives, Bessel functions, inverse error function, entropies, sums of exponentials.
//!
//! Series and continued fractions in f64, a call an element: none of these is hot enough for a vector body.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

use tensor_core::{Element, Scalar};

use crate::elementwise;
use crate::simd::{Arith, Math, Real, RealFloating, RealMath, Value};

/// As f64.
#[inline(always)]
fn wide<T: RealFloating>(x: T) -> f64 {
    Real::to_f64(x.up())
}

/// Rounded to the element type.
#[inline(always)]
fn narrow<T: RealFloating>(x: f64) -> T {
    T::down(<T::Op as Element>::from_scalar(Scalar::Float(x)))
}

elementwise! {
    /// log |gamma(x)|
    pub fn lgamma<T: RealFloating>(x: T) -> T { narrow(log_gamma(wide(x))) }
    /// The derivative of log gamma.
    pub fn digamma<T: RealFloating>(x: T) -> T { narrow(psi(wide(x))) }
    /// Derivative number n of `digamma`; parameter: n.
    pub fn polygamma<T: RealFloating>(x: T; n: i64) -> T { narrow(psi_derivative(n, wide(x))) }
    /// The Hurwitz zeta function: the sum of (k + q)^-x.
    pub fn zeta<T: RealFloating>(x: T, q: T) -> T { narrow(hurwitz_zeta(wide(x), wide(q))) }
    /// The regularised lower incomplete gamma function P(a, x).
    pub fn igamma<T: RealFloating>(a: T, x: T) -> T { narrow(incomplete_gamma(wide(a), wide(x)).0) }
    /// The regularised upper incomplete gamma function Q(a, x).
    pub fn igammac<T: RealFloating>(a: T, x: T) -> T { narrow(incomplete_gamma(wide(a), wide(x)).1) }
    /// The inverse of `erf`.
    pub fn erfinv<T: RealFloating>(y: T) -> T { narrow(inverse_erf(wide(y))) }
    /// The quantile of the normal distribution.
    pub fn ndtri<T: RealFloating>(p: T) -> T { narrow(std::f64::consts::SQRT_2 * inverse_erf_of_tail(wide(p))) }
    /// The modified Bessel function of order 0.
    pub fn i0<T: RealFloating>(x: T) -> T { narrow(bessel_i::<0>(wide(x), false)) }
    /// `exp(-|x|) i0(x)`
    pub fn i0e<T: RealFloating>(x: T) -> T { narrow(bessel_i::<0>(wide(x), true)) }
    /// The modified Bessel function of order 1.
    pub fn i1<T: RealFloating>(x: T) -> T { narrow(bessel_i::<1>(wide(x), false)) }
    /// `exp(-|x|) i1(x)`
    pub fn i1e<T: RealFloating>(x: T) -> T { narrow(bessel_i::<1>(wide(x), true)) }

    /// `-x log(x)`, 0 at 0, minus infinity below.
    pub fn entr<T: RealFloating>(x: T) -> T {
        let (v, zero): (_, T::Op) = (x.up(), Arith::ZERO);
        let below = if v == zero { zero } else { <T::Op as Real>::LOWEST };
        let value = if v > zero { v.mul(v.log::<I>()).neg() } else { below };
        T::down(if v.is_nan() { v } else { value })
    }
    /// `log(x / (1 - x))`, with x at least parameter 0 away from 0 and 1 unless that is negative.
    pub fn logit<T: RealFloating>(x: T; eps: T::Op) -> T {
        let (v, one): (_, T::Op) = (x.up(), Arith::ONE);
        let high = one.sub(eps);
        let inside = if v < eps { eps } else { v };
        let inside = if (v >= eps) & (v > high) { high } else { inside };
        let v = if eps < <T::Op as Arith>::ZERO { v } else { inside };
        T::down(v.div(one.sub(v)).log::<I>())
    }
    /// `x log(y)`, 0 where x is 0.
    pub fn xlogy<T: RealFloating>(x: T, y: T) -> T {
        let (x, y) = (x.up(), y.up());
        let value = if x == <T::Op as Arith>::ZERO { x.mul(x) } else { x.mul(y.log::<I>()) };
        T::down(if y.is_nan() { y } else { value })
    }
    /// `x log(1 + y)`, 0 where x is 0.
    pub fn xlog1py<T: RealFloating>(x: T, y: T) -> T {
        let (x, y) = (x.up(), y.up());
        let value = if x == <T::Op as Arith>::ZERO { x.mul(x) } else { x.mul(y.log1p::<I>()) };
        T::down(if y.is_nan() { y } else { value })
    }
    /// `log(exp(a) + exp(b))`
    pub fn logaddexp<T: RealFloating>(a: T, b: T) -> T {
        let (a, b) = (a.up(), b.up());
        let sum = a.maximum(b).add(a.sub(b).abs().neg().exp::<I>().log1p::<I>());
        T::down(if (a == b) & !a.is_finite() { a } else { sum })
    }
    /// `log2(2^a + 2^b)`
    pub fn logaddexp2<T: RealFloating>(a: T, b: T) -> T {
        let (a, b) = (a.up(), b.up());
        let tail = a.sub(b).abs().neg().exp2::<I>().log1p::<I>().mul(Math::from_f64(1.0 / LN_2));
        T::down(if (a == b) & !a.is_finite() { a } else { a.maximum(b).add(tail) })
    }
    /// The next representable number after `a` towards `b`.
    pub fn nextafter<T: Adjacent>(a: T, b: T) -> T { a.next_towards(b) }
    /// The argument of a complex number; 0 or pi for a real one.
    pub fn angle<T: Angle>(x: T) -> <T as Angle>::Result { x.angle::<I>() }
}

/// Floats with neighbours.
pub trait Adjacent: RealFloating {
    /// The neighbour of `self` on the side of `y`.
    fn next_towards(self, y: Self) -> Self;
}

macro_rules! adjacent {
    ($($t:ty)*) => { $(
        impl Adjacent for $t {
            #[inline]
            fn next_towards(self, y: Self) -> Self {
                if self.is_nan() || y.is_nan() {
                    return Self::NAN;
                }
                let bits = self.to_bits();
                if self == y {
                    y
                } else if bits << 1 == 0 {
                    Self::from_bits(1).copysign(y)
                } else if (self < y) == self.is_sign_positive() {
                    Self::from_bits(bits + 1)
                } else {
                    Self::from_bits(bits - 1)
                }
            }
        }
    )* };
}
adjacent!(f32 f64 tensor_core::bf16 tensor_core::f16);

/// Numbers with an argument.
pub trait Angle: Value {
    /// The type of the argument: f32 for integers.
    type Result: Value;
    /// The argument, in radians.
    fn angle<I: crate::isa::Isa>(self) -> Self::Result;
}

macro_rules! angles {
    (integers: $($int:ty)*; floats: $($float:ty)*; complex: $($part:ty)*;) => {
        $(
            impl Angle for $int {
                type Result = f32;
                #[inline(always)]
                fn angle<I: crate::isa::Isa>(self) -> f32 {
                    if self.up() < Arith::ZERO { std::f32::consts::PI } else { 0.0 }
                }
            }
        )*
        $(
            impl Angle for $float {
                type Result = $float;
                #[inline(always)]
                fn angle<I: crate::isa::Isa>(self) -> $float {
                    let x = self.up();
                    let angle = if x < Arith::ZERO { Math::from_f64(PI) } else { Arith::ZERO };
                    Self::down(if Arith::is_nan(x) { x } else { angle })
                }
            }
        )*
        $(
            impl Angle for tensor_core::Complex<$part> {
                type Result = $part;
                #[inline(always)]
                fn angle<I: crate::isa::Isa>(self) -> $part {
                    RealMath::atan2::<I>(self.im, self.re)
                }
            }
        )*
    };
}
angles! {
    integers: u8 i8 i16 i32 i64 tensor_core::Bool;
    floats: f32 f64 tensor_core::f16 tensor_core::bf16;
    complex: f32 f64;
}

fn log_gamma(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { f64::INFINITY } else { libm::lgamma(x) }
}

/// Digamma: recurrence up to 10, then its asymptotic series; reflection below 0.
fn psi(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        return psi(1.0 - x) - PI / (PI * x.fract()).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    // B(2k) / 2k
    const TERMS: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let mut series = 0.0;
    for k in (0..TERMS.len()).rev() {
        series = (series + TERMS[k]) * z;
    }
    sum + x.ln() - 0.5 / x - if x < 1e17 { series } else { 0.0 }
}

fn psi_derivative(n: i64, x: f64) -> f64 {
    if n == 0 {
        return psi(x);
    }
    if n == 1 && x == f64::INFINITY {
        return 0.0;
    }
    let factorial = libm::tgamma(n as f64 + 1.0);
    let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
    if n == 1 && x <= 0.0 {
        // Reflection of the trigamma function.
        let s = (PI * x).sin();
        return -hurwitz_zeta(2.0, 1.0 - x) + PI * PI / (s * s);
    }
    sign * factorial * hurwitz_zeta(n as f64 + 1.0, x)
}

/// The first terms, and the rest by the Euler-Maclaurin formula.
fn hurwitz_zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 || x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    let mut sum = q.powf(-x);
    let (mut a, mut term, mut i) = (q, 0.0, 0);
    while i < 9 || a <= 9.0 {
        i += 1;
        a += 1.0;
        term = a.powf(-x);
        sum += term;
        if (term / sum).abs() < f64::EPSILON / 2.0 {
            return sum;
        }
    }
    sum += term * a / (x - 1.0) - 0.5 * term;
    // (2k)! / B(2k)
    const TERMS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1.892_437_580_318_379_2e9,
        7.47242496e10,
        -2.950_130_727_918_164_4e12,
        1.164_678_281_435_006_7e14,
        -4.597_978_722_407_473e15,
        1.815_210_540_194_354_6e17,
        -7.166_165_256_175_667e18,
    ];
    let (mut factor, mut k) = (1.0, 0.0);
    for c in TERMS {
        factor *= x + k;
        term /= a;
        let t = factor * term / c;
        sum += t;
        if (t / sum).abs() < f64::EPSILON / 2.0 {
            break;
        }
        k += 1.0;
        factor *= x + k;
        term /= a;
        k += 1.0;
    }
    sum
}

/// (P, Q) of (a, x): the series below a + 1, the continued fraction above.
fn incomplete_gamma(a: f64, x: f64) -> (f64, f64) {
    const STEPS: usize = 10_000;
    if !(x >= 0.0 && a >= 0.0) || a == f64::INFINITY && x == f64::INFINITY {
        return (f64::NAN, f64::NAN);
    }
    if a == 0.0 {
        return if x > 0.0 { (1.0, 0.0) } else { (f64::NAN, f64::NAN) };
    }
    if x == 0.0 || a == f64::INFINITY {
        return (0.0, 1.0);
    }
    if x == f64::INFINITY {
        return (1.0, 0.0);
    }
    let scale = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut sum, mut term, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..STEPS {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        let p = (scale * sum).min(1.0);
        return (p, 1.0 - p);
    }
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut fraction = d;
    for i in 1..=STEPS {
        let i = i as f64;
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / nonzero(an * d + b, TINY);
        c = nonzero(b + an / c, TINY);
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    let q = (scale * fraction).min(1.0);
    (1.0 - q, q)
}

fn nonzero(x: f64, tiny: f64) -> f64 {
    if x.abs() < tiny { tiny } else { x }
}

/// Giles' approximation, then two steps of Newton's method.
fn inverse_erf(y: f64) -> f64 {
    if !(y.abs() < 1.0) {
        return if y.abs() == 1.0 { f64::INFINITY.copysign(y) } else { f64::NAN };
    }
    let w = -((1.0 - y) * (1.0 + y)).ln();
    let poly = |c: [f64; 9], w: f64| {
        let mut p = 0.0;
        for c in c {
            p = p * w + c;
        }
        p
    };
    let mut x = y * if w < 5.0 {
        let c = [
            2.81022636e-8,
            3.43273939e-7,
            -3.5233877e-6,
            -4.39150654e-6,
            0.00021858087,
            -0.00125372503,
            -0.00417768164,
            0.246640727,
            1.50140941,
        ];
        poly(c, w - 2.5)
    } else {
        let c = [
            -0.000200214257,
            0.000100950558,
            0.00134934322,
            -0.00367342844,
            0.00573950773,
            -0.0076224613,
            0.00943887047,
            1.00167406,
            2.83297682,
        ];
        poly(c, w.sqrt() - 3.0)
    };
    for _ in 0..2 {
        let slope = FRAC_2_SQRT_PI * (-x * x).exp();
        if slope > 0.0 {
            // The distance to 1 is precise where erf is not.
            let error = if y > 0.5 {
                (1.0 - y) - libm::erfc(x)
            } else if y < -0.5 {
                libm::erfc(-x) - (1.0 + y)
            } else {
                libm::erf(x) - y
            };
            x -= error / slope;
        }
    }
    x
}

/// The inverse of `p = (1 + erf(x)) / 2`, precise for small p as well.
fn inverse_erf_of_tail(p: f64) -> f64 {
    if p > 0.1 || !(p > 0.0) {
        return inverse_erf(2.0 * p - 1.0);
    }
    // erfc(-x) = 2 p: Newton's method on the logarithm, from the leading term of the asymptotic series.
    let target = (2.0 * p).ln();
    let mut x = (-target).sqrt();
    for _ in 0..30 {
        let tail = libm::erfc(x);
        if tail == 0.0 {
            x *= 0.99;
            continue;
        }
        let step = (tail.ln() - target) / (FRAC_2_SQRT_PI * (-x * x).exp() / tail);
        x += step;
        if step.abs() < 1e-15 * x {
            break;
        }
    }
    -x
}

/// The modified Bessel function of order 0 or 1, times exp(-|x|) if `scaled`: the power series below 20, whose terms are all
/// positive, the asymptotic series above.
pub(crate) fn bessel_i<const ORDER: usize>(x: f64, scaled: bool) -> f64 {
    let a = x.abs();
    let order = ORDER as f64;
    let value = if a.is_nan() {
        f64::NAN
    } else if a <= 20.0 {
        let z = a * a / 4.0;
        let (mut term, mut sum, mut k) = (if ORDER == 0 { 1.0 } else { a / 2.0 }, 0.0, 0.0);
        while term > sum * f64::EPSILON * 0.1 {
            sum += term;
            k += 1.0;
            term *= z / (k * (k + order));
        }
        if scaled { sum * (-a).exp() } else { sum }
    } else {
        let (mut term, mut sum, mut k) = (1.0f64, 1.0f64, 0.0);
        while k < 25.0 && term.abs() > f64::EPSILON * 0.1 {
            k += 1.0;
            let odd = 2.0 * k - 1.0;
            term *= (odd * odd - 4.0 * order * order) / (k * 8.0 * a);
            sum += term;
        }
        let series = sum / (2.0 * PI * a).sqrt();
        // Half of the exponential at a time: it may overflow before the product does.
        if scaled { series } else { series * (a / 2.0).exp() * (a / 2.0).exp() }
    };
    if ORDER == 1 { value.copysign(x) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 2e-13 * want.abs().max(1e-3) || got == want, "got {got}, want {want}");
    }

    #[test]
    fn values_from_tables() {
        near(psi(1.0), -0.577_215_664_901_532_9);
        near(psi(0.25), -4.227_453_533_376_265);
        near(psi(-0.5), 0.036_489_973_978_576_52);
        near(psi_derivative(1, 1.0), PI * PI / 6.0);
        near(psi_derivative(1, -0.5), 8.934_802_200_544_679);
        near(psi_derivative(3, 2.5), 0.223_905_848_817_252_06);
        near(hurwitz_zeta(2.0, 1.0), PI * PI / 6.0);
        near(hurwitz_zeta(3.5, 0.75), 2.927_437_521_539_956);
        near(bessel_i::<0>(1.0, false), 1.266_065_877_752_008_4);
        near(bessel_i::<0>(30.0, true), 0.073_145_946_482_237_3);
        near(bessel_i::<1>(-2.0, false), -1.590_636_854_637_329_2);
        near(bessel_i::<1>(50.0, true), 0.055_993_123_892_895_4);
        near(incomplete_gamma(2.0, 1.5).0, 0.442_174_599_628_925_36);
        near(incomplete_gamma(0.5, 4.0).1, libm::erfc(2.0));
        near(inverse_erf_of_tail(1e-10) * std::f64::consts::SQRT_2, -6.361_340_902_404_056);
    }

    #[test]
    fn inverses_invert() {
        for i in -999..=999 {
            let y = i as f64 / 1000.0;
            assert!((libm::erf(inverse_erf(y)) - y).abs() < 1e-15, "{y}");
        }
        assert_eq!(inverse_erf(1.0), f64::INFINITY);
        assert!(inverse_erf(1.5).is_nan());
    }

    #[test]
    fn neighbours() {
        assert_eq!(1f32.next_towards(2.0), 1.0 + f32::EPSILON);
        assert_eq!(0f64.next_towards(-1.0), -5e-324);
        assert_eq!((-1f64).next_towards(f64::INFINITY), -1.0 + f64::EPSILON / 2.0);
        assert_eq!(3f32.next_towards(3.0), 3.0);
    }
}
