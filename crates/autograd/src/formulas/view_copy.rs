//! Gradients of views as fresh tensors.

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result, strides};

/// Gradient of `as_strided_scatter` for `self`, as PyTorch defines it: the gradient within the view, zeros elsewhere. Both
/// tensors are taken to be contiguous.
pub fn as_strided_scatter_backward(
    grad: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let grad = ops::contiguous(grad, MemoryFormat::Contiguous)?;
    let slice = ops::as_strided(&grad, size, stride, storage_offset)?;
    let length = strides::storage_bytes(sizes, strides, 1, 0)?.max(grad.numel() as usize) as i64;
    let zeros = ops::new_zeros(&grad, &[length], None, None, None, None)?;
    let result = ops::as_strided(&zeros, sizes, strides, Some(0))?;
    ops::copy_(&ops::as_strided(&result, size, stride, storage_offset)?, &slice, false)?;
    Ok(result)
}
