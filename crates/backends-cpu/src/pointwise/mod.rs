//! Elementwise kernels: one scalar body an operator, a column a dtype. Shapes and promotion are done when they run.
//!
//! Each takes a planned iterator: outputs first, inputs in the order of the operator's arguments, and the operator's numbers
//! as parameters (`iter.param(0)`, ..) in the order that its docs give.

mod activation;
mod arithmetic;
mod bits;
mod comparison;
mod elementary;
mod loss;
mod power;
mod select;
mod special;

#[cfg(test)]
mod tests;

pub use activation::*;
pub use arithmetic::*;
pub use bits::*;
pub use comparison::*;
pub use elementary::*;
pub use loss::*;
pub use power::*;
pub use select::*;
pub use special::*;
