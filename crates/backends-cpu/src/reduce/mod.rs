//! Reductions over the middle dimension of a contiguous (A, R, B) tensor.
//!
//! Sums are cascades over fixed blocks, so a result depends on the shape alone, not on the number of threads. Moments and
//! norms are in `moments`, selections with an index in `select`.

mod moments;
mod select;
#[cfg(test)]
mod tests;

use tensor_aten::Tensor;
use tensor_core::{Bool, Element, Result};

use crate::isa::{Baseline, Isa};
use crate::loops::views::{column_runs, lock, par_chunks};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Floating, Math, Number, Ordered, Real, Value};

pub use moments::{norm, var};
pub use select::{max_dim, min_dim};

/// Independent accumulators of a row, in bytes: enough to keep the vector units busy.
const WIDTH: usize = 256;
/// Elements that are accumulated in a straight line before partial results are combined pairwise.
const BLOCK: usize = 2048;
/// Columns that are accumulated side by side: whole pages of a row at a time, whose accumulators stay in the nearest cache.
const COLUMNS: usize = 4096;
/// Rows that a column accumulates in a straight line.
const DEPTH: usize = 128;
/// Rows that columns take at once: each is a stream of memory.
const ROWS: usize = 4;
/// Planes (R, B) from which on they alone keep all threads busy.
const PLANES: usize = 8;
/// The most partial results of a column, beyond which their rows grow.
const PARTS: usize = 64;

/// How a lane is folded: a step an element, and the combination of two partial results.
trait Fold<T: Value>: Copy + Send + Sync {
    type Acc: Copy + Send + Sync;
    fn identity(self) -> Self::Acc;
    fn step<I: Isa>(self, acc: Self::Acc, x: T::Op) -> Self::Acc;
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

// What is compiled for a level is out of line, one copy for all that call it.

/// Folds a row in blocks, combined pairwise.
#[inline(never)]
fn fold_row<I: Isa, T: Value, F: Fold<T>>(fold: F, row: &[T]) -> F::Acc {
    if row.len() <= BLOCK {
        return fold_block::<I, T, F>(fold, row);
    }
    // Partial results of 2^level blocks, as in binary counting: a cascade without recursion.
    let mut levels = [fold.identity(); 48];
    let mut blocks = 0u64;
    for block in row.chunks(BLOCK) {
        let mut carry = fold_block::<I, T, F>(fold, block);
        let mut level = 0;
        while blocks >> level & 1 == 1 {
            carry = fold.combine(levels[level], carry);
            level += 1;
        }
        levels[level] = carry;
        blocks += 1;
    }
    let mut parts = levels.into_iter().enumerate().filter(|(level, _)| blocks >> level & 1 == 1).map(|(_, part)| part);
    let first = parts.next().unwrap_or_else(|| fold.identity());
    parts.fold(first, |right, part| fold.combine(part, right))
}

/// Folds a row in a straight line.
#[inline(never)]
fn fold_block<I: Isa, T: Value, F: Fold<T>>(fold: F, block: &[T]) -> F::Acc {
    I::run(
        #[inline(always)]
        || match const { WIDTH / size_of::<F::Acc>() } {
            16 => fold_lanes::<I, T, F, 16>(fold, block),
            32 => fold_lanes::<I, T, F, 32>(fold, block),
            _ => fold_lanes::<I, T, F, 64>(fold, block),
        },
    )
}

#[inline(always)]
fn fold_lanes<I: Isa, T: Value, F: Fold<T>, const W: usize>(fold: F, block: &[T]) -> F::Acc {
    let Some(end) = block.last_chunk::<W>() else {
        let mut acc = fold.identity();
        for x in block {
            acc = fold.step::<I>(acc, x.up());
        }
        return acc;
    };
    let mut acc = [fold.identity(); W];
    let (runs, rest) = block.as_chunks::<W>();
    for run in runs {
        // Not in place: that LLVM would not keep in registers.
        let mut next = acc;
        for i in 0..W {
            next[i] = fold.step::<I>(acc[i], run[i].up());
        }
        acc = next;
    }
    if !rest.is_empty() {
        // A run that ends where the row does, of which what is left counts.
        let (others, mut next) = (W - rest.len(), acc);
        for i in 0..W {
            let step = fold.step::<I>(acc[i], end[i].up());
            next[i] = if i < others { acc[i] } else { step };
        }
        acc = next;
    }
    let mut width = W;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = fold.combine(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

/// Folds `columns.len()` neighbouring columns of `rows` rows, `pitch` apart, into what begins as their identity.
#[inline(never)]
fn fold_columns<I: Isa, T: Value, F: Fold<T>>(fold: F, x: &[T], rows: usize, pitch: usize, columns: &mut [F::Acc]) {
    let width = columns.len();
    let mut block = vec![fold.identity(); if rows > DEPTH { width } else { 0 }];
    I::run(
        #[inline(always)]
        || {
            for start in (0..rows).step_by(DEPTH) {
                let acc = if rows > DEPTH { &mut block[..] } else { &mut *columns };
                let end = rows.min(start + DEPTH);
                let row = |r: usize| &x[r * pitch..][..width];
                for r in (start..end).step_by(ROWS) {
                    if r + ROWS <= end {
                        add_rows::<I, T, F, ROWS>(fold, acc, std::array::from_fn(|i| row(r + i)));
                    } else {
                        (r..end).for_each(|r| add_rows::<I, T, F, 1>(fold, acc, [row(r)]));
                    }
                }
                for (total, part) in columns.iter_mut().zip(&mut block) {
                    *total = fold.combine(*total, *part);
                    *part = fold.identity();
                }
            }
        },
    )
}

/// Adds rows to the running results of their columns, in order.
#[inline(always)]
fn add_rows<I: Isa, T: Value, F: Fold<T>, const N: usize>(fold: F, acc: &mut [F::Acc], rows: [&[T]; N]) {
    let width = acc.len();
    let rows = rows.map(|row| &row[..width]);
    for i in 0..width {
        let mut sum = acc[i];
        for row in rows {
            sum = fold.step::<I>(sum, row[i].up());
        }
        acc[i] = sum;
    }
}

/// The (A, R, B) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [a, r, b] => (a as usize, r as usize, b as usize),
        _ => (1, x.numel() as usize, 1),
    }
}

/// Folds the columns of a plane of `b` of them, its rows shared among the threads: in memory they lie one behind the other.
#[inline(never)]
fn fold_plane<I: Isa, T: Value, F: Fold<T>>(fold: F, x: &[T], b: usize) -> Vec<F::Acc> {
    let rows = x.len() / b;
    let depth = (GRAIN / b).max(rows.div_ceil(PARTS)).next_multiple_of(DEPTH);
    let part = |begin: usize, end: usize| {
        let mut columns = vec![fold.identity(); b];
        for (i, columns) in columns.chunks_mut(COLUMNS).enumerate() {
            fold_columns::<I, T, F>(fold, &x[begin * b + i * COLUMNS..], end - begin, b, columns);
        }
        columns
    };
    parallel_reduce(rows, depth, Vec::new(), part, |mut p: Vec<F::Acc>, q| {
        p.iter_mut().zip(q).for_each(|(p, q)| *p = fold.combine(*p, q));
        p
    })
}

/// `out[a, b] = finish(fold of x[a, :, b])`
#[inline]
fn reduce<I: Isa, T: Value, O: Element, F: Fold<T>>(
    out: &Tensor,
    x: &Tensor,
    fold: F,
    finish: impl Fn(F::Acc, usize) -> O + Sync,
) -> Result<()> {
    let (a, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    locked.write::<O>(0)?.with_dense(|out| {
        if a * b == 1 {
            let chunk = |begin: usize, end: usize| fold_row::<I, T, F>(fold, &x[begin..end]);
            let whole = parallel_reduce(r, GRAIN, fold.identity(), chunk, |p, q| fold.combine(p, q));
            out[0] = finish(whole, r);
            return;
        }
        if a < PLANES && b > 1 && b < PARTS * COLUMNS && r > DEPTH {
            for (plane, out) in out.chunks_mut(b).enumerate() {
                let columns = fold_plane::<I, T, F>(fold, &x[plane * r * b..][..r * b], b);
                out.iter_mut().zip(columns).for_each(|(out, acc)| *out = finish(acc, r));
            }
            return;
        }
        let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(COLUMNS.min(b));
        par_chunks::<Baseline, O>(out, grain, |start, part| {
            if b == 1 {
                for (i, out) in part.iter_mut().enumerate() {
                    *out = finish(fold_row::<I, T, F>(fold, &x[(start + i) * r..][..r]), r);
                }
                return;
            }
            let mut columns = vec![fold.identity(); COLUMNS.min(b)];
            column_runs(start, part.len(), b, COLUMNS, |done, row, column, width| {
                let columns = &mut columns[..width];
                columns.fill(fold.identity());
                if r > 0 {
                    fold_columns::<I, T, F>(fold, &x[row * r * b + column..], r, b, columns);
                }
                for (out, acc) in part[done..done + width].iter_mut().zip(columns) {
                    *out = finish(*acc, r);
                }
            });
        });
    });
    Ok(())
}

/// A fold given by its parts.
macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident<T: $bound:path> -> $acc:ty { $identity:expr; |$s:ident, $x:ident| $step:expr; |$p:ident, $q:ident| $combine:expr })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;
        impl<T: $bound> Fold<T> for $name {
            type Acc = $acc;
            #[inline(always)]
            fn identity(self) -> Self::Acc { $identity }
            #[inline(always)]
            fn step<I: Isa>(self, $s: Self::Acc, $x: T::Op) -> Self::Acc { $step }
            #[inline(always)]
            fn combine(self, $p: Self::Acc, $q: Self::Acc) -> Self::Acc { $combine }
        }
    )* };
}

folds! {
    /// sum
    Sum<T: Number> -> T::Op { T::Op::ZERO; |s, x| s.add(x); |p, q| p.add(q) }
    /// product
    Product<T: Number> -> T::Op { T::Op::ONE; |s, x| s.mul(x); |p, q| p.mul(q) }
    /// the largest; no number if there is one
    Largest<T: Ordered> -> T::Op { T::Op::LOWEST; |s, x| x.maximum(s); |p, q| p.maximum(q) }
    /// the smallest; no number if there is one
    Smallest<T: Ordered> -> T::Op { T::Op::HIGHEST; |s, x| x.minimum(s); |p, q| p.minimum(q) }
    /// all are true
    All<T: Number> -> bool { true; |s, x| s & x.truth(); |p, q| p & q }
    /// one is true
    Any<T: Number> -> bool { false; |s, x| s | x.truth(); |p, q| p | q }
}

/// `out = sum(x)`
pub fn sum<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Sum, |acc, _| T::down(acc))
}

/// `out = sum(x) / R`
pub fn mean<I: Isa, T: Floating>(out: &Tensor, x: &Tensor) -> Result<()>
where
    T::Op: Math,
{
    reduce::<I, T, T, _>(out, x, Sum, |acc, r| T::down(acc.div(T::Op::from_f64(r as f64))))
}

/// `out = prod(x)`
pub fn prod<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Product, |acc, _| T::down(acc))
}

/// `out = max(x)`
pub fn amax<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Largest, |acc, _| T::down(acc))
}

/// `out = min(x)`
pub fn amin<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Smallest, |acc, _| T::down(acc))
}

/// `out = all(x != 0)`
pub fn all<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, Bool, _>(out, x, All, |acc, _| Bool::new(acc))
}

/// `out = any(x != 0)`
pub fn any<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, Bool, _>(out, x, Any, |acc, _| Bool::new(acc))
}
