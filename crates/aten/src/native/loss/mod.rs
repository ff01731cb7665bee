//! Losses with kernels of their own: of classes, and element by element.

mod classes;
mod elementwise;

pub use classes::*;
pub use elementwise::*;
