//! Derivatives of distances between rows.

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result};

use super::composed::through;

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

/// The share of each pair in the gradient of its first row: `grad * slope of |difference|_p`, for (.., M) differences and
/// (.., 1) gradients and distances.
fn shares(grad: &Tensor, difference: &Tensor, dist: &Tensor, p: f64) -> Result<Tensor> {
    let sign = ops::sgn(difference)?;
    if p == 0.0 {
        return ops::mul_scalar(&ops::mul(grad, difference)?, 0);
    }
    if p == 1.0 {
        return ops::mul(&sign, grad);
    }
    let apart = ops::abs(difference)?;
    if p.is_infinite() {
        let largest = ops::to_dtype(&ops::eq(&apart, dist)?, grad.dtype(), false, false, None)?;
        return ops::mul(&ops::mul(&sign, grad)?, &largest);
    }
    let none = ops::eq_scalar(dist, 0)?;
    let dist = ops::masked_fill_scalar(dist, &none, 1)?;
    let slope = if p == 2.0 {
        ops::div(difference, &dist)?
    } else {
        let zero = ops::eq_scalar(difference, 0)?;
        let power = ops::pow_tensor_scalar(&ops::masked_fill_scalar(&apart, &zero, 1)?, p - 1.0)?;
        let power = ops::masked_fill_scalar(&power, &zero, 0)?;
        ops::div(&ops::mul(&sign, &power)?, &ops::pow_tensor_scalar(&dist, p - 1.0)?)?
    };
    ops::masked_fill_scalar(&ops::mul(&slope, grad)?, &none, 0)
}

fn zeros_like(x: &Tensor) -> Result<Tensor> {
    ops::zeros_like(x, None, None, None, None, None)
}

/// Zeros for inputs that nothing depends on.
fn all<const N: usize>(inputs: [&Tensor; N], mut grads: [Option<Tensor>; N]) -> Result<[Option<Tensor>; N]> {
    for (grad, input) in grads.iter_mut().zip(inputs) {
        if grad.is_none() && input.requires_grad() {
            *grad = Some(zeros_like(input)?);
        }
    }
    Ok(grads)
}

type Four = (Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The gradients of the gradient of `cdist`: of its gradient, both inputs and the distances.
pub fn cdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    dist: &Tensor,
) -> Result<Four> {
    let compose = |[grad_output, x1, x2, dist]: [&Tensor; 4]| {
        let difference = ops::sub(&ops::unsqueeze(x1, -2)?, &ops::unsqueeze(x2, -3)?, 1)?;
        let pairs = shares(&ops::unsqueeze(grad_output, -1)?, &difference, &ops::unsqueeze(dist, -1)?, p)?;
        let sum = ops::sum_dim_int_list(&pairs, Some(&[-2]), false, None)?;
        Ok([Some(if sum.sizes() == grad.sizes() { sum } else { ops::sum_to_size(&sum, grad.sizes())? })])
    };
    let inputs = [grad_output, x1, x2, dist];
    let [a, b, c, d] = all(inputs, through(inputs, [Some(grad)], compose)?)?;
    Ok((a, b, c, d))
}

/// The gradients of the gradient of `pdist`: of its gradient, the rows and the distances.
pub fn pdist_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    p: f64,
    dist: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let compose = |[grad_output, x, dist]: [&Tensor; 3]| {
        let n = x.size(0)?;
        let pairs = || (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
        let index = |list: Vec<i64>| Tensor::from_slice(&list, &[list.len() as i64]);
        let first = index(pairs().map(|(i, _)| i).collect())?;
        let second = index(pairs().map(|(_, j)| j).collect())?;
        let difference = ops::sub(&ops::index_select(x, 0, &first)?, &ops::index_select(x, 0, &second)?, 1)?;
        let shares = shares(&ops::unsqueeze(grad_output, 1)?, &difference, &ops::unsqueeze(dist, 1)?, p)?;
        let sums = ops::index_add(&zeros_like(x)?, 0, &first, &shares, 1)?;
        Ok([Some(ops::index_add(&sums, 0, &second, &shares, -1)?)])
    };
    let inputs = [grad_output, x, dist];
    let [a, b, c] = all(inputs, through(inputs, [Some(grad)], compose)?)?;
    Ok((a, b, c))
}
