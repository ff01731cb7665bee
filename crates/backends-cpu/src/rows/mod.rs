//! Folds of contiguous rows with many accumulators, which LLVM turns into vector code. Sums are carried in f64 from block
//! to block, so that long rows lose nothing.

#[cfg(test)]
mod tests;

use crate::simd::{Arith, Math, Ordered, Real, RealFloating, RealMath};

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

/// A full run of a row, or what is left of one, filled up with its first element.
#[inline(always)]
fn run<A: Copy>(chunk: &[A]) -> [A; WIDTH] {
    if let Some(full) = chunk.first_chunk::<WIDTH>() {
        return *full;
    }
    let mut padded = [chunk[0]; WIDTH];
    for (to, from) in padded.iter_mut().zip(chunk) {
        *to = *from;
    }
    padded
}

/// Adds the first `n` values of a run.
#[inline(always)]
fn add<O: RealMath>(acc: &mut [O; WIDTH], values: &[O; WIDTH], n: usize) {
    if n == WIDTH {
        for (acc, value) in acc.iter_mut().zip(values) {
            *acc = acc.add(*value);
        }
    } else {
        for (acc, value) in acc.iter_mut().zip(&values[..n]) {
            *acc = acc.add(*value);
        }
    }
}

/// The `i`-th piece of `n` elements, the last one with what is left. A loop over pieces of several rows indexes them so: the
/// accessors of zipped `chunks` are calls that return slices, which keep a body from being compiled for its level.
#[inline(always)]
pub fn piece<A>(a: &[A], i: usize, n: usize) -> &[A] {
    &a[i * n..a.len().min((i + 1) * n)]
}

/// [`piece`] of a mutable slice.
#[inline(always)]
pub fn piece_mut<A>(a: &mut [A], i: usize, n: usize) -> &mut [A] {
    let end = a.len().min((i + 1) * n);
    &mut a[i * n..end]
}

// The folds call `f` in one place each: a body that is called in two may not be inlined, and then it is not compiled for the
// level of its caller.

/// `sum f(a)`
#[inline(always)]
pub fn sum<A: Copy, O: RealMath>(a: &[A], f: impl Fn(A) -> O) -> f64 {
    let mut sum = 0.0;
    for block in 0..a.len().div_ceil(BLOCK) {
        let a = piece(a, block, BLOCK);
        let mut acc = [O::ZERO; WIDTH];
        for at in 0..a.len().div_ceil(WIDTH) {
            let a = piece(a, at, WIDTH);
            let (from, mut values) = (run(a), [O::ZERO; WIDTH]);
            for i in 0..WIDTH {
                values[i] = f(from[i]);
            }
            add(&mut acc, &values, a.len());
        }
        sum += total(acc);
    }
    sum
}

/// `sum f(a, b).0` and `sum f(a, b).1`
#[inline(always)]
pub fn sums<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> (O, O)) -> (f64, f64) {
    sums3(a, b, b, |a, b, _| f(a, b))
}

/// `sum f(a, b, c).0` and `sum f(a, b, c).1`
#[inline(always)]
pub fn sums3<A: Copy, B: Copy, C: Copy, O: RealMath>(
    a: &[A],
    b: &[B],
    c: &[C],
    f: impl Fn(A, B, C) -> (O, O),
) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    let n = a.len().min(b.len()).min(c.len());
    let (a, b, c) = (&a[..n], &b[..n], &c[..n]);
    for block in 0..n.div_ceil(BLOCK) {
        let (a, b, c) = (piece(a, block, BLOCK), piece(b, block, BLOCK), piece(c, block, BLOCK));
        let (mut first, mut second) = ([O::ZERO; WIDTH], [O::ZERO; WIDTH]);
        for at in 0..a.len().div_ceil(WIDTH) {
            let (a, b, c) = (piece(a, at, WIDTH), piece(b, at, WIDTH), piece(c, at, WIDTH));
            let (from_a, from_b, from_c) = (run(a), run(b), run(c));
            let (mut x, mut y) = ([O::ZERO; WIDTH], [O::ZERO; WIDTH]);
            for i in 0..WIDTH {
                (x[i], y[i]) = f(from_a[i], from_b[i], from_c[i]);
            }
            add(&mut first, &x, a.len());
            add(&mut second, &y, a.len());
        }
        sums = (sums.0 + total(first), sums.1 + total(second));
    }
    sums
}

/// `out = f(a)`, and the sum of what was computed, before it was rounded to the element type.
#[inline(always)]
pub fn map_sum<T: RealFloating>(out: &mut [T], a: &[T], f: impl Fn(T) -> T::Op) -> f64 {
    let mut sum = 0.0;
    for block in 0..a.len().div_ceil(BLOCK) {
        let (out, a) = (piece_mut(out, block, BLOCK), piece(a, block, BLOCK));
        let mut acc = [T::Op::ZERO; WIDTH];
        for at in 0..a.len().div_ceil(WIDTH) {
            let (out, a) = (piece_mut(out, at, WIDTH), piece(a, at, WIDTH));
            let (from, mut values) = (run(a), [T::Op::ZERO; WIDTH]);
            for i in 0..WIDTH {
                values[i] = f(from[i]);
            }
            for (out, value) in out.iter_mut().zip(&values) {
                *out = T::down(*value);
            }
            add(&mut acc, &values, a.len());
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
    let mut max = T::Op::LOWEST;
    for value in acc {
        max = max.maximum(value);
    }
    max
}

/// The mean and the sum of squared distances from it. The mean of nothing is 0.
#[inline(always)]
pub fn moments<T: RealFloating>(a: &[T]) -> (f64, f64) {
    let mean = if a.is_empty() { 0.0 } else { sum(a, |a: T| a.up()) / a.len() as f64 };
    let centre = T::Op::from_f64(mean);
    let spread = sum(a, |a: T| {
        let d = a.up().sub(centre);
        d.mul(d)
    });
    (mean, spread)
}
