//! The elementary functions against a reference: f32 against f64's C library, f64 against it within a few units.

use super::{Math, RealMath};
use crate::isa::{Baseline, Isa, Level, V3, V4, level};

/// Units in the last place of f32 between a value and the exact one.
fn ulps32(got: f32, exact: f64) -> f64 {
    if got.is_nan() && exact.is_nan() || got as f64 == exact {
        return 0.0;
    }
    let rounded = exact as f32;
    if rounded.is_infinite() || rounded.is_nan() || got.is_nan() || got.is_infinite() {
        return if got == rounded { 0.0 } else { f64::INFINITY };
    }
    let unit = (rounded.abs().max(f32::MIN_POSITIVE) as f64).log2().floor();
    (got as f64 - exact).abs() / 2f64.powf(unit - 23.0)
}

fn ulps64(got: f64, exact: f64) -> f64 {
    if got.is_nan() && exact.is_nan() || got == exact {
        return 0.0;
    }
    if !exact.is_finite() || !got.is_finite() {
        return f64::INFINITY;
    }
    (got - exact).abs() / (exact.abs().max(f64::MIN_POSITIVE) * f64::EPSILON)
}

/// f32 values of every sign and exponent, and denser ones within `[-range, range]`.
fn sweep32(range: f32) -> Vec<f32> {
    let mut xs: Vec<f32> = (0..1 << 16).map(|i: u32| f32::from_bits(i.wrapping_mul(65_537))).collect();
    xs.extend((-30_000..=30_000).map(|i| i as f32 / 30_000.0 * range));
    xs.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1.0,
        -1.0,
        f32::MAX,
        f32::MIN,
    ]);
    xs
}

fn check32(name: &str, range: f32, most: f64, exact: impl Fn(f64) -> f64, f: impl Fn(f32) -> f32) {
    let mut worst = (0.0, 0.0, 0.0);
    for x in sweep32(range) {
        let (got, want) = (f(x), exact(x as f64));
        let error = ulps32(got, want);
        if error > worst.0 {
            worst = (error, x, got);
        }
        if x == 0.0 && want == 0.0 {
            assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "{name}({x:?})");
        }
    }
    assert!(worst.0 <= most, "{name}({:e}) = {:e} is {} units off", worst.1, worst.2, worst.0);
}

fn check64(name: &str, range: f64, most: f64, exact: impl Fn(f64) -> f64, f: impl Fn(f64) -> f64) {
    let mut worst = (0.0, 0.0, 0.0);
    let mut xs: Vec<f64> = sweep32(1.0).into_iter().map(|x| x as f64).collect();
    xs.extend((-40_000..=40_000).map(|i| i as f64 / 40_000.37 * range));
    xs.extend([f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN, 709.7, 710.1, 710.47, -745.0, -708.5, 1e300, -1e300]);
    for x in xs {
        let (got, want) = (f(x), exact(x));
        let error = ulps64(got, want);
        if error > worst.0 {
            worst = (error, x, got);
        }
    }
    assert!(
        worst.0 <= most,
        "{name}({:e}) = {:e} is {} units off, want {:e}",
        worst.1,
        worst.2,
        worst.0,
        exact(worst.1)
    );
}

fn all32<I: Isa>() {
    check32("exp", 100.0, 1.5, f64::exp, Math::exp::<I>);
    let falling = |x: f64| if x > 0.0 || x < -87.0 { 0.0 } else { x.exp() };
    check32("exp_falling", 100.0, 1.5, falling, |x| if x > 0.0 { 0.0 } else { x.exp_falling::<I>() });
    check32("exp2", 140.0, 1.5, f64::exp2, Math::exp2::<I>);
    check32("expm1", 30.0, 1.6, f64::exp_m1, Math::expm1::<I>);
    check32("log", 10.0, 1.2, f64::ln, Math::log::<I>);
    check32("log2", 10.0, 1.9, f64::log2, Math::log2::<I>);
    check32("log10", 10.0, 2.0, f64::log10, Math::log10::<I>);
    check32("log1p", 10.0, 1.9, f64::ln_1p, Math::log1p::<I>);
    check32("sin", 50.0, 1.6, f64::sin, Math::sin::<I>);
    check32("cos", 50.0, 1.6, f64::cos, Math::cos::<I>);
    check32("tan", 50.0, 1.2, f64::tan, Math::tan::<I>);
    check32("sinh", 90.0, 1.2, f64::sinh, Math::sinh::<I>);
    check32("cosh", 90.0, 1.2, f64::cosh, Math::cosh::<I>);
    check32("tanh", 10.0, 1.9, f64::tanh, Math::tanh::<I>);
    check32("sigmoid", 87.0, 2.5, |x| if x < -88.7 { 0.0 } else { 1.0 / (1.0 + (-x).exp()) }, Math::sigmoid::<I>);
    check32("erf", 5.0, 1.9, libm::erf, RealMath::erf::<I>);
    check32("erfc", 11.0, 1.2, libm::erfc, RealMath::erfc::<I>);
    check32("asin", 1.1, 1.2, f64::asin, Math::asin::<I>);
    check32("acos", 1.1, 1.2, f64::acos, Math::acos::<I>);
    check32("atan", 20.0, 1.2, f64::atan, Math::atan::<I>);
    check32("asinh", 20.0, 1.2, f64::asinh, Math::asinh::<I>);
    check32("acosh", 20.0, 1.2, f64::acosh, Math::acosh::<I>);
    check32("atanh", 1.1, 1.2, f64::atanh, Math::atanh::<I>);
}

fn normal_cdf<I: Isa>() {
    let exact = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    for x in sweep32(9.0) {
        let (narrow, wide) = (x.normal_cdf::<I>(), f64::from(x).normal_cdf::<I>());
        let exact = exact(f64::from(x));
        assert!(x.is_nan() == narrow.is_nan() && x.is_nan() == wide.is_nan(), "normal_cdf({x:e})");
        assert!(!((f64::from(narrow) - exact).abs() > 3e-7), "normal_cdf({x:e}) = {narrow:e}, not {exact:e}");
        assert!(!((wide - exact).abs() > 1e-15), "normal_cdf({x:e}) = {wide:e}, not {exact:e}");
        assert!(!(x.abs() > 5.6) || narrow == f32::from(x > 0.0), "normal_cdf({x:e}) = {narrow:e} is not at its end");
    }
}

fn all64<I: Isa>() {
    check64("exp", 750.0, 1.6, f64::exp, Math::exp::<I>);
    check64("exp2", 1080.0, 1.6, f64::exp2, Math::exp2::<I>);
    check64("expm1", 60.0, 2.0, f64::exp_m1, Math::expm1::<I>);
    check64("log", 10.0, 1.6, f64::ln, Math::log::<I>);
    check64("log2", 10.0, 2.2, f64::log2, Math::log2::<I>);
    check64("log10", 10.0, 2.2, f64::log10, Math::log10::<I>);
    check64("log1p", 10.0, 2.2, f64::ln_1p, Math::log1p::<I>);
    check64("sin", 5000.0, 2.0, f64::sin, Math::sin::<I>);
    check64("cos", 5000.0, 2.0, f64::cos, Math::cos::<I>);
    check64("tan", 500.0, 3.5, f64::tan, Math::tan::<I>);
    check64("sinh", 710.0, 3.0, f64::sinh, Math::sinh::<I>);
    check64("cosh", 710.0, 3.0, f64::cosh, Math::cosh::<I>);
    check64("tanh", 25.0, 3.0, f64::tanh, Math::tanh::<I>);
    check64("erf", 7.0, 2.0, libm::erf, RealMath::erf::<I>);
    check64("erfc", 26.0, 4.5, libm::erfc, RealMath::erfc::<I>);
    check64("asin", 1.1, 3.0, f64::asin, Math::asin::<I>);
    check64("acos", 1.1, 3.0, f64::acos, Math::acos::<I>);
    check64("atan", 20.0, 2.5, f64::atan, Math::atan::<I>);
    check64("asinh", 20.0, 4.0, libm::asinh, Math::asinh::<I>);
    check64("acosh", 20.0, 4.0, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, Math::acosh::<I>);
    check64("atanh", 1.1, 4.0, libm::atanh, Math::atanh::<I>);
}

fn two_arguments<I: Isa>() {
    let xs: Vec<f32> = sweep32(4.0).into_iter().step_by(997).collect();
    let mut ys = xs.clone();
    ys.extend((-20..=20).map(|i| i as f32 * 0.5));
    ys.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    for &x in &ys {
        for &y in &ys {
            let pow = ulps32(Math::pow::<I>(x, y), (x as f64).powf(y as f64));
            assert!(pow <= 1.0, "pow({x:e}, {y:e}) = {:e}", Math::pow::<I>(x, y));
            let wide = (x as f64 * 1.000_000_1, y as f64 * 7.3);
            let pow = ulps64(Math::pow::<I>(wide.0, wide.1), wide.0.powf(wide.1));
            assert!(pow <= 8.0, "pow({:e}, {:e}) = {:e}", wide.0, wide.1, Math::pow::<I>(wide.0, wide.1));
            let angle = (x as f64).atan2(y as f64);
            assert!(ulps32(RealMath::atan2::<I>(x, y), angle) <= 1.0, "atan2({x:e}, {y:e})");
            assert!(ulps64(RealMath::atan2::<I>(x as f64, y as f64), angle) <= 3.0, "atan2({x:e}, {y:e})");
            assert!(ulps32(RealMath::hypot::<I>(x, y), (x as f64).hypot(y as f64)) <= 1.0, "hypot({x:e}, {y:e})");
            let wide = RealMath::hypot::<I>(x as f64, y as f64);
            assert!(ulps64(wide, (x as f64).hypot(y as f64)) <= 1.0, "hypot({x:e}, {y:e})");
        }
    }
}

fn at_each_level(f32s: bool) {
    let run = [all32::<Baseline>, all32::<V3>, all32::<V4>];
    let wide = [all64::<Baseline>, all64::<V3>, all64::<V4>];
    let cdfs = [normal_cdf::<Baseline>, normal_cdf::<V3>, normal_cdf::<V4>];
    let pairs = [two_arguments::<Baseline>, two_arguments::<V3>, two_arguments::<V4>];
    for (i, l) in Level::ALL.into_iter().enumerate() {
        if l <= level() {
            if f32s {
                run[i]();
                pairs[i]();
                cdfs[i]();
            } else {
                wide[i]();
            }
        }
    }
}

#[test]
fn f32_functions_are_within_their_units_at_each_level() {
    at_each_level(true);
}

#[test]
fn f64_functions_are_within_their_units_at_each_level() {
    at_each_level(false);
}
