//! [`Linear`].

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Device, Result};

use crate::{Forward, Module, Parameter, init};

/// An empty parameter, to be initialised.
pub(crate) fn empty(sizes: &[i64], options: TensorOptions) -> Result<Parameter> {
    Parameter::new(ops::empty_memory_format(sizes, options.dtype, None, options.device, None, None)?)
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
    /// A layer with a bias, initialised as PyTorch does.
    ///
    /// # Errors
    /// When the sizes are negative or too large.
    pub fn new(in_features: i64, out_features: i64) -> Result<Self> {
        Self::new_opt(in_features, out_features, true, None, None)
    }

    /// A layer with every setting.
    ///
    /// # Errors
    /// As [`Linear::new`].
    pub fn new_opt(
        in_features: i64,
        out_features: i64,
        bias: bool,
        device: Option<Device>,
        dtype: Option<DType>,
    ) -> Result<Self> {
        let options = TensorOptions { dtype, device, ..TensorOptions::new() };
        let weight = empty(&[out_features, in_features], options)?;
        let bias = bias.then(|| empty(&[out_features], options)).transpose()?;
        init::reset_linear(&weight, bias.as_deref())?;
        Ok(Self { weight, bias })
    }

    fn extra_repr(&self) -> String {
        let sizes = self.weight.sizes();
        let bias = if self.bias.is_some() { "True" } else { "False" };
        format!("in_features={}, out_features={}, bias={bias}", sizes[1], sizes[0])
    }
}

impl Forward for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::linear(input, &self.weight, self.bias.as_deref())
    }
}
