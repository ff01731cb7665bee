//! [`LayerNorm`], [`GroupNorm`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Module, Parameter, init, python};

options! {
    /// The settings of a [`LayerNorm`] that have defaults.
    LayerNormOptions {
        /// added to the variance
        eps: f64 = 1e-5,
        /// whether there are a weight and a bias
        elementwise_affine: bool = true,
        /// whether there is a bias beside the weight
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// Normalises the last dimensions to mean 0 and variance 1, then scales and shifts (`torch.nn.LayerNorm`).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct LayerNorm {
    /// (normalized_shape)
    pub weight: Option<Parameter>,
    /// (normalized_shape)
    pub bias: Option<Parameter>,
    #[module(skip)]
    normalized_shape: Vec<i64>,
    eps: f64,
}

impl LayerNorm {
    /// Over the last dimensions of the given shape, with weight and bias: `LayerNorm::new([64])`.
    ///
    /// # Errors
    /// When the shape is negative or too large.
    pub fn new(normalized_shape: impl Into<Vec<i64>>) -> Result<Self> {
        Self::new_opt(normalized_shape, LayerNormOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`LayerNorm::new`].
    pub fn new_opt(normalized_shape: impl Into<Vec<i64>>, options: LayerNormOptions) -> Result<Self> {
        let normalized_shape = normalized_shape.into();
        let LayerNormOptions { eps, elementwise_affine, bias, tensor } = options;
        let weight = elementwise_affine.then(|| empty(&normalized_shape, tensor)).transpose()?;
        let bias = (elementwise_affine && bias).then(|| empty(&normalized_shape, tensor)).transpose()?;
        if let Some(weight) = &weight {
            init::ones_(weight)?;
        }
        if let Some(bias) = &bias {
            init::zeros_(bias)?;
        }
        Ok(Self { weight, bias, normalized_shape, eps })
    }

    fn extra_repr(&self) -> String {
        format!(
            "{}, eps={}, elementwise_affine={}, bias={}",
            python::tuple(&self.normalized_shape),
            python::float(self.eps),
            python::bool(self.weight.is_some()),
            python::bool(self.bias.is_some())
        )
    }
}

impl Forward for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        ops::layer_norm(input, &self.normalized_shape, weight, bias, self.eps, true)
    }
}

options! {
    /// The settings of a [`GroupNorm`] that have defaults.
    GroupNormOptions {
        /// added to the variance
        eps: f64 = 1e-5,
        /// whether there are a weight and a bias
        affine: bool = true,
        /// whether there is a bias beside the weight
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// Normalises groups of channels to mean 0 and variance 1, then scales and shifts each channel (`torch.nn.GroupNorm`): input
/// (batch, channels, ..).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct GroupNorm {
    /// (num_channels)
    pub weight: Option<Parameter>,
    /// (num_channels)
    pub bias: Option<Parameter>,
    num_groups: i64,
    num_channels: i64,
    eps: f64,
}

impl GroupNorm {
    /// Channels in groups of equal size, with weight and bias.
    ///
    /// # Errors
    /// When the groups do not divide the channels.
    pub fn new(num_groups: i64, num_channels: i64) -> Result<Self> {
        Self::new_opt(num_groups, num_channels, GroupNormOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`GroupNorm::new`].
    pub fn new_opt(num_groups: i64, num_channels: i64, options: GroupNormOptions) -> Result<Self> {
        let divided = num_groups > 0 && num_channels % num_groups == 0;
        check_value!(divided, "num_channels ({num_channels}) must be divisible by num_groups ({num_groups})");
        let GroupNormOptions { eps, affine, bias, tensor } = options;
        let weight = affine.then(|| empty(&[num_channels], tensor)).transpose()?;
        let bias = (affine && bias).then(|| empty(&[num_channels], tensor)).transpose()?;
        if let Some(weight) = &weight {
            init::ones_(weight)?;
        }
        if let Some(bias) = &bias {
            init::zeros_(bias)?;
        }
        Ok(Self { weight, bias, num_groups, num_channels, eps })
    }

    fn extra_repr(&self) -> String {
        format!(
            "{}, {}, eps={}, affine={}, bias={}",
            self.num_groups,
            self.num_channels,
            python::float(self.eps),
            python::bool(self.weight.is_some()),
            python::bool(self.bias.is_some())
        )
    }
}

impl Forward for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        ops::group_norm(input, self.num_groups, weight, bias, self.eps, true)
    }
}
