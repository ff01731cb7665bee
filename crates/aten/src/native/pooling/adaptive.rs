//! Adaptive pooling: the result's size is given, the windows split the image evenly.

use tensor_core::strides::Dims;
use tensor_core::{Result, check};

use super::{average, average_backward, list, max_pool, unpool};
use crate::Tensor;
use crate::kernels::{PoolDivisor, PoolWindow};
use crate::out::Out;

/// The shape of what comes out.
fn output(name: &str, x: &Tensor, size: &[i64], dims: usize, colon: &str) -> Result<Dims> {
    let (n, sizes) = (x.dim(), x.sizes());
    check!(
        n == dims + 1 || n == dims + 2,
        "{name}(): Expected {}D or {}D tensor, but got{colon} {}",
        dims + 1,
        dims + 2,
        list(sizes)
    );
    check_filled(name, "input", x, n - dims..n)?;
    let mut result = Dims::from_slice(&sizes[..n - dims]);
    result.extend_from_slice(size);
    Ok(result)
}

/// Refuses an empty image.
fn check_filled(name: &str, what: &str, x: &Tensor, mut dims: std::ops::Range<usize>) -> Result<()> {
    if let Some(d) = dims.find(|&d| x.sizes().get(d) == Some(&0)) {
        check!(
            false,
            "{name}(): Expected {what} to have non-zero size for non-batch dimensions, but {what} has sizes {} with \
             dimension {d} being empty",
            list(x.sizes())
        );
    }
    Ok(())
}

fn adaptive_average(out: Out<'_>, name: &str, x: &Tensor, size: &[i64], dims: usize) -> Result<Tensor> {
    check!(size.len() == dims, "{name}: output_size must be {dims}");
    let sizes = output(name, x, size, dims, "")?;
    average(out, x, &sizes, dims, PoolWindow::Adaptive, PoolDivisor::Inside, name)
}

/// The averages of an image split evenly, over two dimensions.
pub fn _adaptive_avg_pool2d(out: Out<'_>, self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    adaptive_average(out, "adaptive_avg_pool2d", self_, output_size, 2)
}

/// The averages of an image split evenly, over three dimensions.
pub fn _adaptive_avg_pool3d(out: Out<'_>, self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    adaptive_average(out, "adaptive_avg_pool3d", self_, output_size, 3)
}

fn check_pair(template: &str, name: &str, grad: &Tensor, x: &Tensor, dims: usize) -> Result<()> {
    check!(
        grad.dim() == x.dim(),
        "{template}: Expected dimensions {} for `grad_output` but got dimensions {}",
        x.dim(),
        grad.dim()
    );
    check!(
        grad.dtype() == x.dtype(),
        "{template}: Expected dtype {} for `grad_output` but got dtype {}",
        x.dtype().c_name(),
        grad.dtype().c_name()
    );
    let n = x.dim();
    check!(
        n == dims + 1 || n == dims + 2,
        "{name}(): Expected {}D or {}D tensor, but got {}",
        dims + 1,
        dims + 2,
        list(x.sizes())
    );
    check_filled(name, "grad_output", grad, n - dims..n)?;
    let lead = n - dims;
    check!(
        grad.sizes()[..lead] == x.sizes()[..lead],
        "{name}(): Expected grad_output to have the batch and channels of the input {}, but got {}",
        list(x.sizes()),
        list(grad.sizes())
    );
    Ok(())
}

/// Gradient of [`_adaptive_avg_pool2d`].
pub fn _adaptive_avg_pool2d_backward(out: Out<'_>, grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let name = "adaptive_avg_pool2d_backward";
    check_pair("adaptive_avg_pool2d_backward_out_cpu_template", name, grad_output, self_, 2)?;
    average_backward(out, grad_output, self_, 2, PoolWindow::Adaptive, PoolDivisor::Inside, name)
}

/// Gradient of [`_adaptive_avg_pool3d`].
pub fn _adaptive_avg_pool3d_backward(out: Out<'_>, grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let name = "adaptive_avg_pool3d_backward";
    check_pair(name, name, grad_output, self_, 3)?;
    average_backward(out, grad_output, self_, 3, PoolWindow::Adaptive, PoolDivisor::Inside, name)
}

fn adaptive_max(out: Out<'_>, name: &str, x: &Tensor, size: &[i64], dims: usize) -> Result<(Tensor, Tensor)> {
    let sizes = output(name, x, size, dims, ":")?;
    check!(size.len() == dims, "{name}(): internal error: output_size.size() must be {dims}");
    max_pool(out, x, &sizes, dims, PoolWindow::Adaptive, name)
}

/// The largest elements of an image split evenly, over two dimensions.
pub fn adaptive_max_pool2d(out: Out<'_>, self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    adaptive_max(out, "adaptive_max_pool2d", self_, output_size, 2)
}

/// The largest elements of an image split evenly, over three dimensions.
pub fn adaptive_max_pool3d(out: Out<'_>, self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    adaptive_max(out, "adaptive_max_pool3d", self_, output_size, 3)
}

fn adaptive_max_backward(
    out: Out<'_>,
    name: &str,
    grad: &Tensor,
    x: &Tensor,
    indices: &Tensor,
    dims: usize,
) -> Result<Tensor> {
    let n = x.dim();
    check!(
        n == dims + 1 || n == dims + 2,
        "{name}(): Expected {}D or {}D grad_output, but got: {}",
        dims + 1,
        dims + 2,
        list(grad.sizes())
    );
    check!(
        grad.dtype() == x.dtype(),
        "expected dtype {} for `grad_output` but got dtype {}",
        x.dtype().c_name(),
        grad.dtype().c_name()
    );
    check_filled(name, "grad_output", grad, n - dims..n)?;
    check!(
        grad.sizes() == indices.sizes() && grad.dim() == n && grad.sizes()[..n - dims] == x.sizes()[..n - dims],
        "expected sizes of grad_output and indices to match the input's, but got {}, {} and {}",
        list(grad.sizes()),
        list(indices.sizes()),
        list(x.sizes())
    );
    unpool(out, grad, x, indices, dims, PoolWindow::Adaptive, name)
}

/// Gradient of [`adaptive_max_pool2d`].
pub fn adaptive_max_pool2d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
) -> Result<Tensor> {
    adaptive_max_backward(out, "adaptive_max_pool2d_backward", grad_output, self_, indices, 2)
}

/// Gradient of [`adaptive_max_pool3d`].
pub fn adaptive_max_pool3d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    indices: &Tensor,
) -> Result<Tensor> {
    adaptive_max_backward(out, "adaptive_max_pool3d_backward", grad_output, self_, indices, 3)
}
