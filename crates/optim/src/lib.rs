//! Optimizers: rules that change parameters by their gradients (`torch.optim`).
//!
//! Parameters come in groups with settings of their own; what a rule remembers of each parameter is its state, and both can
//! be taken out and put back as a [`StateDict`]. Rules are files; what they share is in [`groups`].
//!
//! ```
//! # use tensor_backends_cpu as _;
//! # use tensor_aten::tensor;
//! use tensor_optim::{Optimizer, SGD, SgdOptions};
//!
//! # fn main() -> tensor_core::Result<()> {
//! let w = tensor!([3.0, -1.0])?;
//! w.requires_grad_(true)?;
//! let mut optimizer = SGD::new([&w], SgdOptions::lr(0.5))?;
//! optimizer.zero_grad()?;
//! w.pow(2.0)?.sum()?.backward()?;
//! optimizer.step()?; // w - 0.5 * 2 w
//! assert_eq!(w.to_vec::<f32>()?, [0.0, 0.0]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod adam;
pub mod groups;
pub mod sgd;

pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use groups::{Group, GroupState, Optimizer, Setting, StateDict};
pub use sgd::{SGD, SgdOptions};
