//! Gradients of embeddings, and their second derivatives.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, Scalar};

use crate::engine::sums;

/// Gradient of `embedding` with respect to its table: a table of `num_weights` rows, or these rows in the sum that waits for
/// them. A tied table (one that is the output layer's weight as well) has such a sum.
pub fn embedding_table_backward(
    grad: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let width = grad.size(-1)?;
    // Half floats are summed in f32, which a sum of theirs is not.
    if !sparse && !scale_grad_by_freq && matches!(grad.dtype(), DType::F32 | DType::F64) {
        let fits = |sum: &Tensor| {
            sum.sizes() == [num_weights, width] && sum.dtype() == grad.dtype() && sum.device() == grad.device()
        };
        if let Some(sum) = sums::take(fits) {
            let rows = without_padding(grad, indices, padding_idx)?;
            let (rows, indices) = (ops::reshape(&rows, &[-1, width])?, ops::reshape(indices, &[-1])?);
            ops::index_add_(&sum, 0, &indices, &rows, 1)?;
            return Ok(sum);
        }
    }
    ops::embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse)
}

/// Gradient of `embedding_dense_backward` with respect to its gradient: the rows again, none for the padding.
pub fn embedding_dense_double_backward(grad: &Tensor, indices: &Tensor, padding_idx: i64) -> Result<Tensor> {
    without_padding(&ops::embedding(grad, indices, -1, false, false)?, indices, padding_idx)
}

/// Rows (.., D) of indices (..), zeros in those of the padding.
fn without_padding(rows: &Tensor, indices: &Tensor, padding_idx: i64) -> Result<Tensor> {
    if padding_idx < 0 {
        return Ok(rows.clone());
    }
    let padding = ops::unsqueeze(&ops::eq_scalar(indices, padding_idx)?, -1)?;
    ops::masked_fill_scalar(rows, &padding, Scalar::Int(0))
}
