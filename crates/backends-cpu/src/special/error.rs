//! The error function where it is small: scaled, and as a logarithm.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::through;
use crate::elementwise;
use crate::simd::RealFloating;

elementwise! {
    /// `exp(x^2) erfc(x)`
    pub fn erfcx<T: RealFloating>(x: T) -> T { through(x, scaled_erfc) }
    /// The logarithm of the normal distribution.
    pub fn log_ndtr<T: RealFloating>(x: T) -> T { through(x, log_normal_distribution) }
}

/// The product below 10, the asymptotic series above (DLMF 7.12.1); twice the exponential less the mirrored value below 0.
fn scaled_erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 * exp_of_square(x) - scaled_erfc(-x);
    }
    if x < 10.0 {
        return exp_of_square(x) * libm::erfc(x);
    }
    let z = 0.5 / (x * x);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..=12 {
        term *= -z * f64::from(2 * k - 1);
        sum += term;
    }
    sum / (x * PI.sqrt())
}

/// exp(x^2), with what the square rounds away as a factor.
fn exp_of_square(x: f64) -> f64 {
    let square = x * x;
    let rest = libm::fma(x, x, -square);
    let value = square.exp();
    if value.is_finite() { value + value * rest } else { value }
}

/// The logarithm of (1 + erf(x / sqrt(2))) / 2.
fn log_normal_distribution(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    if x < -1.0 { (0.5 * scaled_erfc(-t)).ln() - t * t } else { (-0.5 * libm::erfc(t)).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with 17 digits from 60-digit arithmetic, on both sides of the changes of method.
    #[test]
    fn values_from_tables() {
        for (x, scaled, log) in [
            (-20.0, 1.0442939379528289e+174, -203.91715537109727),
            (-5.0, 144009798674.66104, -15.064998393988725),
            (-1.001, 5.02014259362861, -1.8425471807560767),
            (-1.0, 5.008980080762283, -1.8410216450092636),
            (-0.3, 1.4537492328427655, -0.9621028181688507),
            (0.0, 1.0, -0.6931471805599453),
            (0.3, 0.7345993345676551, -0.4814101615884812),
            (2.0, 0.25539567631050575, -0.02301290932896349),
            (7.3, 0.07658060847147892, -1.4388386381576912e-13),
            (9.999, 0.05614655260396594, -7.697185013083595e-24),
            (10.0, 0.05614099274382259, -7.619853024160525e-24),
            (25.0, 0.02254957243264136, -3.056696706382561e-138),
            (100.0, 0.005641613782989433, -0.0),
        ] {
            let near = |got: f64, want: f64| {
                assert!(
                    (got - want).abs() <= 4e-16 * (20.0 + x * x) * want.abs() || got == want,
                    "at {x}: got {got}, want {want}"
                );
            };
            near(scaled_erfc(x), scaled);
            near(log_normal_distribution(x), log);
        }
        assert_eq!(scaled_erfc(f64::INFINITY), 0.0);
        assert_eq!(scaled_erfc(-30.0), f64::INFINITY);
        assert_eq!(log_normal_distribution(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(log_normal_distribution(f64::INFINITY), 0.0);
    }
}
