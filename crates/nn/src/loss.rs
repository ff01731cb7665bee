//! Losses as modules: [`MSELoss`], [`CrossEntropyLoss`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::{Buffer, Module};

/// What a loss does with its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// gives each of them
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

impl crate::Member for Reduction {
    fn visit(&self, _: &str, _: &mut dyn crate::Visitor) {}
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

    /// The loss of an input against a target of the same shape.
    ///
    /// # Errors
    /// When the shapes do not broadcast.
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        ops::mse_loss(input, target, self.reduction.code())
    }
}

/// The cross entropy of logits against classes or class probabilities (`torch.nn.CrossEntropyLoss`): input (N, C, ..),
/// target (N, ..) of class indices, or of the input's shape.
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

impl Default for CrossEntropyLoss {
    fn default() -> Self {
        Self { weight: None, reduction: Reduction::Mean, ignore_index: -100, label_smoothing: 0.0 }
    }
}

impl CrossEntropyLoss {
    /// The mean over the batch, classes of equal weight.
    pub fn new() -> Self {
        Self::default()
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
