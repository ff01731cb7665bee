//! Losses as modules: [`MSELoss`], [`CrossEntropyLoss`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::{Buffer, Member, Module, Visitor};

/// What becomes of a loss's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// they stay
    None,
    /// their mean
    #[default]
    Mean,
    /// their sum
    Sum,
}

impl Reduction {
    /// The number that schemas take.
    pub const fn code(self) -> i64 {
        self as i64
    }
}

impl Member for Reduction {
    fn accept<'a>(&'a self, _: &str, _: &mut dyn Visitor<'a>) {}
}

/// The squared difference of input and target (`torch.nn.MSELoss`).
#[derive(Module, Clone, Copy, Debug, Default)]
#[module(crate = "tensor_nn")]
pub struct MSELoss {
    /// what becomes of the elements
    pub reduction: Reduction,
}

impl MSELoss {
    /// The mean squared difference.
    pub const fn new() -> Self {
        Self { reduction: Reduction::Mean }
    }

    /// Sets what becomes of the elements.
    pub const fn reduction(self, reduction: Reduction) -> Self {
        Self { reduction }
    }

    /// The loss of an input against a target of the same shape.
    ///
    /// # Errors
    /// When the shapes do not broadcast.
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::mse_loss(input, target, self.reduction.code())
    }
}

/// The cross entropy of logits against classes or class probabilities (`torch.nn.CrossEntropyLoss`): input (N, C, ..) or
/// (C), target (N, ..) or () of class indices, or of the input's shape.
#[derive(Module, Clone)]
#[module(crate = "tensor_nn")]
pub struct CrossEntropyLoss {
    /// a weight for each class
    pub weight: Option<Buffer>,
    /// what becomes of the elements
    pub reduction: Reduction,
    /// a class that counts for nothing
    pub ignore_index: i64,
    /// how much of the target is spread over all classes
    pub label_smoothing: f64,
}

impl CrossEntropyLoss {
    /// The mean over the batch, classes of equal weight.
    pub const fn new() -> Self {
        Self { weight: None, reduction: Reduction::Mean, ignore_index: -100, label_smoothing: 0.0 }
    }

    /// Sets a weight for each class.
    pub fn weight(self, weight: Tensor) -> Self {
        Self { weight: Some(Buffer::new(weight)), ..self }
    }

    /// Sets what becomes of the elements.
    pub fn reduction(self, reduction: Reduction) -> Self {
        Self { reduction, ..self }
    }

    /// Sets a class that counts for nothing.
    pub fn ignore_index(self, ignore_index: i64) -> Self {
        Self { ignore_index, ..self }
    }

    /// Sets how much of the target is spread over all classes.
    pub fn label_smoothing(self, label_smoothing: f64) -> Self {
        Self { label_smoothing, ..self }
    }

    /// The loss of logits against a target.
    ///
    /// # Errors
    /// When the shapes or dtypes do not fit.
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let (reduction, weight) = (self.reduction.code(), self.weight.as_deref());
        ops::cross_entropy_loss(input, target, weight, reduction, self.ignore_index, self.label_smoothing)
    }
}

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        Self::new()
    }
}
