//! Convolutions: the forward pass, its adjoint and the gradient of the weights.
//!
//! Kernels see contiguous tensors in one of two layouts ([`ConvShape`]). There are three ways through them:
//!
//! * `direct`, over (N, C, D, H, W): images are laid out once in scratch that fits a second-level cache, so that each element of
//!   the kernel meets vectors of neighbouring results (`geometry`), which are summed in register tiles (`lanes`). Strides take
//!   images, or what comes out of the adjoint, apart into phases; dilation, padding and groups are numbers of the layout.
//!   3 x 3 over 64 channels of 56 x 56 runs at 85% of the machine's multiply-adds (matrices of columns: 65%), and depthwise
//!   kernels near the speed of memory. `weight` sums over the same layouts.
//! * `columns`: products with matrices that hold what each window sees, gathered block by block. They win where windows do not
//!   overlap (1 x 1, patches: columns are the image or one copy of it) and where weights outnumber the results that share them
//!   ([`columns::suit`] has the measured bounds); many channels that come last are columns already, or parts of them.
//! * `depthwise`: one channel a group with channels last, and the gradient of such weights.
//!
//! Where few channels come last, `last` turns images and results for `direct`.

mod adjoint;
mod columns;
mod depthwise;
mod direct;
mod forward;
mod geometry;
mod lanes;
mod last;
#[cfg(test)]
mod tests;
mod weight;

pub(crate) use lanes::copy_whole;

use tensor_aten::Tensor;
use tensor_aten::kernels::ConvShape;
use tensor_core::{Result, check};

use crate::gemm::Gemm;
use crate::isa::{Baseline, Isa};
use crate::loops::views::{Locked, lock};
use crate::loops::{MatMut, MatRef};
use crate::simd::Arith;

/// Elements of scratch that a block of columns or a layout takes, about: half of a second-level cache.
const BLOCK: usize = 128 * 1024;

/// An element type that is convolved in itself.
pub trait Conv: Gemm<Op = Self> + Arith {}
impl<T: Gemm<Op = T> + Arith> Conv for T {}

/// `c = beta * c + a @ b` of matrices that fit.
fn multiply<I: Isa, T: Conv>(a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T, c: MatMut<'_, T>) {
    crate::gemm::gemm::<I, T>(T::ONE, a, b, beta, c).expect("the matrices of a block fit");
}

/// The largest divisor of `n` that is at most `most`.
fn divisor(n: usize, most: usize) -> usize {
    (1..=most.clamp(1, n.max(1))).rev().find(|&d| n.is_multiple_of(d)).unwrap_or(1)
}

/// The elements of a contiguous input, as many as expected.
fn slice<'a, T: Conv>(locked: &'a Locked<'_>, i: usize, len: usize) -> Result<&'a [T]> {
    match locked.read::<T>(i)?.slice() {
        Some(slice) if slice.len() == len => Ok(slice),
        _ => tensor_core::bail!(Runtime, "convolution: input {i} is no contiguous tensor of {len} elements"),
    }
}

#[inline]
fn product<I: Isa, T: Conv>(
    s: &ConvShape,
    out: &Tensor,
    a: (&Tensor, usize),
    b: (&Tensor, usize),
    bias: Option<(&Tensor, usize)>,
    len: usize,
    run: impl FnOnce(&mut [T], &[T], &[T], Option<&[T]>),
) -> Result<()> {
    let whole = |n: usize| n > 0 && s.in_channels.is_multiple_of(n) && s.out_channels.is_multiple_of(n);
    check!(whole(s.groups), "convolution: {} groups of {} and {} channels", s.groups, s.in_channels, s.out_channels);
    check!(!s.stride.contains(&0), "convolution: strides {:?} are not positive", s.stride);
    let mut reads = vec![a.0.as_impl(), b.0.as_impl()];
    reads.extend(bias.map(|(bias, _)| bias.as_impl()));
    let reads: Vec<_> = reads.iter().map(|x| &***x).collect();
    let locked = lock(&reads, &[out.as_impl()])?;
    let (a, b) = (slice(&locked, 0, a.1)?, slice(&locked, 1, b.1)?);
    let bias = bias.map(|(_, len)| slice(&locked, 2, len)).transpose()?;
    let mut out = locked.write::<T>(0)?;
    match out.slice_mut() {
        Some(out) if out.len() == len => run(out, a, b, bias),
        _ => check!(false, "convolution: the output is no contiguous tensor of {len} elements"),
    }
    Ok(())
}

/// Integers, which few convolve, have code for one level.
const fn has_levels<T: Conv>() -> bool {
    T::DTYPE.is_floating_point()
}

fn x_len(s: &ConvShape) -> usize {
    s.batch * s.in_channels * s.image.iter().product::<usize>()
}

fn y_len(s: &ConvShape) -> usize {
    s.batch * s.out_channels * s.result.iter().product::<usize>()
}

fn w_len(s: &ConvShape) -> usize {
    s.out_channels * columns::depth(s)
}

/// `y[n, o, p] = bias[o] + sum_{i, k} w[o, i, k] * x[n, i, p * stride + k * dilation - padding]`
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn conv_forward<I: Isa, T: Conv>(
    y: &Tensor,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    s: &ConvShape,
) -> Result<()> {
    let bias = bias.map(|b| (b, s.out_channels));
    product::<I, T>(
        s,
        y,
        (x, x_len(s)),
        (w, w_len(s)),
        bias,
        y_len(s),
        |y, x, w, bias| match const { has_levels::<T>() } {
            true => forward::run::<I, T>(s, y, x, w, bias),
            false => forward::run::<Baseline, T>(s, y, x, w, bias),
        },
    )
}

/// `x[n, i, q] = bias[i] + sum_{o, k, p: p * stride + k * dilation - padding = q} w[o, i, k] * y[n, o, p]`
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn conv_adjoint<I: Isa, T: Conv>(
    x: &Tensor,
    y: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    s: &ConvShape,
) -> Result<()> {
    let bias = bias.map(|b| (b, s.in_channels));
    product::<I, T>(
        s,
        x,
        (y, y_len(s)),
        (w, w_len(s)),
        bias,
        x_len(s),
        |x, y, w, bias| match const { has_levels::<T>() } {
            true => adjoint::run::<I, T>(s, x, y, w, bias),
            false => adjoint::run::<Baseline, T>(s, x, y, w, bias),
        },
    )
}

/// `w[o, i, k] = sum_{n, p} y[n, o, p] * x[n, i, p * stride + k * dilation - padding]`
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn conv_weight<I: Isa, T: Conv>(
    w: &Tensor,
    x: &Tensor,
    y: &Tensor,
    _bias: Option<&Tensor>,
    s: &ConvShape,
) -> Result<()> {
    product::<I, T>(
        s,
        w,
        (x, x_len(s)),
        (y, y_len(s)),
        None,
        w_len(s),
        |w, x, y, _| match const { has_levels::<T>() } {
            true => weight::run::<I, T>(s, w, x, y),
            false => weight::run::<Baseline, T>(s, w, x, y),
        },
    )
}
