//! Softmax, its logarithm and their gradients over the middle dimension of contiguous (A, R, B) tensors, or the last one of
//! (A, R).
//!
//! Rows (B = 1) run along the vector units; otherwise neighbouring columns do, side by side.

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::isa::Isa;
use crate::loops::views::{column_runs, lock, par_chunks, par_chunks2, par_rows};
use crate::parallel::GRAIN;
use crate::rows;
use crate::simd::{Arith, Math, Real, RealFloating, Value};

/// Columns that are worked on side by side.
const COLUMNS: usize = 64;
/// Rows that a column sums in a straight line.
const DEPTH: usize = 256;
/// Planes (R, B) from which on they alone keep all threads busy.
const PLANES: usize = 8;
/// Element steps that an exponential costs.
const EXP: usize = 10;

/// The (A, R, B) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [a, r] => (a as usize, r as usize, 1),
        [a, r, b] => (a as usize, r as usize, b as usize),
        _ => (1, x.numel() as usize, 1),
    }
}

/// True if the type of computation holds every value without rounding: results may be kept in the output meanwhile.
#[inline(always)]
fn exact<T: Value>() -> bool {
    T::DTYPE == <T::Op as tensor_core::Element>::DTYPE
}

/// `out = exp(x - max(x)) / sum(exp(x - max(x)))`
pub fn softmax<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor) -> Result<()> {
    forward::<I, T, false>(out, x)
}

/// `out = x - max(x) - log(sum(exp(x - max(x))))`
pub fn log_softmax<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor) -> Result<()> {
    forward::<I, T, true>(out, x)
}

fn forward<I: Isa, T: RealFloating, const LOG: bool>(out: &Tensor, x: &Tensor) -> Result<()> {
    let (a, r, b) = extents(x);
    // PyTorch keeps the sums of half floats as such where the dimension is the last one.
    let rounded = x.dim() == 2;
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let x: &[T] = &x;
    locked.write::<T>(0)?.with_dense(|out| {
        if b == 1 {
            par_rows::<I, T>(
                out,
                a,
                r * EXP,
                #[inline(always)]
                |i, out| row::<I, T, LOG>(out, &x[i * r..][..r], rounded),
            );
        } else if a >= PLANES || a * r * b < GRAIN {
            par_rows::<I, T>(
                out,
                a,
                r * b * EXP,
                #[inline(always)]
                |i, out| plane::<I, T, LOG>(out, &x[i * r * b..][..r * b], b),
            );
        } else {
            columns::<I, T, LOG>(out, x, (a, r, b));
        }
    });
    Ok(())
}

#[inline(always)]
fn exp_from<I: Isa, T: RealFloating>(x: T, max: T::Op) -> T::Op {
    x.up().sub(max).exp::<I>()
}

#[inline(always)]
fn row<I: Isa, T: RealFloating, const LOG: bool>(out: &mut [T], x: &[T], rounded: bool) {
    let max = rows::max(x);
    if LOG {
        let sum = T::Op::from_f64(rows::sum(
            x,
            #[inline(always)]
            |x| exp_from::<I, T>(x, max),
        ));
        let log = if rounded { T::down(sum).up() } else { sum }.log::<I>();
        for (out, x) in out.iter_mut().zip(x) {
            *out = T::down(x.up().sub(max).sub(log));
        }
    } else if exact::<T>() {
        let sum = T::Op::from_f64(rows::map_sum(
            out,
            x,
            #[inline(always)]
            |x| exp_from::<I, T>(x, max),
        ));
        for out in out {
            *out = T::down(out.up().div(sum));
        }
    } else {
        let sum = T::Op::from_f64(rows::sum(
            x,
            #[inline(always)]
            |x| exp_from::<I, T>(x, max),
        ));
        for (out, &x) in out.iter_mut().zip(x) {
            *out = T::down(exp_from::<I, T>(x, max).div(sum));
        }
    }
}

/// The extrema and sums of exponentials of up to [`COLUMNS`] neighbouring columns, `pitch` apart from row to row.
#[inline(always)]
fn moments<I: Isa, T: RealFloating>(x: &[T], pitch: usize, width: usize) -> ([T::Op; COLUMNS], [T::Op; COLUMNS]) {
    let mut max = [T::Op::LOWEST; COLUMNS];
    for x in x.chunks(pitch) {
        for (max, x) in max[..width].iter_mut().zip(x) {
            *max = x.up().maximum(*max);
        }
    }
    let mut sum = [T::Op::ZERO; COLUMNS];
    for x in x.chunks(pitch * DEPTH) {
        let mut part = [T::Op::ZERO; COLUMNS];
        for x in x.chunks(pitch) {
            for ((part, max), x) in part[..width].iter_mut().zip(&max).zip(x) {
                *part = part.add(x.up().sub(*max).exp::<I>());
            }
        }
        for (sum, part) in sum.iter_mut().zip(part) {
            *sum = sum.add(part);
        }
    }
    (max, sum)
}

/// What is left to do once the extremum and the sum of a column are known.
#[inline(always)]
fn finish<I: Isa, T: RealFloating, const LOG: bool>(x: T, max: T::Op, sum: T::Op) -> T {
    let x = x.up().sub(max);
    // `sum` is its logarithm already where that is wanted.
    T::down(if LOG { x.sub(sum) } else { x.exp::<I>().div(sum) })
}

/// One (R, B) plane, its columns in blocks.
#[inline(always)]
fn plane<I: Isa, T: RealFloating, const LOG: bool>(out: &mut [T], x: &[T], b: usize) {
    let mut column = 0;
    while column < b {
        let width = COLUMNS.min(b - column);
        let (max, mut sum) = moments::<I, T>(&x[column..], b, width);
        if LOG {
            for sum in &mut sum {
                *sum = sum.log::<I>();
            }
        }
        for i in 0..x.len() / b {
            let at = i * b + column;
            let (out, x) = (&mut out[at..at + width], &x[at..at + width]);
            for (((out, x), max), sum) in out.iter_mut().zip(x).zip(&max).zip(&sum) {
                *out = finish::<I, T, LOG>(*x, *max, *sum);
            }
        }
        column += width;
    }
}

/// A few planes of many columns: all extrema and sums first, so that both steps have work for all threads.
fn columns<I: Isa, T: RealFloating, const LOG: bool>(out: &mut [T], x: &[T], (a, r, b): (usize, usize, usize)) {
    let mut maxima = vec![T::Op::ZERO; a * b];
    let mut sums = vec![T::Op::ZERO; a * b];
    let grain = (GRAIN / (r * EXP)).max(1).next_multiple_of(COLUMNS.min(b));
    par_chunks2::<I, _, _>(
        &mut maxima,
        &mut sums,
        grain,
        #[inline(always)]
        |start, maxima, sums| {
            column_runs(
                start,
                maxima.len(),
                b,
                COLUMNS,
                #[inline(always)]
                |done, plane, column, width| {
                    let (max, sum) = moments::<I, T>(&x[plane * r * b..][..r * b][column..], b, width);
                    maxima[done..done + width].copy_from_slice(&max[..width]);
                    for (to, sum) in sums[done..done + width].iter_mut().zip(sum) {
                        *to = if LOG { sum.log::<I>() } else { sum };
                    }
                },
            );
        },
    );
    par_rows::<I, T>(
        out,
        a * r,
        b * EXP,
        #[inline(always)]
        |i, out| {
            let at = i / r * b;
            let stats = maxima[at..at + b].iter().zip(&sums[at..at + b]);
            for ((out, x), (max, sum)) in out.iter_mut().zip(&x[i * b..][..b]).zip(stats) {
                *out = finish::<I, T, LOG>(*x, *max, *sum);
            }
        },
    );
}

/// `out = (grad - sum(grad * output)) * output`
pub fn softmax_backward<I: Isa, T: RealFloating>(out: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()> {
    backward::<I, T, false>(out, grad, output)
}

/// `out = grad - exp(output) * sum(grad)`
pub fn log_softmax_backward<I: Isa, T: RealFloating>(out: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()> {
    backward::<I, T, true>(out, grad, output)
}

/// What a gradient sums along the dimension.
#[inline(always)]
fn term<T: RealFloating, const LOG: bool>(grad: T, y: T) -> T::Op {
    if LOG { grad.up() } else { grad.up().mul(y.up()) }
}

/// A gradient from that sum.
#[inline(always)]
fn gradient<I: Isa, T: RealFloating, const LOG: bool>(grad: T, y: T, sum: T::Op) -> T {
    let (grad, y) = (grad.up(), y.up());
    T::down(if LOG { grad.sub(y.exp::<I>().mul(sum)) } else { grad.sub(sum).mul(y) })
}

fn backward<I: Isa, T: RealFloating, const LOG: bool>(out: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()> {
    let (a, r, b) = extents(grad);
    let locked = lock(&[grad.as_impl(), output.as_impl()], &[out.as_impl()])?;
    let (grad, y) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (grad, y): (&[T], &[T]) = (&grad, &y);
    locked.write::<T>(0)?.with_dense(|out| {
        if b == 1 {
            par_rows::<I, T>(
                out,
                a,
                r * EXP,
                #[inline(always)]
                |i, out| {
                    let (grad, y) = (&grad[i * r..][..r], &y[i * r..][..r]);
                    let sum = rows::sums(
                        grad,
                        y,
                        #[inline(always)]
                        |grad, y| (term::<T, LOG>(grad, y), T::Op::ZERO),
                    )
                    .0;
                    let sum = T::Op::from_f64(sum);
                    for ((out, grad), y) in out.iter_mut().zip(grad).zip(y) {
                        *out = gradient::<I, T, LOG>(*grad, *y, sum);
                    }
                },
            );
            return;
        }
        let mut sums = vec![T::Op::ZERO; a * b];
        let grain = (GRAIN / (2 * r)).max(1).next_multiple_of(COLUMNS.min(b));
        par_chunks::<I, _>(
            &mut sums,
            grain,
            #[inline(always)]
            |start, sums| {
                column_runs(
                    start,
                    sums.len(),
                    b,
                    usize::MAX,
                    #[inline(always)]
                    |done, plane, column, width| {
                        let first = plane * r * b + column;
                        let sums = &mut sums[done..done + width];
                        for i in 0..r {
                            let at = first + i * b;
                            for ((sum, grad), y) in sums.iter_mut().zip(&grad[at..at + width]).zip(&y[at..at + width]) {
                                *sum = sum.add(term::<T, LOG>(*grad, *y));
                            }
                        }
                    },
                );
            },
        );
        par_rows::<I, T>(
            out,
            a * r,
            b * EXP,
            #[inline(always)]
            |i, out| {
                let (at, sums) = (i * b, &sums[i / r * b..][..b]);
                for (((out, grad), y), sum) in out.iter_mut().zip(&grad[at..]).zip(&y[at..]).zip(sums) {
                    *out = gradient::<I, T, LOG>(*grad, *y, *sum);
                }
            },
        );
    });
    Ok(())
}
