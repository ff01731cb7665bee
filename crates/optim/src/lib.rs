//! Optimizers: rules that change parameters by their gradients (`torch.optim`).
//!
//! Parameters come in groups with settings of their own; what a rule remembers of each parameter is its state, and both can
//! be taken out and put back as a [`StateDict`]. Rules are files; what they share is in [`groups`].
#![forbid(unsafe_code)]

mod adam;
pub mod groups;
mod sgd;

pub use adam::{Adam, AdamOptions, AdamW};
pub use groups::{Group, GroupState, Optimizer, Setting, StateDict};
pub use sgd::{SGD, SgdOptions};
