//! Gradients of Fourier transforms: the transform in the other direction, scaled alike.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use super::size;

/// Gradient of `_fft_r2c`: of the half that was given, with zeros for the rest. The engine takes the real part.
pub fn fft_r2c_backward(
    grad: &Tensor,
    dim: &[i64],
    normalization: i64,
    onesided: bool,
    sizes: &[i64],
) -> Result<Tensor> {
    let last = dim.last().copied().unwrap_or(-1);
    let missing = size(sizes, last)? - grad.size(last)?;
    if !onesided || missing == 0 {
        return ops::_fft_c2c(grad, dim, normalization, false);
    }
    let mut pad = vec![0; 2 * grad.dim()];
    let from_end = if last < 0 { -1 - last } else { grad.dim() as i64 - 1 - last };
    pad[2 * from_end as usize + 1] = missing;
    pad.truncate(2 * from_end as usize + 2);
    ops::_fft_c2c(&ops::constant_pad_nd(grad, &pad, 0)?, dim, normalization, false)
}

/// Gradient of `_fft_c2r`: elements of the half that stand for two count twice.
pub fn fft_c2r_backward(grad: &Tensor, dim: &[i64], normalization: i64) -> Result<Tensor> {
    let half = ops::_fft_r2c(grad, dim, normalization, true)?;
    let last = dim.last().copied().unwrap_or(-1);
    let twice = grad.size(last)? - half.size(last)?;
    if twice == 0 {
        return Ok(half);
    }
    let alone = half.size(last)? - 1 - twice;
    let parts = [
        ops::narrow(&half, last, 0, 1)?,
        ops::mul_scalar(&ops::narrow(&half, last, 1, twice)?, 2)?,
        ops::narrow(&half, last, 1 + twice, alone)?,
    ];
    ops::cat(&[&parts[0], &parts[1], &parts[2]], last)
}
