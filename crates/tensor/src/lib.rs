//! PyTorch's tensors, dispatcher, autograd, modules and optimizers in Rust.
//!
//! ```
//! use tensor::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let x = tensor!([1.0, 2.0, 3.0])?;
//! x.requires_grad_(true)?;
//! let y = x.pow(2.0)?.sum()?;
//! y.backward()?;
//! assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! This crate names the others and adds no computation: `core` (dtypes, storages, strides), `aten` (operators and dispatch),
//! the backends, [`autograd`], [`nn`] and [`optim`]. Naming the backends is what links their kernels into a program. Files
//! are in [`serialize`], facts about the build in [`config`].
//!
//! Every call that can fail returns a [`Result`], and operators compose over results: see the README's rule for `?`.
#![forbid(unsafe_code)]

pub mod config;
pub mod prelude;
pub mod serialize;

pub use tensor_aten::{
    Arg, IValue, Operand, Stack, Tensor, TensorOptions, accessor, core, define_op, dispatch, extension, hooks,
    indexing, inventory, ops, printing,
};
pub use tensor_autograd as autograd;
pub use tensor_core::generator::manual_seed;
pub use tensor_core::promotion::{default_dtype, set_default_dtype};
pub use tensor_core::{
    Bool, Complex32, Complex64, DType, Device, DeviceType, Element, Error, ErrorKind, Generator, Layout, MemoryFormat,
    Result, Scalar, bail, bf16, check, f16,
};
pub use tensor_nn as nn;
pub use tensor_optim as optim;

#[doc(hidden)]
pub use tensor_aten::tensor as __tensor;

/// A tensor from a number or nested lists, as `torch.tensor` makes it; a `Result`.
///
/// `tensor!([[1.0, 2.0], [3.0, 4.0]])` is float32 (the default dtype), `tensor!([1, 2])` int64, `tensor!(true)` bool;
/// `tensor!([1, 2], DType::U8)` and `tensor!(0.5, TensorOptions::new().requires_grad(true))` say more.
#[macro_export]
macro_rules! tensor {
    ($($arguments:tt)*) => { $crate::__tensor!($($arguments)*) };
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

// A crate that nobody names registers nothing.
use tensor_backends_cpu as _;

tensor_aten::inventory::submit! {
    tensor_aten::dispatch::Expected { krate: "tensor-aten", kernels: tensor_aten::generated::KERNELS }
}
tensor_aten::inventory::submit! {
    tensor_aten::dispatch::Expected { krate: "tensor-autograd", kernels: tensor_autograd::generated::KERNELS }
}
