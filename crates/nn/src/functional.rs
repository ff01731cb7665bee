//! Computations without a module (`torch.nn.functional`), with the defaults that PyTorch gives them. With every argument
//! they are `ops::` functions.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::Reduction;

/// `name(arguments) = operator(arguments);`
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $op:ident($($pass:expr),*);)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// As the operator.
        pub fn $name($($arg: $ty),*) -> Result<Tensor> {
            ops::$op($($pass),*)
        }
    )* };
}

functions! {
    /// max(x, 0)
    relu(input: &Tensor) = relu(input);
    /// x times the normal distribution function of x
    gelu(input: &Tensor) = gelu(input, "none");
    /// exp(x) over its sum along a dimension
    softmax(input: &Tensor, dim: i64) = softmax_int(input, dim, None);
    /// the logarithm of `softmax`
    log_softmax(input: &Tensor, dim: i64) = log_softmax_int(input, dim, None);
    /// `x A^T + b`
    linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) = linear(input, weight, bias);
    /// zeros elements with probability `p` and scales the others, while training
    dropout(input: &Tensor, p: f64, training: bool) = dropout(input, p, training);
    /// the mean squared difference
    mse_loss(input: &Tensor, target: &Tensor) = mse_loss(input, target, Reduction::Mean.code());
    /// the mean cross entropy of logits (N, C, ..) against classes (N, ..)
    cross_entropy(input: &Tensor, target: &Tensor) =
        cross_entropy_loss(input, target, None, Reduction::Mean.code(), -100, 0.0);
}
