//! Derivatives of distances between rows.

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result};

fn dense(x: &Tensor) -> Result<Tensor> {
    ops::contiguous(x, MemoryFormat::Contiguous)
}

/// The gradient of `cdist` with respect to its second input: that of the first, turned around.
pub fn cdist_backward_second(grad: &Tensor, x1: &Tensor, x2: &Tensor, p: f64, dist: &Tensor) -> Result<Tensor> {
    let turned = |x: &Tensor| dense(&ops::transpose_int(x, -1, -2)?);
    ops::_cdist_backward(&turned(grad)?, x2, x1, p, &turned(dist)?)
}

/// The gradients of 2-distances with respect to both inputs; none where a distance is 0.
pub fn euclidean_dist_backward(
    grad: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    dist: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let ratio = ops::masked_fill_scalar(&ops::div(grad, dist)?, &ops::eq_scalar(dist, 0)?, 0)?;
    let sum = |d: i64| ops::sum_dim_int_list(&ratio, Some(&[d]), true, None);
    let turned = ops::transpose_int(&ratio, -1, -2)?;
    let first = ops::sub(&ops::mul(x1, &sum(-1)?)?, &ops::matmul(&ratio, x2)?, 1)?;
    let second = ops::mul(x2, &ops::transpose_int(&sum(-2)?, -1, -2)?)?;
    let second = ops::sub(&second, &ops::matmul(&turned, x1)?, 1)?;
    Ok((Some(first), Some(second)))
}
