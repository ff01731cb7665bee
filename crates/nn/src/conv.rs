//! [`Conv1d`], [`Conv2d`] and [`ConvTranspose2d`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::python::tuple;
use crate::{Forward, Module, Pair, Parameter, Single, init};

/// What a convolution does at the edges of its input, whose sides have settings of type `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding<S = Pair> {
    /// so many zeros on either side
    Zeros(S),
    /// as many zeros as keep the size (`padding='same'`); strides must be 1
    Same,
    /// none (`padding='valid'`)
    Valid,
}

impl<P: Into<Pair>> From<P> for Padding<Pair> {
    fn from(zeros: P) -> Self {
        Self::Zeros(zeros.into())
    }
}

impl<P: Into<Single>> From<P> for Padding<Single> {
    fn from(zeros: P) -> Self {
        Self::Zeros(zeros.into())
    }
}

fn check_groups(in_channels: i64, out_channels: i64, groups: i64) -> Result<()> {
    check_value!(groups > 0, "groups must be a positive integer");
    check_value!(in_channels % groups == 0, "in_channels must be divisible by groups");
    check_value!(out_channels % groups == 0, "out_channels must be divisible by groups");
    Ok(())
}

/// The settings that a convolution's text names: each list beside the number that goes without saying.
fn settings(
    channels: [i64; 2],
    kernel_size: &[i64],
    stride: &str,
    others: [(&str, &[i64], i64); 3],
    groups: i64,
    bias: bool,
) -> String {
    let [inputs, outputs] = channels;
    let mut text = format!("{inputs}, {outputs}, kernel_size={}, stride={stride}", tuple(kernel_size));
    for (name, values, usual) in others {
        if values.iter().any(|&value| value != usual) {
            text += &format!(", {name}={}", tuple(values));
        }
    }
    if groups != 1 {
        text += &format!(", groups={groups}");
    }
    if !bias {
        text += ", bias=False";
    }
    text
}

/// A convolution over so many dimensions, and its settings.
macro_rules! convolution {
    (
        $(#[$doc:meta])* $name:ident, $options:ident, $sides:ident: $dims:literal,
        $(#[$weight:meta])* $conv:ident, $conv_padding:ident
    ) => {
        options! {
            /// The settings of a convolution that have defaults.
            $options {
                /// steps of the kernel
                stride: $sides = $sides([1; $dims]),
                /// what happens at the edges
                padding: Padding<$sides> = Padding::Zeros($sides([0; $dims])),
                /// distances between the kernel's taps
                dilation: $sides = $sides([1; $dims]),
                /// blocks of channels that do not mix
                groups: i64 = 1,
                /// whether there is a bias
                bias: bool = true,
                /// dtype and device of the parameters
                tensor: TensorOptions = TensorOptions::new(),
            }
        }

        $(#[$doc])*
        #[derive(Module, Clone)]
        #[module(crate = "tensor_nn", repr)]
        pub struct $name {
            $(#[$weight])*
            pub weight: Parameter,
            /// (out_channels)
            pub bias: Option<Parameter>,
            in_channels: i64,
            out_channels: i64,
            #[module(skip)]
            kernel_size: $sides,
            options: $options,
        }

        impl $name {
            /// A convolution with default settings. A kernel size of one number is that of every side.
            ///
            /// # Errors
            /// When a size is negative or too large.
            pub fn new(in_channels: i64, out_channels: i64, kernel_size: impl Into<$sides>) -> Result<Self> {
                Self::new_opt(in_channels, out_channels, kernel_size, $options::new())
            }

            /// A convolution with every setting.
            ///
            /// # Errors
            /// As `new`; `ValueError` when the groups do not divide the channels, or strides meet `Padding::Same`.
            pub fn new_opt(
                in_channels: i64,
                out_channels: i64,
                kernel_size: impl Into<$sides>,
                options: $options,
            ) -> Result<Self> {
                let kernel_size = kernel_size.into();
                let $options { stride, padding, groups, bias, tensor, .. } = options;
                check_groups(in_channels, out_channels, groups)?;
                check_value!(
                    padding != Padding::Same || stride.0 == [1; $dims],
                    "padding='same' is not supported for strided convolutions"
                );
                let sizes = [&[out_channels, in_channels / groups], &kernel_size.0[..]].concat();
                let weight = empty(&sizes, tensor)?;
                let bias = bias.then(|| empty(&[out_channels], tensor)).transpose()?;
                init::reset_linear(&weight, bias.as_deref())?;
                Ok(Self { weight, bias, in_channels, out_channels, kernel_size, options })
            }

            fn extra_repr(&self) -> String {
                let $options { stride, padding, dilation, groups, .. } = self.options;
                let (text, zeros) = match padding {
                    Padding::Zeros(zeros) => ("", zeros.0),
                    Padding::Same => (", padding=same", [0; $dims]),
                    Padding::Valid => (", padding=valid", [0; $dims]),
                };
                // A padding with a name stands where the numbers would.
                let stride = format!("{}{text}", tuple(&stride.0));
                settings(
                    [self.in_channels, self.out_channels],
                    &self.kernel_size.0,
                    &stride,
                    [("padding", &zeros, 0), ("dilation", &dilation.0, 1), ("output_padding", &[], 0)],
                    groups,
                    self.bias.is_some(),
                )
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let $options { stride, padding, dilation, groups, .. } = self.options;
                let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
                let named = |name| ops::$conv_padding(input, weight, bias, &stride.0, name, &dilation.0, groups);
                match padding {
                    Padding::Zeros(zeros) => {
                        ops::$conv(input, weight, bias, &stride.0, &zeros.0, &dilation.0, groups)
                    }
                    Padding::Same => named("same"),
                    Padding::Valid => named("valid"),
                }
            }
        }
    };
}

convolution! {
    /// A 1-d convolution (`torch.nn.Conv1d`): input (N, C, L) or (C, L).
    Conv1d, Conv1dOptions, Single: 1,
    /// (out_channels, in_channels / groups, k)
    conv1d, conv1d_padding
}

convolution! {
    /// A 2-d convolution (`torch.nn.Conv2d`): input (N, C, H, W) or (C, H, W).
    Conv2d, Conv2dOptions, Pair: 2,
    /// (out_channels, in_channels / groups, kH, kW)
    conv2d, conv2d_padding
}

options! {
    /// The settings of a [`ConvTranspose2d`] that have defaults.
    ConvTranspose2dOptions {
        /// steps in the output from one element of the input to the next
        stride: Pair = Pair([1; 2]),
        /// how many elements the edges of the output lose
        padding: Pair = Pair([0; 2]),
        /// how many more elements the output has at its end
        output_padding: Pair = Pair([0; 2]),
        /// blocks of channels that do not mix
        groups: i64 = 1,
        /// whether there is a bias
        bias: bool = true,
        /// distances between the kernel's taps
        dilation: Pair = Pair([1; 2]),
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// A transposed 2-d convolution (`torch.nn.ConvTranspose2d`), the adjoint of a [`Conv2d`]: input (N, C, H, W) or (C, H, W).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct ConvTranspose2d {
    /// (in_channels, out_channels / groups, kH, kW)
    pub weight: Parameter,
    /// (out_channels)
    pub bias: Option<Parameter>,
    in_channels: i64,
    out_channels: i64,
    #[module(skip)]
    kernel_size: Pair,
    options: ConvTranspose2dOptions,
}

impl ConvTranspose2d {
    /// A transposed convolution with default settings. A kernel size of one number is a square.
    ///
    /// # Errors
    /// When a size is negative or too large.
    pub fn new(in_channels: i64, out_channels: i64, kernel_size: impl Into<Pair>) -> Result<Self> {
        Self::new_opt(in_channels, out_channels, kernel_size, ConvTranspose2dOptions::new())
    }

    /// A transposed convolution with every setting.
    ///
    /// # Errors
    /// As [`ConvTranspose2d::new`]; `ValueError` when the groups do not divide the channels.
    pub fn new_opt(
        in_channels: i64,
        out_channels: i64,
        kernel_size: impl Into<Pair>,
        options: ConvTranspose2dOptions,
    ) -> Result<Self> {
        let kernel_size = kernel_size.into();
        let ConvTranspose2dOptions { groups, bias, tensor, .. } = options;
        check_groups(in_channels, out_channels, groups)?;
        let sizes = [&[in_channels, out_channels / groups], &kernel_size.0[..]].concat();
        let weight = empty(&sizes, tensor)?;
        let bias = bias.then(|| empty(&[out_channels], tensor)).transpose()?;
        init::reset_linear(&weight, bias.as_deref())?;
        Ok(Self { weight, bias, in_channels, out_channels, kernel_size, options })
    }

    fn extra_repr(&self) -> String {
        let ConvTranspose2dOptions { stride, padding, output_padding, dilation, groups, .. } = self.options;
        settings(
            [self.in_channels, self.out_channels],
            &self.kernel_size.0,
            &tuple(&stride.0),
            [("padding", &padding.0, 0), ("dilation", &dilation.0, 1), ("output_padding", &output_padding.0, 0)],
            groups,
            self.bias.is_some(),
        )
    }
}

impl Forward for ConvTranspose2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let ConvTranspose2dOptions { stride, padding, output_padding, groups, dilation, .. } = self.options;
        let (weight, bias) = (self.weight.tensor(), self.bias.as_deref());
        let (padding, more) = (&padding.0, &output_padding.0);
        ops::conv_transpose2d_input(input, weight, bias, &stride.0, padding, more, groups, &dilation.0)
    }
}
