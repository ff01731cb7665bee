//! Scalar mathematics that vectorises: number traits of the kernels, and elementary functions without calls or branches.
//!
//! [`Value`] says what an element type computes in (f32 for f16 and bf16, itself otherwise); [`Arith`], [`Real`] and
//! [`Math`] are what those types can do. The bounds of kernels are [`Number`], [`Ordered`], [`Integer`], [`Floating`] and
//! [`RealFloating`]. A function takes the level as `I` because fused multiply-adds exist on some levels only.
//! Loops live in [`crate::loops`].

#![allow(unsafe_code)]

mod arith;
mod cast;
mod complex;
pub(crate) mod compress;
mod float32;
mod float64;
mod half;
mod math;
mod poly;
#[cfg(test)]
mod tests;

pub use arith::{Arith, Floating, Integer, Number, Ordered, Real, RealFloating, Value};
pub use cast::Cast;
pub use half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, narrow, widen, widened};
pub use math::{Math, RealMath};
