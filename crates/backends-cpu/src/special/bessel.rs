//! Bessel functions of orders 0 and 1.
//!
//! J and Y come from `libm`. I is the power series and the asymptotic series of [`bessel_i`]. K is its power series below 2
//! (DLMF 10.31), and above it a Chebyshev series of sqrt(x) exp(x) K(x) in 4 / x - 1, which is smooth from 2 to infinity.
//! The coefficients are the discrete cosine sums of that function over 48 Chebyshev points, in 60 digits (DLMF 3.11(ii)).

use std::f64::consts::LN_2;

use super::{chebyshev_series, through};
use crate::elementwise;
use crate::pointwise::bessel_i;
use crate::simd::RealFloating;

elementwise! {
    /// The Bessel function of the first kind, of order 0.
    pub fn bessel_j0<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, libm::j0)) }
    /// The Bessel function of the first kind, of order 1.
    pub fn bessel_j1<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, libm::j1)) }
    /// The Bessel function of the second kind, of order 0; minus infinity at 0, no number below.
    pub fn bessel_y0<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, libm::y0)) }
    /// The Bessel function of the second kind, of order 1; minus infinity at 0, no number below.
    pub fn bessel_y1<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, libm::y1)) }
    /// The modified Bessel function of the first kind, of order 0.
    pub fn modified_bessel_i0<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, |x| bessel_i::<0>(x, false))) }
    /// The modified Bessel function of the first kind, of order 1.
    pub fn modified_bessel_i1<T: RealFloating>(x: T) -> T { through(x, |x| finite(x, |x| bessel_i::<1>(x, false))) }
    /// The modified Bessel function of the second kind, of order 0; infinity at 0, no number below.
    pub fn modified_bessel_k0<T: RealFloating>(x: T) -> T { through(x, |x| bessel_k(&ORDER_0, x, false)) }
    /// The modified Bessel function of the second kind, of order 1; infinity at 0, no number below.
    pub fn modified_bessel_k1<T: RealFloating>(x: T) -> T { through(x, |x| bessel_k(&ORDER_1, x, false)) }
    /// `exp(x) k0(x)`
    pub fn scaled_modified_bessel_k0<T: RealFloating>(x: T) -> T { through(x, |x| bessel_k(&ORDER_0, x, true)) }
    /// `exp(x) k1(x)`
    pub fn scaled_modified_bessel_k1<T: RealFloating>(x: T) -> T { through(x, |x| bessel_k(&ORDER_1, x, true)) }
    /// The spherical Bessel function of the first kind, of order 0: `sin(x) / x`.
    pub fn spherical_bessel_j0<T: RealFloating>(x: T) -> T { through(x, spherical_j0) }
}

/// `f(x)`, and no number for an infinity: PyTorch's rule for these functions, which have limits there.
fn finite(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.is_finite() { f(x) } else { f64::NAN }
}

fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        0.0
    } else if x == 0.0 {
        1.0
    } else {
        x.sin() / x
    }
}

/// A modified Bessel function of the second kind.
struct Order {
    /// For 0 < x <= 2.
    series: fn(f64) -> f64,
    /// Chebyshev coefficients of sqrt(x) exp(x) K(x) in 4 / x - 1.
    tail: &'static [f64],
}
const ORDER_0: Order = Order { series: k0_series, tail: &K0 };
const ORDER_1: Order = Order { series: k1_series, tail: &K1 };

/// K(x), times exp(x) if `scaled`.
fn bessel_k(order: &Order, x: f64, scaled: bool) -> f64 {
    if x == 0.0 {
        f64::INFINITY
    } else if !(x > 0.0) {
        f64::NAN
    } else if x <= 2.0 {
        let value = (order.series)(x);
        if scaled { value * x.exp() } else { value }
    } else {
        let value = chebyshev_series(order.tail, 4.0 / x - 1.0) / x.sqrt();
        // Half of the exponential at a time: it may vanish before the product does.
        if scaled { value } else { value * (-0.5 * x).exp() * (-0.5 * x).exp() }
    }
}

const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// K0(x) = sum over k of (x^2 / 4)^k / k!^2 (H(k) - gamma - log(x / 2)), H(k) = 1 + 1/2 + .. + 1/k (DLMF 10.31.2).
fn k0_series(x: f64) -> f64 {
    let z = 0.25 * x * x;
    let (mut weight, mut psi) = (1.0, -EULER_GAMMA - (x.ln() - LN_2));
    let mut sum = psi;
    for k in 1..20 {
        let k = f64::from(k);
        weight *= z / (k * k);
        psi += 1.0 / k;
        sum += weight * psi;
        if weight < f64::EPSILON * 1e-2 {
            break;
        }
    }
    sum
}

/// K1(x) = 1 / x + x / 2 sum over k of (x^2 / 4)^k / (k! (k + 1)!) (log(x / 2) + gamma - H(k) - 1 / (2 (k + 1)))
/// (DLMF 10.31.1).
fn k1_series(x: f64) -> f64 {
    let z = 0.25 * x * x;
    let (mut weight, mut psi) = (1.0, x.ln() - LN_2 + EULER_GAMMA);
    let mut sum = psi - 0.5;
    for k in 1..20 {
        let k = f64::from(k);
        weight *= z / (k * (k + 1.0));
        psi -= 1.0 / k;
        sum += weight * (psi - 0.5 / (k + 1.0));
        if weight < f64::EPSILON * 1e-2 {
            break;
        }
    }
    1.0 / x + 0.5 * x * sum
}

#[rustfmt::skip]
const K0: [f64; 23] = [
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802, 1.39498137188765e-05,
    -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11, 1.8559491149549264e-11,
    -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17,
];
#[rustfmt::skip]
const K1: [f64; 23] = [
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162, -1.936197974166083e-05,
    2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
    2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11,
    5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15, -6.057047270643018e-16,
    1.8380935752430455e-16, -5.689462849193648e-17,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 4e-15 * want.abs(), "got {got}, want {want}");
    }

    /// Values with 17 digits from 60-digit arithmetic, on both sides of the change of method.
    #[test]
    fn k_of_tables() {
        for (x, k0, k1) in [
            (1e-10, 23.14178244559887, 10000000000.0),
            (0.1, 2.4270690247020164, 9.853844780870606),
            (1.0, 0.42102443824070834, 0.6019072301972346),
            (1.9999, 0.11390786025689362, 0.13988426583169103),
            (2.0, 0.11389387274953344, 0.13986588181652243),
            (2.0001, 0.11387988708044136, 0.1398475004688114),
            (3.5, 0.01959889717036849, 0.022239392925923834),
            (10.0, 1.778006231616765e-05, 1.8648773453825585e-05),
            (50.0, 3.4101677497894956e-23, 3.4441022267175555e-23),
            (600.0, 1.3558285309948523e-262, 1.356957918112806e-262),
        ] {
            near(bessel_k(&ORDER_0, x, false), k0);
            near(bessel_k(&ORDER_1, x, false), k1);
        }
        near(bessel_k(&ORDER_0, 1e300, true), 1.253_314_137_315_500_3e-150);
    }

    #[test]
    fn ends_of_the_domain() {
        assert_eq!(bessel_k(&ORDER_0, 0.0, false), f64::INFINITY);
        assert_eq!(bessel_k(&ORDER_1, f64::INFINITY, true), 0.0);
        assert!(bessel_k(&ORDER_0, -1.0, true).is_nan());
        assert!(finite(f64::INFINITY, libm::j0).is_nan());
        assert_eq!(spherical_j0(f64::NEG_INFINITY), 0.0);
    }
}
