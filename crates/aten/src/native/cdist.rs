//! Distances between the rows of matrices, and among those of one: checks, shapes and the call of a kernel.

use tensor_core::strides;
use tensor_core::{MemoryFormat, Result, check};

use super::padding::check_scalar_type;
use crate::out::{Out, Spec, copy_into};
use crate::{Tensor, kernels, ops};

/// Refuses what has no distances.
pub(crate) fn check_rows(x1: &Tensor, x2: &Tensor, p: f64) -> Result<()> {
    for (name, x) in [("X1", x1), ("X2", x2)] {
        check!(x.dim() >= 2, "cdist only supports at least 2D tensors, {name} got: {}D", x.dim());
    }
    check!(
        x1.size(-1)? == x2.size(-1)?,
        "X1 and X2 must have the same number of columns. X1: {} X2: {}",
        x1.size(-1)?,
        x2.size(-1)?
    );
    for (name, x) in [("X1", x1), ("X2", x2)] {
        check!(
            x.is_floating_point(),
            "cdist only supports floating-point dtypes, {name} got: {}",
            x.dtype().cpp_name()
        );
    }
    check!(p >= 0.0, "cdist only supports non-negative p values");
    Ok(())
}

/// True where distances are made from products of matrices.
pub(crate) fn by_products(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<bool> {
    let mode = compute_mode.unwrap_or(0);
    check!((0..=2).contains(&mode), "possible modes: 0, 1, 2, but was: {mode}");
    Ok(p == 2.0 && (mode == 1 || (mode == 0 && (x1.size(-2)? > 25 || x2.size(-2)? > 25))))
}

/// Leading dimensions and those of a matrix, from one look.
fn split(x: &Tensor) -> Result<(&[i64], &[i64])> {
    let sizes = x.sizes();
    check!(sizes.len() >= 2, "a tensor's metadata was changed by another thread during an operation");
    Ok(sizes.split_at(sizes.len() - 2))
}

/// Both inputs as contiguous (B, P, M) and (B, R, M), and the shape of their leading dimensions.
pub(crate) fn batched(x1: &Tensor, x2: &Tensor) -> Result<(Tensor, Tensor, Vec<i64>)> {
    let (left, right) = (split(x1)?, split(x2)?);
    let lead = strides::broadcast(left.0, right.0)?.to_vec();
    let batch: i64 = lead.iter().product();
    let wide = |x: &Tensor, matrix: &[i64]| {
        let x = ops::expand(x, &[&lead, matrix].concat(), false)?;
        let x = ops::contiguous(&x, MemoryFormat::Contiguous)?;
        ops::view(&x, &[batch, matrix[0], matrix[1]])
    };
    Ok((wide(x1, left.1)?, wide(x2, right.1)?, lead))
}

/// The distances (.., P, R) of the rows of (.., P, M) and (.., R, M).
pub fn _cdist_forward(out: Out<'_>, x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    check_rows(x1, x2, p)?;
    let products = by_products(x1, x2, p, compute_mode)?;
    let (a, b, lead) = batched(x1, x2)?;
    let (rows, others, columns) = (a.sizes()[1], b.sizes()[1], a.sizes()[2]);
    let sizes = [&lead[..], &[rows, others]].concat();
    if products && columns > 0 && sizes.iter().all(|&size| size > 0) && !x1.is_meta() {
        check_scalar_type(x1.dtype(), x2.dtype())?;
        let result = ops::view(&ops::_euclidean_dist(&a, &b)?, &sizes)?;
        let Some(target) = out.target(0) else { return Ok(result) };
        copy_into(target, &result)?;
        return Ok(target.clone());
    }
    let kernel = if x1.is_meta() { None } else { Some(kernels::cdist(x1.device())?.cdist.get(x1.dtype(), "cdist")?) };
    check_scalar_type(x1.dtype(), x2.dtype())?;
    let slot = out.prepare(0, Spec::like(&sizes, x1), &[x1, x2])?;
    if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
        kernel(&slot.tensor, &a, &b, p)?;
    }
    slot.finish()
}

/// Gradient of [`_cdist_forward`] with respect to `x1`, like it in the shape that the batches have together.
pub fn _cdist_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    cdist: &Tensor,
) -> Result<Tensor> {
    check_rows(x1, x2, p)?;
    let (a, b, lead) = batched(x1, x2)?;
    let (rows, others, columns) = (a.sizes()[1], b.sizes()[1], a.sizes()[2]);
    let pairs = [&lead[..], &[rows, others]].concat();
    let kernel = match x1.is_meta() {
        true => None,
        false => Some(kernels::cdist(x1.device())?.cdist_backward.get(x1.dtype(), "cdist_backward")?),
    };
    for x in [grad_output, x2, cdist] {
        check_scalar_type(x1.dtype(), x.dtype())?;
    }
    let wide = |x: &Tensor| ops::contiguous(&ops::expand(x, &pairs, false)?, MemoryFormat::Contiguous);
    let (grad, dist) = (wide(grad_output)?, wide(cdist)?);
    let mut sizes = [&lead[..], &[rows, columns]].concat();
    if sizes.contains(&0) || others == 0 {
        sizes = x1.sizes().to_vec();
    }
    let slot = out.prepare(0, Spec::like(&sizes, x1), &[grad_output, x1, x2, cdist])?;
    if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
        if pairs.contains(&0) {
            ops::zero_(&slot.tensor)?;
        } else {
            kernel(&slot.tensor, [&grad, &a, &b, &dist], p)?;
        }
    }
    slot.finish()
}

/// The distances of the rows of `self` (N, M) to those after them: N (N - 1) / 2.
pub fn _pdist_forward(out: Out<'_>, self_: &Tensor, p: f64) -> Result<Tensor> {
    check!(self_.is_contiguous(), "_pdist_forward requires contiguous input");
    let n = self_.size(0)?;
    let pairs = if n <= 1 { 0 } else { n.saturating_mul(n - 1) / 2 };
    let kernel =
        if self_.is_meta() { None } else { Some(kernels::cdist(self_.device())?.pdist.get(self_.dtype(), "pdist")?) };
    let slot = out.prepare(0, Spec::like(&[pairs], self_), &[self_])?;
    if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
        let rows = ops::view(self_, &[n, self_.numel() / n])?;
        kernel(&slot.tensor, &rows, p)?;
    }
    slot.finish()
}

/// Gradient of [`_pdist_forward`].
pub fn _pdist_backward(out: Out<'_>, grad_output: &Tensor, self_: &Tensor, p: f64, pdist: &Tensor) -> Result<Tensor> {
    check!(self_.is_contiguous(), "_pdist_backward requires self to be contiguous");
    check!(pdist.is_contiguous(), "_pdist_backward requires pdist to be contiguous");
    let n = self_.size(0)?;
    let kernel = match self_.is_meta() {
        true => None,
        false => Some(kernels::cdist(self_.device())?.pdist_backward.get(self_.dtype(), "pdist_backward")?),
    };
    for x in [grad_output, pdist] {
        check_scalar_type(self_.dtype(), x.dtype())?;
    }
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), &[grad_output, self_, pdist])?;
    if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
        let pairs = n.saturating_mul(n - 1) / 2;
        check!(
            grad_output.numel() == pairs && pdist.numel() == pairs,
            "_pdist_backward: expected {pairs} gradients and distances, got {} and {}",
            grad_output.numel(),
            pdist.numel()
        );
        let grad = ops::contiguous(grad_output, MemoryFormat::Contiguous)?;
        let sizes = [n, self_.numel() / n];
        kernel(&ops::view(&slot.tensor, &sizes)?, [&grad, &ops::view(self_, &sizes)?, pdist], p)?;
    }
    slot.finish()
}
