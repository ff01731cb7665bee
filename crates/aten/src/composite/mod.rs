//! Bodies that serve every backend: views, factories, copies, and operators made of other operators.
//!
//! Implicit composites call dispatched operators only, so that gradients follow. A file a family, a function an overload.

pub mod complex;
pub mod convolution;
pub mod copy;
pub mod factory;
pub mod fill;
pub mod flip;
pub mod indexing;
pub mod joining;
pub mod matmul;
pub mod pointwise;
pub mod range;
pub mod pooling;
pub mod random;
pub mod reduce;
pub mod view;
