//! Averages of windows, and the way back.

use tensor_aten::Tensor;
use tensor_aten::kernels::{PoolDivisor, PoolShape};
use tensor_core::{Element, Result};

use super::windows::{Tap, Windows, taps};
use super::{slice, slice_mut};
use crate::isa::Isa;
use crate::loops::views::{lock, par_rows};
use crate::simd::{Arith, Value};

/// Element types with averages: floats, and i64, whose quotients are truncated.
pub trait Average: Value<Op: Quotient> {}
impl<T: Value<Op: Quotient>> Average for T {}

/// Division by a count.
pub trait Quotient: Arith + Element {
    /// `self / count`
    fn over(self, count: i64) -> Self;
}

macro_rules! quotient {
    ($($t:ty, $zero:expr;)*) => { $(
        impl Quotient for $t {
            #[inline(always)]
            fn over(self, count: i64) -> Self {
                if $zero(count) { 0 as $t } else { self / count as $t }
            }
        }
    )* };
}
quotient! { f32, |_| false; f64, |_| false; i64, |count| count == 0; }

/// What the sum of the window at `at` is divided by.
#[inline(always)]
fn count(windows: &[Windows; 3], at: [usize; 3], divisor: PoolDivisor) -> i64 {
    match divisor {
        PoolDivisor::Number(n) => n,
        _ => (0..3).map(|d| windows[d].count(at[d], divisor)).product::<usize>() as i64,
    }
}

/// `out[o] = sum / count` over the window of `o`; 0 where it lies outside.
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn avg_pool<I: Isa, T: Average>(out: &Tensor, x: &Tensor, s: &PoolShape, divisor: PoolDivisor) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let (plane, results): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    let x: &[T] = slice(&locked, 0, s.planes * plane * s.channels)?;
    let mut out = locked.write::<T>(0)?;
    let out = slice_mut(&mut out, s.planes * results * s.channels)?;
    let windows = Windows::all(s);
    let even = taps(s).filter(|_| s.channels == 1);
    let [depth, lines, width] = s.result;
    let sizes: usize = windows.iter().map(|w| w.bounds.first().map_or(1, |(a, b)| b - a)).product();
    par_rows::<I, T>(
        out,
        s.planes * depth * lines,
        width * s.channels * sizes * 2,
        #[inline(always)]
        |row, out| {
            let (p, d, h) = (row / (depth * lines), row / lines % depth, row % lines);
            let x = &x[p * plane * s.channels..][..plane * s.channels];
            let mut sums = vec![<T::Op as Arith>::ZERO; out.len()];
            for z in windows[0].bounds[d].0..windows[0].bounds[d].1 {
                for y in windows[1].bounds[h].0..windows[1].bounds[h].1 {
                    let line = &x[(z * s.image[1] + y) * s.image[2] * s.channels..][..s.image[2] * s.channels];
                    match &even {
                        Some((taps, step)) => even_line::<T>(&mut sums, line, taps, *step),
                        None => uneven_line::<T>(&mut sums, line, &windows[2], s.channels),
                    }
                }
            }
            let pixels = out.chunks_exact_mut(s.channels).zip(sums.chunks_exact(s.channels));
            for (w, (out, sums)) in pixels.enumerate() {
                let count = count(&windows, [d, h, w], divisor);
                for (out, &sum) in out.iter_mut().zip(sums) {
                    // An empty window has the sum 0 and the average 0.
                    *out = T::down(if count == 0 { sum } else { sum.over(count) });
                }
            }
        },
    );
    Ok(())
}

/// Adds a line of the image to the sums of a line of windows, element by element of the windows.
#[inline(always)]
fn even_line<T: Average>(sums: &mut [T::Op], line: &[T], taps: &[Tap], step: usize) {
    for Tap { results, offset } in taps {
        let (sums, x) = (&mut sums[results.clone()], line.get(*offset..).unwrap_or_default());
        match step {
            1 => add::<T, 1>(sums, x, 1),
            2 => add::<T, 2>(sums, x, 2),
            _ => add::<T, 0>(sums, x, step),
        }
    }
}

/// Adds every `step`-th element; `STEP` is the step where it is known.
#[inline(always)]
fn add<T: Average, const STEP: usize>(sums: &mut [T::Op], x: &[T], step: usize) {
    let step = if STEP == 0 { step } else { STEP };
    let n = sums.len().min(x.len().div_ceil(step));
    for (j, sum) in sums[..n].iter_mut().enumerate() {
        *sum = sum.add(x[j * step].up());
    }
}

/// Adds a line of pixels to the sums of a line of windows.
#[inline(always)]
fn uneven_line<T: Average>(sums: &mut [T::Op], line: &[T], windows: &Windows, channels: usize) {
    for (&(a, b), sums) in windows.bounds.iter().zip(sums.chunks_exact_mut(channels)) {
        for x in line[a * channels..b * channels].chunks_exact(channels) {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum = sum.add(x.up());
            }
        }
    }
}

/// `out[i] = sum grad[o] / count(o)` over the windows `o` that hold `i`: the gradient of [`avg_pool`].
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn avg_pool_backward<I: Isa, T: Average>(
    out: &Tensor,
    grad: &Tensor,
    s: &PoolShape,
    divisor: PoolDivisor,
) -> Result<()> {
    let locked = lock(&[grad.as_impl()], &[out.as_impl()])?;
    let (plane, results): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    let grad: &[T] = slice(&locked, 0, s.planes * results * s.channels)?;
    let mut out = locked.write::<T>(0)?;
    let out = slice_mut(&mut out, s.planes * plane * s.channels)?;
    let windows = Windows::all(s);
    let [depth, lines, width] = s.image;
    let row_len = s.result[2] * s.channels;
    par_rows::<I, T>(
        out,
        s.planes * depth * lines,
        width * s.channels * 4,
        #[inline(always)]
        |row, out| {
            let (p, d, h) = (row / (depth * lines), row / lines % depth, row % lines);
            let grad = &grad[p * results * s.channels..][..results * s.channels];
            let mut sums = vec![<T::Op as Arith>::ZERO; out.len()];
            for z in windows[0].holding(d) {
                for y in windows[1].holding(h) {
                    let line = &grad[(z * s.result[1] + y) * row_len..][..row_len];
                    for (w, (grad, &(a, b))) in line.chunks_exact(s.channels).zip(&windows[2].bounds).enumerate() {
                        let count = count(&windows, [z, y, w], divisor);
                        for sums in sums[a * s.channels..b * s.channels].chunks_exact_mut(s.channels) {
                            for (sum, &g) in sums.iter_mut().zip(grad) {
                                *sum = sum.add(g.up().over(count));
                            }
                        }
                    }
                }
            }
            for (out, &sum) in out.iter_mut().zip(&sums) {
                *out = T::down(sum);
            }
        },
    );
    Ok(())
}
