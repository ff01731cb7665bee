//! [`TensorOptions`]: dtype, device and the like of a tensor that is about to be made. The factories that take them are in
//! `factories` (`Tensor::zeros`), tensors from nested lists in [`data`] (`tensor!`).

pub mod data;
mod factories;

use tensor_core::{DType, Device, Layout, MemoryFormat, Result, check, promotion};

use crate::{Tensor, ops};

/// What a factory makes: the keyword arguments of `torch.zeros`. What is not said is the factory's default.
///
/// Factories take `impl Into<TensorOptions>`: `()` for the defaults, a [`DType`], a [`Device`], both as a pair, or a built
/// one: `TensorOptions::new().dtype(DType::F64).requires_grad(true)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorOptions {
    /// the element type
    pub dtype: Option<DType>,
    /// where it lies
    pub device: Option<Device>,
    /// how the elements are arranged
    pub layout: Option<Layout>,
    /// the order of dimensions in memory
    pub memory_format: Option<MemoryFormat>,
    /// whether gradients are wanted
    pub requires_grad: bool,
}

impl TensorOptions {
    /// Every default.
    pub const fn new() -> Self {
        Self { dtype: None, device: None, layout: None, memory_format: None, requires_grad: false }
    }

    /// Sets the element type.
    pub const fn dtype(self, dtype: DType) -> Self {
        Self { dtype: Some(dtype), ..self }
    }

    /// Sets where the tensor lies.
    pub const fn device(self, device: Device) -> Self {
        Self { device: Some(device), ..self }
    }

    /// Sets how the elements are arranged.
    pub const fn layout(self, layout: Layout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// Sets the order of dimensions in memory.
    pub const fn memory_format(self, format: MemoryFormat) -> Self {
        Self { memory_format: Some(format), ..self }
    }

    /// Says whether gradients are wanted.
    pub const fn requires_grad(self, requires_grad: bool) -> Self {
        Self { requires_grad, ..self }
    }

    /// The dtype, or the default one of the process.
    pub fn dtype_or_default(&self) -> DType {
        self.dtype.unwrap_or_else(promotion::default_dtype)
    }

    /// The device, or the host.
    pub fn device_or_default(&self) -> Device {
        self.device.unwrap_or(Device::CPU)
    }

    /// Gives a fresh tensor of the right dtype and device the rest of what was asked for.
    fn finish(&self, tensor: Tensor) -> Result<Tensor> {
        let tensor = match self.memory_format {
            Some(format) if !tensor.is_contiguous_in(format) => ops::contiguous(&tensor, format)?,
            _ => tensor,
        };
        if self.requires_grad {
            check!(
                tensor.dtype().is_differentiable(),
                "Only Tensors of floating point and complex dtype can require gradients"
            );
            tensor.requires_grad_(true)?;
        }
        Ok(tensor)
    }
}

impl From<()> for TensorOptions {
    fn from((): ()) -> Self {
        Self::new()
    }
}

impl From<DType> for TensorOptions {
    fn from(dtype: DType) -> Self {
        Self::new().dtype(dtype)
    }
}

impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        Self::new().device(device)
    }
}

impl From<(DType, Device)> for TensorOptions {
    fn from((dtype, device): (DType, Device)) -> Self {
        Self::new().dtype(dtype).device(device)
    }
}

impl From<Layout> for TensorOptions {
    fn from(layout: Layout) -> Self {
        Self::new().layout(layout)
    }
}

impl From<MemoryFormat> for TensorOptions {
    fn from(format: MemoryFormat) -> Self {
        Self::new().memory_format(format)
    }
}

impl Tensor {
    /// The dtype, device and layout of this tensor, to make another like it.
    pub fn options(&self) -> TensorOptions {
        TensorOptions::new().dtype(self.dtype()).device(self.device()).layout(self.layout())
    }
}
