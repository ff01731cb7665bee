//! Rows: vectors of elements, and one that ends where the row does, of which what is left counts.
//!
//! Sums go by vectors, results by elements: LLVM would take a loop that writes vectors apart.

use super::{exact, exp_from, gradient, larger, term};
use crate::isa::Isa;
use crate::rows::{self, BLOCK, Sink, combine, map, zip};
use crate::simd::{Arith, Math, Real, RealFloating, RealMath};

/// A vector of a row in the type of computation.
#[inline(always)]
fn up<T: RealFloating, const L: usize>(x: &[T; L]) -> [T::Op; L] {
    let mut wide = [T::Op::ZERO; L];
    for l in 0..L {
        wide[l] = x[l].up();
    }
    wide
}

/// A vector of results.
#[inline(always)]
fn down<T: RealFloating, const L: usize>(x: [T::Op; L]) -> [T; L] {
    let mut narrow = [T::zeroed(); L];
    for l in 0..L {
        narrow[l] = T::down(x[l]);
    }
    narrow
}

/// The last elements of a row as a vector, of which the last ones count: those after the row's whole vectors. The others are
/// elements before them, or zeros.
#[inline(always)]
fn tail<T: RealFloating, const L: usize>(row: &[T]) -> [T::Op; L] {
    if let Some(tail) = row.last_chunk() {
        return up(tail);
    }
    let mut tail = [T::Op::ZERO; L];
    for (to, from) in tail[L - row.len()..].iter_mut().zip(row) {
        *to = from.up();
    }
    tail
}

/// Writes the results of [`tail`].
#[inline(always)]
fn put_tail<T: RealFloating, const L: usize>(row: &mut [T], tail: [T::Op; L]) {
    if let Some(to) = row.last_chunk_mut() {
        *to = down(tail);
        return;
    }
    for (to, &from) in row.iter_mut().rev().zip(tail.iter().rev()) {
        *to = T::down(from);
    }
}

/// The last `n` elements of a vector, and neutral ones before them.
#[inline(always)]
fn last<O: RealMath, const L: usize>(mut x: [O; L], n: usize, neutral: O) -> [O; L] {
    for (l, x) in x.iter_mut().enumerate() {
        *x = if l + n < L { neutral } else { *x };
    }
    x
}

/// The largest element of a row; four vectors side by side, since each waits for the one before.
#[inline(always)]
fn largest<T: RealFloating, const L: usize>(row: &[[T; L]], tail: [T::Op; L]) -> T::Op {
    let (fours, rest) = row.as_chunks::<4>();
    let [mut a, mut b, mut c, mut d] = [tail; 4];
    for [x, y, z, w] in fours {
        a = zip(a, up(x), larger);
        b = zip(b, up(y), larger);
        c = zip(c, up(z), larger);
        d = zip(d, up(w), larger);
    }
    for x in rest {
        a = zip(a, up(x), larger);
    }
    combine(&zip(zip(a, b, larger), zip(c, d, larger), larger), larger)
}

/// The sum of `visit(i)` over the `n` vectors of a row, and of the tail. Carried on in f64 from block to block, so that long
/// rows lose nothing.
#[inline(always)]
fn sum<O: RealMath, const L: usize>(n: usize, tail: [O; L], mut visit: impl FnMut(usize) -> [O; L]) -> O {
    let mut sums = tail;
    if n <= BLOCK / L {
        for i in 0..n {
            sums = zip(sums, visit(i), O::add);
        }
        return combine(&{ sums }, O::add);
    }
    let mut total = 0.0;
    for begin in (0..n).step_by(BLOCK / L) {
        for i in begin..n.min(begin + BLOCK / L) {
            sums = zip(sums, visit(i), O::add);
        }
        total += Real::to_f64(combine(&{ sums }, O::add));
        sums = [O::ZERO; L];
    }
    O::from_f64(total)
}

/// `exp(x - max)` of a vector.
#[inline(always)]
fn exps<I: Isa, O: RealMath, const L: usize>(x: [O; L], max: O) -> [O; L] {
    map(
        x,
        #[inline(always)]
        |x| exp_from::<I, O>(x, max),
    )
}

/// The softmax of a row; exponentials are kept in the output meanwhile where that holds them as they are.
#[inline(always)]
pub fn softmax<I: Isa, T: RealFloating, const L: usize>(out: &mut [T], x: &[T]) {
    let (row, rest) = x.as_chunks::<L>();
    let outs = &mut out.as_chunks_mut::<L>().0[..row.len()];
    let tail = tail(x);
    let max = largest(row, last(tail, rest.len(), T::Op::LOWEST));
    let tail = exps::<I, _, L>(tail, max);
    let sum = sum(
        row.len(),
        last(tail, rest.len(), T::Op::ZERO),
        #[inline(always)]
        |i| {
            let exps = exps::<I, _, L>(up(&row[i]), max);
            if exact::<T>() {
                outs[i] = down(exps);
            }
            exps
        },
    );
    let share = sum.reciprocal();
    for (out, x) in outs.as_flattened_mut().iter_mut().zip(row.as_flattened()) {
        let exp = if exact::<T>() { out.up() } else { exp_from::<I, T::Op>(x.up(), max) };
        *out = T::down(exp.mul(share));
    }
    if !rest.is_empty() {
        put_tail(out, zip(tail, [share; L], Arith::mul));
    }
}

/// The logarithm of the softmax of a row, with the sum rounded to the element type if `rounded`.
#[inline(always)]
pub fn log_softmax<I: Isa, T: RealFloating, const L: usize>(sink: Sink<'_, T>, x: &[T], rounded: bool) {
    let (row, rest) = x.as_chunks::<L>();
    let tail = tail(x);
    let max = largest(row, last(tail, rest.len(), T::Op::LOWEST));
    let sum = sum(
        row.len(),
        last(exps::<I, _, L>(tail, max), rest.len(), T::Op::ZERO),
        #[inline(always)]
        |i| exps::<I, _, L>(up(&row[i]), max),
    );
    let log = if rounded { T::down(sum).up() } else { sum }.log::<I>();
    sink.blocks(
        #[inline(always)]
        |at, out| {
            let x = &x[at..][..out.len()];
            for i in 0..x.len() {
                out[i] = T::down(x[i].up().sub(max).sub(log));
            }
        },
    );
}

/// The gradient of a row.
#[inline(never)]
pub fn backward<I: Isa, T: RealFloating, const LOG: bool>(sink: Sink<'_, T>, grad: &[T], y: &[T]) {
    I::run(
        #[inline(always)]
        || {
            let sum = T::Op::from_f64(rows::sum2(
                grad,
                y,
                #[inline(always)]
                |grad: T, y: T| term::<T::Op, LOG>(grad.up(), y.up()),
            ));
            sink.blocks(
                #[inline(always)]
                |at, out| {
                    let n = out.len();
                    let (grad, y) = (&grad[at..][..n], &y[at..][..n]);
                    for i in 0..n {
                        out[i] = T::down(gradient::<I, T::Op, LOG>(grad[i].up(), y[i].up(), sum));
                    }
                },
            );
        },
    );
}
