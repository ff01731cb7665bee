//! Derivatives of linear algebra, as vector-Jacobian products of dispatched operators. X^H is the conjugate transpose; for
//! complex inputs all gradients are conjugate Wirtinger derivatives.

mod factors;
mod solve;
mod spectra;

pub use factors::*;
pub use solve::*;
pub use spectra::*;

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// `x^H`
fn adjoint(x: &Tensor) -> Result<Tensor> {
    let turned = ops::transpose_int(x, -2, -1)?;
    if turned.is_complex() { ops::conj(&turned) } else { Ok(turned) }
}

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, 1)
}

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, 1)
}

/// `a + b` of parts that may be absent.
fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some(add(&a, &b)?)),
        (a, b) => Ok(a.or(b)),
    }
}

fn diagonal(x: &Tensor) -> Result<Tensor> {
    ops::diagonal(x, 0, -2, -1)
}

/// A matrix with these diagonals.
fn on_diagonal(x: &Tensor) -> Result<Tensor> {
    ops::diag_embed(x, 0, -2, -1)
}

/// `x` with half its diagonal.
fn half_diagonal(x: &Tensor) -> Result<Tensor> {
    let half = ops::mul_scalar(&on_diagonal(&diagonal(x)?)?, 0.5)?;
    sub(x, &half)
}

/// Rows and columns.
fn shape(x: &Tensor) -> Result<[i64; 2]> {
    Ok([x.size(-2)?, x.size(-1)?])
}

/// Nothing flows back.
fn zeros(like: &Tensor) -> Result<Tensor> {
    ops::zeros_like(like, None, None, None, None, None)
}
