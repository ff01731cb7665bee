//! Columns: up to [`COLUMNS`] neighbouring ones side by side, down the rows of a block three times: for the largest elements,
//! for the sums, and for the results.

use super::{exact, exp_from, gradient, larger, term};
use crate::isa::Isa;
use crate::loops::MatMut;
use crate::simd::{Arith, Math, Real, RealFloating};

/// Columns that are worked on side by side.
pub const COLUMNS: usize = 256;
/// Rows that a column sums in a straight line.
const DEPTH: usize = 256;

/// Row `i` of the columns from `at` on.
#[inline(always)]
fn columns<T>(x: &[T], i: usize, pitch: usize, (at, width): (usize, usize)) -> &[T] {
    &x[i * pitch + at..][..width]
}

/// The softmax of the columns of a block, or its logarithm, from those that begin at `x`, `pitch` apart from row to row.
#[inline(never)]
pub fn forward<I: Isa, T: RealFloating, const LOG: bool>(out: MatMut<'_, T>, x: &[T], pitch: usize) {
    I::run(
        #[inline(always)]
        || forward_here::<I, T, LOG>(out, x, pitch),
    );
}

#[inline(always)]
fn forward_here<I: Isa, T: RealFloating, const LOG: bool>(mut out: MatMut<'_, T>, x: &[T], pitch: usize) {
    for at in (0..out.cols()).step_by(COLUMNS) {
        let part = (at, COLUMNS.min(out.cols() - at));
        let rows = out.rows();
        let mut max = [T::Op::LOWEST; COLUMNS];
        for i in 0..rows {
            for (max, x) in max.iter_mut().zip(columns(x, i, pitch, part)) {
                *max = larger(*max, x.up());
            }
        }
        let mut sum = [T::Op::ZERO; COLUMNS];
        for first in (0..rows).step_by(DEPTH) {
            let mut sums = [T::Op::ZERO; COLUMNS];
            for i in first..rows.min(first + DEPTH) {
                add_exps::<I, T, LOG>(&mut out.row_mut(i)[at..][..part.1], columns(x, i, pitch, part), &max, &mut sums);
            }
            for (sum, sums) in sum.iter_mut().zip(sums) {
                *sum = sum.add(sums);
            }
        }
        for sum in &mut sum {
            *sum = if LOG { sum.log::<I>() } else { sum.reciprocal() };
        }
        for i in 0..rows {
            finish::<I, T, LOG>(&mut out.row_mut(i)[at..][..part.1], columns(x, i, pitch, part), &max, &sum);
        }
    }
}

/// Adds the exponentials of a row, and keeps them in the output where that holds them as they are.
#[inline(always)]
fn add_exps<I: Isa, T: RealFloating, const LOG: bool>(
    out: &mut [T],
    x: &[T],
    max: &[T::Op; COLUMNS],
    sums: &mut [T::Op; COLUMNS],
) {
    for (((out, x), max), sum) in out.iter_mut().zip(x).zip(max).zip(sums) {
        let exp = exp_from::<I, T::Op>(x.up(), *max);
        *sum = sum.add(exp);
        if !LOG && exact::<T>() {
            *out = T::down(exp);
        }
    }
}

/// The results of a row; `sum` is the logarithm of the sums, or one over them.
#[inline(always)]
fn finish<I: Isa, T: RealFloating, const LOG: bool>(
    out: &mut [T],
    x: &[T],
    max: &[T::Op; COLUMNS],
    sum: &[T::Op; COLUMNS],
) {
    if !LOG && exact::<T>() {
        for (out, sum) in out.iter_mut().zip(sum) {
            *out = T::down(out.up().mul(*sum));
        }
        return;
    }
    for (((out, x), max), sum) in out.iter_mut().zip(x).zip(max).zip(sum) {
        let x = x.up();
        *out = T::down(if LOG { x.sub(*max).sub(*sum) } else { exp_from::<I, T::Op>(x, *max).mul(*sum) });
    }
}

/// The gradients of the columns of a block, from those that begin at `grad` and `y`, `pitch` apart from row to row.
#[inline(never)]
pub fn backward<I: Isa, T: RealFloating, const LOG: bool>(out: MatMut<'_, T>, grad: &[T], y: &[T], pitch: usize) {
    I::run(
        #[inline(always)]
        || backward_here::<I, T, LOG>(out, grad, y, pitch),
    );
}

#[inline(always)]
fn backward_here<I: Isa, T: RealFloating, const LOG: bool>(mut out: MatMut<'_, T>, grad: &[T], y: &[T], pitch: usize) {
    for at in (0..out.cols()).step_by(COLUMNS) {
        let part = (at, COLUMNS.min(out.cols() - at));
        let rows = out.rows();
        let mut sum = [T::Op::ZERO; COLUMNS];
        for first in (0..rows).step_by(DEPTH) {
            let mut sums = [T::Op::ZERO; COLUMNS];
            for i in first..rows.min(first + DEPTH) {
                let inputs = columns(grad, i, pitch, part).iter().zip(columns(y, i, pitch, part));
                for (sum, (grad, y)) in sums.iter_mut().zip(inputs) {
                    *sum = sum.add(term::<T::Op, LOG>(grad.up(), y.up()));
                }
            }
            for (sum, sums) in sum.iter_mut().zip(sums) {
                *sum = sum.add(sums);
            }
        }
        for i in 0..rows {
            let inputs = columns(grad, i, pitch, part).iter().zip(columns(y, i, pitch, part));
            for ((out, (grad, y)), sum) in out.row_mut(i)[at..][..part.1].iter_mut().zip(inputs).zip(&sum) {
                *out = T::down(gradient::<I, T::Op, LOG>(grad.up(), y.up(), *sum));
            }
        }
    }
}
