//! Bitwise and logical operators.

use tensor_core::Bool;

use crate::elementwise;
use crate::simd::{Arith, Integer, Number};

elementwise! {
    /// `a & b`
    pub fn bitwise_and<T: Integer>(a: T, b: T) -> T { a.and(b) }
    /// `a | b`
    pub fn bitwise_or<T: Integer>(a: T, b: T) -> T { a.inclusive_or(b) }
    /// `a ^ b`
    pub fn bitwise_xor<T: Integer>(a: T, b: T) -> T { a.xor(b) }
    /// `~a`; logical for `Bool`.
    pub fn bitwise_not<T: Integer>(a: T) -> T { a.not() }
    /// `a << b`; 0 where `b` is no number of bits.
    pub fn bitwise_left_shift<T: Integer>(a: T, b: T) -> T { a.shl(b) }
    /// `a >> b` with the sign; all sign where `b` is no number of bits.
    pub fn bitwise_right_shift<T: Integer>(a: T, b: T) -> T { a.shr(b) }

    /// Whether both are nonzero.
    pub fn logical_and<T: Number>(a: T, b: T) -> Bool { Bool::new(a.up().truth() & b.up().truth()) }
    /// Whether one is nonzero.
    pub fn logical_or<T: Number>(a: T, b: T) -> Bool { Bool::new(a.up().truth() | b.up().truth()) }
    /// Whether exactly one is nonzero.
    pub fn logical_xor<T: Number>(a: T, b: T) -> Bool { Bool::new(a.up().truth() ^ b.up().truth()) }
    /// Whether it is zero.
    pub fn logical_not<T: Number>(a: T) -> Bool { Bool::new(!a.up().truth()) }
}
