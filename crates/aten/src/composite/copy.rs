//! Copies and casts between dtypes, devices and memory formats, and numbers out of tensors.

use tensor_core::iter::IterConfig;
use tensor_core::{
    DType, Device, Element, Layout, MemoryFormat, Result, Scalar, Storage, bail, check, dispatch, read, strides,
};

use crate::{Tensor, kernels, ops};

/// Copies `src`, broadcast and cast, into `self`.
pub fn copy_(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<()> {
    if self_.is_same(src) {
        return Ok(());
    }
    copy_elements(self_, src)?;
    self_.as_impl().bump_version();
    Ok(())
}

/// `copy_` into a tensor that was just made: nobody has seen its first elements, so this counts as no change.
pub(crate) fn copy_elements(self_: &Tensor, src: &Tensor) -> Result<()> {
    if src.is_meta() && !self_.is_meta() {
        bail!(NotImplemented, "Cannot copy out of meta tensor; no data!");
    }
    if self_.is_meta() {
        tensor_core::strides::expand(src.sizes(), src.strides(), self_.sizes())?;
    } else {
        let iter = IterConfig::new()
            .output(Some(self_.as_impl()))
            .input(src.as_impl())
            .resize_outputs(false)
            .check_all_same_dtype(false)
            .check_all_same_device(false)
            .build()?;
        if iter.numel() > 0 {
            kernels::copy(self_.device())?.copy.get(self_.dtype(), "copy_")?(&iter)?;
        }
    }
    Ok(())
}

/// `src` broadcast and cast to the image of `self`.
pub fn copy(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    // The image keeps strides and offset: its storage is as long as the original's view needs.
    if tensor_core::overlap::has_internal_overlap(self_.as_impl()) {
        let result = ops::clone(self_, None)?;
        copy_elements(&result, src)?;
        return Ok(result);
    }
    let m = self_.as_impl().metadata();
    let bytes = strides::storage_bytes(&m.sizes, &m.strides, m.dtype.itemsize(), m.offset)?;
    let storage = Storage::allocate(bytes, self_.device())?;
    let result = Tensor::from_storage(storage, m.dtype, &m.sizes, &m.strides, m.offset)?;
    copy_elements(&result, src)?;
    Ok(result)
}

/// A copy of the elements in fresh memory.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, memory_format)?;
    copy_elements(&result, self_)?;
    Ok(result)
}

/// The tensor itself if it is contiguous in the format, else a copy that is.
pub fn contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<Tensor> {
    if self_.is_contiguous_in(memory_format) {
        return Ok(Tensor::clone(self_));
    }
    check!(memory_format != MemoryFormat::Preserve, "preserve memory format is unsupported by the contiguous operator");
    ops::clone(self_, Some(memory_format))
}

/// A copy with another dtype, device or memory format.
pub fn _to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check!(
        layout.is_none_or(|l| l == self_.layout()),
        "to(options) doesn't support converting to a different layout, but got self.layout being {} and options.layout \
         set as {}",
        self_.layout(),
        layout.unwrap_or_default()
    );
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    copy_elements(&result, self_)?;
    Ok(result)
}

fn to(
    self_: &Tensor,
    dtype: Option<DType>,
    device: Option<Device>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let format = memory_format.unwrap_or(MemoryFormat::Preserve);
    let same = dtype.is_none_or(|d| d == self_.dtype())
        && device.is_none_or(|d| d == self_.device())
        && (format == MemoryFormat::Preserve || self_.suggest_memory_format() == format);
    if same && !copy {
        return Ok(Tensor::clone(self_));
    }
    ops::_to_copy(self_, dtype, None, device, None, non_blocking, memory_format)
}

/// The tensor itself if it has the dtype, else a copy that has.
pub fn to_dtype(
    self_: &Tensor,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, Some(dtype), None, non_blocking, copy, memory_format)
}

/// The tensor itself if it has the dtype and device, else a copy that has.
pub fn to_device(
    self_: &Tensor,
    device: Device,
    dtype: DType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, Some(dtype), Some(device), non_blocking, copy, memory_format)
}

/// The tensor itself if it has the options, else a copy that has.
pub fn to_dtype_layout(
    self_: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, dtype, device, non_blocking, copy, memory_format)
}

/// The tensor itself if it has the other's dtype and device, else a copy that has.
pub fn to_other(
    self_: &Tensor,
    other: &Tensor,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, Some(other.dtype()), Some(other.device()), non_blocking, copy, memory_format)
}

/// `to_other` under its older name.
pub fn type_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    to(self_, Some(other.dtype()), Some(other.device()), false, false, None)
}

/// The only element as a number.
pub fn item(self_: &Tensor) -> Result<Scalar> {
    check!(self_.numel() == 1, "a Tensor with {} elements cannot be converted to Scalar", self_.numel());
    check!(!self_.is_meta(), "Tensor.item() cannot be called on meta tensors");
    ops::_local_scalar_dense(self_)
}

/// The first element as a number.
pub fn _local_scalar_dense(self_: &Tensor) -> Result<Scalar> {
    check!(self_.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
    if !self_.device().is_cpu() {
        let host = ops::_to_copy(self_, None, None, Some(Device::CPU), None, false, None)?;
        return _local_scalar_dense(&host);
    }
    let seen = self_.as_impl().metadata();
    dispatch!(seen.dtype, T => read::element_at::<T>(seen, seen.offset).map(Element::to_scalar))
}
