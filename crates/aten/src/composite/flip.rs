//! Elements moved around as a whole: rolled, mirrored, turned.

use smallvec::SmallVec;
use tensor_core::strides::wrap_dim;
use tensor_core::{MemoryFormat, Result, check, check_index};

use crate::{Tensor, ops};

/// Elements moved on along dimensions (all of them as one where none is named); those that fall off come in again.
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    if let (&[shift], &[dim]) = (shifts, dims) {
        return roll_one(self_, shift, dim);
    }
    check!(!shifts.is_empty(), "`shifts` required");
    if let (&[shift], []) = (shifts, dims) {
        let flat = ops::reshape(self_, &[-1])?;
        return ops::view(&roll_one(&flat, shift, 0)?, self_.sizes());
    }
    check!(
        shifts.len() == dims.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut rolled = Tensor::clone(self_);
    for (&shift, &dim) in shifts.iter().zip(dims) {
        rolled = roll_one(&rolled, shift, dim)?;
    }
    Ok(rolled)
}

fn roll_one(x: &Tensor, shift: i64, dim: i64) -> Result<Tensor> {
    if x.numel() == 0 {
        return ops::clone(x, Some(MemoryFormat::Preserve));
    }
    // Looked at again: another thread may have emptied it meanwhile.
    let size = x.size(dim)?;
    let start = shift.checked_neg().unwrap_or(0).checked_rem_euclid(size).unwrap_or(0);
    let head = ops::narrow(x, dim, start, size - start)?;
    let tail = ops::narrow(x, dim, 0, start)?;
    ops::cat(&[&head, &tail], dim)
}

/// A matrix (or more dimensions) mirrored left to right.
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    check!(self_.dim() >= 2, "Input must be >= 2-d.");
    ops::flip(self_, &[1])
}

/// A vector (or more dimensions) mirrored upside down.
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    check!(self_.dim() >= 1, "Input must be >= 1-d.");
    ops::flip(self_, &[0])
}

/// A plane of dimensions turned by `k` times 90 degrees.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let ndim = self_.dim() as i64;
    check!(dims.len() == 2, "expected total rotation dims == 2, but got dims = {}", dims.len());
    check!(ndim >= 2, "expected total dims >= 2, but got total dims = {ndim}");
    let (a, b) = (dims[0], dims[1]);
    check!(
        a != b && (a - b).abs() != ndim,
        "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
    );
    check_index!(a < ndim && a >= -ndim, "Rotation dim0 out of range, dim0 = {a}");
    check_index!(b < ndim && b >= -ndim, "Rotation dim1 out of range, dim1 = {b}");
    let wrapped: SmallVec<[i64; 2]> =
        dims.iter().map(|&d| Ok(wrap_dim(d, self_.dim())? as i64)).collect::<Result<_>>()?;
    match k.rem_euclid(4) {
        1 => ops::transpose_int(&ops::flip(self_, &[wrapped[1]])?, wrapped[0], wrapped[1]),
        2 => ops::flip(self_, &wrapped),
        3 => ops::transpose_int(&ops::flip(self_, &[wrapped[0]])?, wrapped[0], wrapped[1]),
        _ => ops::clone(self_, Some(MemoryFormat::Contiguous)),
    }
}
