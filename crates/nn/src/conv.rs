//! [`Conv2d`].

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, ops};
use tensor_core::{Result, check_value};

use crate::linear::empty;
use crate::{Forward, Module, Parameter, init};

/// A 2-d convolution (`torch.nn.Conv2d`): input (N, C, H, W) or (C, H, W).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Conv2d {
    /// (out_channels, in_channels / groups, kH, kW)
    pub weight: Parameter,
    /// (out_channels)
    pub bias: Option<Parameter>,
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
}

/// The settings of a [`Conv2d`] that have defaults.
#[derive(Clone, Copy, Debug)]
pub struct Conv2dOptions {
    /// steps of the kernel
    pub stride: [i64; 2],
    /// zeros around the input
    pub padding: [i64; 2],
    /// distances between taps
    pub dilation: [i64; 2],
    /// blocks of channels that do not mix
    pub groups: i64,
    /// whether there is a bias
    pub bias: bool,
    /// dtype and device of the parameters
    pub tensor: TensorOptions,
}

impl Default for Conv2dOptions {
    fn default() -> Self {
        Self { stride: [1; 2], padding: [0; 2], dilation: [1; 2], groups: 1, bias: true, tensor: TensorOptions::new() }
    }
}

impl Conv2dOptions {
    /// Sets the zeros around the input on all sides.
    pub const fn padding(self, padding: i64) -> Self {
        Self { padding: [padding; 2], ..self }
    }

    /// Sets the steps of the kernel in both directions.
    pub const fn stride(self, stride: i64) -> Self {
        Self { stride: [stride; 2], ..self }
    }
}

impl Conv2d {
    /// A convolution with a square kernel and default settings.
    ///
    /// # Errors
    /// When the sizes are not positive.
    pub fn new(in_channels: i64, out_channels: i64, kernel_size: i64) -> Result<Self> {
        Self::new_opt(in_channels, out_channels, [kernel_size; 2], Conv2dOptions::default())
    }

    /// A convolution with every setting.
    ///
    /// # Errors
    /// When the sizes are not positive, or the groups do not divide the channels.
    pub fn new_opt(in_channels: i64, out_channels: i64, kernel_size: [i64; 2], options: Conv2dOptions) -> Result<Self> {
        let Conv2dOptions { stride, padding, dilation, groups, bias, tensor } = options;
        check_value!(groups > 0, "groups must be a positive integer");
        check_value!(in_channels % groups == 0, "in_channels must be divisible by groups");
        check_value!(out_channels % groups == 0, "out_channels must be divisible by groups");
        let weight = empty(&[out_channels, in_channels / groups, kernel_size[0], kernel_size[1]], tensor)?;
        let bias = bias.then(|| empty(&[out_channels], tensor)).transpose()?;
        init::reset_linear(&weight, bias.as_deref())?;
        Ok(Self { weight, bias, stride, padding, dilation, groups })
    }

    fn extra_repr(&self) -> String {
        let sizes = self.weight.sizes();
        let pair = |p: [i64; 2]| format!("({}, {})", p[0], p[1]);
        let mut text = format!(
            "{}, {}, kernel_size={}, stride={}",
            sizes[1] * self.groups,
            sizes[0],
            pair([sizes[2], sizes[3]]),
            pair(self.stride)
        );
        if self.padding != [0; 2] {
            text += &format!(", padding={}", pair(self.padding));
        }
        if self.dilation != [1; 2] {
            text += &format!(", dilation={}", pair(self.dilation));
        }
        if self.groups != 1 {
            text += &format!(", groups={}", self.groups);
        }
        if self.bias.is_none() {
            text += ", bias=False";
        }
        text
    }
}

impl Forward for Conv2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_deref();
        ops::conv2d(input, &self.weight, bias, &self.stride, &self.padding, &self.dilation, self.groups)
    }
}
