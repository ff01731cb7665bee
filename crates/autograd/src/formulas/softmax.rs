//! Second derivatives of softmax and its logarithm.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

fn sum(x: &Tensor, dim: i64) -> Result<Tensor> {
    ops::sum_dim_int_list(x, Some(&[dim]), true, None)
}

/// Gradient of `(g - sum(g * y)) * y` with respect to y.
pub fn softmax_double_backward(grad: &Tensor, grad_output: &Tensor, dim: i64, output: &Tensor) -> Result<Tensor> {
    let through_product = ops::mul(&ops::sub(grad_output, &sum(&ops::mul(grad_output, output)?, dim)?, 1)?, grad)?;
    let through_sum = ops::mul(grad_output, &sum(&ops::mul(grad, output)?, dim)?)?;
    ops::sub(&through_product, &through_sum, 1)
}

/// Gradient of `g - exp(y) * sum(g)` with respect to g.
pub fn log_softmax_double_backward_grad(grad: &Tensor, output: &Tensor, dim: i64) -> Result<Tensor> {
    ops::sub(grad, &sum(&ops::mul(grad, &ops::exp(output)?)?, dim)?, 1)
}

/// Gradient of `g - exp(y) * sum(g)` with respect to y.
pub fn log_softmax_double_backward(grad: &Tensor, grad_output: &Tensor, dim: i64, output: &Tensor) -> Result<Tensor> {
    ops::neg(&ops::mul(&ops::mul(&sum(grad_output, dim)?, &ops::exp(output)?)?, grad)?)
}
