//! Averages of windows, and the way back.

use tensor_aten::Tensor;
use tensor_aten::kernels::{PoolDivisor, PoolShape};
use tensor_core::{Element, Result};

use super::lines::{Stage, Steps, chunk, each_step};
use super::windows::{Line, Windows, down};
use super::{slice, slice_mut};
use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks};
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

/// What sums are divided by: the product of a number a dimension.
struct Counts([Vec<i64>; 3]);

impl Counts {
    fn new(windows: &[Windows; 3], divisor: PoolDivisor) -> Self {
        Self(std::array::from_fn(|d| {
            let each = 0..windows[d].bounds.len();
            match divisor {
                PoolDivisor::Number(n) => each.map(|_| if d == 2 { n } else { 1 }).collect(),
                _ => each.map(|o| windows[d].count(o, divisor) as i64).collect(),
            }
        }))
    }

    /// Of a line of windows: the factor of all, and those of each.
    #[inline(always)]
    fn line(&self, d: usize, h: usize) -> (i64, &[i64]) {
        (self.0[0][d] * self.0[1][h], &self.0[2])
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
    let counts = Counts::new(&windows, divisor);
    let cols = s.result[2] * s.channels;
    let sizes: usize = windows.iter().map(Windows::longest).product();
    match Steps::of(s) {
        Some(steps) => par_chunks::<I, T>(
            out,
            chunk(cols, cols * (sizes + 4)),
            #[inline(always)]
            |start, out| even_lines(s, &windows, &steps, &counts, x, start / cols, out),
        ),
        None => par_chunks::<I, T>(
            out,
            chunk(cols, cols * sizes * 2),
            #[inline(always)]
            |start, out| pixels(s, &windows, &counts, x, start / cols, out),
        ),
    }
    Ok(())
}

/// Lines of results from number `first` on, some of them at once.
#[inline(always)]
fn even_lines<T: Average>(
    s: &PoolShape,
    windows: &[Windows; 3],
    steps: &Steps,
    counts: &Counts,
    x: &[T],
    first: usize,
    out: &mut [T],
) {
    let (cols, pitch) = (steps.results, steps.pitch());
    let mut stage = Stage::new(s, windows, *steps, T::zeroed());
    let (total, lines) = (out.len() / cols, steps.lines(stage.rows().len()));
    let mut sums = vec![<T::Op as Arith>::ZERO; steps.room(lines)];
    for done in (0..total).step_by(lines) {
        stage.put(x, first + done, lines.min(total - done));
        let sums = &mut sums[..steps.room(stage.lines().len())];
        sums.fill(<T::Op as Arith>::ZERO);
        for row in 0..stage.rows().len() {
            for k in 0..steps.kernel {
                add::<T>(sums, stage.from(row, k * steps.dilation));
            }
        }
        for (i, line) in stage.lines().iter().enumerate() {
            let (factor, counts) = counts.line(line.at[0], line.at[1]);
            let (out, sums) = (&mut out[(done + i) * cols..][..cols], &sums[i * pitch..][..cols]);
            let counts = &counts[..cols];
            for j in 0..cols {
                out[j] = average(sums[j], factor * counts[j]);
            }
        }
    }
}

/// Lines of pixels, or of uneven windows, from number `first` on.
#[inline(always)]
fn pixels<T: Average>(s: &PoolShape, windows: &[Windows; 3], counts: &Counts, x: &[T], first: usize, out: &mut [T]) {
    let (cols, row) = (s.result[2] * s.channels, s.image[2] * s.channels);
    let mut sums = vec![<T::Op as Arith>::ZERO; cols];
    let count = out.len() / cols;
    let mut rows = out.chunks_exact_mut(cols);
    Line::each(
        s,
        windows,
        first,
        count,
        #[inline(always)]
        |line| {
            let Some(out) = rows.next() else { return };
            sums.fill(<T::Op as Arith>::ZERO);
            for z in 0..line.sees[0] {
                for y in 0..line.sees[1] {
                    let at = line.plane + line.first + down(s, windows, z, y);
                    uneven_line::<T>(&mut sums, &x[at * s.channels..][..row], &windows[2], s.channels);
                }
            }
            let (factor, counts) = counts.line(line.at[0], line.at[1]);
            let pixels = out.chunks_exact_mut(s.channels).zip(sums.chunks_exact(s.channels));
            for ((out, sums), count) in pixels.zip(counts) {
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = average(sum, factor * count);
                }
            }
        },
    );
}

/// An empty window has the sum 0 and the average 0.
#[inline(always)]
fn average<T: Average>(sum: T::Op, count: i64) -> T {
    let average = sum.over(count);
    T::down(if count == 0 { sum } else { average })
}

/// Adds every `step`-th element.
#[inline(always)]
fn add<T: Average>(sums: &mut [T::Op], (x, step): (&[T], usize)) {
    each_step(
        x,
        step,
        sums.len(),
        #[inline(always)]
        move |j, x| sums[j] = sums[j].add(x.up()),
    );
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
    let counts = Counts::new(&windows, divisor);
    let steps = Steps::of(s);
    let [depth, lines, width] = s.image;
    let cols = width * s.channels;
    let row_len = s.result[2] * s.channels;
    par_chunks::<I, T>(
        out,
        chunk(cols, cols * 4),
        #[inline(always)]
        |start, out| {
            let mut shares = vec![<T::Op as Arith>::ZERO; row_len];
            let mut sums = steps.map_or(Phases::new(1, cols), |steps| {
                let reach = (width + steps.padding) / steps.stride + 1;
                Phases::new(steps.stride, reach.max(s.result[2] + steps.kernel / steps.stride + 1))
            });
            for (i, out) in out.chunks_exact_mut(cols).enumerate() {
                let row = start / cols + i;
                let (p, d, h) = (row / (depth * lines), row / lines % depth, row % lines);
                let grad = &grad[p * results * s.channels..][..results * s.channels];
                sums.sums.fill(<T::Op as Arith>::ZERO);
                for z in windows[0].holding(d) {
                    for y in windows[1].holding(h) {
                        let line = &grad[(z * s.result[1] + y) * row_len..][..row_len];
                        let (factor, counts) = counts.line(z, y);
                        if let Some(steps) = &steps {
                            for ((share, grad), count) in shares.iter_mut().zip(line).zip(counts) {
                                *share = grad.up().over(factor * count);
                            }
                            // The earlier of an element's windows first.
                            (0..steps.kernel).rev().for_each(|k| sums.add(k, &shares));
                            continue;
                        }
                        let sums = &mut sums.sums;
                        let windows = line.chunks_exact(s.channels).zip(&windows[2].bounds).zip(counts);
                        for ((grad, &(a, b)), count) in windows {
                            for sums in sums[a * s.channels..b * s.channels].chunks_exact_mut(s.channels) {
                                for (sum, &g) in sums.iter_mut().zip(grad) {
                                    *sum = sum.add(g.up().over(factor * count));
                                }
                            }
                        }
                    }
                }
                sums.store(out, steps.map_or(0, |steps| steps.padding));
            }
        },
    );
    Ok(())
}

/// The sums of a line: of every `phases`-th element a row, so that neighbouring windows add to neighbours.
struct Phases<A> {
    sums: Vec<A>,
    phases: usize,
}

impl<A: Arith> Phases<A> {
    fn new(phases: usize, reach: usize) -> Self {
        Self { sums: vec![A::ZERO; phases * reach], phases }
    }

    /// Adds to the elements that windows have at `offset`.
    #[inline(always)]
    fn add(&mut self, offset: usize, shares: &[A]) {
        let reach = self.sums.len() / self.phases;
        let sums = &mut self.sums[offset % self.phases * reach + offset / self.phases..][..shares.len()];
        for (sum, &share) in sums.iter_mut().zip(shares) {
            *sum = sum.add(share);
        }
    }

    /// Writes the sums from the one at `padding` on.
    #[inline(always)]
    fn store<T: Value<Op = A>>(&self, out: &mut [T], padding: usize) {
        let reach = self.sums.len() / self.phases;
        for (phase, sums) in self.sums.chunks_exact(reach).enumerate() {
            // The first element of the phase that is no padding.
            let skipped = padding.saturating_sub(phase).div_ceil(self.phases);
            let first = phase + skipped * self.phases - padding;
            let out = out.get_mut(first..).unwrap_or_default();
            out.iter_mut().step_by(self.phases).zip(&sums[skipped..]).for_each(|(out, &sum)| *out = T::down(sum));
        }
    }
}
