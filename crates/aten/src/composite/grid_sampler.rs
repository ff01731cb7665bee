//! Sampling by the number of dimensions, and the grids of affine maps.

use tensor_core::{Result, bail};

use crate::{Tensor, ops};

/// [`grid_sampler_2d`](ops::grid_sampler_2d) or [`grid_sampler_3d`](ops::grid_sampler_3d), by the image's dimensions.
pub fn grid_sampler(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    if input.dim() == 5 {
        ops::grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)
    } else {
        ops::grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)
    }
}

/// [`grid_sampler_2d`](ops::grid_sampler_2d) under another name.
pub fn _grid_sampler_2d_cpu_fallback(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    ops::grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)
}

/// Gradients of [`_grid_sampler_2d_cpu_fallback`].
pub fn _grid_sampler_2d_cpu_fallback_backward(
    grad_output: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<(Tensor, Tensor)> {
    let mask = [true; 2];
    let grads =
        ops::grid_sampler_2d_backward(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, mask)?;
    match grads {
        (Some(image), Some(points)) => Ok((image, points)),
        _ => bail!(Runtime, "grid_sampler_2d_backward: a gradient that was asked for is absent"),
    }
}

/// The points (x, y, 1) or (x, y, z, 1) of a regular grid over -1 to 1, (N, points, coordinates).
fn base_grid(like: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    if !(4..=5).contains(&size.len()) {
        bail!(Runtime, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
    }
    let image = &size[2..];
    let (dtype, device) = (Some(like.dtype()), Some(like.device()));
    let mut coordinates = Vec::new();
    for (d, &n) in image.iter().enumerate().rev() {
        let line = if n <= 1 {
            ops::zeros(&[n], dtype, None, device, None)?
        } else {
            let line = ops::linspace(-1, 1, n, dtype, None, device, None)?;
            if align_corners { line } else { ops::div_scalar(&ops::mul_scalar(&line, n - 1)?, n)? }
        };
        let mut shape = vec![1; image.len()];
        shape[d] = n;
        coordinates.push(ops::expand(&ops::view(&line, &shape)?, image, false)?);
    }
    coordinates.push(ops::ones(image, dtype, None, device, None)?);
    let coordinates: Vec<&Tensor> = coordinates.iter().collect();
    let points = ops::stack(&coordinates, -1)?;
    let k = coordinates.len() as i64;
    let count: i64 = image.iter().product();
    ops::expand(&ops::view(&points, &[1, count, k])?, &[size[0], count, k], false)
}

/// The points of a grid over images of `size` under affine maps `theta`: (N, 2, 3) to (N, H, W, 2), (N, 3, 4) to
/// (N, D, H, W, 3).
pub fn affine_grid_generator(theta: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    let base = base_grid(theta, size, align_corners)?;
    let points = ops::bmm(&base, &ops::transpose_int(theta, 1, 2)?)?;
    let dims = size.len() as i64 - 2;
    ops::view(&points, &[&size[..1], &size[2..], &[dims]].concat())
}

/// Gradient of [`affine_grid_generator`] with respect to the maps.
pub fn affine_grid_generator_backward(grad: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    let base = base_grid(grad, size, align_corners)?;
    let dims = size.len() as i64 - 2;
    let count: i64 = size[2..].iter().product();
    let grad = ops::reshape(grad, &[size[0], count, dims])?;
    ops::bmm(&ops::transpose_int(&grad, 1, 2)?, &base)
}
