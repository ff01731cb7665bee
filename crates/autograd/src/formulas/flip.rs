//! Gradients of elements moved around as a whole.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// Gradient of `roll`: rolled back.
pub fn roll_backward(grad: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    let back: Vec<i64> = shifts.iter().map(|shift| shift.wrapping_neg()).collect();
    if dims.len() <= 1 {
        return ops::roll(grad, &back, dims);
    }
    // The last shift goes first.
    ops::roll(grad, &back.into_iter().rev().collect::<Vec<_>>(), &dims.iter().rev().copied().collect::<Vec<_>>())
}
