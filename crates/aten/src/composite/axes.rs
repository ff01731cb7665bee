//! Dimensions moved and exchanged: other names and forms of `permute` and `transpose`.

use tensor_core::strides::{Dims, show, wrap_dim};
use tensor_core::{Result, check};

use crate::{Tensor, ops};

/// The dimensions of a list, counted from the start; each at most once.
fn distinct(dims: &[i64], ndim: usize, what: &str) -> Result<Dims> {
    let wrapped = dims.iter().map(|&d| Ok(wrap_dim(d, ndim)? as i64)).collect::<Result<Dims>>()?;
    for (i, d) in wrapped.iter().enumerate() {
        check!(!wrapped[..i].contains(d), "movedim: repeated dim in `{what}` ({})", show(dims));
    }
    Ok(wrapped)
}

/// Dimensions moved to other places; the others keep their order.
pub fn movedim_intlist(self_: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    check!(
        source.len() == destination.len(),
        "movedim: Invalid source or destination dims: source ({} dims) should contain the same number of dims as \
         destination ({} dims)",
        show(source),
        show(destination)
    );
    let ndim = self_.dim();
    let (from, to) = (distinct(source, ndim, "source")?, distinct(destination, ndim, "destination")?);
    if ndim == 0 {
        return ops::alias(self_);
    }
    let mut rest = (0..ndim as i64).filter(|d| !from.contains(d));
    let mut order = Dims::new();
    for place in 0..ndim as i64 {
        let moved = to.iter().position(|&d| d == place).map(|i| from[i]);
        order.extend(moved.or_else(|| rest.next()));
    }
    ops::permute(self_, &order)
}

/// A dimension moved to another place.
pub fn movedim_int(self_: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    ops::movedim_intlist(self_, &[source], &[destination])
}

/// `movedim` under another name.
pub fn moveaxis_intlist(self_: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ops::movedim_intlist(self_, source, destination)
}

/// `movedim` under another name.
pub fn moveaxis_int(self_: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    ops::movedim_int(self_, source, destination)
}

/// `transpose` under another name.
pub fn swapaxes(self_: &Tensor, axis0: i64, axis1: i64) -> Result<Tensor> {
    ops::transpose_int(self_, axis0, axis1)
}

/// `transpose_` under another name.
pub fn swapaxes_(self_: &Tensor, axis0: i64, axis1: i64) -> Result<()> {
    ops::transpose_(self_, axis0, axis1).map(drop)
}

/// `transpose` under another name.
pub fn swapdims(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    ops::transpose_int(self_, dim0, dim1)
}

/// `transpose_` under another name.
pub fn swapdims_(self_: &Tensor, dim0: i64, dim1: i64) -> Result<()> {
    ops::transpose_(self_, dim0, dim1).map(drop)
}

/// All dimensions in reverse order.
pub fn numpy_t(self_: &Tensor) -> Result<Tensor> {
    let order: Dims = (0..self_.dim() as i64).rev().collect();
    ops::permute(self_, &order)
}

fn check_matrices(name: &str, x: &Tensor) -> Result<()> {
    check!(x.dim() != 1, "tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.");
    Ok(())
}

fn conj_transposed(x: &Tensor) -> Result<Tensor> {
    let transposed = ops::transpose_int(x, -2, -1)?;
    if x.is_complex() { ops::conj(&transposed) } else { Ok(transposed) }
}

/// The transpose of a matrix or of each one of a batch.
pub fn m_t(self_: &Tensor) -> Result<Tensor> {
    check_matrices("mT", self_)?;
    if self_.dim() == 0 { Ok(Tensor::clone(self_)) } else { ops::transpose_int(self_, -2, -1) }
}

/// The conjugate transpose of a matrix or of each one of a batch.
pub fn m_h(self_: &Tensor) -> Result<Tensor> {
    check_matrices("mH", self_)?;
    if self_.dim() == 0 { Ok(Tensor::clone(self_)) } else { conj_transposed(self_) }
}

/// The conjugate transpose of a matrix.
pub fn matrix_h(self_: &Tensor) -> Result<Tensor> {
    let ndim = self_.dim();
    check!(
        ndim == 0 || ndim == 2,
        "tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{}",
        if ndim > 2 { " For batches of matrices, consider using tensor.mH" } else { "" }
    );
    if ndim == 0 { Ok(Tensor::clone(self_)) } else { conj_transposed(self_) }
}

/// `mH` under another name.
pub fn adjoint(self_: &Tensor) -> Result<Tensor> {
    check_matrices("adjoint()", self_)?;
    if self_.dim() == 0 { Ok(Tensor::clone(self_)) } else { conj_transposed(self_) }
}
