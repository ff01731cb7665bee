//! Computations without a module (`torch.nn.functional`), with the defaults that PyTorch gives them.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::Reduction;

/// max(x, 0)
pub fn relu(input: &Tensor) -> Result<Tensor> {
    ops::relu(input)
}

/// x times the normal distribution function of x
pub fn gelu(input: &Tensor) -> Result<Tensor> {
    ops::gelu(input, "none")
}

/// exp(x) over its sum along a dimension
pub fn softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    ops::softmax_int(input, dim, None)
}

/// The logarithm of `softmax`
pub fn log_softmax(input: &Tensor, dim: i64) -> Result<Tensor> {
    ops::log_softmax_int(input, dim, None)
}

/// `x A^T + b`
pub fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    ops::linear(input, weight, bias)
}

/// Zeros elements with probability `p` while training
pub fn dropout(input: &Tensor, p: f64, training: bool) -> Result<Tensor> {
    ops::dropout(input, p, training)
}

/// The mean squared difference
pub fn mse_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    ops::mse_loss(input, target, Reduction::Mean.code())
}

/// The mean cross entropy of logits against classes
pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    ops::cross_entropy_loss(input, target, None, Reduction::Mean.code(), -100, 0.0)
}
