//! The suites over all operators, in one test binary.
//!
//! Unit tests lie beside the code that they test; what is here needs every crate, or every operator.

mod arithmetic;
mod bools;
mod child;
mod conformance;
mod deep;
mod dispatch_tables;
mod edges;
mod factories;
mod indexing;
mod kernels;
mod locks;
mod memory;
mod registry;
mod variants;
