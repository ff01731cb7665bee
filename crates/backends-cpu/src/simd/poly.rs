//! Polynomials with constant coefficients. They were fitted to the functions named beside them by Remez exchange, in relative
//! error of the function, and rounded to the type.

use num_traits::Float;

use crate::isa::Isa;

/// `c[0] + c[1] x + c[2] x^2 + ..` by Horner's rule.
#[inline(always)]
pub(super) fn poly<I: Isa, T: Float, const N: usize>(x: T, c: [T; N]) -> T {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = I::mul_add(sum, x, c[i]);
    }
    sum
}

/// [`poly`] with the coefficients for f32's precision where `LOW`.
#[inline(always)]
pub(super) fn poly_of<I: Isa, const LOW: bool, const N: usize, const M: usize>(
    x: f64,
    full: [f64; N],
    low: [f64; M],
) -> f64 {
    if LOW { poly::<I, f64, M>(x, low) } else { poly::<I, f64, N>(x, full) }
}
