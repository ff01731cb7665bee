//! Gradients of attention.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, tls};

/// Gradients of fused attention with respect to query, key and value: those of the kernel, or, where they will be
/// differentiated again, a composition of operators.
#[allow(clippy::too_many_arguments)]
pub fn attention_grads(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    output: &Tensor,
    logsumexp: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    if tls::grad_enabled() {
        return composed(grad, query, key, value, is_causal, mask, scale);
    }
    ops::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, output, logsumexp, dropout_p, is_causal, mask, scale,
    )
}

/// `p = softmax(scale * q @ k.t() + mask)`, `dv = p.t() @ g`, `ds = p * (dp - sum(dp * p))` with `dp = g @ v.t()`,
/// `dq = scale * ds @ k`, `dk = scale * ds.t() @ q`.
fn composed(
    grad: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    is_causal: bool,
    mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let turned = |x: &Tensor| ops::transpose_int(x, -2, -1);
    let scale = scale.unwrap_or_else(|| 1.0 / (query.sizes().last().copied().unwrap_or(1) as f64).sqrt());
    let mut scores = ops::mul_scalar(&ops::matmul(query, &turned(key)?)?, scale)?;
    if let Some(mask) = mask {
        scores = ops::add(&scores, mask, 1)?;
    }
    if is_causal {
        let sizes = [query.size(-2)?, key.size(-2)?];
        let seen = ops::tril(&ops::ones(&sizes, Some(DType::Bool), None, Some(query.device()), None)?, 0)?;
        scores = ops::masked_fill_scalar(&scores, &ops::logical_not(&seen)?, f64::NEG_INFINITY)?;
    }
    let p = ops::_safe_softmax(&scores, -1, None)?;
    let dp = ops::matmul(grad, &turned(value)?)?;
    let dots = ops::sum_dim_int_list(&ops::mul(&dp, &p)?, Some(&[-1]), true, None)?;
    let ds = ops::mul_scalar(&ops::mul(&p, &ops::sub(&dp, &dots, 1)?)?, scale)?;
    Ok((ops::matmul(&ds, key)?, ops::matmul(&turned(&ds)?, query)?, ops::matmul(&turned(&p)?, grad)?))
}

/// Gradient of `_masked_softmax`: that of a softmax, as masked results are 0.
pub fn masked_softmax_grad(grad: &Tensor, result: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    ops::_softmax_backward_data(grad, result, dim.unwrap_or(-1), result.dtype())
}
