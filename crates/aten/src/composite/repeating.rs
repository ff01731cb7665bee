//! Elements several times: repeated copies, broadcast views, codes.

use tensor_core::strides::{self, Dims, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, bail, check};

use crate::{Tensor, ops};

/// The whole tensor repeated along each dimension; new dimensions come first.
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    check!(
        repeats.len() >= m.sizes.len(),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let lead = repeats.len() - m.sizes.len();
    // Each dimension as (repeats, size): the copy fills them side by side.
    let (mut sizes, mut strides, mut wanted) = (Dims::new(), Dims::new(), Dims::new());
    for (d, &times) in repeats.iter().enumerate() {
        let (size, stride) = match d.checked_sub(lead) {
            Some(d) => (m.sizes[d], m.strides[d]),
            None => (1, 0),
        };
        let Some(total) = times.checked_mul(size) else {
            bail!(Runtime, "numel: integer multiplication overflow");
        };
        wanted.push(total);
        sizes.extend([times, size]);
        strides.extend([0, stride]);
    }
    let result = ops::new_empty(self_, &wanted, None, None, None, None)?;
    if result.numel() > 0 {
        let source = Tensor::view_of(m, &sizes, &strides, m.offset)?;
        let pairs = result.view_of_storage(&sizes, &strides::contiguous(&sizes), 0)?;
        ops::copy_(&pairs, &source, false)?;
    }
    Ok(result)
}

/// `repeat` that takes fewer numbers than there are dimensions: the first ones are once.
pub fn tile(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut repeats = Dims::from_elem(1, self_.dim().saturating_sub(dims.len()));
    repeats.extend_from_slice(dims);
    ops::repeat(self_, &repeats)
}

/// Each index as often as the tensor says: `[0, 1, 1]` for `[1, 2]`.
pub fn repeat_interleave(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    check!(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        bail!(NotImplemented, "\"repeat_interleave_cpu\" not implemented for '{}'", repeats.dtype().cpp_name());
    }
    let counts = ops::_to_copy(repeats, Some(DType::I64), None, Some(tensor_core::Device::CPU), None, false, None)?;
    let counts = counts.to_vec::<i64>()?;
    check!(counts.iter().all(|&count| count >= 0), "repeats can not be negative");
    let total: i64 = counts.iter().fold(0, |sum, &count| sum.saturating_add(count));
    check!(output_size.is_none_or(|size| size == total), "allocated size does not match required size");
    let list: Vec<i64> =
        counts.iter().enumerate().flat_map(|(i, &count)| std::iter::repeat_n(i as i64, count as usize)).collect();
    let made = Tensor::from_slice(&list, &[total])?;
    if repeats.dtype() == DType::I64 && repeats.device().is_cpu() {
        return Ok(made);
    }
    ops::_to_copy(&made, Some(repeats.dtype()), None, Some(repeats.device()), None, false, None)
}

/// Each index of a dimension (or of the flattened tensor) as often as `repeats` says.
pub fn repeat_interleave_self_tensor(
    self_: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let flat;
    let (x, dim) = match dim {
        Some(dim) => (self_, dim),
        None => {
            flat = ops::flatten_using_ints(self_, 0, -1)?;
            (&flat, 0)
        }
    };
    let raised;
    let x = if x.dim() == 0 {
        raised = ops::reshape(x, &[1])?;
        &raised
    } else {
        x
    };
    let size = x.size(dim)?;
    let repeats = if repeats.dim() == 0 || (repeats.dim() == 1 && repeats.sizes()[0] == 1) {
        ops::expand(&ops::reshape(repeats, &[1])?, &[size], false)?
    } else {
        check!(repeats.dim() == 1, "repeats must be 0-dim or 1-dim tensor");
        check!(
            repeats.sizes()[0] == size,
            "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({dim}) = {size}",
            repeats.sizes()[0]
        );
        Tensor::clone(repeats)
    };
    ops::index_select(x, dim, &ops::repeat_interleave(&repeats, output_size)?)
}

/// Each index of a dimension (or of the flattened tensor) `repeats` times.
pub fn repeat_interleave_self_int(
    self_: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let flat;
    let (x, dim) = match dim {
        Some(dim) => (self_, dim),
        None => {
            flat = ops::flatten_using_ints(self_, 0, -1)?;
            (&flat, 0)
        }
    };
    check!(repeats >= 0, "Repeats must be non-negative");
    let x = if x.dim() == 0 { ops::reshape(x, &[1])? } else { Tensor::clone(x) };
    let mut sizes = Dims::from_slice(x.sizes());
    let d = wrap_dim(dim, sizes.len())?;
    let Some(total) = sizes[d].checked_mul(repeats) else {
        bail!(Runtime, "numel: integer multiplication overflow");
    };
    check!(output_size.is_none_or(|size| size == total), "allocated size does not match required size");
    sizes.insert(d + 1, repeats);
    let pairs = ops::expand(&ops::unsqueeze(&x, d as i64 + 1)?, &sizes, false)?;
    ops::flatten_using_ints(&ops::clone(&pairs, Some(MemoryFormat::Contiguous))?, d as i64, d as i64 + 1)
}

/// `expand` under another name.
pub fn broadcast_to(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    ops::expand(self_, size, false)
}

/// The tensors expanded to the shape that all of them broadcast to.
pub fn broadcast_tensors(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    let mut shape = Dims::new();
    for x in tensors {
        shape = strides::broadcast(&shape, x.sizes())?;
    }
    let expanded = |x: &&Tensor| {
        if x.sizes() == shape.as_slice() { Ok(Tensor::clone(x)) } else { ops::expand(x, &shape, false) }
    };
    tensors.iter().map(expanded).collect()
}

/// A new last dimension with a one at the position that an element says, and zeros elsewhere.
pub fn one_hot(self_: &Tensor, num_classes: i64) -> Result<Tensor> {
    check!(self_.dtype() == DType::I64, "one_hot is only applicable to index tensor of type LongTensor.");
    let mut sizes = Dims::from_slice(self_.sizes());
    if self_.numel() == 0 {
        check!(num_classes > 0, "Can not infer total number of classes from empty tensor.");
        sizes.push(num_classes);
        return ops::new_empty(self_, &sizes, None, None, None, None);
    }
    check!(ops::item(&ops::min(self_)?)?.to_i64() >= 0, "Class values must be non-negative.");
    let largest = ops::item(&ops::max(self_)?)?.to_i64();
    let classes = if num_classes == -1 {
        largest.saturating_add(1)
    } else {
        check!(num_classes > largest, "Class values must be smaller than num_classes.");
        num_classes
    };
    sizes.push(classes);
    let zeros = ops::new_zeros(self_, &sizes, None, None, None, None)?;
    ops::scatter_value(&zeros, -1, &ops::unsqueeze(self_, -1)?, 1)
}
