//! [`Conv2d`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Module, Pair, Parameter, init};

/// What a convolution does at the edges of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// so many zeros on either side
    Zeros(Pair),
    /// as many zeros as keep the size (`padding='same'`); strides must be 1
    Same,
    /// none (`padding='valid'`)
    Valid,
}

impl<P: Into<Pair>> From<P> for Padding {
    fn from(zeros: P) -> Self {
        Self::Zeros(zeros.into())
    }
}

options! {
    /// The settings of a [`Conv2d`] that have defaults.
    Conv2dOptions {
        /// steps of the kernel
        stride: Pair = Pair([1; 2]),
        /// what happens at the edges
        padding: Padding = Padding::Zeros(Pair([0; 2])),
        /// distances between the kernel's taps
        dilation: Pair = Pair([1; 2]),
        /// blocks of channels that do not mix
        groups: i64 = 1,
        /// whether there is a bias
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// A 2-d convolution (`torch.nn.Conv2d`): input (N, C, H, W) or (C, H, W).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Conv2d {
    /// (out_channels, in_channels / groups, kH, kW)
    pub weight: Parameter,
    /// (out_channels)
    pub bias: Option<Parameter>,
    in_channels: i64,
    out_channels: i64,
    #[module(skip)]
    kernel_size: Pair,
    options: Conv2dOptions,
}

impl Conv2d {
    /// A convolution with default settings. A kernel size of one number is a square.
    ///
    /// # Errors
    /// When a size is negative or too large.
    pub fn new(in_channels: i64, out_channels: i64, kernel_size: impl Into<Pair>) -> Result<Self> {
        Self::new_opt(in_channels, out_channels, kernel_size, Conv2dOptions::new())
    }

    /// A convolution with every setting.
    ///
    /// # Errors
    /// As [`Conv2d::new`]; `ValueError` when the groups do not divide the channels, or strides meet `Padding::Same`.
    pub fn new_opt(
        in_channels: i64,
        out_channels: i64,
        kernel_size: impl Into<Pair>,
        options: Conv2dOptions,
    ) -> Result<Self> {
        let kernel_size = kernel_size.into();
        let Conv2dOptions { stride, padding, groups, bias, tensor, .. } = options;
        check_value!(groups > 0, "groups must be a positive integer");
        check_value!(in_channels % groups == 0, "in_channels must be divisible by groups");
        check_value!(out_channels % groups == 0, "out_channels must be divisible by groups");
        check_value!(
            padding != Padding::Same || stride.0 == [1; 2],
            "padding='same' is not supported for strided convolutions"
        );
        let Pair([height, width]) = kernel_size;
        let weight = empty(&[out_channels, in_channels / groups, height, width], tensor)?;
        let bias = bias.then(|| empty(&[out_channels], tensor)).transpose()?;
        init::reset_linear(&weight, bias.as_deref())?;
        Ok(Self { weight, bias, in_channels, out_channels, kernel_size, options })
    }

    fn extra_repr(&self) -> String {
        let Conv2dOptions { stride, padding, dilation, groups, .. } = self.options;
        let (kernel_size, stride) = (self.kernel_size.repr(), stride.repr());
        let mut text =
            format!("{}, {}, kernel_size={kernel_size}, stride={stride}", self.in_channels, self.out_channels);
        match padding {
            Padding::Zeros(Pair([0, 0])) => {}
            Padding::Zeros(pair) => text += &format!(", padding={}", pair.repr()),
            Padding::Same => text += ", padding=same",
            Padding::Valid => text += ", padding=valid",
        }
        if dilation.0 != [1; 2] {
            text += &format!(", dilation={}", dilation.repr());
        }
        if groups != 1 {
            text += &format!(", groups={groups}");
        }
        if self.bias.is_none() {
            text += ", bias=False";
        }
        text
    }
}

impl Forward for Conv2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let Conv2dOptions { stride: Pair(stride), padding, dilation: Pair(dilation), groups, .. } = self.options;
        let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
        match padding {
            Padding::Zeros(Pair(zeros)) => ops::conv2d(input, weight, bias, &stride, &zeros, &dilation, groups),
            Padding::Same => ops::conv2d_padding(input, weight, bias, &stride, "same", &dilation, groups),
            Padding::Valid => ops::conv2d_padding(input, weight, bias, &stride, "valid", &dilation, groups),
        }
    }
}
