//! Folds of contiguous rows with many accumulators, which LLVM turns into vector code. Sums are carried in f64 from block
//! to block, so that long rows lose nothing. Bodies that are too long for that go by the vectors of [`vector_width`].

mod outputs;
#[cfg(test)]
mod tests;
mod vectors;

pub use outputs::{Sink, par_out_rows, par_out_rows_with};
pub(crate) use vectors::with_vectors;
pub use vectors::{combine, map, vector_width, zip};

use crate::arrays;
use crate::simd::{Arith, Math, Ordered, Real, RealFloating, RealMath};

/// Independent accumulators of a row, in bytes: enough to keep the vector units busy.
const WIDTH: usize = 128;
/// Elements that are accumulated in the type of computation before they are carried on in f64.
pub const BLOCK: usize = 2048;

/// Sums the accumulators pairwise.
#[inline(always)]
fn total<O: RealMath, const W: usize>(mut acc: [O; W]) -> f64 {
    let mut width = W;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = acc[i].add(acc[i + width]);
        }
    }
    Real::to_f64(acc[0])
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

/// The `N` sums of what `f` gives for the elements of three rows (of the length of the shortest).
#[inline(always)]
fn fold<A: Copy, B: Copy, C: Copy, O: RealMath, const N: usize>(
    a: &[A],
    b: &[B],
    c: &[C],
    f: impl Fn(A, B, C) -> [O; N],
) -> [f64; N] {
    match const { WIDTH / size_of::<O>() } {
        16 => fold_by::<A, B, C, O, N, 16>(a, b, c, f),
        _ => fold_by::<A, B, C, O, N, 32>(a, b, c, f),
    }
}

/// [`fold`] with `W` accumulators for each sum.
#[inline(always)]
fn fold_by<A: Copy, B: Copy, C: Copy, O: RealMath, const N: usize, const W: usize>(
    a: &[A],
    b: &[B],
    c: &[C],
    f: impl Fn(A, B, C) -> [O; N],
) -> [f64; N] {
    let n = a.len().min(b.len()).min(c.len());
    let (a, b, c) = (&a[..n], &b[..n], &c[..n]);
    let (Some(end_a), Some(end_b), Some(end_c)) = (a.last_chunk::<W>(), b.last_chunk::<W>(), c.last_chunk::<W>())
    else {
        let mut few = [O::ZERO; N];
        for i in 0..n {
            let of = f(a[i], b[i], c[i]);
            for k in 0..N {
                few[k] = few[k].add(of[k]);
            }
        }
        return arrays::map(few, Real::to_f64);
    };
    let mut sums = [0.0; N];
    for block in 0..n.div_ceil(BLOCK) {
        let (runs_a, rest) = piece(a, block, BLOCK).as_chunks::<W>();
        let (runs_b, _) = piece(b, block, BLOCK).as_chunks::<W>();
        let (runs_c, _) = piece(c, block, BLOCK).as_chunks::<W>();
        let (runs_b, runs_c) = (&runs_b[..runs_a.len()], &runs_c[..runs_a.len()]);
        let mut acc = [[O::ZERO; W]; N];
        for i in 0..runs_a.len() {
            let values = values(&runs_a[i], &runs_b[i], &runs_c[i], &f);
            for k in 0..N {
                for l in 0..W {
                    acc[k][l] = acc[k][l].add(values[k][l]);
                }
            }
        }
        if !rest.is_empty() {
            // A run that ends where the row does, of which what is left counts.
            let (values, others) = (values(end_a, end_b, end_c, &f), W - rest.len());
            for k in 0..N {
                for l in 0..W {
                    acc[k][l] = if l < others { acc[k][l] } else { acc[k][l].add(values[k][l]) };
                }
            }
        }
        for k in 0..N {
            sums[k] += total(acc[k]);
        }
    }
    sums
}

/// What `f` gives for a run. A loop of its own: one that does more besides is no longer vector code where `f` is long.
#[inline(always)]
fn values<A: Copy, B: Copy, C: Copy, O: RealMath, F: Fn(A, B, C) -> [O; N], const N: usize, const W: usize>(
    a: &[A; W],
    b: &[B; W],
    c: &[C; W],
    f: &F,
) -> [[O; W]; N] {
    let mut values = [[O::ZERO; W]; N];
    for l in 0..W {
        // Not `f(..)`, the call of a reference, which is not inlined.
        let of = (*f)(a[l], b[l], c[l]);
        for k in 0..N {
            values[k][l] = of[k];
        }
    }
    values
}

// Pass closures that are `#[inline(always)]`: others may stay calls, and then they are not compiled for the level of their caller.

/// `sum f(a)`
#[inline(always)]
pub fn sum<A: Copy, O: RealMath>(a: &[A], f: impl Fn(A) -> O) -> f64 {
    let [sum] = fold(
        a,
        a,
        a,
        #[inline(always)]
        |a, _, _| [f(a)],
    );
    sum
}

/// `sum f(a, b)`
#[inline(always)]
pub fn sum2<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> O) -> f64 {
    let [sum] = fold(
        a,
        a,
        b,
        #[inline(always)]
        |a, _, b| [f(a, b)],
    );
    sum
}

/// `sum f(a, b).0` and `sum f(a, b).1`
#[inline(always)]
pub fn sums<A: Copy, B: Copy, O: RealMath>(a: &[A], b: &[B], f: impl Fn(A, B) -> (O, O)) -> (f64, f64) {
    let [first, second] = fold(
        a,
        a,
        b,
        #[inline(always)]
        |a, _, b| f(a, b).into(),
    );
    (first, second)
}

/// `sum f(a, b, c).0` and `sum f(a, b, c).1`
#[inline(always)]
pub fn sums3<A: Copy, B: Copy, C: Copy, O: RealMath>(
    a: &[A],
    b: &[B],
    c: &[C],
    f: impl Fn(A, B, C) -> (O, O),
) -> (f64, f64) {
    let [first, second] = fold(
        a,
        b,
        c,
        #[inline(always)]
        |a, b, c| f(a, b, c).into(),
    );
    (first, second)
}

/// The largest element; no number if there is one.
#[inline(always)]
pub fn max<T: Ordered>(row: &[T]) -> T::Op {
    const LANES: usize = 32;
    let mut acc = [T::Op::LOWEST; LANES];
    let (runs, rest) = row.as_chunks::<LANES>();
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
