//! Fills: one value in every element.

use crate::elementwise;
use crate::simd::Value;

elementwise! {
    /// Sets every element to parameter 0.
    pub fn fill<T: Value>(; value: T) -> T { value }
}
