//! Linear algebra that is made of factorisations and products. The factorisations themselves are `native/linalg.rs`'s.

pub mod checks;
mod factors;
mod functions;
mod norms;
mod products;
mod solve;
mod spectra;

pub use checks::_linalg_check_errors;
pub use factors::*;
pub use functions::*;
pub use norms::*;
pub use products::*;
pub use solve::*;
pub use spectra::*;

use tensor_core::{MemoryFormat, Result, tls};

use crate::{Tensor, ops};

/// The conjugate transpose of a matrix or of each one of a batch.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    let turned = ops::transpose_int(x, -2, -1)?;
    if turned.is_complex() { ops::conj(&turned) } else { Ok(turned) }
}

/// Rows and columns of a tensor that was checked to have matrices.
fn shape(x: &Tensor) -> [i64; 2] {
    match *x.sizes() {
        [.., rows, cols] => [rows, cols],
        _ => [1, 1],
    }
}

/// All but the last `n` sizes.
fn without(sizes: &[i64], n: usize) -> &[i64] {
    &sizes[..sizes.len().saturating_sub(n)]
}

/// The matrix of ones on the diagonal, for each one of a batch.
fn identity(batch: &[i64], n: i64, like: &Tensor) -> Result<Tensor> {
    let eye = ops::eye(n, Some(like.dtype()), None, Some(like.device()), None)?;
    let sizes: Vec<i64> = batch.iter().copied().chain([n, n]).collect();
    ops::clone(&ops::expand(&eye, &sizes, false)?, Some(MemoryFormat::Contiguous))
}

/// A result that is not wanted.
fn nothing(like: &Tensor) -> Result<Tensor> {
    ops::new_empty(like, &[0], None, None, None, None)
}

/// True if a derivative of what is made of `x` may be asked for.
fn is_recorded(x: &Tensor) -> bool {
    x.requires_grad() && tls::grad_enabled()
}
