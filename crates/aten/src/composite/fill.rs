//! Tensors filled with one value, in place and as new ones.

use tensor_core::iter::IterConfig;
use tensor_core::{DType, Result, Scalar, check};

use crate::{Tensor, kernels, ops};

/// Sets every element to a number.
pub fn fill_scalar_(self_: &Tensor, value: Scalar) -> Result<()> {
    fill_elements(self_, value)?;
    self_.as_impl().bump_version();
    Ok(())
}

/// `fill_` of a tensor that was just made: nobody has seen its first elements, so this counts as no change.
pub(crate) fn fill_elements(self_: &Tensor, value: Scalar) -> Result<()> {
    // Half types take what a double holds, as infinity if need be.
    let dtype = self_.dtype();
    value.check_fits(if matches!(dtype, DType::F16 | DType::BF16) { DType::F64 } else { dtype })?;
    if !self_.is_meta() && self_.numel() > 0 {
        let kernel = kernels::fill(self_.device())?.fill.get(self_.dtype(), "fill_cpu")?;
        // An expanded tensor may be filled: every write of an element is the same.
        let mut iter = IterConfig::nullary_op(self_.as_impl()).check_mem_overlap(false).build()?;
        iter.set_params(&[value]);
        kernel(&iter)?;
    }
    Ok(())
}

/// Up to here the bytes of a small tensor are cleared without a kernel.
const FEW_BYTES: usize = 16 << 10;

/// [`fill_elements`] with zeros, of a tensor that has all of its storage.
pub(crate) fn zero_elements(self_: &Tensor) -> Result<()> {
    let storage = self_.storage();
    if self_.device().is_cpu() && storage.nbytes() <= FEW_BYTES {
        // Zero is no bit set, in every dtype.
        storage.borrow_mut()?.bytes_mut().fill(0);
        return Ok(());
    }
    fill_elements(self_, Scalar::Int(0))
}

/// Sets every element to the value of a 0-dim tensor.
pub fn fill_(self_: &Tensor, value: &Tensor) -> Result<()> {
    check!(
        value.dim() == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    if self_.device() != value.device() && !self_.is_meta() {
        return fill_scalar_(self_, super::copy::item(value)?);
    }
    let shared = self_.storage().ptr_eq(value.storage());
    let value = if shared { ops::clone(value, None)? } else { value.clone() };
    ops::copy_(self_, &value, false).map(drop)
}

/// A tensor in the image of another, every element a number.
pub fn fill_scalar(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    fill_elements(&result, value)?;
    Ok(result)
}

/// A tensor in the image of another, every element the value of a 0-dim tensor.
pub fn fill(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::fill_(&result, value)?;
    Ok(result)
}

/// Sets every element to zero.
pub fn zero_(self_: &Tensor) -> Result<()> {
    fill_scalar_(self_, Scalar::Int(0))
}

/// A tensor of zeros in the image of another.
pub fn zero(self_: &Tensor) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    zero_elements(&result)?;
    Ok(result)
}
