//! Folds of contiguous rows with many accumulators, which LLVM turns into vector code. Sums are carried in f64 from block
//! to block, so that long rows lose nothing.

#[cfg(test)]
mod tests;

use crate::simd::{Ordered, Real, RealMath};

/// Independent accumulators of a row: enough to keep the vector units busy.
pub const WIDTH: usize = 32;
/// Elements that are accumulated in the type of computation before they are carried on in f64.
pub const BLOCK: usize = 2048;

/// Sums the accumulators pairwise.
#[inline(always)]
fn total<O: RealMath>(mut acc: [O; WIDTH]) -> f64 {
    let mut width = WIDTH;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = acc[i].add(acc[i + width]);
        }
    }
    Real::to_f64(acc[0])
}

/// `sum f(a)`
#[inline(always)]
pub fn sum<A: Copy, O: RealMath>(a: &[A], f: impl Fn(A) -> O) -> f64 {
    let mut sum = 0.0;
    for a in a.chunks(BLOCK) {
        let mut acc = [O::ZERO; WIDTH];
        let (runs, rest) = a.as_chunks::<WIDTH>();
        for run in runs {
            for (acc, &a) in acc.iter_mut().zip(run) {
                *acc = acc.add(f(a));
            }
        }
        for (acc, &a) in acc.iter_mut().zip(rest) {
            *acc = acc.add(f(a));
        }
        sum += total(acc);
    }
    sum
}

/// `sum f(a, b).0` and `sum f(a, b).1`
#[inline(always)]
pub fn sums<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> (O, O)) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        let (mut first, mut second) = ([O::ZERO; WIDTH], [O::ZERO; WIDTH]);
        let ((runs_a, rest_a), (runs_b, rest_b)) = (a.as_chunks::<WIDTH>(), b.as_chunks::<WIDTH>());
        for (a, b) in runs_a.iter().zip(runs_b) {
            for (((first, second), &a), &b) in first.iter_mut().zip(&mut second).zip(a).zip(b) {
                let (x, y) = f(a, b);
                (*first, *second) = (first.add(x), second.add(y));
            }
        }
        let rest = rest_a.iter().zip(rest_b);
        for ((first, second), (&a, &b)) in first.iter_mut().zip(&mut second).zip(rest) {
            let (x, y) = f(a, b);
            (*first, *second) = (first.add(x), second.add(y));
        }
        sums = (sums.0 + total(first), sums.1 + total(second));
    }
    sums
}

/// `out = f(a)`, and the sum of what was computed, before it was rounded to the element type.
#[inline(always)]
pub fn map_sum<A: Copy, B, O: RealMath>(out: &mut [B], a: &[A], down: impl Fn(O) -> B, f: impl Fn(A) -> O) -> f64 {
    let mut sum = 0.0;
    for (out, a) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)) {
        let mut acc = [O::ZERO; WIDTH];
        let ((runs_out, rest_out), (runs, rest)) = (out.as_chunks_mut::<WIDTH>(), a.as_chunks::<WIDTH>());
        for (out, run) in runs_out.iter_mut().zip(runs) {
            for ((acc, out), &a) in acc.iter_mut().zip(out).zip(run) {
                let value = f(a);
                *out = down(value);
                *acc = acc.add(value);
            }
        }
        for ((acc, out), &a) in acc.iter_mut().zip(rest_out).zip(rest) {
            let value = f(a);
            *out = down(value);
            *acc = acc.add(value);
        }
        sum += total(acc);
    }
    sum
}

/// The largest element; no number if there is one.
#[inline(always)]
pub fn max<T: Ordered>(row: &[T]) -> T::Op {
    let mut acc = [T::Op::LOWEST; WIDTH];
    let (runs, rest) = row.as_chunks::<WIDTH>();
    for run in runs {
        for (acc, x) in acc.iter_mut().zip(run) {
            *acc = x.up().maximum(*acc);
        }
    }
    for (acc, x) in acc.iter_mut().zip(rest) {
        *acc = x.up().maximum(*acc);
    }
    acc.into_iter().fold(T::Op::LOWEST, Real::maximum)
}

/// The mean and the sum of squared distances from it. The mean of nothing is 0.
#[inline(always)]
pub fn moments<A: Copy, O: RealMath>(a: &[A], up: impl Fn(A) -> O + Copy) -> (f64, f64) {
    let mean = if a.is_empty() { 0.0 } else { sum(a, up) / a.len() as f64 };
    let centre = O::from_f64(mean);
    let spread = sum(a, |a| {
        let d = up(a).sub(centre);
        d.mul(d)
    });
    (mean, spread)
}
