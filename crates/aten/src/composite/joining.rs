//! Joins of tensors that are made of `cat`.

use smallvec::SmallVec;
use tensor_core::strides::{Dims, show, wrap_dim};
use tensor_core::{Result, check};

use crate::{Tensor, ops};

/// Tensors of one shape along a new dimension.
pub fn stack(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        tensor_core::bail!(Runtime, "stack expects a non-empty TensorList");
    };
    let d = wrap_dim(dim, first.dim() + 1)?;
    for (i, x) in tensors.iter().enumerate() {
        check!(
            x.sizes() == first.sizes(),
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {i}",
            show(first.sizes()),
            show(x.sizes())
        );
    }
    if d < first.dim() {
        // A dimension can always be split by a view.
        let mut sizes = Dims::from_slice(first.sizes());
        sizes.insert(d, tensors.len() as i64);
        return ops::view(&ops::cat(tensors, d as i64)?, &sizes);
    }
    let columns = tensors.iter().map(|x| ops::unsqueeze(x, d as i64)).collect::<Result<SmallVec<[Tensor; 8]>>>()?;
    ops::cat(&columns.iter().collect::<SmallVec<[&Tensor; 8]>>(), d as i64)
}
