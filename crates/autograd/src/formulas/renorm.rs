//! Derivatives of scaled parts.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, Scalar};

/// The gradient of `renorm`: of `x * maxnorm / norm` for parts that were scaled.
pub fn renorm_backward(grad: &Tensor, x: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    let n = x.dim() as i64;
    let dim = if dim < 0 { dim + n } else { dim };
    let others: Vec<i64> = (0..n).filter(|&d| d != dim).collect();
    let norm = ops::linalg_vector_norm(x, p, Some(&others), true, None)?;
    let product = ops::mul(&super::conj(x)?, grad)?;
    let product = if product.is_complex() { ops::real(&product)? } else { product };
    let along = ops::sum_dim_int_list(&product, Some(&others), true, None)?;
    let slope = super::vector_norm_backward(&along, x, &norm, p, Some(&others), true)?;
    let inverse = ops::reciprocal(&ops::add_scalar(&norm, 1e-7, 1)?)?;
    let scaled = ops::sub(grad, &ops::mul(&inverse, &slope)?, 1)?;
    let scaled = ops::mul(&ops::mul_scalar(&inverse, maxnorm)?, &scaled)?;
    ops::where_self(&ops::gt_scalar(&norm, maxnorm)?, &scaled, grad)
}
