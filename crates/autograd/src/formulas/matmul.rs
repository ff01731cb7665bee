//! Gradients of matrix products.

use tensor_aten::{Tensor, ops};
use tensor_core::{Complex, Result, Scalar};

/// `grad * factor`, without a product where the factor is 1.
pub fn maybe_multiply(grad: &Tensor, factor: Scalar) -> Result<Tensor> {
    if factor.to_complex() == Complex::new(1.0, 0.0) { Ok(grad.clone()) } else { ops::mul_scalar(grad, factor) }
}

/// The gradient of a sum over a batch, for each of its `count` matrices.
pub fn addbmm_grad(grad: &Tensor, count: i64) -> Result<Tensor> {
    let sizes: Vec<i64> = [count].iter().chain(grad.sizes()).copied().collect();
    ops::expand(&ops::unsqueeze(grad, 0)?, &sizes, false)
}
