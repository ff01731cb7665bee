//! Comparisons and predicates: truth values of elements.

use tensor_core::Bool;

use crate::elementwise;
use crate::simd::{Arith, Number, Ordered, Real};

elementwise! {
    /// `a == b`
    pub fn eq<T: Number>(a: T, b: T) -> Bool { Bool::new(a.up() == b.up()) }
    /// `a != b`
    pub fn ne<T: Number>(a: T, b: T) -> Bool { Bool::new(a.up() != b.up()) }
    /// `a < b`
    pub fn lt<T: Ordered>(a: T, b: T) -> Bool { Bool::new(a.up() < b.up()) }
    /// `a <= b`
    pub fn le<T: Ordered>(a: T, b: T) -> Bool { Bool::new(a.up() <= b.up()) }
    /// `a > b`
    pub fn gt<T: Ordered>(a: T, b: T) -> Bool { Bool::new(a.up() > b.up()) }
    /// `a >= b`
    pub fn ge<T: Ordered>(a: T, b: T) -> Bool { Bool::new(a.up() >= b.up()) }

    /// Whether it is, or has a part that is, no number.
    pub fn isnan<T: Number>(a: T) -> Bool { Bool::new(a.up().is_nan()) }
    /// Whether no part is infinite or no number.
    pub fn isfinite<T: Number>(a: T) -> Bool { Bool::new(a.up().is_finite()) }
    /// Whether it is infinite.
    pub fn isinf<T: Ordered>(a: T) -> Bool { Bool::new(!a.up().is_finite() & !a.up().is_nan()) }
    /// Whether it is infinity.
    pub fn isposinf<T: Ordered>(a: T) -> Bool {
        Bool::new(!a.up().is_finite() & (a.up() > <T::Op as Arith>::ZERO))
    }
    /// Whether it is minus infinity.
    pub fn isneginf<T: Ordered>(a: T) -> Bool {
        Bool::new(!a.up().is_finite() & (a.up() < <T::Op as Arith>::ZERO))
    }
    /// Whether the sign is minus, of a zero or NaN as well.
    pub fn signbit<T: Ordered>(a: T) -> Bool { Bool::new(a.up().is_sign_negative()) }
}
