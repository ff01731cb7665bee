//! Gradients of elements read from, or written to, positions that tensors hold.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, Scalar, bail};

use super::refs_opt;
use crate::record::Options;

fn zeros(sizes: &[i64], options: &Options) -> Result<Tensor> {
    ops::zeros(sizes, Some(options.dtype), Some(options.layout), Some(options.device), None)
}

/// Gradient of `index`: zeros, with the gradient added where it was read.
pub fn index_backward(grad: &Tensor, sizes: &[i64], options: &Options, indices: &[Option<Tensor>]) -> Result<Tensor> {
    let result = zeros(sizes, options)?;
    ops::_index_put_impl_(&result, &refs_opt(indices), grad, true, true)?;
    Ok(result)
}

/// Gradient of `index_put` for what was written to: zeros where values took its place.
pub fn index_put_backward(
    grad: &Tensor,
    indices: &[Option<Tensor>],
    values: &[i64],
    accumulate: bool,
) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    ops::index_put(grad, &refs_opt(indices), &zeros(values, &Options::of(grad))?, false)
}

/// Gradient of `gather`: zeros, with the gradient added where it was read.
pub fn gather_self_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::scatter_add(&zeros(sizes, &Options::of(grad))?, dim, index, grad)
}

/// Gradients of `scatter_reduce` for `self` and `src`. Equal extrema share their gradient.
#[allow(clippy::too_many_arguments)]
pub fn scatter_reduce_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let gather = |x: &Tensor| ops::gather(x, dim, index, false);
    let count = |start: &Tensor, of: &Tensor| ops::scatter_add(start, dim, index, of);
    let like = |x: &Tensor, value: i64| ops::full_like(x, value, None, None, None, None, None);
    let (mut grad_self, grad_src) = match reduce {
        "sum" => (grad.clone(), gather(grad)?),
        "mean" => {
            let counts = count(&like(grad, i64::from(include_self))?, &like(src, 1)?)?;
            let counts = ops::masked_fill_scalar(&counts, &ops::eq_scalar(&counts, 0)?, 1)?;
            let share = ops::div(grad, &counts)?;
            (share.clone(), gather(&share)?)
        }
        "prod" => prod_backward(grad, self_, dim, index, src, include_self, result)?,
        "amax" | "amin" | "max" | "min" => {
            let (self_wins, src_wins) = (ops::eq(self_, result)?, ops::eq(src, &gather(result)?)?);
            let number = |x: &Tensor| super::cast(x, self_.dtype());
            let winners = count(&number(&self_wins)?, &number(&src_wins)?)?;
            let share = ops::div(grad, &winners)?;
            (ops::mul(&share, &number(&self_wins)?)?, ops::mul(&gather(&share)?, &number(&src_wins)?)?)
        }
        _ => bail!(Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"),
    };
    if !include_self {
        grad_self = ops::scatter_value(&grad_self, dim, index, 0)?;
    }
    Ok((grad_self, grad_src))
}

/// The gradients of a product: the product of the other factors, also where a factor is zero.
fn prod_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let product = |self_: &Tensor, src: &Tensor| ops::scatter_reduce_two(self_, dim, index, src, "prod", include_self);
    let gather = |x: &Tensor| ops::gather(x, dim, index, false);
    let without = |x: &Tensor, zeros: &Tensor| ops::masked_fill_scalar(x, zeros, 1);

    let nonzero_self = without(self_, &ops::eq_scalar(self_, 0)?)?;
    let grad_self = ops::div(&ops::mul(grad, &product(&nonzero_self, src)?)?, &nonzero_self)?;

    let zero = ops::eq_scalar(src, 0)?;
    let none = ops::zeros_like(self_, None, None, None, None, None)?;
    let zeros = gather(&ops::scatter_add(&none, dim, index, &super::cast(&zero, self_.dtype())?)?)?;
    // The one zero of its product: its gradient is the product of the others.
    let single = ops::logical_and(&zero, &ops::eq_scalar(&zeros, 1)?)?;
    let others = product(self_, &without(src, &single)?)?;
    let of_zeros = gather(&ops::mul(grad, &others)?)?;
    let of_others = ops::div(&gather(&ops::mul(grad, result)?)?, &without(src, &zero)?)?;
    Ok((grad_self, ops::where_self(&single, &of_zeros, &of_others)?))
}

/// Gradient of `index_copy` for what was copied in; a 0-dim source stood for one slice.
pub fn index_source_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::reshape(&ops::index_select(grad, dim, index)?, sizes)
}

/// Gradient of `index_add` for what was added.
pub fn index_add_source_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    index: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let read = index_source_backward(grad, sizes, dim, index)?;
    if alpha.equals(1.0) { Ok(read) } else { ops::mul_scalar(&read, alpha) }
}

/// Gradient of `take`: zeros, with the gradient added where it was read.
pub fn take_backward(grad: &Tensor, sizes: &[i64], options: &Options, index: &Tensor) -> Result<Tensor> {
    ops::put(&zeros(sizes, options)?, index, grad, true)
}

/// Gradient of `put` for what was written to: zeros where elements were replaced.
pub fn put_backward(grad: &Tensor, index: &Tensor, source: &[i64], accumulate: bool) -> Result<Tensor> {
    if accumulate { Ok(grad.clone()) } else { ops::put(grad, index, &zeros(source, &Options::of(grad))?, false) }
}

/// Gradient of `masked_select`: zeros of the broadcast shape, with the gradient where the mask holds.
pub fn masked_select_self_backward(grad: &Tensor, sizes: &[i64], options: &Options, mask: &Tensor) -> Result<Tensor> {
    let shape = tensor_core::strides::broadcast(sizes, mask.sizes())?;
    ops::masked_scatter(&zeros(&shape, options)?, mask, grad)
}

/// Gradient of `masked_scatter` for the source: the gradient where the mask holds, in order; zeros beyond.
pub fn masked_scatter_source_backward(grad: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let taken = ops::masked_select(grad, mask)?;
    let numel: i64 = sizes.iter().product();
    let missing = numel - taken.numel();
    if missing <= 0 {
        return ops::reshape(&taken, sizes);
    }
    ops::reshape(&ops::cat(&[&taken, &zeros(&[missing], &Options::of(grad))?], 0)?, sizes)
}

/// Gradient of `index_fill` for the value: the sum over what was filled, each element once.
pub fn index_fill_value_backward(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let all = ops::ones(grad.sizes(), Some(tensor_core::DType::Bool), None, Some(grad.device()), None)?;
    let kept = ops::index_fill_int_scalar(&all, dim, index, false)?;
    ops::sum(&ops::masked_fill_scalar(grad, &kept, 0)?, None)
}

/// Gradients of `index_reduce` for `self` and `source`: those of `scatter_reduce` with each slice's index at all of its
/// elements.
#[allow(clippy::too_many_arguments)]
pub fn index_reduce_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let mut shape = vec![1; source.dim()];
    if let Some(along) = shape.get_mut(tensor_core::strides::wrap_dim(dim, source.dim())?) {
        *along = index.numel();
    }
    let index = ops::expand(&ops::reshape(index, &shape)?, source.sizes(), false)?;
    scatter_reduce_backward(grad, self_, dim, &index, source, reduce, include_self, result)
}
