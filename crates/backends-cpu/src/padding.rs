//! Padding with what lies inside: each result is an element, and its gradient a sum of results.

pub use crate::resample::{remap, resample};
