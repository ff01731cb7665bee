//! [`Flatten`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::{Forward, Module};

/// Dimensions `start_dim` to `end_dim` as one (`torch.nn.Flatten`); by default all but the first.
#[derive(Module, Clone, Copy, Debug)]
#[module(crate = "tensor_nn", repr)]
pub struct Flatten {
    start_dim: i64,
    end_dim: i64,
}

impl Flatten {
    /// All dimensions but the first as one.
    pub const fn new() -> Self {
        Self::new_opt(1, -1)
    }

    /// Dimensions `start_dim` to `end_dim` as one.
    pub const fn new_opt(start_dim: i64, end_dim: i64) -> Self {
        Self { start_dim, end_dim }
    }

    fn extra_repr(&self) -> String {
        format!("start_dim={}, end_dim={}", self.start_dim, self.end_dim)
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Self::new()
    }
}

impl Forward for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::flatten_using_ints(input, self.start_dim, self.end_dim)
    }
}
