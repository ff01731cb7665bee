//! Softmax, its logarithm and their gradients over the middle dimension of contiguous (A, R, B) tensors, or the last one of
//! (A, R).
//!
//! Rows (B = 1) run along the vector units ([`row`](self::row)); otherwise neighbouring columns do, side by side
//! ([`columns`]), of one (R, B) plane after the other where these are many, and of blocks of columns where they are few.

mod columns;
mod row;
#[cfg(test)]
mod tests;

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::isa::{Baseline, Isa};
use crate::loops::MatMut;
use crate::loops::views::{lock, par_rows};
use crate::parallel::GRAIN;
use crate::rows::{Sink, par_out_rows, with_vectors};
use crate::simd::{RealFloating, RealMath, Value};
use columns::COLUMNS;

/// Planes (R, B) from which on they alone keep all threads busy.
const PLANES: usize = 8;
/// Element steps that an exponential costs.
const EXP: usize = 10;
/// Elements of a block of columns.
const BLOCK: usize = GRAIN;

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

/// `exp(x - max)`
#[inline(always)]
fn exp_from<I: Isa, O: RealMath>(x: O, max: O) -> O {
    x.sub(max).exp_falling::<I>()
}

/// The larger one of a number and what may be none. No number has no number as its exponential, and so has a sum with it.
#[inline(always)]
fn larger<O: RealMath>(x: O, y: O) -> O {
    if y > x { y } else { x }
}

/// What a gradient sums along the dimension.
#[inline(always)]
fn term<O: RealMath, const LOG: bool>(grad: O, y: O) -> O {
    if LOG { grad } else { grad.mul(y) }
}

/// A gradient from that sum. Logarithms of shares are not above 0, so the exponential with fewer steps will do, which is right up to 87.
#[inline(always)]
fn gradient<I: Isa, O: RealMath, const LOG: bool>(grad: O, y: O, sum: O) -> O {
    if LOG { grad.sub(y.exp_falling::<I>().mul(sum)) } else { grad.sub(sum).mul(y) }
}

/// `out = exp(x - max(x)) / sum(exp(x - max(x)))`
pub fn softmax<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor) -> Result<()> {
    forward(out, x, forward_row::<I, T, false>, columns::forward::<I, T, false>)
}

/// `out = x - max(x) - log(sum(exp(x - max(x))))`
pub fn log_softmax<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor) -> Result<()> {
    forward(out, x, forward_row::<I, T, true>, columns::forward::<I, T, true>)
}

/// The work on rows and on blocks of columns at a level: what is around it is there once for all levels.
fn forward<T: RealFloating>(
    out: &Tensor,
    x: &Tensor,
    row: fn(Sink<'_, T>, &[T], bool),
    block: fn(MatMut<'_, T>, &[T], usize),
) -> Result<()> {
    let (a, r, b) = extents(x);
    // PyTorch keeps the sums of half floats as such where the dimension is the last one.
    let rounded = x.dim() == 2;
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let x: &[T] = &x;
    locked.write::<T>(0)?.with_dense(|out| {
        if b == 1 {
            par_out_rows(out, a, r * EXP, |i, sink| row(sink, &x[i * r..][..r], rounded));
            return Ok(());
        }
        each_block(out, (a, r, b), &|at, out| block(out, &x[at..], b))
    })
}

/// The softmax of a row, or its logarithm.
#[inline(never)]
fn forward_row<I: Isa, T: RealFloating, const LOG: bool>(sink: Sink<'_, T>, x: &[T], rounded: bool) {
    I::run(
        #[inline(always)]
        || {
            if LOG {
                with_vectors!(I, T::Op, row::log_softmax < I, T > (sink, x, rounded));
            } else {
                sink.whole(
                    #[inline(always)]
                    |out| with_vectors!(I, T::Op, row::softmax < I, T > (out, x)),
                );
            }
        },
    );
}

/// `out = (grad - sum(grad * output)) * output`
pub fn softmax_backward<I: Isa, T: RealFloating>(out: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()> {
    backward(out, grad, output, row::backward::<I, T, false>, columns::backward::<I, T, false>)
}

/// `out = grad - exp(output) * sum(grad)`
pub fn log_softmax_backward<I: Isa, T: RealFloating>(out: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()> {
    backward(out, grad, output, row::backward::<I, T, true>, columns::backward::<I, T, true>)
}

/// As [`forward`].
fn backward<T: RealFloating>(
    out: &Tensor,
    grad: &Tensor,
    output: &Tensor,
    row: fn(Sink<'_, T>, &[T], &[T]),
    block: fn(MatMut<'_, T>, &[T], &[T], usize),
) -> Result<()> {
    let (a, r, b) = extents(grad);
    let locked = lock(&[grad.as_impl(), output.as_impl()], &[out.as_impl()])?;
    let (grad, y) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (grad, y): (&[T], &[T]) = (&grad, &y);
    locked.write::<T>(0)?.with_dense(|out| {
        if b == 1 {
            par_out_rows(out, a, r * EXP, |i, sink| row(sink, &grad[i * r..][..r], &y[i * r..][..r]));
            return Ok(());
        }
        each_block(out, (a, r, b), &|at, out| block(out, &grad[at..], &y[at..], b))
    })
}

/// Calls `f(at, block)` in parallel for blocks of columns of the planes of `out`, the first of whose elements is element `at`.
fn each_block<T: RealFloating>(
    out: &mut [T],
    (a, r, b): (usize, usize, usize),
    f: &(dyn Fn(usize, MatMut<'_, T>) + Sync),
) -> Result<()> {
    if a >= PLANES || a * r * b < GRAIN {
        par_rows::<Baseline, T>(out, a, r * b * EXP, |i, out| {
            if let Ok(out) = MatMut::row_major(out, r, b) {
                f(i * r * b, out);
            }
        });
        return Ok(());
    }
    let width = (BLOCK / r).max(1).next_multiple_of(COLUMNS);
    MatMut::row_major(out, a * r, b)?.par_blocks(r, width, |row, column, out| f(row * b + column, out));
    Ok(())
}
