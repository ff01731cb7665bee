//! Elementary functions of f32: branch-free, within 1 to 2 units in the last place.
//!
//! The hot ones compute in f32; those of circular arguments reduce them in f64, and the rarer functions compute in f64.

use super::float64 as wide;
use super::poly::poly;
use crate::isa::Isa;

/// Adding it rounds to an integer, which then stands in the low bits.
const MAGIC: f32 = 12_582_912.0;
const LN2_HI: f32 = 0.693_359_4;
const LN2_LO: f32 = -2.121_944_4e-4;

/// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_717, 0.001_381_459_9];
/// (2^r - 1) / r for |r| <= 1/2
const EXP2: [f32; 6] = [0.693_147_2, 0.240_226_48, 0.055_503_324, 0.009_618_438, 0.001_339_890_1, 0.000_153_533_4];
/// (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2)
const LOG: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_24,
    -0.166_680_05,
    0.142_194_54,
    -0.124_053_4,
    0.118_886_955,
    -0.116_775_18,
    0.067_477_37,
];
/// (sin(r) / r - 1) / r^2 by r^2, for |r| <= pi / 4
const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_173, -0.000_195_166_56];
/// (cos(r) - 1 + r^2 / 2) / r^4 by r^2, for |r| <= pi / 4
const COS: [f32; 3] = [0.041_666_646, -0.001_388_736_2, 2.443_773e-5];
/// (tanh(x) / x - 1) / x^2 by x^2, for |x| <= 0.625
const TANH: [f32; 5] = [-0.333_332_84, 0.133_314_9, -0.053_743_31, 0.020_649_942, -0.005_716_288_5];
/// erf(x) / x - 1 by x^2, for |x| <= 0.9375
const ERF: [f32; 7] = [0.128_379_17, -0.37612632, 0.11283686, -0.026858846, 0.005199586, -0.0008125651, 8.295965e-05];
/// erf(x) / x by x^2, for |x| <= 3.92: a quotient of polynomials, within 2e-8.
const ERF_OVER: [f32; 6] =
    [1.128_379_1, 0.190_487_52, 0.052_757_088, 0.003_768_481_3, 0.000_284_838_84, 2.048_007_2e-6];
const ERF_UNDER: [f32; 6] = [1.0, 0.502_147_9, 0.114_140_48, 0.014_975, 0.001_163_031_2, 3.806_796_7e-5];
/// log(erfc(x)) for 0.9375 <= x <= 4
const LOG_ERFC: [f32; 8] = [
    0.000_180_222_72,
    -1.129_541_5,
    -0.633_293_03,
    -0.108_339_466,
    0.025_157_876,
    -0.004_185_687_3,
    0.000_437_486_36,
    -2.135_712_4e-5,
];

/// 2^k for -126 <= k <= 127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

/// x * 2^k in two steps, so that k may leave the range of one exponent.
#[inline(always)]
fn scale(x: f32, k: i32) -> f32 {
    let half = k >> 1;
    x * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// `x` within bounds; NaN stays.
#[inline(always)]
fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// (expm1(r), k) with x = k ln(2) + r.
#[inline(always)]
fn exp_parts<I: Isa>(x: f32) -> (f32, i32) {
    let shifted = I::mul_add(x, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = I::mul_add(n, -LN2_LO, I::mul_add(n, -LN2_HI, x));
    let p = I::mul_add(r * r, poly::<I, _, 5>(r, EXP), r);
    (p, shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32)
}

#[inline(always)]
pub(super) fn exp<I: Isa>(x: f32) -> f32 {
    let (p, k) = exp_parts::<I>(within(x, -104.0, 89.0));
    scale(1.0 + p, k)
}

/// [`exp`] for x <= 0, with fewer steps: 0 below -87, where normal numbers end.
#[inline(always)]
pub(super) fn exp_falling<I: Isa>(x: f32) -> f32 {
    let shifted = I::mul_add(x, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = I::mul_add(n, -LN2_LO, I::mul_add(n, -LN2_HI, x));
    let p = I::mul_add(r * r, poly::<I, _, 5>(r, EXP), r);
    // The low bits of the shifted number become the exponent; the magic ones leave at the top.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { I::mul_add(p, power, power) }
}

#[inline(always)]
pub(super) fn exp2<I: Isa>(x: f32) -> f32 {
    let x = within(x, -151.0, 129.0);
    let shifted = x + MAGIC;
    let r = x - (shifted - MAGIC);
    let p = r * poly::<I, _, 6>(r, EXP2);
    scale(1.0 + p, shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32)
}

#[inline(always)]
pub(super) fn expm1<I: Isa>(x: f32) -> f32 {
    let (p, k) = exp_parts::<I>(within(x, -25.0, 89.0));
    // Half of it, so that 2^128 does not overflow.
    let s = power_of_two(k.wrapping_sub(1));
    let half = I::mul_add(s, p, s - 0.5);
    if x == 0.0 { x } else { half + half }
}

/// (f, r, e) with log(x) = e ln(2) + f + r, for positive finite x.
#[inline(always)]
fn log_parts<I: Isa>(x: f32) -> (f32, f32, f32) {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (if tiny { x * 8_388_608.0 } else { x }).to_bits();
    let e = (bits.wrapping_sub(SQRT_HALF) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((e << 23) as u32)) - 1.0;
    let z = f * f;
    let r = I::mul_add(f * z, poly::<I, _, 9>(f, LOG), -0.5 * z);
    (f, r, e as f32 - if tiny { 23.0 } else { 0.0 })
}

/// `log` where x is positive and finite, else the value there.
#[inline(always)]
fn log_or_special(x: f32, log: f32) -> f32 {
    let special = if x == 0.0 { f32::NEG_INFINITY } else { x };
    let special = if x < 0.0 { f32::NAN } else { special };
    if (x > 0.0) & (x < f32::INFINITY) { log } else { special }
}

#[inline(always)]
pub(super) fn log<I: Isa>(x: f32) -> f32 {
    let (f, r, e) = log_parts::<I>(x);
    log_or_special(x, I::mul_add(e, LN2_HI, f + I::mul_add(e, LN2_LO, r)))
}

#[inline(always)]
pub(super) fn log2<I: Isa>(x: f32) -> f32 {
    use std::f32::consts::LOG2_E;
    let (f, r, e) = log_parts::<I>(x);
    log_or_special(x, I::mul_add(f, LOG2_E, I::mul_add(r, LOG2_E, e)))
}

#[inline(always)]
pub(super) fn log10<I: Isa>(x: f32) -> f32 {
    use std::f32::consts::LOG10_E;
    /// log10(2) in two parts; products of the first one with exponents are exact.
    const LOG10_2: [f32; 2] = [0.301_025_4, 4.605_039e-6];
    let (f, r, e) = log_parts::<I>(x);
    let small = I::mul_add(r, LOG10_E, e * LOG10_2[1]);
    log_or_special(x, I::mul_add(e, LOG10_2[0], I::mul_add(f, LOG10_E, small)))
}

#[inline(always)]
pub(super) fn log1p<I: Isa>(x: f32) -> f32 {
    let u = 1.0 + x;
    let (f, r, e) = log_parts::<I>(u);
    // What rounding took off u.
    let lost = if x < 1.0 { x - (u - 1.0) } else { 1.0 - (u - x) } / u;
    let log = I::mul_add(e, LN2_HI, f + (r + I::mul_add(e, LN2_LO, lost)));
    let log = log_or_special(u, log);
    if x == 0.0 { x } else { log }
}

/// Above it, `sin_near` and its siblings are not right.
const FAR: f32 = 1e6;

#[inline(always)]
pub(super) fn is_far(x: f32) -> bool {
    x.abs() > FAR
}

/// (r, q) with x = q pi/2 + r, |r| <= pi/4.
#[inline(always)]
fn quadrant<I: Isa>(x: f32) -> (f32, u32) {
    let (r, q) = wide::quadrant::<I, true>(x as f64);
    (r as f32, q as u32)
}

/// sin(r) for an even quadrant, cos(r) for an odd one, with the quadrant's sign.
#[inline(always)]
fn sine_of<I: Isa>(r: f32, q: u32) -> f32 {
    let z = r * r;
    let sin = I::mul_add(r * z, poly::<I, _, 3>(z, SIN), r);
    let cos = I::mul_add(z * z, poly::<I, _, 3>(z, COS), I::mul_add(z, -0.5, 1.0));
    let value = if q & 1 == 0 { sin } else { cos };
    f32::from_bits(value.to_bits() ^ (q & 2) << 30)
}

#[inline(always)]
pub(super) fn sin_near<I: Isa>(x: f32) -> f32 {
    let (r, q) = quadrant::<I>(x);
    let sin = sine_of::<I>(r, q);
    if x == 0.0 { x } else { sin }
}

#[inline(always)]
pub(super) fn cos_near<I: Isa>(x: f32) -> f32 {
    let (r, q) = quadrant::<I>(x);
    sine_of::<I>(r, q.wrapping_add(1))
}

#[inline(always)]
pub(super) fn tan_near<I: Isa>(x: f32) -> f32 {
    wide::tan_near::<I, true>(x as f64) as f32
}

#[inline(always)]
pub(super) fn sin<I: Isa>(x: f32) -> f32 {
    if is_far(x) { (x as f64).sin() as f32 } else { sin_near::<I>(x) }
}

#[inline(always)]
pub(super) fn cos<I: Isa>(x: f32) -> f32 {
    if is_far(x) { (x as f64).cos() as f32 } else { cos_near::<I>(x) }
}

#[inline(always)]
pub(super) fn tan<I: Isa>(x: f32) -> f32 {
    if is_far(x) { (x as f64).tan() as f32 } else { tan_near::<I>(x) }
}

#[inline(always)]
pub(super) fn tanh<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    let near = I::mul_add(a * z, poly::<I, _, 5>(z, TANH), a);
    let far = 1.0 - 2.0 / (exp::<I>(a + a) + 1.0);
    let magnitude = if a < 0.625 { near } else { far };
    magnitude.copysign(x)
}

#[inline(always)]
pub(super) fn sigmoid<I: Isa>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<I>(-x))
}

#[inline(always)]
pub(super) fn erf<I: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let near = I::mul_add(a, poly::<I, _, 7>(x * x, ERF), a);
    let far = 1.0 - exp::<I>(poly::<I, _, 8>(if a > 4.0 { 4.0 } else { a }, LOG_ERFC));
    let magnitude = if a < 0.9375 { near } else { far };
    magnitude.copysign(x)
}

/// Within 3e-7 of it, without the exponential of [`erf`].
#[inline(always)]
pub(super) fn normal_cdf<I: Isa>(x: f32) -> f32 {
    let x = x * std::f32::consts::FRAC_1_SQRT_2;
    let z = x * x;
    let erf = within(x * poly::<I, _, 6>(z, ERF_OVER) / poly::<I, _, 6>(z, ERF_UNDER), -1.0, 1.0);
    let erf = if x > 3.92 { 1.0 } else { erf };
    let erf = if x < -3.92 { -1.0 } else { erf };
    I::mul_add(erf, 0.5, 0.5)
}

macro_rules! through_f64 {
    ($($f:ident)*) => { $(
        #[inline(always)]
        pub(super) fn $f<I: Isa>(x: f32) -> f32 {
            wide::$f::<I, true>(x as f64) as f32
        }
    )* };
}
through_f64! { erfc sinh cosh asin acos atan asinh acosh atanh }

#[inline(always)]
pub(super) fn atan2<I: Isa>(y: f32, x: f32) -> f32 {
    wide::atan2::<I, true>(y as f64, x as f64) as f32
}

#[inline(always)]
pub(super) fn hypot<I: Isa>(x: f32, y: f32) -> f32 {
    let root = (x as f64 * x as f64 + y as f64 * y as f64).sqrt() as f32;
    if x.is_infinite() | y.is_infinite() { f32::INFINITY } else { root }
}

#[inline(always)]
pub(super) fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let (x, y) = (x as f64, y as f64);
    let power = wide::exp2::<I, true>(y * wide::log2::<I, true>(x.abs()));
    wide::pow_or_special(x, y, power) as f32
}

/// Quotients below it have 28 bits, so their products with f32 are exact in f64.
pub(super) const FMOD_FAR: f32 = 268_435_456.0;

#[inline(always)]
pub(super) fn fmod_near<I: Isa>(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    let quotient = (a / b).trunc();
    let rest = (a - quotient * b) as f32;
    let rest = if quotient == 0.0 { x } else { rest };
    rest.copysign(x)
}
