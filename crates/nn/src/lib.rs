//! Modules: parameters with names, layers, initialisers and losses (`torch.nn`).
//!
//! A module is a struct that derives [`Module`](macro@Module) and implements [`Forward`]:
//!
//! ```
//! # use tensor_nn as nn;
//! # use tensor_backends_cpu as _;
//! use nn::{Forward, Linear, Module};
//! # use tensor_aten::Tensor;
//! # use tensor_core::Result;
//!
//! #[derive(Module)]
//! # #[module(crate = "tensor_nn")]
//! struct Mlp {
//!     fc1: Linear,
//!     fc2: Linear,
//! }
//!
//! impl Forward for Mlp {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.fc2.forward(&self.fc1.forward(x)?.relu()?)
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let net = Mlp { fc1: Linear::new(4, 8)?, fc2: Linear::new(8, 2)? };
//! let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// The derive names the crate from outside; inside it is this one.
extern crate self as tensor_nn;

pub mod activation;
pub mod attention;
pub mod batchnorm;
pub mod cells;
pub mod container;
pub mod conv;
pub mod dropout;
pub mod embedding;
pub mod flatten;
pub mod functional;
pub mod init;
pub mod linear;
pub mod loss;
pub mod member;
pub mod module;
pub mod normalization;
mod options;
pub mod parameter;
pub mod pooling;
mod python;
pub mod recurrent;
pub mod state_dict;
pub mod transformer;
pub mod utils;

pub use activation::{GELU, PReLU, PReLUOptions, ReLU, Sigmoid, Tanh};
pub use attention::{AttentionArgs, MultiheadAttention, MultiheadAttentionOptions};
pub use batchnorm::{BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions};
pub use cells::{CellOptions, GRUCell, LSTMCell, RNNCell};
pub use container::Sequential;
pub use conv::{Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, ConvTranspose2d, ConvTranspose2dOptions, Padding};
pub use dropout::Dropout;
pub use embedding::{BagMode, Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
pub use flatten::Flatten;
pub use linear::{Bilinear, Linear, LinearOptions};
pub use loss::{CrossEntropyLoss, MSELoss, Reduction};
pub use member::{Member, Visitor};
pub use module::{Forward, Layer, Module};
pub use normalization::{GroupNorm, GroupNormOptions, LayerNorm, LayerNormOptions};
pub use options::{Pair, Single};
pub use parameter::{Buffer, Parameter, Training};
pub use pooling::{MaxPool2d, MaxPool2dOptions};
pub use recurrent::{GRU, LSTM, RNN, RecurrentOptions};
pub use state_dict::{IncompatibleKeys, StateDict};
pub use tensor_nn_derive::Module;
pub use transformer::{TransformerActivation, TransformerEncoderLayer, TransformerEncoderLayerOptions};
