//! What most programs use: `use tensor::prelude::*;`.

pub use crate::autograd::{enable_grad, inference_mode, no_grad};
pub use crate::nn::Module;
pub use crate::optim::Optimizer;
pub use crate::{DType, Device, Error, Result, Scalar, Tensor, TensorOptions, manual_seed, nn, optim, tensor};
