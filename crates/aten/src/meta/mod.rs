//! Shape rules of element-wise operators that check more than their kind's standard rule. A file a family.

pub mod pointwise;
