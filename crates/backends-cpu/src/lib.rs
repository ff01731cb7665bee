//! The CPU kernels: loops, vector mathematics, matrix products, and the pool that runs them.
//!
//! Kernels fill outputs that exist. Shape checks, dtype promotion and autograd live elsewhere (`tensor-aten`,
//! `tensor-autograd`). Unsafe code lives in [`isa`], [`parallel`], [`loops`], [`simd`] and [`gemm`] alone; a kernel is
//! written on [`loops`] (elementwise) or [`loops::views`] (everything else) without any.
#![deny(unsafe_code)]
// Kernels and the functions below them all have a level, needed or not.
#![allow(clippy::extra_unused_type_parameters)]
// Bodies without branches: `&` of comparisons, which are negated where a no-number must fall on the other side.
#![allow(clippy::manual_range_contains, clippy::neg_cmp_op_on_partial_ord)]
// Coefficients of fitted polynomials are what they are.
#![allow(clippy::approx_constant)]

mod arrays;
mod attention;
mod batch_norm;
mod cdist;
mod convolution;
mod copy;
mod ctc_loss;
mod distributions;
mod embedding;
mod embedding_bag;
mod fft;
mod fill;
mod flip;
mod fractional;
mod frexp;
pub mod gemm;
mod generated;
mod grid_sampler;
mod histogram;
mod indexing;
pub mod isa;
mod joining;
mod layer_norm;
mod linalg;
pub mod loops;
mod loss;
mod margin_loss;
mod matmul;
mod optim;
mod padding;
pub mod parallel;
pub mod pointwise;
mod pooling;
pub mod random;
mod range;
pub mod reduce;
mod resample;
mod rows;
mod scan;
mod searching;
mod segment;
pub mod simd;
mod softmax;
mod sorting;
mod special;
mod triangular;
mod unique;
mod upsampling;

pub use isa::Isa;
