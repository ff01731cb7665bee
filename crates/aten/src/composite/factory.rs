//! Factories: tensors from sizes, or in the image of another tensor.

use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, check, promotion};

use super::fill::{fill_elements, zero_elements};
use crate::{Tensor, ops};

fn check_layout(layout: Option<Layout>) -> Result<()> {
    match layout {
        None | Some(Layout::Strided) => Ok(()),
        Some(other) => {
            tensor_core::bail!(
                NotImplemented,
                "factories make strided tensors; the layout {other} is not supported yet"
            )
        }
    }
}

fn check_sizes(size: &[i64]) -> Result<()> {
    for &s in size {
        check!(s >= 0, "Trying to create tensor with negative dimension {s}: {}", show(size));
    }
    Ok(())
}

/// A tensor whose elements have no particular value.
pub fn empty_memory_format(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_layout(layout)?;
    check_sizes(size)?;
    let format = memory_format.unwrap_or_default();
    check!(
        format != MemoryFormat::Preserve,
        "empty(): memory_format preserve_format is only valid with an input tensor"
    );
    let dtype = dtype.unwrap_or_else(promotion::default_dtype);
    let device = device.unwrap_or(Device::CPU);
    if format == MemoryFormat::Contiguous {
        return Tensor::new_dense(size, dtype, device);
    }
    Tensor::new_strided(Dims::from_slice(size), strides::of_format(size, format)?, dtype, device)
}

/// A tensor with given strides whose elements have no particular value.
pub fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_layout(layout)?;
    check!(
        size.len() == stride.len(),
        "dimensionality of sizes ({}) must match dimensionality of strides ({})",
        size.len(),
        stride.len()
    );
    check_sizes(size)?;
    check!(
        stride.iter().all(|&s| s >= 0),
        "as_strided: Negative strides are not supported at the moment, got strides: {}",
        show(stride)
    );
    let dtype = dtype.unwrap_or_else(promotion::default_dtype);
    Tensor::new_strided(Dims::from_slice(size), Dims::from_slice(stride), dtype, device.unwrap_or(Device::CPU))
}

/// A dense tensor whose dimensions lie in memory in the order `physical_layout`, outermost first.
pub fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let n = size.len();
    check!(
        n == physical_layout.len(),
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to \
         len(physical_layout) = {}",
        physical_layout.len()
    );
    let mut order: Vec<usize> = Vec::with_capacity(n);
    for (i, &dim) in physical_layout.iter().enumerate() {
        check!(
            dim >= 0 && (dim as usize) < n,
            "Dimension out of range (expected to be between 0 and {}, but got {dim} at index {i}).  NB: negative dims not \
             currently supported; file an issue if you want it.",
            n as i64 - 1
        );
        check!(!order.contains(&(dim as usize)), "Duplicate dim not allowed");
        order.push(dim as usize);
    }
    check_sizes(size)?;
    let physical = strides::contiguous(&order.iter().map(|&dim| size[dim]).collect::<Dims>());
    let mut stride = vec![0; n];
    for (&dim, &step) in order.iter().zip(&physical) {
        stride[dim] = step;
    }
    empty_strided(size, &stride, dtype, layout, device, pin_memory)
}

/// The dtype that `full` takes from its number.
fn dtype_of_fill(value: Scalar) -> DType {
    match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => promotion::default_dtype(),
        Scalar::Complex(_) => promotion::default_dtype().to_complex(),
    }
}

/// A tensor of one value.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| dtype_of_fill(fill_value));
    let result = ops::empty_memory_format(size, Some(dtype), layout, device, pin_memory, None)?;
    fill_elements(&result, fill_value)?;
    Ok(result)
}

/// A tensor of zeros.
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check!(size.iter().all(|&s| s >= 0), "zeros: Dimension size must be non-negative.");
    let result = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    zero_elements(&result)?;
    Ok(result)
}

/// A tensor of ones.
pub fn ones(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(size, Scalar::Int(1), Some(dtype.unwrap_or_else(promotion::default_dtype)), layout, device, pin_memory)
}

/// A tensor of another's shape, strides (by default) and dtype, whose elements have no particular value.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_layout(layout)?;
    let sizes = self_.sizes();
    let strides = match memory_format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve if self_.is_non_overlapping_and_dense() => Dims::from_slice(self_.strides()),
        MemoryFormat::Preserve => strides::dense_like(sizes, self_.strides()),
        format => strides::of_format(sizes, format)?,
    };
    let dtype = dtype.unwrap_or(self_.dtype());
    Tensor::new_strided(Dims::from_slice(sizes), strides, dtype, device.unwrap_or(self_.device()))
}

/// `empty_like`, filled with one value.
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    fill_elements(&result, fill_value)?;
    Ok(result)
}

/// `empty_like`, filled with zeros.
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    zero_elements(&result)?;
    Ok(result)
}

/// `empty_like`, filled with ones.
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(1), dtype, layout, device, pin_memory, memory_format)
}

/// `empty` with another tensor's dtype and device.
pub fn new_empty(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    ops::empty_memory_format(size, Some(dtype), layout, Some(device), pin_memory, None)
}

/// `empty_strided` with another tensor's dtype and device.
pub fn new_empty_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    ops::empty_strided(size, stride, Some(dtype), layout, Some(device), pin_memory)
}

/// `full` with another tensor's dtype and device.
pub fn new_full(
    self_: &Tensor,
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let result = new_empty(self_, size, dtype, layout, device, pin_memory)?;
    fill_elements(&result, fill_value)?;
    Ok(result)
}

/// `zeros` with another tensor's dtype and device.
pub fn new_zeros(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    new_full(self_, size, Scalar::Int(0), dtype, layout, device, pin_memory)
}

/// `ones` with another tensor's dtype and device.
pub fn new_ones(
    self_: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    new_full(self_, size, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// A number as a 0-dim tensor.
pub fn scalar_tensor(
    s: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(tensor_core::promotion::default_dtype);
    full(&[], s, Some(dtype), layout, device, pin_memory)
}
