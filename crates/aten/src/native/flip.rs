//! Elements in reverse order along dimensions.

use smallvec::SmallVec;
use tensor_core::Result;
use tensor_core::strides::{self, Dims};

use super::lanes::dim_mask;
use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

/// `self` with some dimensions reversed, laid out as `self` is.
pub fn flip(out: Out<'_>, self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mask = if dims.is_empty() { 0 } else { dim_mask(Some(dims), self_.dim())? };
    let sizes = self_.sizes();
    let strides = if matches!(out, Out::Fresh) {
        strides::dense_like(sizes, self_.strides())
    } else {
        strides::contiguous(sizes)
    };
    let slot = out.prepare(0, Spec { strides: Some(strides), ..Spec::like(sizes, self_) }, &[self_])?;
    let made = &slot.tensor;
    if !slot.is_meta() && made.numel() > 0 {
        // Both tensors with the result's dimensions as they lie in memory.
        let mut order: SmallVec<[usize; 5]> = (0..made.dim()).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(made.strides()[d]));
        let sorted = |x: &Tensor| {
            let pick = |list: &[i64]| -> Dims { order.iter().map(|&d| list[d]).collect() };
            x.view_of_storage(pick(x.sizes()), pick(x.strides()), x.storage_offset())
        };
        let flipped: SmallVec<[bool; 5]> = order.iter().map(|&d| mask & 1 << d != 0).collect();
        let kernel = kernels::flip(made.device())?.flip.get(made.dtype(), "flip_cpu")?;
        kernel(&sorted(made)?, &sorted(self_)?, &flipped)?;
    }
    slot.finish()
}
