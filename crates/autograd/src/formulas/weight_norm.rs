//! Gradients of weights as lengths and directions.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// Gradients of `_weight_norm_interface` for `v` and `g`, from that of its first result.
pub fn weight_norm_backward(
    grad: &Tensor,
    v: &Tensor,
    g: &Tensor,
    norms: &Tensor,
    dim: i64,
) -> Result<(Tensor, Tensor)> {
    let over: Vec<i64> = (0..v.dim() as i64).filter(|&d| d != dim).collect();
    let product = ops::mul(grad, v)?;
    let sums = if over.is_empty() { product } else { ops::sum_dim_int_list(&product, Some(&over), true, None)? };
    let along = ops::mul(v, &ops::div(&sums, &ops::mul(norms, norms)?)?)?;
    let grad_v = ops::mul(&ops::div(g, norms)?, &ops::sub(grad, &along, 1)?)?;
    Ok((grad_v, ops::div(&sums, norms)?))
}
