//! Special functions: Bessel and Airy functions, the scaled error function, orthogonal polynomials.
//!
//! Functions of one argument are series in f64, a call an element; polynomials are recurrences in the element type. Gamma
//! and its relatives, inverses of the error function, and entropies live in `pointwise/special.rs`.

mod airy;
mod bessel;
mod error;
mod polynomial;

pub use airy::*;
pub use bessel::*;
pub use error::*;
pub use polynomial::*;

use crate::simd::{Math, Real, RealFloating};

/// `f(x)` in f64, rounded to the element type.
#[inline(always)]
fn through<T: RealFloating>(x: T, f: impl Fn(f64) -> f64) -> T {
    T::down(Math::from_f64(f(Real::to_f64(x.up()))))
}

/// The sum of `coefficients[k] T_k(x)`, by Clenshaw's recurrence (DLMF 3.11.15).
fn chebyshev_series(coefficients: &[f64], x: f64) -> f64 {
    let (mut b, mut above) = (0.0, 0.0);
    for &c in coefficients.iter().skip(1).rev() {
        (b, above) = (2.0 * x * b - above + c, b);
    }
    x * b - above + coefficients.first().copied().unwrap_or_default()
}
