//! Second derivatives of embeddings.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, Scalar};

/// Gradient of `embedding_dense_backward` with respect to its gradient: the rows again, none for the padding.
pub fn embedding_dense_double_backward(grad: &Tensor, indices: &Tensor, padding_idx: i64) -> Result<Tensor> {
    let rows = ops::embedding(grad, indices, -1, false, false)?;
    if padding_idx < 0 {
        return Ok(rows);
    }
    let padding = ops::unsqueeze(&ops::eq_scalar(indices, padding_idx)?, -1)?;
    ops::masked_fill_scalar(&rows, &padding, Scalar::Int(0))
}
