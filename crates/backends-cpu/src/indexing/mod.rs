//! Elements at positions that tensors hold.
//!
//! [`rows`] reads and writes what an [`IndexPlan`](tensor_aten::kernels::IndexPlan) names, [`lanes`] gathers and scatters
//! along a dimension, [`marks`] finds positions and masked elements. Indices are checked before anything is written.

mod bounds;
mod lanes;
mod marks;
mod rows;
#[cfg(test)]
mod tests;
mod walk;

pub use lanes::{gather, scatter, scatter_add, scatter_amax, scatter_amin, scatter_multiply};
pub(crate) use marks::Marks;
pub use marks::{masked_scatter, masked_select, nonzero};
pub use rows::{index, index_put};
