//! The CPU kernels: loops, vector mathematics, matrix products, and the pool that runs them.
//!
//! Kernels fill outputs that exist. Shape checks, dtype promotion and autograd live elsewhere (`tensor-aten`,
//! `tensor-autograd`). Unsafe code lives in [`isa`], [`parallel`], [`loops`], [`simd`] and [`gemm`] alone; a kernel is
//! written on [`loops`] (elementwise) or [`loops::views`] (everything else) without any.
#![deny(unsafe_code)]

mod attention;
mod batch_norm;
mod convolution;
mod copy;
mod embedding;
mod fill;
mod flip;
pub mod gemm;
mod generated;
mod indexing;
pub mod isa;
mod joining;
mod layer_norm;
pub mod loops;
mod loss;
mod matmul;
pub mod parallel;
pub mod pointwise;
mod pooling;
pub mod random;
mod range;
pub mod reduce;
mod rows;
pub mod simd;
mod softmax;
mod triangular;

pub use isa::Isa;
