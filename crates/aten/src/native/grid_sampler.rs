//! Images sampled at the points of a grid, over two and three dimensions, and the gradients: checks and the call of a kernel.

use tensor_core::{Result, check, check_value};

use super::convolution::list;
use super::padding::check_scalar_type;
use crate::kernels::{self, GridShape};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// Refuses images and grids that do not go together over `dims` dimensions.
fn check_inputs(x: &Tensor, grid: &Tensor, dims: usize) -> Result<()> {
    let (image, points) = (x.sizes(), grid.sizes());
    x.size(0)?;
    grid.size(0)?;
    check!(
        image[0] == points[0],
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and grid with sizes {}",
        list(image),
        list(points)
    );
    check!(
        points[points.len() - 1] == image.len() as i64 - 2,
        "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {}",
        image.len() as i64 - 2,
        list(points)
    );
    for (d, &size) in image.iter().enumerate().skip(2) {
        check!(
            size > 0,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {} with dimension {d} \
             being empty",
            list(image)
        );
    }
    check!(
        image.len() == dims + 2 && points.len() == dims + 2,
        "grid_sampler(): expected {}D input and grid with same number of dimensions, but got input with sizes {} and grid with \
         sizes {}",
        dims + 2,
        list(image),
        list(points)
    );
    Ok(())
}

fn shape(x: &Tensor, grid: &Tensor, (mode, padding, align_corners): (i64, i64, bool)) -> GridShape {
    let image = x.sizes()[2..].iter().map(|&size| size as usize).collect();
    let n = grid.dim();
    let points = grid.sizes()[1..n - 1].iter().product::<i64>() as usize;
    GridShape {
        batch: x.sizes()[0] as usize,
        channels: x.sizes()[1] as usize,
        image,
        points,
        mode,
        padding,
        align_corners,
    }
}

fn result_sizes(x: &Tensor, grid: &Tensor) -> Vec<i64> {
    [&x.sizes()[..2], &grid.sizes()[1..grid.dim() - 1]].concat()
}

fn dense(x: &Tensor) -> Result<Tensor> {
    ops::contiguous(x, tensor_core::MemoryFormat::Contiguous)
}

fn forward(out: Out<'_>, x: &Tensor, grid: &Tensor, dims: usize, how: (i64, i64, bool), name: &str) -> Result<Tensor> {
    check_inputs(x, grid, dims)?;
    let kernel = if x.is_meta() { None } else { Some(kernels::grid_sampler(x.device())?.sample.get(x.dtype(), name)?) };
    check_scalar_type(x.dtype(), grid.dtype())?;
    let slot = out.prepare(0, Spec::like(&result_sizes(x, grid), x), &[x, grid])?;
    if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
        kernel(&slot.tensor, &dense(x)?, &dense(grid)?, &shape(x, grid, how))?;
    }
    slot.finish()
}

type Two = (Option<Tensor>, Option<Tensor>);

#[allow(clippy::too_many_arguments)]
fn backward(
    out: Out<'_>,
    grad: &Tensor,
    x: &Tensor,
    grid: &Tensor,
    dims: usize,
    how: (i64, i64, bool),
    mask: [bool; 2],
    name: &str,
) -> Result<Two> {
    check_inputs(x, grid, dims)?;
    let sizes = result_sizes(x, grid);
    check_value!(
        grad.sizes() == sizes,
        "grid_sampler(): expected grad_output to have sizes {} but got grad_output with sizes {}",
        list(&sizes),
        list(grad.sizes())
    );
    let kernel =
        if x.is_meta() { None } else { Some(kernels::grid_sampler(x.device())?.sample_backward.get(x.dtype(), name)?) };
    check_scalar_type(x.dtype(), grid.dtype())?;
    check_scalar_type(x.dtype(), grad.dtype())?;
    let slot = |i: usize, like: &Tensor| {
        mask[i].then(|| out.prepare(i, Spec::like(like.sizes(), like), &[grad, x, grid])).transpose()
    };
    let (image, points) = (slot(0, x)?, slot(1, grid)?);
    if let Some(kernel) = kernel {
        let filled = |slot: &Option<crate::out::Slot>| {
            slot.as_ref().map(|slot| slot.tensor.clone()).filter(|tensor| tensor.numel() > 0)
        };
        let grads = [filled(&image), filled(&points)];
        if grads.iter().any(Option::is_some) {
            let inputs = [&dense(grad)?, &dense(x)?, &dense(grid)?];
            kernel(grads.each_ref().map(Option::as_ref), inputs, &shape(x, grid, how))?;
        }
    }
    let finish = |slot: Option<crate::out::Slot>| slot.map(crate::out::Slot::finish).transpose();
    Ok((finish(image)?, finish(points)?))
}

/// Images (N, C, H, W) sampled at the points (x, y) of a grid (N, h, w, 2).
pub fn grid_sampler_2d(
    out: Out<'_>,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let how = (interpolation_mode, padding_mode, align_corners);
    forward(out, input, grid, 2, how, "grid_sampler_2d_cpu_kernel_impl")
}

/// Images (N, C, D, H, W) sampled at the points (x, y, z) of a grid (N, d, h, w, 3).
pub fn grid_sampler_3d(
    out: Out<'_>,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    forward(out, input, grid, 3, (interpolation_mode, padding_mode, align_corners), "grid_sampler3d_cpu")
}

/// Gradients of [`grid_sampler_2d`] with respect to image and grid, those that the mask asks for.
#[allow(clippy::too_many_arguments)]
pub fn grid_sampler_2d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
    output_mask: [bool; 2],
) -> Result<Two> {
    let how = (interpolation_mode, padding_mode, align_corners);
    backward(out, grad_output, input, grid, 2, how, output_mask, "grid_sampler_2d_backward_cpu_kernel_impl")
}

/// Gradients of [`grid_sampler_3d`] with respect to image and grid, those that the mask asks for.
#[allow(clippy::too_many_arguments)]
pub fn grid_sampler_3d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
    output_mask: [bool; 2],
) -> Result<Two> {
    let how = (interpolation_mode, padding_mode, align_corners);
    backward(out, grad_output, input, grid, 3, how, output_mask, "grid_sampler_3d_backward_cpu")
}
