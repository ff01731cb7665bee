//! Other shapes of the same elements: windows, flattened and unflattened forms, at least so many dimensions, new sizes.

use smallvec::SmallVec;
use tensor_core::strides::{self, Dims, show, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, check};

use crate::{Tensor, ops};

/// Windows of `size` indices of a dimension, `step` apart; the window is the last dimension of the view.
pub fn unfold(self_: &Tensor, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let (mut sizes, mut strides) = (m.sizes.clone(), m.strides.clone());
    let d = wrap_dim(dimension, sizes.len())?;
    let (most, stride) = (sizes.get(d).copied().unwrap_or(1), strides.get(d).copied().unwrap_or(1));
    check!(size >= 0, "size is {size} but must be >= 0");
    check!(size <= most, "maximum size for tensor at dimension {d} is {most} but size is {size}");
    check!(step > 0, "step is {step} but must be > 0");
    sizes.push(size);
    strides.push(stride);
    if d < m.sizes.len() {
        sizes[d] = (most - size) / step + 1;
        strides[d] = stride.saturating_mul(step);
        if sizes[d] <= 1 && strides[d] == i64::MAX {
            strides[d] = stride;
        }
    }
    self_.view_of_storage(&sizes, &strides, m.offset)
}

/// Gradient of `unfold`: zeros, with the gradients of all windows added.
pub fn unfold_backward(grad_in: &Tensor, input_sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor> {
    let result = ops::new_zeros(grad_in, input_sizes, None, None, None, None)?;
    if input_sizes.is_empty() {
        return ops::add(&result, &ops::reshape(grad_in, &[])?, 1);
    }
    let d = wrap_dim(dim, input_sizes.len())?;
    let all = ops::arange(input_sizes[d], Some(DType::I64), None, Some(grad_in.device()), None)?;
    let places = ops::reshape(&unfold(&all, 0, size, step)?, &[-1])?;
    // The windows side by side along the dimension.
    let mut sizes = Dims::from_slice(input_sizes);
    sizes[d] = places.numel() / size.max(1);
    sizes.push(size);
    let windows =
        super::axes::movedim_int(&ops::expand(grad_in, &sizes, false)?, input_sizes.len() as i64, d as i64 + 1)?;
    sizes.pop();
    sizes[d] = places.numel();
    ops::index_add(&result, d as i64, &places, &ops::reshape(&windows, &sizes)?, 1)
}

/// The elements in row-major order as a vector.
pub fn ravel(self_: &Tensor) -> Result<Tensor> {
    ops::view(&ops::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])
}

/// One dimension as several; one of their sizes may be -1.
pub fn unflatten_int(self_: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = wrap_dim(dim, self_.dim())?;
    check!(!sizes.is_empty(), "unflatten: sizes must be non-empty");
    let size = self_.size(dim)?;
    let Ok(inner) = strides::infer_size(sizes, size) else {
        check!(sizes.iter().filter(|&&size| size == -1).count() <= 1, "only one dimension can be inferred");
        tensor_core::bail!(
            Runtime,
            "unflatten: Provided sizes {} don't multiply up to the size of dim {d} ({size}) in the input tensor",
            show(sizes)
        );
    };
    let shape = [&self_.sizes()[..d], &inner, &self_.sizes()[d + 1..]].concat();
    ops::view(self_, &shape)
}

/// `view` with strides that are known to fit.
pub fn _reshape_alias(self_: &Tensor, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    self_.view_of_storage(size, stride, self_.storage_offset())
}

/// The sum over what was broadcast from a shape.
pub fn sum_to_size(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let own = self_.sizes();
    let fits = size.len() <= own.len()
        && size.iter().rev().zip(own.iter().rev()).all(|(&wanted, &size)| wanted == size || wanted == 1);
    check!(fits, "size {{{}}} is not expandable to size {{{}}}.", show(size), show(own));
    if size.is_empty() {
        return ops::sum(self_, None);
    }
    if size == own {
        return Ok(Tensor::clone(self_));
    }
    let lead = own.len() - size.len();
    let summed = |&d: &usize| d < lead || (size[d - lead] == 1 && own[d] != 1);
    let dims: Dims = (0..own.len()).filter(summed).map(|d| d as i64).collect();
    let sum = ops::sum_dim_int_list(self_, Some(&dims), true, None)?;
    if lead == 0 { Ok(sum) } else { ops::view(&sum, size) }
}

/// A vector from a 0-dim tensor; others as they are.
pub fn atleast_1d(self_: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 { ops::reshape(self_, &[1]) } else { Ok(Tensor::clone(self_)) }
}

/// A matrix of one row from a vector or 0-dim tensor; others as they are.
pub fn atleast_2d(self_: &Tensor) -> Result<Tensor> {
    match self_.dim() {
        0 => ops::reshape(self_, &[1, 1]),
        1 => ops::unsqueeze(self_, 0),
        _ => Ok(Tensor::clone(self_)),
    }
}

/// Three dimensions, the middle one first, where there are fewer; others as they are.
pub fn atleast_3d(self_: &Tensor) -> Result<Tensor> {
    match self_.dim() {
        0 => ops::reshape(self_, &[1, 1, 1]),
        1 => ops::unsqueeze(&ops::unsqueeze(self_, 0)?, -1),
        2 => ops::unsqueeze(self_, -1),
        _ => Ok(Tensor::clone(self_)),
    }
}

/// `atleast_1d` of each tensor.
pub fn atleast_1d_sequence(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(|x| ops::atleast_1d(x)).collect()
}

/// `atleast_2d` of each tensor.
pub fn atleast_2d_sequence(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(|x| ops::atleast_2d(x)).collect()
}

/// `atleast_3d` of each tensor.
pub fn atleast_3d_sequence(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    tensors.iter().map(|x| ops::atleast_3d(x)).collect()
}

/// A new shape for the same storage, which grows where it must; new elements have no particular value.
pub fn resize_(self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> Result<()> {
    check!(size.iter().all(|&size| size >= 0), "numel: integer multiplication overflow");
    let format = memory_format.unwrap_or(MemoryFormat::Contiguous);
    check!(format != MemoryFormat::Preserve, "Unsupported memory formatPreserve");
    strides::numel(size)?;
    if self_.sizes() != size {
        crate::out::resize_output(self_, size, &strides::contiguous(size))?;
    }
    if memory_format.is_some() {
        crate::out::resize_output(self_, size, &strides::of_format(size, format)?)?;
    }
    self_.as_impl().bump_version();
    Ok(())
}

/// A copy with a new shape.
pub fn resize(self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let copy = ops::clone(self_, None)?;
    resize_(&copy, size, memory_format)?;
    Ok(copy)
}

/// `resize_` to another tensor's shape.
pub fn resize_as_(self_: &Tensor, the_template: &Tensor, memory_format: Option<MemoryFormat>) -> Result<()> {
    let format = match memory_format {
        Some(MemoryFormat::Preserve) => Some(the_template.suggest_memory_format()),
        other => other,
    };
    let sizes: SmallVec<[i64; 5]> = SmallVec::from_slice(the_template.sizes());
    resize_(self_, &sizes, format)
}
