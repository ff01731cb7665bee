//! Gradients of views and copies: a gradient of the view, laid back into the shape of what it viewed.

use tensor_aten::{Tensor, ops};
use tensor_core::strides::{self, Dims, wrap_dim};
use tensor_core::{Result, bail};

use crate::record::Options;

fn zeros(sizes: &[i64], options: &Options) -> Result<Tensor> {
    ops::zeros(sizes, Some(options.dtype), Some(options.layout), Some(options.device), None)
}

/// The gradient in the dtype and on the device of what was copied.
pub fn copy_backward(grad: &Tensor, options: &Options) -> Result<Tensor> {
    if grad.dtype() == options.dtype && grad.device() == options.device {
        return Ok(grad.clone());
    }
    ops::_to_copy(grad, Some(options.dtype), None, Some(options.device), None, false, None)
}

/// The dimensions back in their old order.
pub fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut inverse = Dims::from_elem(0, dims.len());
    for (i, &dim) in dims.iter().enumerate() {
        inverse[wrap_dim(dim, dims.len())?] = i as i64;
    }
    ops::permute(grad, &inverse)
}

/// Zeros of shape `sizes` with `grad` at `index` of dimension `dim`.
pub fn select_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    let result = zeros(sizes, &Options::of(grad))?;
    ops::copy_(&ops::select_int(&result, dim, index)?, grad, false)?;
    Ok(result)
}

/// Zeros of shape `sizes` with `grad` in the slice.
pub fn slice_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let result = zeros(sizes, &Options::of(grad))?;
    ops::copy_(&ops::slice(&result, dim, start, end, step)?, grad, false)?;
    Ok(result)
}

/// The gradients of all pieces in a row; zeros where a piece has none.
fn join(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    options: &Options,
    dim: usize,
    piece: impl Fn(usize) -> i64,
) -> Result<Tensor> {
    let mut whole = Vec::with_capacity(grads.len());
    for (i, grad) in grads.iter().enumerate() {
        whole.push(match grad {
            Some(grad) => grad.clone(),
            None => {
                let mut shape = Dims::from_slice(sizes);
                shape[dim] = piece(i);
                zeros(&shape, options)?
            }
        });
    }
    ops::cat(&whole.iter().collect::<Vec<_>>(), dim as i64)
}

/// Gradient of `split`.
pub fn split_backward(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    options: &Options,
    split_size: i64,
    dim: i64,
) -> Result<Tensor> {
    let d = wrap_dim(dim, sizes.len())?;
    let last = sizes[d] - split_size * (grads.len() as i64 - 1);
    join(grads, sizes, options, d, |i| if i + 1 == grads.len() { last } else { split_size })
}

/// Gradient of `split_with_sizes`.
pub fn split_with_sizes_backward(
    grads: &[Option<Tensor>],
    sizes: &[i64],
    options: &Options,
    split_sizes: &[i64],
    dim: i64,
) -> Result<Tensor> {
    join(grads, sizes, options, wrap_dim(dim, sizes.len())?, |i| split_sizes[i])
}

/// Gradient of `unbind`: the gradients stacked, zeros where a slice has none.
pub fn unbind_backward(grads: &[Option<Tensor>], sizes: &[i64], options: &Options, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, sizes.len())?;
    let mut shape = Dims::from_slice(sizes);
    shape.remove(d);
    let mut whole = Vec::with_capacity(grads.len());
    for grad in grads {
        whole.push(match grad {
            Some(grad) => grad.clone(),
            None => zeros(&shape, options)?,
        });
    }
    if whole.is_empty() {
        return zeros(sizes, options);
    }
    ops::stack(&whole.iter().collect::<Vec<_>>(), d as i64)
}

/// True if two indices may name one element.
fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<(i64, i64)> =
        sizes.iter().zip(strides).filter(|&(&size, _)| size != 1).map(|(&size, &stride)| (stride, size)).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|&(stride, size)| {
        let overlaps = stride <= reach;
        reach += stride * (size - 1);
        overlaps
    })
}

/// Gradient of `as_strided`: `grad` is summed into a flat storage through the view's geometry, which is then read through
/// the input's. An element that several indices of the input name shares its gradient among them.
#[allow(clippy::too_many_arguments)]
pub fn as_strided_backward(
    grad: &Tensor,
    in_sizes: &[i64],
    in_strides: &[i64],
    in_offset: i64,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    let options = Options::of(grad);
    if in_sizes.contains(&0) || size.contains(&0) {
        return zeros(in_sizes, &options);
    }
    let out_offset = storage_offset.unwrap_or(in_offset);
    let first = in_offset.min(out_offset);
    let (in_at, out_at) = (in_offset - first, out_offset - first);
    let length =
        strides::storage_bytes(in_sizes, in_strides, 1, in_at)?.max(strides::storage_bytes(size, stride, 1, out_at)?);
    let Ok(length) = i64::try_from(length) else { bail!(Runtime, "as_strided: the storage is too large") };

    let indices = |sizes: &[i64], strides: &[i64], offset: i64| -> Result<Tensor> {
        let all = ops::arange(length, Some(tensor_core::DType::I64), None, Some(options.device), None)?;
        ops::reshape(&ops::as_strided(&all, sizes, strides, Some(offset))?, &[-1])
    };
    let mut flat = zeros(&[length], &options)?;
    if may_overlap(size, stride) {
        let at = indices(size, stride, out_at)?;
        flat = ops::index_put(&flat, &[Some(&at)], &ops::reshape(grad, &[-1])?, true)?;
    } else {
        ops::copy_(&ops::as_strided(&flat, size, stride, Some(out_at))?, grad, false)?;
    }
    if may_overlap(in_sizes, in_strides) {
        let at = indices(in_sizes, in_strides, in_at)?;
        let one = ops::ones(&[at.numel()], Some(options.dtype), None, Some(options.device), None)?;
        let count = ops::index_put(&zeros(&[length], &options)?, &[Some(&at)], &one, true)?;
        flat = ops::div(&flat, &ops::clamp_min(&count, 1)?)?;
    }
    ops::as_strided(&flat, in_sizes, in_strides, Some(in_at))
}
