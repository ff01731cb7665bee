//! The lower and upper triangles of matrices.

use tensor_core::{Result, check};

use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

fn triangle(out: Out<'_>, name: &str, x: &Tensor, diagonal: i64, upper: bool) -> Result<Tensor> {
    let x = &x.pinned();
    check!(x.dim() >= 2, "{name}: input tensor must have at least 2 dimensions");
    let slot = out.prepare(0, Spec::like(x.sizes(), x), &[x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        kernels::triangular(x.device())?.triangle.get(x.dtype(), name)?(&slot.tensor, x, diagonal, upper)?;
    }
    slot.finish()
}

/// The elements on and below a diagonal of each matrix; zeros elsewhere.
pub fn tril(out: Out<'_>, self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(out, "tril", self_, diagonal, false)
}

/// The elements on and above a diagonal of each matrix; zeros elsewhere.
pub fn triu(out: Out<'_>, self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(out, "triu", self_, diagonal, true)
}
