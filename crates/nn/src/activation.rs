//! Activations as modules: [`ReLU`], [`GELU`], [`Tanh`], [`Sigmoid`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::{Forward, Module};

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
