//! placeholder
pub struct Generator;
