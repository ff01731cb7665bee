//! The gradient of an embedding, dense or sparse.

use tensor_core::{Result, check};

use crate::{Tensor, ops};

/// The gradient of a table of `num_weights` rows.
pub fn embedding_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    check!(!sparse, "embedding_backward: sparse gradients are not supported; use sparse=False");
    ops::embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
}
