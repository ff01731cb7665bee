//! Derivatives of padding.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// The gradient of a constant padding: what lay inside, and nothing for what was cut away.
pub fn constant_pad_nd_backward(grad: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let opposite: Vec<i64> = pad.iter().map(|p| -p).collect();
    ops::constant_pad_nd(grad, &opposite, 0)
}
