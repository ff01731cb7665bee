//! Orthogonal polynomials in x, of degree n: recurrences upwards in n (DLMF 18.9), in the element type.
//!
//! The degree is an element too: its integer part counts, and polynomials of negative degree, or of one that is no number,
//! are 0. A recurrence that overflows ends as no number, as PyTorch's does.

use crate::elementwise;
use crate::simd::{Arith, Math, Real, RealFloating, RealMath};

elementwise! {
    /// The Chebyshev polynomial of the first kind.
    pub fn chebyshev_polynomial_t<T: RealFloating>(x: T, n: T) -> T { chebyshev(&FIRST, x.up(), n) }
    /// The Chebyshev polynomial of the second kind.
    pub fn chebyshev_polynomial_u<T: RealFloating>(x: T, n: T) -> T { chebyshev(&SECOND, x.up(), n) }
    /// The Chebyshev polynomial of the third kind.
    pub fn chebyshev_polynomial_v<T: RealFloating>(x: T, n: T) -> T { chebyshev(&THIRD, x.up(), n) }
    /// The Chebyshev polynomial of the fourth kind.
    pub fn chebyshev_polynomial_w<T: RealFloating>(x: T, n: T) -> T { chebyshev(&FOURTH, x.up(), n) }
    /// The Chebyshev polynomial of the first kind in 2 x - 1.
    pub fn shifted_chebyshev_polynomial_t<T: RealFloating>(x: T, n: T) -> T { chebyshev(&FIRST, shifted(x.up()), n) }
    /// The Chebyshev polynomial of the second kind in 2 x - 1.
    pub fn shifted_chebyshev_polynomial_u<T: RealFloating>(x: T, n: T) -> T { chebyshev(&SECOND, shifted(x.up()), n) }
    /// The Chebyshev polynomial of the third kind in 2 x - 1.
    pub fn shifted_chebyshev_polynomial_v<T: RealFloating>(x: T, n: T) -> T { chebyshev(&THIRD, shifted(x.up()), n) }
    /// The Chebyshev polynomial of the fourth kind in 2 x - 1.
    pub fn shifted_chebyshev_polynomial_w<T: RealFloating>(x: T, n: T) -> T { chebyshev(&FOURTH, shifted(x.up()), n) }

    /// The physicists' Hermite polynomial: H(k+1) = 2 (x H(k) - k H(k-1)).
    pub fn hermite_polynomial_h<T: RealFloating>(x: T, n: T) -> T {
        let x = x.up();
        upwards(n, twice(x), |_| None, |k, before, now| twice(x.mul(now).sub(k.mul(before))))
    }
    /// The probabilists' Hermite polynomial: He(k+1) = x He(k) - k He(k-1).
    pub fn hermite_polynomial_he<T: RealFloating>(x: T, n: T) -> T {
        let x = x.up();
        upwards(n, x, |_| None, |k, before, now| x.mul(now).sub(k.mul(before)))
    }
    /// The Laguerre polynomial: (k + 1) L(k+1) = (2 k + 1 - x) L(k) - k L(k-1).
    pub fn laguerre_polynomial_l<T: RealFloating>(x: T, n: T) -> T {
        let (x, one): (_, T::Op) = (x.up(), Arith::ONE);
        let at_zero = |_| (x == Arith::ZERO).then_some(1.0);
        upwards(n, one.sub(x), at_zero, |k, before, now| {
            twice(k).add(one.sub(x)).mul(now).sub(k.mul(before)).div(k.add(one))
        })
    }
    /// The Legendre polynomial: (k + 1) P(k+1) = (2 k + 1) x P(k) - k P(k-1).
    pub fn legendre_polynomial_p<T: RealFloating>(x: T, n: T) -> T {
        let (x, one): (_, T::Op) = (x.up(), Arith::ONE);
        let at_ends = |n| (x.abs() == one).then(|| if x > Arith::ZERO { 1.0 } else { sign(n) });
        upwards(n, x, at_ends, |k, before, now| {
            twice(k).add(one).mul(x).mul(now).sub(k.mul(before)).div(k.add(one))
        })
    }
}

#[inline(always)]
fn twice<P: Arith>(x: P) -> P {
    x.add(x)
}

/// The unit interval to that from -1 to 1.
#[inline(always)]
fn shifted<P: Arith>(x: P) -> P {
    twice(x).sub(P::ONE)
}

/// -1 to the n.
fn sign(n: u64) -> f64 {
    if n.is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// The polynomial of degree n: 1 for 0, `first` for 1, then `next(k, p(k-1), p(k))`; unless `closed(n)` has the value.
#[inline(always)]
fn upwards<T: RealFloating>(
    n: T,
    first: T::Op,
    closed: impl Fn(u64) -> Option<f64>,
    next: impl Fn(T::Op, T::Op, T::Op) -> T::Op,
) -> T {
    let n = Real::to_f64(n.up());
    if !(n > -1.0 && n < i64::MAX as f64) {
        return T::down(Arith::ZERO);
    }
    let n = n as u64;
    if n == 0 {
        return T::down(Arith::ONE);
    }
    if let Some(value) = closed(n) {
        return T::down(Math::from_f64(value));
    }
    let (mut before, mut now): (T::Op, _) = (Arith::ONE, first);
    for k in 1..n {
        if Arith::is_nan(now) {
            break;
        }
        (before, now) = (now, next(Math::from_f64(k as f64), before, now));
    }
    T::down(now)
}

/// What tells the four kinds of Chebyshev polynomials apart; all have p(k+1) = 2 x p(k) - p(k-1).
struct Chebyshev {
    /// The polynomial of degree 1 is `slope x + offset`.
    slope: f64,
    offset: f64,
    /// The value of degree n at 1, and its magnitude at -1.
    ends: fn(f64) -> (f64, f64),
    /// The value of degree n at the cosine of an angle (DLMF 18.5).
    at_angle: fn(f64, f64) -> f64,
}
const FIRST: Chebyshev =
    Chebyshev { slope: 1.0, offset: 0.0, ends: |_| (1.0, 1.0), at_angle: |n, angle| (n * angle).cos() };
const SECOND: Chebyshev = Chebyshev {
    slope: 2.0,
    offset: 0.0,
    ends: |n| (n + 1.0, n + 1.0),
    at_angle: |n, angle| ((n + 1.0) * angle).sin() / angle.sin(),
};
const THIRD: Chebyshev = Chebyshev {
    slope: 2.0,
    offset: -1.0,
    ends: |n| (1.0, 2.0 * n + 1.0),
    at_angle: |n, angle| ((n + 0.5) * angle).cos() / (0.5 * angle).cos(),
};
const FOURTH: Chebyshev = Chebyshev {
    slope: 2.0,
    offset: 1.0,
    ends: |n| (2.0 * n + 1.0, 1.0),
    at_angle: |n, angle| ((n + 0.5) * angle).sin() / (0.5 * angle).sin(),
};

/// From this degree on, angles replace the recurrence.
const MANY: u64 = 9;

#[inline(always)]
fn chebyshev<T: RealFloating>(kind: &Chebyshev, x: T::Op, n: T) -> T {
    let closed = |n: u64| {
        let (x, degree) = (Real::to_f64(x), n as f64);
        if x.abs() == 1.0 {
            let (one, minus_one) = (kind.ends)(degree);
            Some(if x > 0.0 { one } else { sign(n) * minus_one })
        } else if x.abs() < 1.0 && n >= MANY {
            Some((kind.at_angle)(degree, x.acos()))
        } else {
            None
        }
    };
    let first = x.mul(Math::from_f64(kind.slope)).add(Math::from_f64(kind.offset));
    upwards(n, first, closed, |_, before, now| twice(x).mul(now).sub(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The angles continue the recurrence.
    #[test]
    fn angles_and_recurrences_agree() {
        for kind in [&FIRST, &SECOND, &THIRD, &FOURTH] {
            for i in -19..20 {
                let x = f64::from(i) / 20.0;
                let degree = |n: u64| chebyshev::<f64>(kind, x, n as f64);
                for n in MANY - 2..MANY + 3 {
                    let stepped = 2.0 * x * degree(n + 1) - degree(n);
                    assert!((degree(n + 2) - stepped).abs() < 1e-12, "degree {n} at {x}");
                }
            }
        }
    }

    /// PyTorch's values at the ends, at odd degrees and where the recurrence overflows.
    #[test]
    fn edges() {
        let first = |x: f64, n: f64| chebyshev::<f64>(&FIRST, x, n);
        assert_eq!(first(0.3, -5.0), 0.0);
        assert_eq!(first(0.3, -0.5), 1.0);
        assert_eq!(first(0.3, 1.9), 0.3);
        assert_eq!(first(f64::NAN, f64::NAN), 0.0);
        assert_eq!(first(f64::NAN, 0.0), 1.0);
        assert_eq!(first(0.3, 1e20), 0.0);
        assert_eq!(first(-1.0, 1e10), 1.0);
        assert!(first(2.0, 1000.0).is_nan());
        assert_eq!(first(2.0, 5.0), 362.0);
        assert_eq!(chebyshev::<f64>(&FOURTH, 1.0, 1000.0), 2001.0);
        assert_eq!(chebyshev::<f64>(&THIRD, -1.0, 7.0), -15.0);
    }
}
