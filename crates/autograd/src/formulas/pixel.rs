//! Derivatives of shuffles.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// The gradient of shuffled channels (n, g k, ..): shuffled in k groups.
pub fn channel_shuffle_backward(grad: &Tensor, groups: i64) -> Result<Tensor> {
    ops::channel_shuffle(grad, (grad.size(1)? / groups.max(1)).max(1))
}
