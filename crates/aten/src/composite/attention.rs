//! Attention: the choice of the fused kernel, and the composition of products and a softmax that says what it computes.

use tensor_core::{DType, MemoryFormat, Result, bail, check};

use crate::native::attention::{additive_mask, is_fused};
use crate::{Tensor, ops};

fn check_inputs(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>) -> Result<()> {
    check!(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(),
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} \
         instead.",
        q.dtype().c_name(),
        k.dtype().c_name(),
        v.dtype().c_name()
    );
    check!(
        q.device() == k.device() && q.device() == v.device(),
        "Expected query, key, and value to have the same device type, but got query.device: {} key.device: {} and \
         value.device: {} instead.",
        q.device(),
        k.device(),
        v.device()
    );
    check!(
        q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and \
         value.dim: {} instead.",
        q.dim(),
        k.dim(),
        v.dim()
    );
    if let Some(mask) = mask {
        check!(
            matches!(mask.dtype(), DType::Bool | DType::F32) || mask.dtype() == q.dtype(),
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  \
             query.dtype: {} instead.",
            mask.dtype().c_name(),
            q.dtype().c_name()
        );
    }
    Ok(())
}

fn check_causal(mask: Option<&Tensor>, is_causal: bool) -> Result<()> {
    check!(
        mask.is_none() || !is_causal,
        "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    );
    Ok(())
}

/// `softmax(query @ key.t() * scale + attn_mask) @ value`.
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Tensor> {
    check_inputs(query, key, value, attn_mask)?;
    check_causal(attn_mask, is_causal)?;
    let mask = attn_mask.map(|mask| additive_mask(mask, query.dtype())).transpose()?;
    let mask = mask.as_ref();
    let fused = |query: &Tensor, key: &Tensor, value: &Tensor| {
        ops::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, mask, scale)
            .map(|(output, _)| output)
    };
    if is_fused(query, key, value, mask, dropout_p) {
        return fused(query, key, value);
    }
    let one_mask = mask.is_none_or(|mask| mask.sizes().iter().rev().skip(2).all(|&size| size == 1));
    if enable_gqa
        && one_mask
        && let Some([grouped, keys, values]) = in_groups(query, key, value)?
        && is_fused(&grouped, &keys, &values, mask, dropout_p)
    {
        return ops::reshape(&fused(&grouped, &keys, &values)?, query.sizes());
    }
    ops::_scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal, None, scale, enable_gqa)
        .map(|(output, _)| output)
}

/// Queries (b, h, l, d) as (b * g, h / g, l, d), and keys and values with g heads (b, g, s, d) as (b * g, h / g, s, d), one
/// for each group of queries' heads without a copy of it for each head; nothing unless g divides h.
fn in_groups(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Option<[Tensor; 3]>> {
    let (&[b, heads, l, d], &[kb, groups, s, kd]) = (query.sizes(), key.sizes()) else { return Ok(None) };
    let fits = kb == b && value.sizes().starts_with(&[b, groups, s]) && groups > 0 && heads % groups == 0 && d == kd;
    if !fits || value.dim() != 4 {
        return Ok(None);
    }
    let share = |x: &Tensor| -> Result<Tensor> {
        let one = ops::reshape(x, &[b * groups, 1, s, -1])?;
        ops::expand(&one, &[b * groups, heads / groups, s, -1], false)
    };
    if query.numel() == 0 || value.numel() == 0 || key.numel() == 0 {
        return Ok(None);
    }
    Ok(Some([ops::reshape(query, &[b * groups, heads / groups, l, d])?, share(key)?, share(value)?]))
}

/// Keys or values with as many heads as the queries: each of theirs serves several.
fn repeat_heads(x: &Tensor, heads: i64) -> Result<Tensor> {
    let own = x.size(-3)?;
    if own == heads {
        return Ok(x.clone());
    }
    check!(
        own > 0 && heads % own == 0,
        "The number of heads in key and value must divide the number of heads in query ({own} and {heads})"
    );
    let n = x.dim();
    let mut sizes = x.sizes().to_vec();
    sizes.insert(n - 2, heads / own);
    let repeated = ops::expand(&ops::unsqueeze(x, -3)?, &sizes, false)?;
    sizes.remove(n - 2);
    sizes[n - 3] = heads;
    ops::reshape(&repeated, &sizes)
}

/// Zeroes elements with probability `p` and scales up the others.
fn drop_some(x: &Tensor, p: f64, mask: Option<&Tensor>) -> Result<Tensor> {
    match mask {
        Some(mask) => {
            let kept = ops::masked_fill_scalar(x, &ops::logical_not(mask)?, 0.0)?;
            ops::mul_scalar(&kept, 1.0 / (1.0 - p))
        }
        None => ops::dropout(x, p, true),
    }
}

/// Attention as products and a softmax, and the weights of the softmax.
pub fn _scaled_dot_product_attention_math(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    dropout_mask: Option<&Tensor>,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<(Tensor, Tensor)> {
    check_inputs(query, key, value, attn_mask)?;
    check_causal(attn_mask, is_causal)?;
    let dtype = query.dtype();
    let half = matches!(dtype, DType::F16 | DType::BF16);
    let wide = |x: &Tensor| if half { ops::to_dtype(x, DType::F32, false, false, None) } else { Ok(x.clone()) };
    let (mut key, mut value) = (wide(key)?, wide(value)?);
    let scale = scale.unwrap_or_else(|| 1.0 / (query.sizes().last().copied().unwrap_or(1) as f64).sqrt());
    // Half of the factor on either side keeps products small.
    let root = scale.abs().sqrt();
    let query = ops::mul_scalar(&wide(query)?, if scale < 0.0 { -root } else { root })?;
    let causal = if is_causal {
        let sizes = [query.size(-2)?, key.size(-2)?];
        let seen = ops::tril(&ops::ones(&sizes, Some(DType::Bool), None, Some(query.device()), None)?, 0)?;
        Some(additive_mask(&seen, query.dtype())?)
    } else {
        None
    };
    if enable_gqa {
        let heads = query.size(-3)?;
        (key, value) = (repeat_heads(&key, heads)?, repeat_heads(&value, heads)?);
    }
    let keys = ops::mul_scalar(&ops::transpose_int(&key, -2, -1)?, root)?;
    let mut weights = ops::matmul(&query, &keys)?;
    if let Some(mask) = attn_mask.or(causal.as_ref()) {
        let mask = additive_mask(mask, query.dtype())?;
        ops::add_(&weights, &mask, 1)?;
    }
    weights = ops::_safe_softmax(&weights, -1, None)?;
    if dropout_p > 0.0 {
        weights = drop_some(&weights, dropout_p, dropout_mask)?;
    }
    let result = ops::matmul(&weights, &value)?;
    let narrow = |x: &Tensor| ops::to_dtype(x, dtype, false, false, None);
    Ok((narrow(&result)?, narrow(&weights)?))
}

/// `softmax` with zeros for rows of minus infinity alone.
pub fn _safe_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let result = ops::softmax_int(self_, dim, dtype)?;
    let hidden = ops::all_dim(&ops::eq_scalar(self_, f64::NEG_INFINITY)?, dim, true)?;
    ops::masked_fill_scalar(&result, &hidden, 0.0)
}

/// A mask as it broadcasts over `x` (batch, heads, l, s), by its kind: 0 for (l, s), 1 for (batch, s), 2 for the shape of `x`.
fn mask_of(x: &Tensor, mask: &Tensor, kind: Option<i64>) -> Result<Tensor> {
    check!(mask.dtype() == DType::Bool, "Mask should be a boolean tensor");
    let Some(kind) = kind else { bail!(Runtime, "Mask Type should be defined") };
    check!((0..=2).contains(&kind), "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
    let (of_x, of_mask) = (x.sizes(), mask.sizes());
    match (kind, of_x, of_mask) {
        (0, &[_, _, l, _], &[a, b]) => {
            check!(a == l && b == l, "For mask_type == 0 mask shape should be (L, L)");
            Ok(mask.clone())
        }
        (1, &[batch, _, l, _], &[a, b]) => {
            check!(a == batch && b == l, "For mask_type == 1 mask shape should be (B, L)");
            ops::view(&ops::contiguous(mask, MemoryFormat::Contiguous)?, &[batch, 1, 1, l])
        }
        _ => {
            check!(of_x == of_mask, "For mask_type == 2 mask shape should match input shape");
            Ok(mask.clone())
        }
    }
}

/// Softmax over the elements where `mask` does not hold; 0 elsewhere, no number where it holds along all of `dim`.
pub fn _masked_softmax(self_: &Tensor, mask: &Tensor, dim: Option<i64>, mask_type: Option<i64>) -> Result<Tensor> {
    let mask = mask_of(self_, mask, mask_type)?;
    let kept = ops::masked_fill_scalar(&ops::contiguous(self_, MemoryFormat::Contiguous)?, &mask, f64::NEG_INFINITY)?;
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    crate::composite::copy::copy_elements(&result, &ops::_softmax(&kept, dim.unwrap_or(-1), false)?)?;
    Ok(result)
}

/// Attention of several heads over (batch, length, features) with all projections; and the weights, if asked for, or their
/// means over the heads.
#[allow(clippy::too_many_arguments)]
pub fn _native_multi_head_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    embed_dim: i64,
    num_head: i64,
    qkv_weight: &Tensor,
    qkv_bias: &Tensor,
    proj_weight: &Tensor,
    proj_bias: &Tensor,
    mask: Option<&Tensor>,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: Option<i64>,
) -> Result<(Tensor, Tensor)> {
    for (name, x) in [("query", query), ("key", key), ("value", value)] {
        check!(x.dim() == 3, "expected 3-D `{name}`, got {}-D tensor", x.dim());
    }
    let &[batch, length, features] = query.sizes() else { bail!(Runtime, "expected 3-D `query`") };
    check!(features == embed_dim, "passed-in embed_dim {embed_dim} didn't match last dim of query {features}");
    let same = query.sizes() == key.sizes() && key.sizes() == value.sizes();
    check!(same, "expected `query`/`key`/`value` shapes to match");
    check!(qkv_weight.dim() == 2, "expected 2-D `qkv_weight`, got {}-D tensor", qkv_weight.dim());
    check!(qkv_weight.sizes()[0] == 3 * embed_dim, "expected `qkv_weight` first dim to be 3x embed_dim");
    check!(qkv_weight.sizes()[1] == embed_dim, "expected `qkv_weight` second dim to be embed_Dim");
    check!(qkv_bias.dim() == 1, "expected 1-D `qkv_bias`, got {}-D tensor", qkv_bias.dim());
    check!(qkv_bias.sizes()[0] == 3 * embed_dim, "expected `qkv_bias` first dim and first dim of query to be equal");
    check!(num_head > 0 && embed_dim % num_head == 0, "`embed_dim` must divide evenly by `num_heads`");
    let width = embed_dim / num_head;
    let heads = |x: &Tensor, i: i64| {
        let weight = ops::narrow(qkv_weight, 0, i * embed_dim, embed_dim)?;
        let bias = ops::narrow(qkv_bias, 0, i * embed_dim, embed_dim)?;
        let x = ops::linear(x, &weight, Some(&bias))?;
        ops::transpose_int(&ops::reshape(&x, &[batch, length, num_head, width])?, 1, 2)
    };
    let (q, k, v) = (heads(query, 0)?, heads(key, 1)?, heads(value, 2)?);
    let q = ops::mul_scalar(&q, 1.0 / (width as f64).sqrt())?;
    let scores = ops::matmul(&q, &ops::transpose_int(&k, -2, -1)?)?;
    let weights = match mask {
        Some(mask) => ops::_masked_softmax(&scores, mask, Some(3), mask_type)?,
        None => ops::_softmax(&scores, -1, false)?,
    };
    let joined = ops::reshape(&ops::transpose_int(&ops::matmul(&weights, &v)?, 1, 2)?, &[batch, length, embed_dim])?;
    let result = ops::linear(&joined, proj_weight, Some(proj_bias))?;
    let weights = if !need_weights {
        ops::empty_memory_format(&[0], Some(query.dtype()), None, Some(query.device()), None, None)?
    } else if average_attn_weights {
        ops::div_scalar(&ops::sum_dim_int_list(&weights, Some(&[1]), false, None)?, num_head)?
    } else {
        weights
    };
    Ok((result, weights))
}
