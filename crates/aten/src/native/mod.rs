//! Native functions: checks, shapes and the call of a kernel, once for the functional, in-place and out forms.
//! A file a family, a function an overload.

pub mod convolution;
pub mod flip;
pub mod indexing;
pub mod joining;
pub mod lanes;
pub mod matmul;
pub mod pointwise;
pub mod pooling;
pub mod reduce;
pub mod triangular;
