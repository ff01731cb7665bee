//! Fused attention: checks, outputs and the call of its kernel.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, MemoryFormat, Result, check};

use crate::composite::view;
use crate::kernels::{self, Attention};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

const NAME: &str = "_scaled_dot_product_flash_attention_for_cpu";

/// What halves are computed in.
fn compute_dtype(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::to_dtype(x, dtype, false, false, None)
}

/// In the dtype of the computation, the elements of a head side by side.
fn heads(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let x = cast(x, dtype)?;
    let m = x.as_impl().metadata();
    let side_by_side =
        matches!((m.sizes.last(), m.strides.last()), (Some(&size), Some(&stride)) if size <= 1 || stride == 1);
    if side_by_side { Ok(x) } else { ops::contiguous(&x, MemoryFormat::Contiguous) }
}

fn check_inputs(q: &Tensor, k: &Tensor, v: &Tensor, dropout_p: f64, mask: Option<&Tensor>) -> Result<()> {
    let dtype = q.dtype();
    check!(
        dtype.is_floating_point(),
        "{NAME}: Expected data type in FP32, FP64, BF16, FP16, but got {} instead.",
        dtype.c_name()
    );
    check!(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "{NAME}: Accept only 4 dims inputs shape of {{B, H, T, K}}");
    check!(dropout_p == 0.0, "{NAME}: Currently do not support dropout > 0");
    let (qs, ks, vs) = (q.sizes(), k.sizes(), v.sizes());
    check!(qs[3] == vs[3] && ks[3] == vs[3], "{NAME}: Q/K/V should have the same head size");
    check!(
        qs[..2] == ks[..2] && ks[..3] == vs[..3] && dtype == k.dtype() && dtype == v.dtype(),
        "{NAME}: Q/K/V should have the same batch, heads and dtype"
    );
    if let Some(mask) = mask {
        check!(
            mask.dtype() == dtype || mask.dtype() == DType::F32,
            "{NAME}: Attention mask is the same data type as query"
        );
        check!(mask.dim() == 2 || mask.dim() == 4, "{NAME}: Attention mask dim in {{2, 4}}");
    }
    Ok(())
}

/// The factor of the products: one over the root of the head size, unless it is given.
fn scale_of(q: &Tensor, scale: Option<f64>) -> f64 {
    scale.unwrap_or_else(|| 1.0 / (q.sizes().last().copied().unwrap_or(1) as f64).sqrt())
}

/// The mask in the dtype of the computation, broadcast to the products.
fn wide_mask(mask: Option<&Tensor>, q: &Tensor, k: &Tensor, dtype: DType) -> Result<Option<Tensor>> {
    let Some(mask) = mask else { return Ok(None) };
    let sizes = [q.sizes()[0], q.sizes()[1], q.sizes()[2], k.sizes()[2]];
    view::expand(&cast(mask, dtype)?, &sizes, false).map(Some)
}

/// Attention and the logarithms of its softmax's divisors.
pub fn _scaled_dot_product_flash_attention_for_cpu(
    out: Out<'_>,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    check_inputs(query, key, value, dropout_p, attn_mask)?;
    let (sizes, dtype) = (query.sizes(), compute_dtype(query.dtype()));
    let [b, h, l] = [sizes[0], sizes[1], sizes[2]];
    let own_strides = strides::dense_like(sizes, query.strides());
    let inputs = [query, key, value];
    let spec = Spec { strides: Some(own_strides), ..Spec::like(sizes, query) };
    let output = out.prepare(0, spec, &inputs)?;
    let spec =
        Spec { strides: Some(Dims::from_slice(&[l * h, 1, h])), ..Spec::dense(&[b, h, l], dtype, query.device()) };
    let logsumexp = out.prepare(1, spec, &inputs)?;
    if !output.is_meta() && output.tensor.numel() > 0 {
        let kernel = kernels::attention(query.device())?.attention.get(dtype, "flash_attention")?;
        let mask = wide_mask(attn_mask, query, key, dtype)?;
        let attention =
            Attention { mask: mask.as_ref(), causal: is_causal, scale: scale_of(query, scale), weights: query.dtype() };
        let (q, k, v) = (heads(query, dtype)?, heads(key, dtype)?, heads(value, dtype)?);
        if dtype == query.dtype() {
            kernel(&output.tensor, &logsumexp.tensor, &q, &k, &v, attention)?;
        } else {
            let wide = Tensor::new_dense(sizes, dtype, query.device())?;
            kernel(&wide, &logsumexp.tensor, &q, &k, &v, attention)?;
            super::matmul::write(&output.tensor, &wide)?;
        }
    }
    Ok((output.finish()?, logsumexp.finish()?))
}

/// Gradients of attention with respect to query, key and value.
pub fn _scaled_dot_product_flash_attention_for_cpu_backward(
    out: Out<'_>,
    grad_out: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    result: &Tensor,
    logsumexp: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_inputs(query, key, value, dropout_p, attn_mask)?;
    check!(
        grad_out.sizes() == query.sizes() && result.sizes() == query.sizes(),
        "{NAME}_backward: grad_out and out should have the shape of query"
    );
    check!(
        logsumexp.sizes() == &query.sizes()[..3],
        "{NAME}_backward: logsumexp should have the shape of query but for the last dimension"
    );
    let dtype = compute_dtype(query.dtype());
    let inputs = [grad_out, query, key, value, result, logsumexp];
    // As the inputs lie: what they are views of gets its gradient without a copy.
    let spec = |like: &Tensor| {
        let strides = strides::dense_like(like.sizes(), like.strides());
        Spec { strides: Some(strides), ..Spec::like(like.sizes(), like) }
    };
    let slots = [
        out.prepare(0, spec(query), &inputs)?,
        out.prepare(1, spec(key), &inputs)?,
        out.prepare(2, spec(value), &inputs)?,
    ];
    if !slots[0].is_meta() && query.numel() > 0 && key.numel() > 0 {
        let kernel = kernels::attention(query.device())?.attention_backward.get(dtype, "flash_attention_backward")?;
        let mask = wide_mask(attn_mask, query, key, dtype)?;
        let attention =
            Attention { mask: mask.as_ref(), causal: is_causal, scale: scale_of(query, scale), weights: query.dtype() };
        let [g, q, k, v, o, lse] = inputs;
        let [g, q, k, v, o] =
            [heads(g, dtype)?, heads(q, dtype)?, heads(k, dtype)?, heads(v, dtype)?, heads(o, dtype)?];
        let wide = [&g, &q, &k, &v, &o, &cast(lse, dtype)?];
        let [a, b, c] = slots.each_ref().map(|slot| &slot.tensor);
        if dtype == query.dtype() {
            kernel([a, b, c], wide, attention)?;
        } else {
            let new = |like: &Tensor| Tensor::new_dense(like.sizes(), dtype, like.device());
            let (wa, wb, wc) = (new(a)?, new(b)?, new(c)?);
            kernel([&wa, &wb, &wc], wide, attention)?;
            for (narrow, wide) in [(a, &wa), (b, &wb), (c, &wc)] {
                super::matmul::write(narrow, wide)?;
            }
        }
    }
    let [a, b, c] = slots;
    Ok((a.finish()?, b.finish()?, c.finish()?))
}

/// True if the fused kernel computes this: four dimensions, elements of a head side by side, one size of heads, no dropout,
/// and a mask that is no variable.
pub(crate) fn is_fused(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, dropout_p: f64) -> bool {
    // One look: composites call this, whose tensors other threads may change.
    let [q, k, v] = [q, k, v].map(|x| x.as_impl().metadata());
    let four = [q, k, v].iter().all(|m| m.sizes.len() == 4 && m.strides[3] == 1);
    if !four || !q.dtype.is_floating_point() || dropout_p != 0.0 {
        return false;
    }
    let (qs, ks, vs) = (&q.sizes, &k.sizes, &v.sizes);
    let heads = qs[..2] == ks[..2] && ks[..3] == vs[..3] && qs[3] == ks[3] && qs[3] == vs[3];
    let mask = mask.is_none_or(|mask| {
        let sizes = mask.sizes();
        let fits = |d: usize, size: i64| sizes[sizes.len() - d] == size || sizes[sizes.len() - d] == 1;
        !mask.requires_grad()
            && (sizes.len() == 2 || sizes.len() == 4)
            && fits(1, ks[2])
            && fits(2, qs[2])
            && (sizes.len() == 2 || (fits(3, qs[1]) && fits(4, qs[0])))
    });
    heads && mask && qs[2] > 0 && ks[2] > 0
}

/// A mask of booleans (True: may look) as numbers that are added: 0 and minus infinity.
pub(crate) fn additive_mask(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Ok(mask.clone());
    }
    let zeros = ops::zeros(mask.sizes(), Some(dtype), None, Some(mask.device()), None)?;
    let hidden = ops::logical_not(mask)?;
    let mask = ops::masked_fill_scalar(&zeros, &hidden, f64::NEG_INFINITY)?;
    ops::contiguous(&mask, MemoryFormat::Contiguous)
}
