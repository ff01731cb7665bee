//! Factors of dropouts.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// Gradient of `native_dropout`: the mask and the factor of what was kept.
pub fn native_dropout_grad(grad: &Tensor, mask: &Tensor, p: f64, train: Option<bool>) -> Result<Tensor> {
    let scale = match train {
        Some(false) => 1.0,
        _ if p == 1.0 => 0.0,
        _ => 1.0 / (1.0 - p),
    };
    ops::native_dropout_backward(grad, mask, scale)
}
