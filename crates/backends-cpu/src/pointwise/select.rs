//! Choices between elements: `where`, masks, clamps, thresholds of value.

use tensor_core::Bool;

use crate::elementwise;
use crate::simd::{Arith, Ordered, Real, RealFloating, Value};

elementwise! {
    /// `a` where `cond`, else `b`; inputs: cond, a, b.
    pub fn where_self<T: Value>(cond: Bool, a: T, b: T) -> T { if cond.get() { a } else { b } }

    /// `value` where `mask`, else `x`; inputs: x, mask; parameter: value.
    pub fn masked_fill<T: Value>(x: T, mask: Bool; value: T) -> T { if mask.get() { value } else { x } }

    /// `x` within parameters 0 and 1; NaN stays, and a bound that is NaN wins.
    pub fn clamp<T: Ordered>(x: T; low: T::Op, high: T::Op) -> T { T::down(x.up().maximum(low).minimum(high)) }
    /// `x`, at least parameter 0.
    pub fn clamp_min<T: Ordered>(x: T; low: T::Op) -> T { T::down(x.up().maximum(low)) }
    /// `x`, at most parameter 0.
    pub fn clamp_max<T: Ordered>(x: T; high: T::Op) -> T { T::down(x.up().minimum(high)) }
    /// `x` within `low` and `high`; inputs: x, low, high.
    pub fn clamp_tensor<T: Ordered>(x: T, low: T, high: T) -> T {
        T::down(x.up().maximum(low.up()).minimum(high.up()))
    }

    /// Parameters 0, 1 and 2 in place of NaN, infinity and minus infinity.
    pub fn nan_to_num<T: RealFloating>(x: T; nan: T::Op, infinity: T::Op, minus_infinity: T::Op) -> T {
        let v = x.up();
        let v = if v == <T::Op as Real>::HIGHEST { infinity } else { v };
        let v = if v == <T::Op as Real>::LOWEST { minus_infinity } else { v };
        T::down(if x.up().is_nan() { nan } else { v })
    }
}
