//! Activations as modules: [`ReLU`], [`PReLU`], [`GELU`], [`Tanh`], [`Sigmoid`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::Result;

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Module, Parameter, init};

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Module, Clone, Copy, Debug, Default)]
        #[module(crate = "tensor_nn")]
        pub struct $name;

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                ops::$op(input)
            }
        }
    )* };
}

activations! {
    /// max(x, 0) (`torch.nn.ReLU`)
    ReLU => relu;
    /// tanh(x) (`torch.nn.Tanh`)
    Tanh => tanh;
    /// 1 / (1 + exp(-x)) (`torch.nn.Sigmoid`)
    Sigmoid => sigmoid;
}

/// x times the normal distribution function of x (`torch.nn.GELU`).
#[derive(Module, Clone, Copy, Debug)]
#[module(crate = "tensor_nn", repr)]
pub struct GELU {
    approximate: &'static str,
}

impl GELU {
    /// Exact, by the error function.
    pub const fn new() -> Self {
        Self { approximate: "none" }
    }

    /// Approximated by tanh (`approximate='tanh'`).
    pub const fn tanh() -> Self {
        Self { approximate: "tanh" }
    }

    fn extra_repr(&self) -> String {
        format!("approximate='{}'", self.approximate)
    }
}

impl Default for GELU {
    fn default() -> Self {
        Self::new()
    }
}

impl Forward for GELU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::gelu(input, self.approximate)
    }
}

options! {
    /// The settings of a [`PReLU`], all of which have defaults.
    PReLUOptions {
        /// slopes: one, or one a channel
        num_parameters: i64 = 1,
        /// what the slopes are before they are trained
        init: f64 = 0.25,
        /// dtype and device of the parameter
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// x where it is positive, and a trained slope times x elsewhere (`torch.nn.PReLU`).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct PReLU {
    /// (num_parameters)
    pub weight: Parameter,
}

impl PReLU {
    /// One slope of 0.25.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new() -> Result<Self> {
        Self::new_opt(PReLUOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// When the number of slopes is negative.
    pub fn new_opt(options: PReLUOptions) -> Result<Self> {
        let weight = empty(&[options.num_parameters], options.tensor)?;
        init::constant_(&weight, options.init)?;
        Ok(Self { weight })
    }

    fn extra_repr(&self) -> String {
        format!("num_parameters={}", self.weight.numel())
    }
}

impl Forward for PReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::prelu(input, &self.weight)
    }
}
