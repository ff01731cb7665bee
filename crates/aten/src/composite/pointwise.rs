//! Element-wise operators made of others: `where` with numbers, masked fills out of place, old names.

mod activation;
mod aliases;
mod complex;
mod predicates;

use tensor_core::{Result, Scalar, strides};

pub use activation::*;
pub use aliases::*;
pub use complex::*;
pub use predicates::*;

use crate::{Tensor, ops};

/// `maximum` under its older name.
pub fn max_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::maximum(self_, other)
}

/// `minimum` under its older name.
pub fn min_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::minimum(self_, other)
}

/// A number as a tensor on the device of another.
fn number(value: Scalar, device: &Tensor) -> Result<Tensor> {
    let wrapped = Tensor::wrapped_number(value)?;
    if device.device().is_cpu() {
        return Ok(wrapped);
    }
    let there = ops::_to_copy(&wrapped, None, None, Some(device.device()), None, false, None)?;
    there.as_impl().set_wrapped_number(true);
    Ok(there)
}

/// A number where the condition holds, else `other`.
pub fn where_scalar_self(condition: &Tensor, self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::where_self(condition, &number(self_, condition)?, other)
}

/// `self` where the condition holds, else a number.
pub fn where_scalar_other(condition: &Tensor, self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, self_, &number(other, condition)?)
}

/// One number where the condition holds, else another.
pub fn where_scalar(condition: &Tensor, self_: Scalar, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, &number(self_, condition)?, &number(other, condition)?)
}

/// A fresh copy of `self`, expanded to the shape that it and the mask broadcast to.
fn expanded_copy(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let shape = strides::broadcast(self_.sizes(), mask.sizes())?;
    let expanded = ops::expand(self_, &shape, false)?;
    ops::clone(&expanded, Some(tensor_core::MemoryFormat::Contiguous))
}

/// `self` with a number where the mask holds.
pub fn masked_fill_scalar(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    let result = expanded_copy(self_, mask)?;
    ops::masked_fill_scalar_(&result, mask, value)?;
    Ok(result)
}

/// `self` with the value of a 0-dim tensor where the mask holds.
pub fn masked_fill(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    let result = expanded_copy(self_, mask)?;
    ops::masked_fill_(&result, mask, value)?;
    Ok(result)
}

/// `masked_fill_scalar` in place; the mask is broadcast to `self`.
pub fn masked_fill_scalar_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    crate::native::pointwise::masked_fill_(self_, mask, value)
}

/// `masked_fill` in place; the mask is broadcast to `self`.
pub fn masked_fill_(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    tensor_core::check!(
        value.dim() == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    if self_.is_meta() {
        return crate::native::pointwise::masked_fill_(self_, mask, Scalar::Int(0));
    }
    crate::native::pointwise::masked_fill_(self_, mask, super::copy::item(value)?)
}

/// Gradients of `_prelu_kernel` for the elements and for the weights, of the broadcast shape.
pub fn _prelu_kernel_backward(grad_output: &Tensor, self_: &Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
    let above = ops::gt_scalar(self_, 0)?;
    let of_self = ops::where_self(&above, grad_output, &ops::mul(weight, grad_output)?)?;
    let of_weight = ops::where_scalar_self(&above, 0, &ops::mul(self_, grad_output)?)?;
    Ok((of_self, of_weight))
}
