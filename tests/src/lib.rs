//! Tests of the whole library: the conformance runner, and what the suites share.
//!
//! The suites themselves are in `suites/`; unit tests lie beside the code that they test, in each crate.
#![forbid(unsafe_code)]

pub mod bridge;
pub mod compare;
pub mod corpus;
pub mod floor;
pub mod modules;
pub mod report;
pub mod run;
pub mod schema;
pub mod skips;
