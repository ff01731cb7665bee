//! Gradients of sorts: each result hands its gradient to the element that it is.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// Gradient of elements that were picked along a dimension, in any order.
pub fn sort_backward(grad: &Tensor, sizes: &[i64], dim: i64, indices: &Tensor) -> Result<Tensor> {
    let zeros = ops::zeros(sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
    ops::scatter_src(&zeros, dim, indices, grad)
}
