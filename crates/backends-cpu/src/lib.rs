//! The CPU kernels: loops, vector mathematics, matrix products, and the pool that runs them.
//!
//! Kernels fill outputs that exist. Shape checks, dtype promotion and autograd live elsewhere (`tensor-aten`,
//! `tensor-autograd`). Unsafe code lives in [`isa`], [`parallel`], [`loops`], [`simd`] and [`gemm`] alone; a kernel is
//! written on [`loops`] (elementwise) or [`loops::views`] (everything else) without any.
#![deny(unsafe_code)]

mod copy;
mod fill;
pub mod gemm;
mod generated;
pub mod isa;
pub mod loops;
mod matmul;
pub mod parallel;
pub mod pointwise;
pub mod reduce;
pub mod simd;

pub use isa::Isa;
