//! [`Dropout`].

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, check_value};

use crate::{Forward, Module, Training, python};

/// While training, zeros each element with probability `p` and scales the others by 1 / (1 - p) (`torch.nn.Dropout`).
#[derive(Module, Clone, Debug)]
#[module(crate = "tensor_nn", repr)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// Dropout with a probability.
    ///
    /// # Errors
    /// `ValueError` when it is not in [0, 1].
    pub fn new(p: f64) -> Result<Self> {
        check_value!(
            (0.0..=1.0).contains(&p),
            "dropout probability has to be between 0 and 1, but got {}",
            python::float(p)
        );
        Ok(Self { p, training: Training::default() })
    }

    fn extra_repr(&self) -> String {
        format!("p={}, inplace=False", python::float(self.p))
    }
}

impl Forward for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::dropout(input, self.p, self.training.get())
    }
}
