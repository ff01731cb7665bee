//! Elements in reverse order along dimensions.

use smallvec::SmallVec;
use tensor_core::strides::{self, Dims};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{Result, check};

use super::lanes::dim_mask;
use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

/// `self` with some dimensions reversed, laid out as `self` is.
pub fn flip(out: Out<'_>, self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    // One look at each tensor: another thread may change its shape meanwhile.
    let from = self_.as_impl().metadata();
    let sizes = &from.sizes[..];
    let mask = if dims.is_empty() { 0 } else { dim_mask(Some(dims), sizes.len())? };
    let strides =
        if matches!(out, Out::Fresh) { strides::dense_like(sizes, &from.strides) } else { strides::contiguous(sizes) };
    let slot = out.prepare(0, Spec { strides: Some(strides), ..Spec::like(sizes, self_) }, &[self_])?;
    let made = slot.tensor.as_impl().metadata();
    if !slot.is_meta() && made.numel > 0 {
        check!(
            made.sizes.len() == sizes.len(),
            "a tensor's metadata was changed by another thread during an operation"
        );
        // Both tensors with the result's dimensions as they lie in memory.
        let mut order: SmallVec<[usize; 5]> = (0..sizes.len()).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(made.strides[d]));
        let sorted = |m: &Metadata| {
            let pick = |list: &[i64]| -> Dims { order.iter().map(|&d| list[d]).collect() };
            Tensor::from_storage(m.storage.clone(), m.dtype, &pick(&m.sizes), &pick(&m.strides), m.offset)
        };
        let flipped: SmallVec<[bool; 5]> = order.iter().map(|&d| mask & 1 << d != 0).collect();
        let kernel = kernels::flip(self_.device())?.flip.get(made.dtype, "flip_cpu")?;
        kernel(&sorted(made)?, &sorted(from)?, &flipped)?;
    }
    slot.finish()
}
