//! [`LayerNorm`].

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::linear::empty;
use crate::{Forward, Module, Parameter, init};

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
    /// Over the last dimensions of the given shape, with weight and bias.
    ///
    /// # Errors
    /// When the shape is negative or too large.
    pub fn new(normalized_shape: impl Into<Vec<i64>>) -> Result<Self> {
        Self::new_opt(normalized_shape, 1e-5, true, true, TensorOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`LayerNorm::new`].
    pub fn new_opt(
        normalized_shape: impl Into<Vec<i64>>,
        eps: f64,
        elementwise_affine: bool,
        bias: bool,
        options: TensorOptions,
    ) -> Result<Self> {
        let normalized_shape = normalized_shape.into();
        let weight = elementwise_affine.then(|| empty(&normalized_shape, options)).transpose()?;
        let bias = (elementwise_affine && bias).then(|| empty(&normalized_shape, options)).transpose()?;
        if let Some(weight) = &weight {
            init::ones_(weight)?;
        }
        if let Some(bias) = &bias {
            init::zeros_(bias)?;
        }
        Ok(Self { weight, bias, normalized_shape, eps })
    }

    fn extra_repr(&self) -> String {
        let shape = self.normalized_shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let shape = if self.normalized_shape.len() == 1 { format!("({shape},)") } else { format!("({shape})") };
        let affine = if self.weight.is_some() { "True" } else { "False" };
        let bias = if self.bias.is_some() { "True" } else { "False" };
        format!("{shape}, eps={:e}, elementwise_affine={affine}, bias={bias}", self.eps).replace("e-5", "e-05")
    }
}

impl Forward for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
        ops::layer_norm(input, &self.normalized_shape, weight, bias, self.eps, true)
    }
}
