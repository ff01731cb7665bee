//! Rows of a table by index, and the gradient of the table.

use tensor_core::strides::Dims;
use tensor_core::{DType, MemoryFormat, Result, check};

use super::indexing::{Bounds, out_of_range_in_self, plan_dim};
use crate::kernels;
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

fn check_indices(indices: &Tensor, argument: usize, function: &str) -> Result<()> {
    if matches!(indices.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    let found = match indices.dtype() {
        DType::Bool => "CPUBoolType".to_owned(),
        dtype => format!("torch.{}Tensor", dtype.cpp_name()),
    };
    tensor_core::bail!(
        Runtime,
        "Expected tensor for argument #{argument} 'indices' to have one of the following scalar types: Long, Int; but got \
         {found} instead (while checking arguments for {function})"
    )
}

/// Indices as kernels read them: a contiguous i64 vector.
fn vector(indices: &Tensor) -> Result<Tensor> {
    let indices = ops::to_dtype(indices, DType::I64, false, false, None)?;
    flat(&indices, &[indices.numel()])
}

/// A contiguous tensor under another shape.
fn flat(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let x = ops::contiguous(x, MemoryFormat::Contiguous)?;
    x.view_of_storage(sizes, &tensor_core::strides::contiguous(sizes), x.storage_offset())
}

/// The rows of `weight` (V, D) that indices of any shape name: (.., D).
pub fn embedding(
    out: Out<'_>,
    weight: &Tensor,
    indices: &Tensor,
    _padding_idx: i64,
    _scale_grad_by_freq: bool,
    _sparse: bool,
) -> Result<Tensor> {
    check!(weight.dim() == 2, "'weight' must be 2-D");
    check_indices(indices, 1, "embedding")?;
    let d = weight.sizes()[1];
    let sizes: Dims = indices.sizes().iter().copied().chain([d]).collect();
    check!(weight.sizes()[0] > 0 || indices.numel() == 0, "index_select(): self indexing axis dim should be positive");
    let result = Out::Fresh.prepare(0, Spec::like(&sizes, weight), &[])?.finish()?;
    if !weight.is_meta() {
        let kernel = kernels::indexing(weight.device())?.index.get(weight.dtype(), "index_select")?;
        let (weight, indices) = (weight.pinned(), vector(indices)?);
        let plan = plan_dim(&weight, 0, &indices, Bounds { wrap: false, refuse: out_of_range_in_self, first: 0 })?;
        kernel(&flat(&result, &[indices.numel(), d])?, &plan)?;
    }
    super::indexing::finish(out, result)
}

/// The gradient of a table of `num_weights` rows.
pub fn embedding_dense_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    check_indices(indices, 2, "embedding_backward")?;
    let (n, d) = (indices.numel(), grad_output.size(-1)?);
    check!(grad_output.numel() == n * d, "shape '[{n}, {d}]' is invalid for input of size {}", grad_output.numel());
    let sizes = [num_weights, d];
    if grad_output.is_meta() {
        return out.prepare(0, Spec::like(&sizes, grad_output), &[grad_output, indices])?.finish();
    }
    let kernel = kernels::embedding(grad_output.device())?
        .embedding_backward
        .get(grad_output.dtype(), "embedding_dense_backward_cpu")?;
    let (grad, indices) = (flat(grad_output, &[n, d])?, vector(indices)?);
    let slot = out.prepare(0, Spec::like(&sizes, grad_output), &[grad_output, &indices])?;
    if slot.tensor.numel() > 0 {
        kernel(&slot.tensor, &grad, &indices, padding_idx, scale_grad_by_freq)?;
    }
    slot.finish()
}
