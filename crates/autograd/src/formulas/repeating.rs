//! Gradients of repeated elements.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;
use tensor_core::strides::Dims;

/// Gradient of `repeat`: the sum over the copies.
pub fn repeat_backward(grad: &Tensor, repeats: &[i64], sizes: &[i64]) -> Result<Tensor> {
    if repeats.contains(&0) {
        return ops::new_zeros(grad, sizes, None, None, None, None);
    }
    let lead = repeats.len().saturating_sub(sizes.len());
    // Each repeated dimension as (repeats, size).
    let (mut shape, mut copies) = (Dims::new(), Dims::new());
    for (d, &times) in repeats.iter().enumerate() {
        if times != 1 || d < lead {
            copies.push(shape.len() as i64);
            shape.push(times);
        }
        if d >= lead {
            shape.push(sizes[d - lead]);
        }
    }
    if copies.is_empty() {
        return Ok(grad.clone());
    }
    ops::sum_dim_int_list(&ops::reshape(grad, &shape)?, Some(&copies), false, None)
}
