//! Folds of contiguous rows with many accumulators, which LLVM turns into vector code. Sums are carried in f64 from block
//! to block, so that long rows lose nothing. Bodies that are too long for that go by the vectors of [`vector_width`].

#[cfg(test)]
mod tests;
mod vectors;

pub(crate) use vectors::with_vectors;
pub use vectors::{combine, map, vector_width, zip};

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

/// What is left of a row after its full runs, filled up with its first element.
#[inline(always)]
fn padded<A: Copy>(rest: &[A]) -> [A; WIDTH] {
    let mut run = [rest[0]; WIDTH];
    for (to, from) in run.iter_mut().zip(rest) {
        *to = *from;
    }
    run
}

/// What `f` gives for a run. A loop of its own: one that does more besides is no longer vector code where `f` is long.
#[inline(always)]
fn values<A: Copy, O: RealMath>(run: &[A; WIDTH], f: impl Fn(A) -> O) -> [O; WIDTH] {
    let mut values = [O::ZERO; WIDTH];
    for i in 0..WIDTH {
        values[i] = f(run[i]);
    }
    values
}

/// [`values`] of three runs, two from each three elements.
#[inline(always)]
fn values3<A: Copy, B: Copy, C: Copy, O: RealMath>(
    (a, b, c): (&[A; WIDTH], &[B; WIDTH], &[C; WIDTH]),
    f: impl Fn(A, B, C) -> (O, O),
) -> ([O; WIDTH], [O; WIDTH]) {
    let (mut x, mut y) = ([O::ZERO; WIDTH], [O::ZERO; WIDTH]);
    for i in 0..WIDTH {
        (x[i], y[i]) = f(a[i], b[i], c[i]);
    }
    (x, y)
}

/// Adds the first `n` values of a run.
#[inline(always)]
fn add<O: RealMath>(acc: &mut [O; WIDTH], values: &[O; WIDTH], n: usize) {
    if n == WIDTH {
        for i in 0..WIDTH {
            acc[i] = acc[i].add(values[i]);
        }
        return;
    }
    // Selected, not sliced: a slice of variable length would keep the sums in memory.
    for i in 0..WIDTH {
        acc[i] = if i < n { acc[i].add(values[i]) } else { acc[i] };
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

// The folds call `f` for full runs and for what is left: pass closures that are `#[inline(always)]`, or they may stay calls,
// and then they are not compiled for the level of their caller.

/// `sum f(a)`
#[inline(always)]
pub fn sum<A: Copy, O: RealMath>(a: &[A], f: impl Fn(A) -> O) -> f64 {
    let mut sum = 0.0;
    for block in 0..a.len().div_ceil(BLOCK) {
        let (runs, rest) = piece(a, block, BLOCK).as_chunks::<WIDTH>();
        let mut acc = [O::ZERO; WIDTH];
        for run in runs {
            add(&mut acc, &values(run, &f), WIDTH);
        }
        if !rest.is_empty() {
            add(&mut acc, &values(&padded(rest), &f), rest.len());
        }
        sum += total(acc);
    }
    sum
}

/// `sum f(a, b)` of an `f` of few steps.
#[inline(always)]
pub fn sum2<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> O) -> f64 {
    let mut sum = 0.0;
    let n = a.len().min(b.len());
    for block in 0..n.div_ceil(BLOCK) {
        let (runs_a, rest_a) = piece(&a[..n], block, BLOCK).as_chunks::<WIDTH>();
        let (runs_b, rest_b) = piece(&b[..n], block, BLOCK).as_chunks::<WIDTH>();
        let mut acc = [O::ZERO; WIDTH];
        for (a, b) in runs_a.iter().zip(runs_b) {
            let mut values = [O::ZERO; WIDTH];
            for i in 0..WIDTH {
                values[i] = f(a[i], b[i]);
            }
            add(&mut acc, &values, WIDTH);
        }
        for (acc, (a, b)) in acc.iter_mut().zip(rest_a.iter().zip(rest_b)) {
            *acc = acc.add(f(*a, *b));
        }
        sum += total(acc);
    }
    sum
}

/// `sum f(a, b).0` and `sum f(a, b).1`
#[inline(always)]
pub fn sums<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> (O, O)) -> (f64, f64) {
    sums3(
        a,
        b,
        b,
        #[inline(always)]
        |a, b, _| f(a, b),
    )
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
    for block in 0..n.div_ceil(BLOCK) {
        let (runs_a, rest_a) = piece(&a[..n], block, BLOCK).as_chunks::<WIDTH>();
        let (runs_b, rest_b) = piece(&b[..n], block, BLOCK).as_chunks::<WIDTH>();
        let (runs_c, rest_c) = piece(&c[..n], block, BLOCK).as_chunks::<WIDTH>();
        let (mut first, mut second) = ([O::ZERO; WIDTH], [O::ZERO; WIDTH]);
        for ((a, b), c) in runs_a.iter().zip(runs_b).zip(runs_c) {
            let (x, y) = values3((a, b, c), &f);
            add(&mut first, &x, WIDTH);
            add(&mut second, &y, WIDTH);
        }
        if !rest_a.is_empty() {
            let (x, y) = values3((&padded(rest_a), &padded(rest_b), &padded(rest_c)), &f);
            add(&mut first, &x, rest_a.len());
            add(&mut second, &y, rest_a.len());
        }
        sums = (sums.0 + total(first), sums.1 + total(second));
    }
    sums
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
    let mean = if a.is_empty() {
        0.0
    } else {
        sum(
            a,
            #[inline(always)]
            |a: T| a.up(),
        ) / a.len() as f64
    };
    let centre = T::Op::from_f64(mean);
    let spread = sum(
        a,
        #[inline(always)]
        |a: T| {
            let d = a.up().sub(centre);
            d.mul(d)
        },
    );
    (mean, spread)
}
