//! Gradients of running products and extremes, which are operators too.

use tensor_core::Result;

use crate::{Tensor, ops};

/// The running sum from the end.
fn from_end(x: &Tensor, dim: i64) -> Result<Tensor> {
    ops::flip(&ops::cumsum(&ops::flip(x, &[dim])?, dim, None)?, &[dim])
}

/// Gradient of `cumprod`.
pub fn cumprod_backward(grad: &Tensor, input: &Tensor, dim: i64, output: &Tensor) -> Result<Tensor> {
    if input.numel() <= 1 || input.size(dim)? == 1 {
        return Ok(grad.clone());
    }
    let x = ops::conj(input)?;
    if input.is_meta() || !ops::item(&ops::any(&ops::eq_scalar(input, 0)?)?)?.to_bool() {
        return ops::div(&from_end(&ops::mul(&ops::conj(output)?, grad)?, dim)?, &x);
    }
    // d out[j] / d x[i] is the product of the others up to j: for each i, the running product with x[i] = 1, from i on.
    let size = input.size(dim)?;
    let mut slopes = Vec::new();
    for i in 0..size {
        let before = ops::narrow(&x, dim, 0, i)?;
        let one = ops::ones_like(&ops::narrow(&x, dim, i, 1)?, None, None, None, None, None)?;
        let after = ops::narrow(&x, dim, i + 1, size - i - 1)?;
        let others = ops::cumprod(&ops::cat(&[&before, &one, &after], dim)?, dim, None)?;
        let reached = ops::narrow(&ops::mul(grad, &others)?, dim, i, size - i)?;
        slopes.push(ops::sum_dim_int_list(&reached, Some(&[dim]), true, None)?);
    }
    ops::cat(&slopes.iter().collect::<Vec<_>>(), dim)
}

/// Gradient of `cummax` and `cummin`: each goes to the element that was selected.
pub fn cummaxmin_backward(grad: &Tensor, input: &Tensor, indices: &Tensor, dim: i64) -> Result<Tensor> {
    if input.numel() == 0 {
        return Ok(input.clone());
    }
    let zeros = ops::zeros_like(input, None, None, None, None, Some(tensor_core::MemoryFormat::Contiguous))?;
    ops::scatter_add(&zeros, dim, indices, grad)
}
