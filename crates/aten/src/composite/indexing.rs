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
        return ops::gather(&ops::reshape(self_, &[-1])?, 0, &ops::reshape(indices, &[-1])?, false);
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
    let without = |x: &Tensor| -> Dims {
        x.sizes().iter().enumerate().map(|(i, &size)| if i == d { 1 } else { size }).collect()
    };
    let mut shape = strides::broadcast(&without(self_), &without(indices))?;
    let along = |x: &Tensor| x.sizes().get(d).copied().unwrap_or(1);
    let mut expanded = |x: &Tensor| {
        if let Some(size) = shape.get_mut(d) {
            *size = along(x);
        }
        ops::expand(x, &shape, false)
    };
    let (x, indices) = (expanded(self_)?, expanded(indices)?);
    ops::gather(&x, d as i64, &indices, false)
}
