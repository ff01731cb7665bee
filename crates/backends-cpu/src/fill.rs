//! Fills: one value in every element.

use crate::elementwise;
use crate::simd::Number;

elementwise! {
    /// Sets every element to parameter 0.
    pub fn fill<T: Number>(; value: T) -> T { value }
}
