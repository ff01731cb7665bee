//! The Airy function Ai.
//!
//! Three regions: the Maclaurin series around 0 (DLMF 9.4.1), a decaying one above 2 and an oscillating one below -3. The
//! outer ones are Chebyshev series of the smooth factors of the asymptotic forms (DLMF 9.7.5, 9.7.9), in 1 / zeta and
//! 1 / zeta^2 with zeta = 2/3 |x|^(3/2). The coefficients are the discrete cosine sums of those factors over 48 Chebyshev
//! points, in 60 digits (DLMF 3.11(ii)).

use std::f64::consts::{FRAC_PI_4, PI};

use super::{chebyshev_series, through};
use crate::elementwise;
use crate::simd::RealFloating;

elementwise! {
    /// The Airy function Ai; no number at the infinities, as PyTorch has it.
    pub fn airy_ai<T: RealFloating>(x: T) -> T { through(x, ai) }
}

/// Ai(0) and -Ai'(0).
const AT_ZERO: (f64, f64) = (0.355_028_053_887_817_2, 0.258_819_403_792_806_8);

fn ai(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    if (-3.0..=2.0).contains(&x) {
        return maclaurin(x);
    }
    let root = x.abs().sqrt();
    let zeta = 2.0 / 3.0 * x.abs() * root;
    if x > 0.0 {
        // Ai = exp(-zeta) x^(-1/4) DECAYING; half of the exponential at a time, as it may vanish before the product does.
        let half = (-0.5 * zeta).exp();
        return chebyshev_series(&DECAYING, 2.0 * (ZETA_OF_2 / zeta) - 1.0) / root.sqrt() * half * half;
    }
    // Ai = |x|^(-1/4) pi^(-1/2) (sin(zeta + pi/4) IN_PHASE - cos(zeta + pi/4) OUT_OF_PHASE / zeta)
    let position = 2.0 * (ZETA_OF_3 / zeta) * (ZETA_OF_3 / zeta) - 1.0;
    let (sin, cos) = (zeta + FRAC_PI_4).sin_cos();
    let wave = sin * chebyshev_series(&IN_PHASE, position) - cos * chebyshev_series(&OUT_OF_PHASE, position) / zeta;
    wave / (PI.sqrt() * root.sqrt())
}

/// The two solutions that start as 1 and x, weighted by Ai(0) and Ai'(0).
fn maclaurin(x: f64) -> f64 {
    let cube = x * x * x;
    let (mut even, mut odd) = (AT_ZERO.0, -AT_ZERO.1 * x);
    let mut sum = even + odd;
    for k in 1..30 {
        let n = 3.0 * f64::from(k);
        even *= cube / ((n - 1.0) * n);
        odd *= cube / (n * (n + 1.0));
        sum += even + odd;
        if even.abs() + odd.abs() < 1e-19 {
            break;
        }
    }
    sum
}

/// 2/3 2^(3/2)
const ZETA_OF_2: f64 = 1.885_618_083_164_126_7;
/// 2/3 3^(3/2)
const ZETA_OF_3: f64 = 3.464_101_615_137_754_4;

#[rustfmt::skip]
const DECAYING: [f64; 23] = [
    0.2776956095117059, -0.004172967562045923, 0.00020669586013998011, -1.7280997841068207e-05,
    1.928052166797157e-06, -2.605774398776262e-07, 4.051516883512395e-08, -7.022240440986223e-09,
    1.3286081997701028e-09, -2.703558037129289e-10, 5.852297782838998e-11, -1.3363584416519756e-11,
    3.1978547149289153e-12, -7.976813559559603e-13, 2.0651347541109665e-13, -5.52899978215978e-14,
    1.526165619010181e-14, -4.331979304955806e-15, 1.2616239319898747e-15, -3.7626070399357594e-16,
    1.1471616156264618e-16, -3.570144365109208e-17, 1.1326462271400218e-17,
];
#[rustfmt::skip]
const IN_PHASE: [f64; 23] = [
    0.9985699626310912, -0.0013951995769053717, 3.267841506400246e-05, -1.9404091544431855e-06,
    1.8869330795558386e-07, -2.5081398395940352e-08, 4.147665235330316e-09, -8.070839465359446e-10,
    1.7827924805699562e-10, -4.361705273201904e-11, 1.161185427365765e-11, -3.319778087279854e-12,
    1.0089771012367244e-12, -3.2341424638014315e-13, 1.086339783463564e-13, -3.803935598638535e-14,
    1.382553936868321e-14, -5.196785439951606e-15, 2.0139656226370203e-15, -8.025754109984114e-16,
    3.281280744795809e-16, -1.3735972268163205e-16, 5.877253876349653e-17,
];
#[rustfmt::skip]
const OUT_OF_PHASE: [f64; 22] = [
    0.06807534474256373, -0.0013083854582772593, 5.551763035572022e-05, -4.544765865946546e-06,
    5.465428712800189e-07, -8.490632985289182e-08, 1.5863608897257044e-08, -3.4107384772845923e-09,
    8.195292084272133e-10, -2.1559704007789517e-10, 6.117533123357895e-11, -1.851185487143232e-11,
    5.921734198169083e-12, -1.9885901380079363e-12, 6.970913701405051e-13, -2.539035245734919e-13,
    9.572030893384093e-14, -3.722887715017506e-14, 1.4896665595239407e-14, -6.117760930462744e-15,
    2.5732888544750425e-15, -1.1065951356139461e-15,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with 17 digits from 60-digit arithmetic, on both sides of the changes of method.
    #[test]
    fn values_from_tables() {
        for (x, want) in [
            (-100.0, 0.1767533932395529),
            (-30.0, -0.08796818845684216),
            (-5.5, 0.017781541276574976),
            (-3.001, -0.3791283090051224),
            (-3.0, -0.37881429367765806),
            (-2.338, 7.531737652339437e-05),
            (-1.0, 0.5355608832923521),
            (0.0, 0.3550280538878172),
            (0.5, 0.23169360648083348),
            (1.999, 0.034977255743715956),
            (2.0, 0.03492413042327438),
            (2.001, 0.03487107495109645),
            (3.0, 0.006591139357460719),
            (10.0, 1.1047532552898686e-10),
            (100.0, 2.6344821520881846e-291),
        ] {
            let got = ai(x);
            // The error is that of zeta: in the phase, or in the exponent.
            let scale = if x < 0.0 { 0.5 * x.abs().max(1.0) } else { want * (1.0 + x * x.sqrt() / 100.0) };
            assert!((got - want).abs() <= 2e-14 * scale, "Ai({x}): got {got}, want {want}");
        }
    }
}
