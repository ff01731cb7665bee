//! [`Linear`], [`Bilinear`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Module, Parameter, init, python};

options! {
    /// The settings of a [`Linear`] that have defaults.
    LinearOptions {
        /// whether there is a bias
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// `y = x A^T + b` (`torch.nn.Linear`): input (.., in_features), output (.., out_features).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Linear {
    /// (out_features, in_features)
    pub weight: Parameter,
    /// (out_features)
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A layer with a bias. Weight and bias are uniform within 1 / sqrt(in_features), PyTorch's own numbers from the
    /// same seed.
    ///
    /// # Errors
    /// When the sizes are negative or too large.
    pub fn new(in_features: i64, out_features: i64) -> Result<Self> {
        Self::new_opt(in_features, out_features, LinearOptions::new())
    }

    /// A layer with every setting.
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn new_opt(in_features: i64, out_features: i64, options: LinearOptions) -> Result<Self> {
        let weight = empty(&[out_features, in_features], options.tensor)?;
        let bias = options.bias.then(|| empty(&[out_features], options.tensor)).transpose()?;
        init::reset_linear(&weight, bias.as_deref())?;
        Ok(Self { weight, bias })
    }

    fn extra_repr(&self) -> String {
        let (weight, bias) = (&self.weight, python::bool(self.bias.is_some()));
        format!("in_features={}, out_features={}, bias={bias}", weight.extent(1), weight.extent(0))
    }
}

impl Forward for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::linear(input, &self.weight, self.bias.as_deref())
    }
}

/// `y = x A z + b`, a matrix for each output (`torch.nn.Bilinear`): inputs (.., in1_features) and (.., in2_features), output
/// (.., out_features).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Bilinear {
    /// (out_features, in1_features, in2_features)
    pub weight: Parameter,
    /// (out_features)
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// A layer with a bias. Weight and bias are uniform within 1 / sqrt(in1_features).
    ///
    /// # Errors
    /// When `in1_features` is not positive, or the sizes are negative or too large.
    pub fn new(in1_features: i64, in2_features: i64, out_features: i64) -> Result<Self> {
        Self::new_opt(in1_features, in2_features, out_features, LinearOptions::new())
    }

    /// A layer with every setting.
    ///
    /// # Errors
    /// As [`Bilinear::new`].
    pub fn new_opt(in1_features: i64, in2_features: i64, out_features: i64, options: LinearOptions) -> Result<Self> {
        check_value!(in1_features > 0, "in1_features must be > 0, but got {in1_features}");
        let weight = empty(&[out_features, in1_features, in2_features], options.tensor)?;
        let bias = options.bias.then(|| empty(&[out_features], options.tensor)).transpose()?;
        let bound = 1.0 / (in1_features as f64).sqrt();
        init::uniform_(&weight, -bound, bound)?;
        if let Some(bias) = &bias {
            init::uniform_(bias, -bound, bound)?;
        }
        Ok(Self { weight, bias })
    }

    /// The output for two inputs.
    ///
    /// # Errors
    /// For inputs of other sizes.
    pub fn forward(&self, input1: &Tensor, input2: &Tensor) -> Result<Tensor> {
        ops::bilinear(input1, input2, &self.weight, self.bias.as_deref())
    }

    fn extra_repr(&self) -> String {
        let [outputs, in1, in2] = [0, 1, 2].map(|dim| self.weight.extent(dim));
        let bias = python::bool(self.bias.is_some());
        format!("in1_features={in1}, in2_features={in2}, out_features={outputs}, bias={bias}")
    }
}
