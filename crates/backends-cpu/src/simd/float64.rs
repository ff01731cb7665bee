//! Elementary functions of f64: branch-free, within 1 to 2 units in the last place. `hypot` alone calls the C library.
//!
//! With `LOW` they are only as precise as f32 needs, of which some compute here.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E, LOG10_2, LOG10_E, PI};

use super::poly::poly_of;
use crate::isa::Isa;

/// Adding it rounds to an integer, which then stands in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
/// pi / 2 in three parts; the first two have 33 bits, so that products with 20-bit integers are exact.
const PIO2: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// What rounding took off FRAC_PI_2.
const PIO2_TAIL: f64 = 6.123_233_995_736_766e-17;

/// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2
const EXP: [f64; 10] = [
    0.5000000000000011,
    0.16666666666666413,
    0.04166666666653016,
    0.008333333333494465,
    0.001388888894363005,
    0.0001984126950657133,
    2.480149309892918e-05,
    2.7557586380882427e-06,
    2.7630248379742436e-07,
    2.5000059256054842e-08,
];
/// The same for f32's needs.
const EXP_LOW: [f64; 6] = [
    0.5000000067682727,
    0.16666665868955957,
    0.041666294945647546,
    0.008333497070921346,
    0.0013944659723924226,
    0.0001979034339943017,
];
/// (2^r - 1) / r for |r| <= 1/2
const EXP2: [f64; 11] = [
    0.6931471805599453,
    0.2402265069591013,
    0.05550410866482008,
    0.009618129107594065,
    0.0013333558146775184,
    0.00015403530457188243,
    1.5252733492743754e-05,
    1.3215435241270061e-06,
    1.0178199667588522e-07,
    7.073790769801251e-09,
    4.434766203818519e-10,
];
/// The same for f32's needs.
const EXP2_LOW: [f64; 7] = [
    0.6931471807047584,
    0.24022651067003042,
    0.055504103653972105,
    0.009618038059623262,
    0.0013333935354515557,
    0.0001546678152796091,
    1.5196134268296447e-05,
];
/// (log((1 + s) / (1 - s)) / s - 2) / s^2 by s^2, for |s| <= 0.1716
const LOG: [f64; 7] = [
    0.6666666666666735,
    0.39999999999411456,
    0.2857142874317432,
    0.22222198485795588,
    0.18183569193716323,
    0.1531391809869032,
    0.14797350697552178,
];
/// The same for f32's needs.
const LOG_LOW: [f64; 4] = [0.6666666564171189, 0.40000336115896873, 0.2853724537709411, 0.2358342655617835];
/// (sin(r) / r - 1) / r^2 by r^2, for |r| <= pi / 4
const SIN: [f64; 6] = [
    -0.16666666666666632,
    0.008333333333322316,
    -0.00019841269829725216,
    2.755731366206148e-06,
    -2.5050753265092574e-08,
    1.5896504975467335e-10,
];
/// The same for f32's needs.
const SIN_LOW: [f64; 3] = [-0.16666654873466616, 0.008332173542595984, -0.00019516655742260044];
/// (cos(r) - 1 + r^2 / 2) / r^4 by r^2, for |r| <= pi / 4
const COS: [f64; 6] = [
    0.0416666666666666,
    -0.001388888888887399,
    2.4801587289394903e-05,
    -2.7557314326023604e-07,
    2.087571955774313e-09,
    -1.1359448630332592e-11,
];
/// The same for f32's needs.
const COS_LOW: [f64; 3] = [0.04166664674779873, -0.0013887361451051432, 2.4437730175673515e-05];
/// erf(x) / x by x^2, for |x| <= 1
const ERF: [f64; 12] = [
    1.1283791670955126,
    -0.3761263890318355,
    0.11283791670945242,
    -0.026866170643274446,
    0.005223977607408637,
    -0.0008548325988972659,
    0.00012055295298454499,
    -1.4924744232710012e-05,
    1.6447512277030186e-06,
    -1.6209133890825477e-07,
    1.3722791699898931e-08,
    -7.800839194690802e-10,
];
/// The same for f32's needs.
const ERF_LOW: [f64; 7] = [
    1.1283791670855188,
    -0.37612638701803236,
    0.11283785042635745,
    -0.026865351175560916,
    0.005219136280399017,
    -0.0008400391764801616,
    9.770413051853513e-05,
];
/// (1 + 2 x) exp(x^2) erfc(x) by (x - 4) / (x + 4), for 0.7 <= x <= 28
const ERFCX: [f64; 20] = [
    1.2329951186255526,
    -0.1396211168405611,
    0.015379652102609036,
    0.06809705425451437,
    -0.10103906603561251,
    0.09373283500501771,
    -0.06633036582964036,
    0.03716751542362367,
    -0.01619773383374109,
    0.005031971040342213,
    -0.0007577749542466054,
    -0.00019926260694112102,
    0.00015062927315390292,
    -2.43787910400464e-05,
    -1.1243700177027139e-05,
    5.665697757497916e-06,
    3.317640808519976e-07,
    -7.678935628389007e-07,
    3.6638633902763434e-08,
    6.80885488929822e-08,
];
/// The same for f32's needs.
const ERFCX_LOW: [f64; 10] = [
    1.2329951182782197,
    -0.1396210845022646,
    0.01537971752520805,
    0.06809516677983962,
    -0.10104185455003417,
    0.09376245839266356,
    -0.06628388549161902,
    0.03699799084494673,
    -0.01651396550609179,
    0.005315721847479645,
];
/// (atan(t) / t - 1) / t^2 by t^2, for |t| <= 1
const ATAN: [f64; 20] = [
    -0.33333333333333093,
    0.1999999999995544,
    -0.14285714282802414,
    0.1111111101365614,
    -0.09090907119341202,
    0.07692281187637848,
    -0.0666641500373597,
    0.05880592587511866,
    -0.05253805686942387,
    0.04723293779145067,
    -0.04221718810531574,
    0.03669354452196855,
    -0.029985592287772346,
    0.022085171721935477,
    -0.013995003655567956,
    0.007263369508906456,
    -0.002919348766075116,
    0.0008434874650808697,
    -0.0001547977891224147,
    1.348936589759808e-05,
];
/// The same for f32's needs.
const ATAN_LOW: [f64; 10] = [
    -0.33333327433847626,
    0.19999692629557747,
    -0.1428013098895131,
    0.11060246176197173,
    -0.08818854416673087,
    0.06759586038895268,
    -0.04494664194221707,
    0.022760508089560597,
    -0.007422716601612388,
    0.001134894158559251,
];
/// (asin(s) / s - 1) / s^2 by s^2, for |s| <= 1/2
const ASIN: [f64; 12] = [
    0.16666666666665375,
    0.0750000000034483,
    0.04464285682195393,
    0.03038195939626793,
    0.02237175192182371,
    0.01735979584584986,
    0.013884348693111065,
    0.012174952936388072,
    0.006503476485712345,
    0.019594457117961768,
    -0.016326870057957223,
    0.031981808247387764,
];
/// The same for f32's needs.
const ASIN_LOW: [f64; 6] = [
    0.16666659852902815,
    0.07500512134189186,
    0.04451547061364889,
    0.03181982353575723,
    0.014393787491727556,
    0.037578184147581295,
];

/// 2^k for -1022 <= k <= 1023.
#[inline(always)]
fn power_of_two(k: u64) -> f64 {
    f64::from_bits(k.wrapping_add(1023) << 52)
}

/// x * 2^k in two steps, so that k may leave the range of one exponent. `k` is an integer of 64 bits.
#[inline(always)]
fn scale(x: f64, k: u64) -> f64 {
    // A logical shift of a sum that is positive: AVX2 has no arithmetic one.
    let half = (k.wrapping_add(4096) >> 1).wrapping_sub(2048);
    x * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// `x` within bounds; NaN stays.
#[inline(always)]
fn within(x: f64, low: f64, high: f64) -> f64 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// (expm1(r), k) with x = k ln(2) + r.
#[inline(always)]
fn exp_parts<I: Isa, const LOW: bool>(x: f64) -> (f64, u64) {
    let shifted = I::mul_add(x, LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = I::mul_add(n, -LN2_LO, I::mul_add(n, -LN2_HI, x));
    let p = I::mul_add(r * r, poly_of::<I, LOW, 10, 6>(r, EXP, EXP_LOW), r);
    (p, shifted.to_bits().wrapping_sub(MAGIC.to_bits()))
}

#[inline(always)]
pub(super) fn exp<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (p, k) = exp_parts::<I, LOW>(within(x, -746.0, 710.0));
    scale(1.0 + p, k)
}

/// [`exp`] for x <= 0.
#[inline(always)]
pub(super) fn exp_falling<I: Isa, const LOW: bool>(x: f64) -> f64 {
    exp::<I, LOW>(x)
}

/// exp(x) / 2, finite as long as it can be.
#[inline(always)]
fn half_exp<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (p, k) = exp_parts::<I, LOW>(within(x, -746.0, 712.0));
    scale(1.0 + p, k.wrapping_sub(1))
}

#[inline(always)]
pub(super) fn exp2<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let x = within(x, -1076.0, 1025.0);
    let shifted = x + MAGIC;
    let r = x - (shifted - MAGIC);
    let p = r * poly_of::<I, LOW, 11, 7>(r, EXP2, EXP2_LOW);
    scale(1.0 + p, shifted.to_bits().wrapping_sub(MAGIC.to_bits()))
}

#[inline(always)]
pub(super) fn expm1<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (p, k) = exp_parts::<I, LOW>(within(x, -50.0, 710.0));
    // Half of it, so that 2^1024 does not overflow.
    let s = power_of_two(k.wrapping_sub(1));
    let half = I::mul_add(s, p, s - 0.5);
    if x == 0.0 { x } else { half + half }
}

/// (m, e) with x = m 2^e and sqrt(1/2) <= m < sqrt(2), for positive finite x.
#[inline(always)]
fn split<I: Isa, const LOW: bool>(x: f64) -> (f64, f64) {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const BIAS: u64 = 1024;
    let tiny = x < f64::MIN_POSITIVE;
    let bits = (if tiny { x * 18_014_398_509_481_984.0 } else { x }).to_bits();
    // Biased, so that the shift may be a logical one and the integer converts by an addition.
    let biased = bits.wrapping_sub(SQRT_HALF).wrapping_add(BIAS << 52) >> 52;
    let e = f64::from_bits(biased.wrapping_add(MAGIC.to_bits())) - (MAGIC + BIAS as f64);
    let m = f64::from_bits(bits.wrapping_sub(biased.wrapping_sub(BIAS) << 52));
    (m, e - if tiny { 54.0 } else { 0.0 })
}

/// (f, r, e) with log(x) = e ln(2) + f + r, for positive finite x.
#[inline(always)]
fn log_parts<I: Isa, const LOW: bool>(x: f64) -> (f64, f64, f64) {
    let (m, e) = split::<I, LOW>(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let half_square = 0.5 * f * f;
    let r = I::mul_add(s, I::mul_add(z, poly_of::<I, LOW, 7, 4>(z, LOG, LOG_LOW), half_square), -half_square);
    (f, r, e)
}

/// `log` where x is positive and finite, else the value there.
#[inline(always)]
fn log_or_special(x: f64, log: f64) -> f64 {
    let special = if x == 0.0 { f64::NEG_INFINITY } else { x };
    let special = if x < 0.0 { f64::NAN } else { special };
    if (x > 0.0) & (x < f64::INFINITY) { log } else { special }
}

#[inline(always)]
pub(super) fn log<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (f, r, e) = log_parts::<I, LOW>(x);
    log_or_special(x, I::mul_add(e, LN2_HI, f + I::mul_add(e, LN2_LO, r)))
}

#[inline(always)]
pub(super) fn log2<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (f, r, e) = log_parts::<I, LOW>(x);
    log_or_special(x, I::mul_add(f, LOG2_E, I::mul_add(r, LOG2_E, e)))
}

#[inline(always)]
pub(super) fn log10<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (f, r, e) = log_parts::<I, LOW>(x);
    log_or_special(x, I::mul_add(e, LOG10_2, I::mul_add(f, LOG10_E, r * LOG10_E)))
}

#[inline(always)]
pub(super) fn log1p<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let u = 1.0 + x;
    let (f, r, e) = log_parts::<I, LOW>(u);
    // What rounding took off u.
    let lost = if x < 1.0 { x - (u - 1.0) } else { 1.0 - (u - x) } / u;
    let log = I::mul_add(e, LN2_HI, f + (r + I::mul_add(e, LN2_LO, lost)));
    let log = log_or_special(u, log);
    if x == 0.0 { x } else { log }
}

/// Above it, `sin_near` and its siblings are not right.
const FAR: f64 = 1e6;

#[inline(always)]
pub(super) fn is_far(x: f64) -> bool {
    x.abs() > FAR
}

/// (r, q) with x = q pi/2 + r, |r| <= pi/4; the low bits of q are right.
#[inline(always)]
pub(super) fn quadrant<I: Isa, const LOW: bool>(x: f64) -> (f64, u64) {
    let shifted = I::mul_add(x, FRAC_2_PI, MAGIC);
    let n = shifted - MAGIC;
    let r = I::mul_add(n, -PIO2[1], I::mul_add(n, -PIO2[0], x));
    (I::mul_add(n, -PIO2[2], r), shifted.to_bits())
}

/// (sin(r), cos(r))
#[inline(always)]
fn sine_cosine<I: Isa, const LOW: bool>(r: f64) -> (f64, f64) {
    let z = r * r;
    let sin = I::mul_add(r * z, poly_of::<I, LOW, 6, 3>(z, SIN, SIN_LOW), r);
    let half = 0.5 * z;
    let w = 1.0 - half;
    let cos = w + (((1.0 - w) - half) + z * z * poly_of::<I, LOW, 6, 3>(z, COS, COS_LOW));
    (sin, cos)
}

/// sin(r) for an even quadrant, cos(r) for an odd one, with the quadrant's sign.
#[inline(always)]
fn sine_of<I: Isa, const LOW: bool>(r: f64, q: u64) -> f64 {
    let (sin, cos) = sine_cosine::<I, LOW>(r);
    let value = if q & 1 == 0 { sin } else { cos };
    f64::from_bits(value.to_bits() ^ (q & 2) << 62)
}

#[inline(always)]
pub(super) fn sin_near<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (r, q) = quadrant::<I, LOW>(x);
    let sin = sine_of::<I, LOW>(r, q);
    if x == 0.0 { x } else { sin }
}

#[inline(always)]
pub(super) fn cos_near<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (r, q) = quadrant::<I, LOW>(x);
    sine_of::<I, LOW>(r, q.wrapping_add(1))
}

#[inline(always)]
pub(super) fn tan_near<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (r, q) = quadrant::<I, LOW>(x);
    let (sin, cos) = sine_cosine::<I, LOW>(r);
    let odd = q & 1 == 1;
    let tan = if odd { -cos } else { sin } / if odd { sin } else { cos };
    if x == 0.0 { x } else { tan }
}

#[inline(always)]
pub(super) fn sin<I: Isa, const LOW: bool>(x: f64) -> f64 {
    if is_far(x) { x.sin() } else { sin_near::<I, LOW>(x) }
}

#[inline(always)]
pub(super) fn cos<I: Isa, const LOW: bool>(x: f64) -> f64 {
    if is_far(x) { x.cos() } else { cos_near::<I, LOW>(x) }
}

#[inline(always)]
pub(super) fn tan<I: Isa, const LOW: bool>(x: f64) -> f64 {
    if is_far(x) { x.tan() } else { tan_near::<I, LOW>(x) }
}

#[inline(always)]
pub(super) fn sinh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let e = expm1::<I, LOW>(a);
    let near = 0.5 * (e + e / (e + 1.0));
    let far = half_exp::<I, LOW>(a);
    let magnitude = if a < 22.0 { near } else { far };
    magnitude.copysign(x)
}

#[inline(always)]
pub(super) fn cosh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let half = half_exp::<I, LOW>(x.abs());
    half + 0.25 / half
}

#[inline(always)]
pub(super) fn tanh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let t = expm1::<I, LOW>(2.0 * if a > 20.0 { 20.0 } else { a });
    (t / (t + 2.0)).copysign(x)
}

#[inline(always)]
pub(super) fn sigmoid<I: Isa, const LOW: bool>(x: f64) -> f64 {
    1.0 / (1.0 + exp::<I, LOW>(-x))
}

/// erfc(a) for a >= 0.7, without loss where it is small.
#[inline(always)]
fn erfc_far<I: Isa, const LOW: bool>(a: f64) -> f64 {
    let a = if a > 28.0 { 28.0 } else { a };
    let scaled = poly_of::<I, LOW, 20, 10>((a - 4.0) / (a + 4.0), ERFCX, ERFCX_LOW) / (1.0 + 2.0 * a);
    // exp(-a^2) of a square that is exact, times what it left out.
    let high = f64::from_bits(a.to_bits() & 0xffff_ffff_f800_0000);
    let d = (a - high) * (a + high);
    let rest = 1.0 - d * (1.0 - d * (0.5 - d * (1.0 / 6.0)));
    exp::<I, LOW>(-high * high) * (scaled * rest)
}

#[inline(always)]
pub(super) fn erf<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let near = x * poly_of::<I, LOW, 12, 7>(x * x, ERF, ERF_LOW);
    let far = (1.0 - erfc_far::<I, LOW>(a)).copysign(x);
    if a < 1.0 { near } else { far }
}

#[inline(always)]
pub(super) fn erfc<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let near = 1.0 - x * poly_of::<I, LOW, 12, 7>(x * x, ERF, ERF_LOW);
    let far = erfc_far::<I, LOW>(x.abs());
    let far = if x < 0.0 { 2.0 - far } else { far };
    if x.abs() < 0.7 { near } else { far }
}

#[inline(always)]
pub(super) fn normal_cdf<I: Isa, const LOW: bool>(x: f64) -> f64 {
    0.5 * (1.0 + erf::<I, LOW>(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// atan(t) for 0 <= t <= 1.
#[inline(always)]
fn atan_near<I: Isa, const LOW: bool>(t: f64) -> f64 {
    let z = t * t;
    I::mul_add(t * z, poly_of::<I, LOW, 20, 10>(z, ATAN, ATAN_LOW), t)
}

#[inline(always)]
pub(super) fn atan<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let steep = a > 1.0;
    let angle = atan_near::<I, LOW>(if steep { 1.0 / a } else { a });
    let angle = if steep { FRAC_PI_2 - (angle - PIO2_TAIL) } else { angle };
    angle.copysign(x)
}

#[inline(always)]
pub(super) fn atan2<I: Isa, const LOW: bool>(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    let steep = a > b;
    let (small, large) = if steep { (b, a) } else { (a, b) };
    let ratio = small / large;
    let ratio = if large == 0.0 { 0.0 } else { ratio };
    let ratio = if small == f64::INFINITY { 1.0 } else { ratio };
    let angle = atan_near::<I, LOW>(ratio);
    let angle = if steep { FRAC_PI_2 - (angle - PIO2_TAIL) } else { angle };
    let angle = if x.is_sign_negative() { PI - (angle - 2.0 * PIO2_TAIL) } else { angle };
    let angle = angle.copysign(y);
    if x.is_nan() | y.is_nan() { f64::NAN } else { angle }
}

/// (asin of the smaller angle, whether |x| > 1/2): asin(s) with s = |x|, or sqrt((1 - |x|) / 2).
#[inline(always)]
fn asin_parts<I: Isa, const LOW: bool>(x: f64) -> (f64, bool) {
    let a = x.abs();
    let large = a > 0.5;
    let z = if large { (1.0 - a) * 0.5 } else { a * a };
    let s = if large { z.sqrt() } else { a };
    (I::mul_add(s * z, poly_of::<I, LOW, 12, 6>(z, ASIN, ASIN_LOW), s), large)
}

#[inline(always)]
pub(super) fn asin<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (angle, large) = asin_parts::<I, LOW>(x);
    let angle = if large { FRAC_PI_2 - (2.0 * angle - PIO2_TAIL) } else { angle };
    angle.copysign(x)
}

#[inline(always)]
pub(super) fn acos<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let (angle, large) = asin_parts::<I, LOW>(x);
    let near = FRAC_PI_2 - (angle.copysign(x) - PIO2_TAIL);
    let twice = 2.0 * angle;
    let far = if x < 0.0 { PI - (twice - 2.0 * PIO2_TAIL) } else { twice };
    if large { far } else { near }
}

#[inline(always)]
pub(super) fn asinh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let near = log1p::<I, LOW>(a + a * a / (1.0 + (1.0 + a * a).sqrt()));
    let far = log::<I, LOW>(a) + LN_2;
    let value = if a < 1e8 { near } else { far };
    if x == 0.0 { x } else { value.copysign(x) }
}

#[inline(always)]
pub(super) fn acosh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let t = x - 1.0;
    let near = log1p::<I, LOW>(t + (2.0 * t + t * t).sqrt());
    let far = log::<I, LOW>(x) + LN_2;
    let value = if x < 1e8 { near } else { far };
    if x < 1.0 { f64::NAN } else { value }
}

#[inline(always)]
pub(super) fn atanh<I: Isa, const LOW: bool>(x: f64) -> f64 {
    let a = x.abs();
    let value = 0.5 * log1p::<I, LOW>((a + a) / (1.0 - a));
    if x == 0.0 { x } else { value.copysign(x) }
}

/// `x * x`, and what rounding took off it.
#[inline(always)]
fn square<I: Isa>(x: f64) -> (f64, f64) {
    let p = x * x;
    if I::FMA {
        return (p, x.mul_add(x, -p));
    }
    // x in two halves, whose products are exact (Veltkamp, Dekker).
    let c = 134_217_729.0 * x;
    let high = c - (c - x);
    let low = x - high;
    (p, ((high * high - p) + 2.0 * high * low) + low * low)
}

/// The root of the sum of squares, and one step of Newton's on its exact error: correctly rounded, as PyTorch's.
#[inline(always)]
pub(super) fn hypot<I: Isa, const LOW: bool>(x: f64, y: f64) -> f64 {
    /// 2^600, and what it brings back: squares of what lies beyond 2^±450 would overflow or vanish.
    const UP: f64 = f64::from_bits((600 + 1023) << 52);
    const DOWN: f64 = f64::from_bits((1023 - 600) << 52);
    const LARGE: f64 = f64::from_bits((450 + 1023) << 52);
    const SMALL: f64 = f64::from_bits((1023 - 450) << 52);
    let (x, y) = (x.abs(), y.abs());
    let (large, small) = if x > y { (x, y) } else { (y, x) };
    let scale = if large > LARGE { DOWN } else { 1.0 };
    let scale = if large < SMALL { UP } else { scale };
    let back = if large > LARGE { UP } else { 1.0 };
    let back = if large < SMALL { DOWN } else { back };
    let (a, b) = (large * scale, small * scale);
    let ((aa, aa_tail), (bb, bb_tail)) = (square::<I>(a), square::<I>(b));
    let h = (aa + bb).sqrt();
    let (hh, hh_tail) = square::<I>(h);
    let error = ((hh - aa) - bb) + ((hh_tail - aa_tail) - bb_tail);
    let root = (h - error / (2.0 * h)) * back;
    let root = if h == 0.0 { 0.0 } else { root };
    if x.is_infinite() | y.is_infinite() { f64::INFINITY } else { root }
}

/// log2(x) as a sum of two, to about 60 bits, for positive finite x. Wants fused multiply-adds.
#[inline(always)]
fn log2_in_two<I: Isa, const LOW: bool>(x: f64) -> (f64, f64) {
    /// What rounding took off LOG2_E.
    const LOG2_E_TAIL: f64 = 2.035_527_374_093_103_3e-17;
    let (m, e) = split::<I, LOW>(x);
    let (f, u) = (m - 1.0, m + 1.0);
    let u_tail = (1.0 - u) + m;
    // s = f / u, and what rounding took off it.
    let s = f / u;
    let s_tail = I::mul_add(-s, u_tail, I::mul_add(-s, u, f)) / u;
    let z = s * s;
    let high = s + s;
    let low = I::mul_add(s * z, poly_of::<I, LOW, 7, 4>(z, LOG, LOG_LOW), s_tail + s_tail);
    let sum = high + low;
    let low = low - (sum - high);
    let product = sum * LOG2_E;
    let product_tail = I::mul_add(sum, LOG2_E, -product) + I::mul_add(sum, LOG2_E_TAIL, low * LOG2_E);
    let log = e + product;
    (log, product_tail + (product - (log - e)))
}

/// |x| to the power of y for positive finite x. Wants fused multiply-adds.
#[inline(always)]
fn power<I: Isa, const LOW: bool>(x: f64, y: f64) -> f64 {
    let (log, log_tail) = log2_in_two::<I, LOW>(x);
    let exponent = within(y * log, -1100.0, 1100.0);
    let tail = I::mul_add(y, log, -exponent) + y * log_tail;
    let tail = if exponent.abs() < 1100.0 { tail } else { 0.0 };
    let shifted = exponent + MAGIC;
    let r = (exponent - (shifted - MAGIC)) + tail;
    let p = r * poly_of::<I, LOW, 11, 7>(r, EXP2, EXP2_LOW);
    scale(1.0 + p, shifted.to_bits().wrapping_sub(MAGIC.to_bits()))
}

/// The sign and the special values of pow(x, y), given the power of positive finite |x|.
#[inline(always)]
pub(super) fn pow_or_special(x: f64, y: f64, power: f64) -> f64 {
    let a = x.abs();
    let infinite = y.abs() == f64::INFINITY;
    let grows = (a > 1.0) == (y > 0.0);
    let limit = if grows { f64::INFINITY } else { 0.0 };
    let power = if (a == 0.0) | (a == f64::INFINITY) | infinite { limit } else { power };
    let whole = y == y.trunc();
    let odd = whole & (y * 0.5 != (y * 0.5).trunc()) & !infinite;
    let power = if odd { power.copysign(x) } else { power };
    let undefined = (x < 0.0) & !whole & (a != f64::INFINITY);
    let power = if undefined | x.is_nan() | y.is_nan() { f64::NAN } else { power };
    let one = (y == 0.0) | (x == 1.0) | ((a == 1.0) & infinite);
    if one { 1.0 } else { power }
}

#[inline(always)]
pub(super) fn pow<I: Isa, const LOW: bool>(x: f64, y: f64) -> f64 {
    if !I::FMA {
        return x.powf(y);
    }
    pow_or_special(x, y, power::<I, LOW>(x.abs(), y))
}

/// Quotients below it are off by one at most when rounded.
pub(super) const FMOD_FAR: f64 = 4_503_599_627_370_496.0;

#[inline(always)]
pub(super) fn fmod_near<I: Isa, const LOW: bool>(x: f64, y: f64) -> f64 {
    if !I::FMA {
        return x % y;
    }
    let (a, b) = (x.abs(), y.abs());
    let quotient = (a / b).trunc();
    // Exact, and within one divisor of the remainder.
    let rest = I::mul_add(-quotient, b, a);
    let rest = if rest < 0.0 { rest + b } else { rest };
    let rest = if rest >= b { rest - b } else { rest };
    let rest = if quotient == 0.0 { a } else { rest };
    rest.copysign(x)
}
