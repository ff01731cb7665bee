//! What most programs use: `use tensor::prelude::*;`.

pub use crate::autograd::{enable_grad, inference_mode, no_grad};
pub use crate::indexing::{Ellipsis, slice};
pub use crate::nn::{self, Forward, Module};
pub use crate::optim::{self, Optimizer};
pub use crate::{DType, Device, Error, Result, Scalar, Tensor, TensorOptions, manual_seed, tensor};
