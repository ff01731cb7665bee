//! PyTorch's tensors, dispatcher, autograd, modules and optimizers in Rust.
//!
//! ```
//! use tensor::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let x = tensor!([1.0, 2.0, 3.0])?.requires_grad_(true)?.clone();
//! let y = x.pow(2.0)?.sum()?;
//! y.backward()?;
//! assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! This crate only names the others: `core` (dtypes, storages, strides), `aten` (operators and dispatch), the backends,
//! `autograd`, `nn` and `optim`. Naming the backends is what links their kernels into a program.
#![forbid(unsafe_code)]

pub mod config;
pub mod prelude;

pub use tensor_aten::{
    Arg, IValue, Operand, Stack, Tensor, dispatch, hooks, indexing, inventory, ops, printing, tensor, tensor_options::TensorOptions,
};
pub use tensor_autograd as autograd;
pub use tensor_core::generator::manual_seed;
pub use tensor_core::promotion::{default_dtype, set_default_dtype};
pub use tensor_core::{
    Bool, Complex32, Complex64, DType, Device, DeviceType, Element, Error, ErrorKind, Generator, Layout, MemoryFormat, Result, Scalar,
    bf16, f16,
};
pub use tensor_nn as nn;
pub use tensor_optim as optim;

// A crate that nobody names registers nothing.
use tensor_backends_cpu as _;

tensor_aten::inventory::submit! {
    tensor_aten::dispatch::Expected { krate: "tensor-aten", kernels: tensor_aten::generated::KERNELS }
}
tensor_aten::inventory::submit! {
    tensor_aten::dispatch::Expected { krate: "tensor-autograd", kernels: tensor_autograd::generated::KERNELS }
}
