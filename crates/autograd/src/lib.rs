//! Reverse-mode differentiation: nodes, the engine that runs them, custom functions, checks of gradients.
//!
//! Nodes and the wrappers that record them are generated from `native_functions.yaml` (`generated`); they lean on
//! [`record`], [`saved`] and [`formulas`]. The engine is [`engine`]. Kernels, shape rules and dispatch are below: formulas
//! call dispatched operators only, so that a derivative has a derivative.
#![forbid(unsafe_code)]

mod accumulate;
mod api;
mod bury;
mod by_hand;
pub mod checkpoint;
pub mod engine;
pub mod formulas;
pub mod function;
mod gather;
// Formulas name numbers in full.
#[allow(clippy::approx_constant)]
#[rustfmt::skip]
// Results keep the names that schemas give them: `LU`, `Vh`.
#[allow(non_snake_case)]
pub mod generated;
pub mod gradcheck;
pub mod hooks;
mod meta;
pub mod modes;
pub mod node;
pub mod record;
pub mod saved;
mod view;

pub use checkpoint::checkpoint;
pub use engine::{backward, grad};
pub use function::{BackwardContext, Context, Function};
pub use gradcheck::{GradCheck, gradcheck, gradgradcheck};
pub use modes::{AnomalyGuard, detect_anomaly, enable_grad, inference_mode, no_grad, set_grad_enabled};
