//! Positions and their gradients, made of the operators of `native::indexing`.

use tensor_core::strides::{self, Dims, wrap_dim};
use tensor_core::{DType, Result, check};

use crate::{Tensor, ops};

/// The indices of the elements that are not zero, a vector a dimension.
pub fn nonzero_numpy(self_: &Tensor) -> Result<Vec<Tensor>> {
    if self_.dim() == 0 {
        return ops::unbind_int(&ops::nonzero(&ops::unsqueeze(self_, 0)?)?, 1);
    }
    ops::unbind_int(&ops::nonzero(self_)?, 1)
}

/// `nonzero_numpy` under another name.
pub fn r#where(condition: &Tensor) -> Result<Vec<Tensor>> {
    ops::nonzero_numpy(condition)
}

/// `nonzero` under another name.
pub fn argwhere(self_: &Tensor) -> Result<Tensor> {
    ops::nonzero(self_)
}

/// Gradient of `index_select`: zeros, with the gradient added where it was read.
pub fn index_select_backward(grad: &Tensor, self_sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    let zeros = ops::new_zeros(grad, self_sizes, None, None, None, None)?;
    ops::index_add(&zeros, dim, index, grad, 1)
}

/// `gather` with shapes that broadcast apart from `dim`; of the flattened tensor without `dim`.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let Some(dim) = dim else {
        let indices = from_start(&ops::reshape(indices, &[-1])?, self_.numel())?;
        return ops::gather(&ops::reshape(self_, &[-1])?, 0, &indices, false);
    };
    check!(
        self_.dim() == indices.dim(),
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for \
         input, and {} dimensions for indices",
        self_.dim(),
        indices.dim()
    );
    check!(
        indices.dtype() == DType::I64,
        "torch.take_along_dim(): dtype of indices should be Long but got {}",
        indices.dtype().cpp_name()
    );
    let d = wrap_dim(dim, self_.dim())?;
    let without =
        |x: &Tensor| -> Dims { x.sizes().iter().enumerate().map(|(i, &size)| if i == d { 1 } else { size }).collect() };
    let mut shape = strides::broadcast(&without(self_), &without(indices))?;
    let along = |x: &Tensor| x.sizes().get(d).copied().unwrap_or(1);
    let mut expanded = |x: &Tensor| {
        if let Some(size) = shape.get_mut(d) {
            *size = along(x);
        }
        ops::expand(x, &shape, false)
    };
    let (x, indices) = (expanded(self_)?, expanded(&from_start(indices, along(self_))?)?);
    ops::gather(&x, d as i64, &indices, false)
}

/// Indices with those counted from the end replaced by what they mean.
fn from_start(indices: &Tensor, size: i64) -> Result<Tensor> {
    ops::where_self(&ops::lt_scalar(indices, 0)?, &ops::add_scalar(indices, size, 1)?, indices)
}

/// `index`, as compilers call it: the indices are known to be within bounds, and checked all the same.
pub fn _unsafe_index(self_: &Tensor, indices: &[Option<&Tensor>]) -> Result<Tensor> {
    ops::index(self_, indices)
}

/// `index_put`, as compilers call it: the indices are known to be within bounds, and checked all the same.
pub fn _unsafe_index_put(
    self_: &Tensor,
    indices: &[Option<&Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    ops::index_put(self_, indices, values, accumulate)
}

/// Gradient of `gather`: zeros, with the gradient added where it was read.
pub fn gather_backward(grad: &Tensor, self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<Tensor> {
    ops::scatter_add(&ops::new_zeros(grad, self_.sizes(), None, None, None, None)?, dim, index, grad)
}

/// Gradient of `masked_select`: zeros of the broadcast shape, with the gradient where the mask holds.
pub fn masked_select_backward(grad: &Tensor, input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let shape = strides::broadcast(input.sizes(), mask.sizes())?;
    ops::masked_scatter(&ops::new_zeros(grad, &shape, None, None, None, None)?, mask, grad)
}

/// Gradient of a reduction that selects an element: zeros, with the gradient at the selected places.
pub fn value_selecting_reduction_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let zeros = ops::new_zeros(grad, sizes, None, None, None, None)?;
    if keepdim || sizes.is_empty() {
        return ops::scatter_src(&zeros, dim, indices, grad);
    }
    ops::scatter_src(&zeros, dim, &ops::unsqueeze(indices, dim)?, &ops::unsqueeze(grad, dim)?)
}

/// Indices moved into the bounds of the dimensions that they index.
fn within(self_: &Tensor, indices: &[Option<&Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let each = indices.iter().enumerate().map(|(d, index)| {
        let Some(index) = index else { return Ok(None) };
        let size = self_.size(d as i64)?;
        ops::clamp(index, Some((-size).into()), Some((size - 1).into())).map(Some)
    });
    each.collect()
}

/// `index` where `mask` holds, `fill` elsewhere; indices beyond bounds are moved into them.
pub fn _unsafe_masked_index(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<&Tensor>],
    fill: tensor_core::Scalar,
) -> Result<Tensor> {
    let indices = within(self_, indices)?;
    let indices: Vec<Option<&Tensor>> = indices.iter().map(Option::as_ref).collect();
    let read = ops::_unsafe_index(self_, &indices)?;
    ops::masked_fill_scalar(&read, &ops::logical_not(mask)?, fill)
}

/// `index_put` that adds `values` where `mask` holds; indices beyond bounds are moved into them.
pub fn _unsafe_masked_index_put_accumulate(
    self_: &Tensor,
    mask: &Tensor,
    indices: &[Option<&Tensor>],
    values: &Tensor,
) -> Result<Tensor> {
    if self_.numel() == 0 {
        return ops::clone(self_, None);
    }
    let indices = within(self_, indices)?;
    let indices: Vec<Option<&Tensor>> = indices.iter().map(Option::as_ref).collect();
    let values = ops::masked_fill_scalar(values, &ops::logical_not(mask)?, 0)?;
    ops::_unsafe_index_put(self_, &indices, &values, true)
}

/// Gradient of `masked_scatter` for its source: what was taken from it, and zeros.
pub fn masked_scatter_backward(grad_output: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if grad_output.is_meta() {
        return ops::new_zeros(grad_output, sizes, None, None, None, None);
    }
    let taken = ops::masked_select(grad_output, mask)?;
    let missing = strides::numel(sizes)? - taken.numel();
    let taken = match missing {
        1.. => ops::cat(&[&taken, &ops::new_zeros(&taken, &[missing], None, None, None, None)?], 0)?,
        _ => taken,
    };
    ops::view(&taken, sizes)
}
