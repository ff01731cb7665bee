//! The ATen layer: [`Tensor`], the dispatcher, and every operator.
//!
//! Operators are entries of `native_functions.yaml`; what stands under `generated` is written from them. Shape and dtype
//! rules are here, once for all backends; kernels' bodies are in the backend crates, which fill the tables of
//! [`kernels`]. Autograd is above: this crate reaches it through [`hooks`] alone.
#![forbid(unsafe_code)]

pub mod accessor;
pub mod arithmetic;
pub mod boxed;
pub mod composite;
pub mod dispatch;
pub mod extension;
#[rustfmt::skip]
pub mod generated;
pub mod hooks;
pub mod indexing;
pub mod iterate;
pub mod ivalue;
pub mod kernels;
pub mod meta;
pub mod native;
pub mod operand;
pub mod out;
pub mod printing;
pub mod tensor;
pub mod tensor_options;

pub use generated::{op, ops};
pub use inventory;
pub use ivalue::{IValue, Stack};
pub use operand::{Arg, Operand};
pub use out::Out;
pub use tensor::Tensor;
pub use tensor_core as core;
pub use tensor_options::TensorOptions;
