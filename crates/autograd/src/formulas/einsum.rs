//! Gradients of sums of products.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use super::conj;

/// Gradients of `_trilinear`: of a product of three, that of each is the gradient times the other two.
#[allow(clippy::too_many_arguments)]
pub fn trilinear_grads(
    grad: &Tensor,
    i1: &Tensor,
    i2: &Tensor,
    i3: &Tensor,
    expand1: &[i64],
    expand2: &[i64],
    expand3: &[i64],
    sumdim: &[i64],
    mask: [bool; 3],
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let product = |needed: bool, a: &Tensor, b: &Tensor, at_a: &[i64], at_b: &[i64], sums: &[i64]| -> Result<_> {
        if !needed {
            return Ok(None);
        }
        ops::_trilinear(grad, &conj(a)?, &conj(b)?, sumdim, at_a, at_b, sums, 1).map(Some)
    };
    Ok((
        product(mask[0], i2, i3, expand2, expand3, expand1)?,
        product(mask[1], i1, i3, expand1, expand3, expand2)?,
        product(mask[2], i1, i2, expand1, expand2, expand3)?,
    ))
}
