//! Reductions over the middle dimension of a contiguous (A, R, B) tensor.
//!
//! Sums are cascades over fixed blocks, so a result depends on the shape alone, not on the number of threads. Moments and
//! norms are in `moments`, selections with an index in `select`.

mod moments;
mod select;
#[cfg(test)]
mod tests;

use std::slice;

use tensor_aten::Tensor;
use tensor_core::{Bool, Element, Result};

use crate::arrays::{each, map};
use crate::isa::{Baseline, Isa};
use crate::loops::views::{column_runs, lock, par_chunks};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Floating, Math, Number, Ordered, Real, Value};

pub use moments::{norm, var};
pub use select::{max_dim, min_dim};

/// Independent accumulators of a row, in bytes: enough to keep the vector units busy.
const WIDTH: usize = 256;
/// Elements that are folded at once. Partial results of blocks are combined pairwise.
const BLOCK: usize = 32768;
/// Elements of a block that its accumulators take in a straight line before they are put aside: the rounding errors of sums
/// stay those of short ones. (Bringing the accumulators to one result each time would interrupt the stream of memory.)
const RUN: usize = 2048;
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
trait Fold<T: Value> {
    type Acc: Copy + Send + Sync;
    fn identity() -> Self::Acc;
    fn step<I: Isa>(acc: Self::Acc, x: T::Op) -> Self::Acc;
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

/// Folds a row in a straight line.
#[inline(never)]
fn fold_block<I: Isa, T: Value, F: Fold<T>>(block: &[T]) -> F::Acc {
    I::run(
        #[inline(always)]
        || match const { WIDTH / size_of::<F::Acc>() } {
            16 => fold_lanes::<I, T, F, 16>(block),
            32 => fold_lanes::<I, T, F, 32>(block),
            _ => fold_lanes::<I, T, F, 64>(block),
        },
    )
}

#[inline(always)]
fn fold_lanes<I: Isa, T: Value, F: Fold<T>, const W: usize>(block: &[T]) -> F::Acc {
    let Some(end) = block.last_chunk::<W>() else {
        let mut acc = F::identity();
        for x in block {
            acc = F::step::<I>(acc, x.up());
        }
        return acc;
    };
    let (runs, rest) = block.as_chunks::<W>();
    let (first, later) = runs.split_at(runs.len().min(RUN / W));
    let mut acc = fold_run::<I, T, F, W>(first);
    for run in later.chunks(RUN / W) {
        let (more, mut next) = (fold_run::<I, T, F, W>(run), acc);
        for i in 0..W {
            next[i] = F::combine(acc[i], more[i]);
        }
        acc = next;
    }
    if !rest.is_empty() {
        // A run that ends where the row does, of which what is left counts.
        let (others, mut next) = (W - rest.len(), acc);
        for i in 0..W {
            let step = F::step::<I>(acc[i], end[i].up());
            next[i] = if i < others { acc[i] } else { step };
        }
        acc = next;
    }
    let mut width = W;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = F::combine(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

/// Folds each lane of some chunks in a straight line.
#[inline(always)]
fn fold_run<I: Isa, T: Value, F: Fold<T>, const W: usize>(run: &[[T; W]]) -> [F::Acc; W] {
    let mut acc = [F::identity(); W];
    for lanes in run {
        // Not in place: that LLVM would not keep in registers.
        let mut next = acc;
        for i in 0..W {
            next[i] = F::step::<I>(acc[i], lanes[i].up());
        }
        acc = next;
    }
    acc
}

/// Folds `columns.len()` neighbouring columns of `rows` rows, `pitch` apart, into what begins as their identity.
#[inline(never)]
fn fold_columns<I: Isa, T: Value, F: Fold<T>>(x: &[T], rows: usize, pitch: usize, columns: &mut [F::Acc]) {
    let width = columns.len();
    let mut block = vec![F::identity(); if rows > DEPTH { width } else { 0 }];
    I::run(
        #[inline(always)]
        || {
            for start in (0..rows).step_by(DEPTH) {
                let acc = if rows > DEPTH { &mut block[..] } else { &mut *columns };
                let end = rows.min(start + DEPTH);
                let row = |r: usize| &x[r * pitch..][..width];
                for r in (start..end).step_by(ROWS) {
                    if r + ROWS <= end {
                        add_rows::<I, T, F, ROWS>(acc, each(|i| row(r + i)));
                    } else {
                        for r in r..end {
                            add_rows::<I, T, F, 1>(acc, [row(r)]);
                        }
                    }
                }
                for (total, part) in columns.iter_mut().zip(&mut block) {
                    *total = F::combine(*total, *part);
                    *part = F::identity();
                }
            }
        },
    )
}

/// Adds rows to the running results of their columns, in order.
#[inline(always)]
fn add_rows<I: Isa, T: Value, F: Fold<T>, const N: usize>(acc: &mut [F::Acc], rows: [&[T]; N]) {
    let width = acc.len();
    let rows = map(rows, |row| &row[..width]);
    for i in 0..width {
        let mut sum = acc[i];
        for row in rows {
            sum = F::step::<I>(sum, row[i].up());
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

/// A fold at a level, and what becomes of its results. All that is compiled for that level is behind its functions, so there is one
/// copy of the code around them for all folds with the same types.
struct Folding<T, A, O> {
    identity: A,
    /// [`fold_block`]
    block: fn(&[T]) -> A,
    /// [`fold_columns`]
    columns: fn(&[T], usize, usize, &mut [A]),
    /// Combines with the results of later elements.
    combine: fn(&mut [A], &[A]),
    /// Results from folds of as many elements.
    finish: fn(&mut [O], &[A], usize),
}

impl<T: Value, A: Copy + Send + Sync, O: Element> Folding<T, A, O> {
    fn new<I: Isa, F: Fold<T, Acc = A>>(finish: fn(&mut [O], &[A], usize)) -> Self {
        Self {
            identity: F::identity(),
            block: fold_block::<I, T, F>,
            columns: fold_columns::<I, T, F>,
            combine: |p, q| each_pair(p, q, F::combine),
            finish,
        }
    }

    fn combined(&self, mut p: A, q: A) -> A {
        (self.combine)(slice::from_mut(&mut p), slice::from_ref(&q));
        p
    }

    /// Folds a row in blocks, combined pairwise.
    fn row(&self, row: &[T]) -> A {
        if row.len() <= BLOCK {
            return (self.block)(row);
        }
        // Partial results of 2^level blocks, as in binary counting: a cascade without recursion.
        let mut levels = [self.identity; 48];
        let mut blocks = 0u64;
        for block in row.chunks(BLOCK) {
            let mut carry = (self.block)(block);
            let mut level = 0;
            while blocks >> level & 1 == 1 {
                carry = self.combined(levels[level], carry);
                level += 1;
            }
            levels[level] = carry;
            blocks += 1;
        }
        let mut result = None;
        for (level, &part) in levels.iter().enumerate() {
            if blocks >> level & 1 == 1 {
                result = Some(result.map_or(part, |later| self.combined(part, later)));
            }
        }
        result.unwrap_or(self.identity)
    }

    /// Folds the columns of a plane of `b` of them, its rows shared among the threads: in memory they lie one behind the other.
    fn plane(&self, x: &[T], b: usize) -> Vec<A> {
        let rows = x.len() / b;
        let depth = (GRAIN / b).max(rows.div_ceil(PARTS)).next_multiple_of(DEPTH);
        let part = |begin: usize, end: usize| {
            let mut columns = vec![self.identity; b];
            for (i, columns) in columns.chunks_mut(COLUMNS).enumerate() {
                (self.columns)(&x[begin * b + i * COLUMNS..], end - begin, b, columns);
            }
            columns
        };
        parallel_reduce(rows, depth, Vec::new(), part, |mut p, q| {
            (self.combine)(&mut p, &q);
            p
        })
    }

    /// `out[a, b] = finish(fold of x[a, :, b])`
    fn run(&self, out: &Tensor, x: &Tensor) -> Result<()> {
        let (a, r, b) = extents(x);
        let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
        let x = locked.read::<T>(0)?.dense();
        locked.write::<O>(0)?.with_dense(|out| {
            if a * b == 1 {
                let chunk = |begin: usize, end: usize| self.row(&x[begin..end]);
                let whole = parallel_reduce(r, GRAIN, self.identity, chunk, |p, q| self.combined(p, q));
                return (self.finish)(out, &[whole], r);
            }
            if a < PLANES && b > 1 && b < PARTS * COLUMNS && r > DEPTH {
                for (plane, out) in out.chunks_mut(b).enumerate() {
                    (self.finish)(out, &self.plane(&x[plane * r * b..][..r * b], b), r);
                }
                return;
            }
            let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(COLUMNS.min(b));
            par_chunks::<Baseline, O>(out, grain, |start, part| {
                let mut results = vec![self.identity; COLUMNS.min(if b == 1 { part.len() } else { b })];
                if b == 1 {
                    for (run, out) in part.chunks_mut(COLUMNS).enumerate() {
                        let first = start + run * COLUMNS;
                        for (i, result) in results[..out.len()].iter_mut().enumerate() {
                            *result = self.row(&x[(first + i) * r..][..r]);
                        }
                        (self.finish)(out, &results, r);
                    }
                    return;
                }
                column_runs(start, part.len(), b, COLUMNS, |done, row, column, width| {
                    let results = &mut results[..width];
                    results.fill(self.identity);
                    if r > 0 {
                        (self.columns)(&x[row * r * b + column..], r, b, results);
                    }
                    (self.finish)(&mut part[done..done + width], results, r);
                });
            });
        });
        Ok(())
    }
}

/// `x = f(x, y)` for as many elements as `x` has.
#[inline(always)]
fn each_pair<X: Copy, Y: Copy>(x: &mut [X], y: &[Y], f: impl Fn(X, Y) -> X) {
    let y = &y[..x.len()];
    for i in 0..x.len() {
        x[i] = f(x[i], y[i]);
    }
}

/// Results that are the folds.
fn store<T: Value>(out: &mut [T], folds: &[T::Op], _: usize) {
    each_pair(out, folds, |_, fold| T::down(fold));
}

fn store_truth(out: &mut [Bool], folds: &[bool], _: usize) {
    each_pair(out, folds, |_, fold| Bool::new(fold));
}

/// A fold given by its parts.
macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident<T: $bound:path> -> $acc:ty { $identity:expr; |$s:ident, $x:ident| $step:expr; |$p:ident, $q:ident| $combine:expr })*) => { $(
        $(#[$doc])*
        struct $name;
        impl<T: $bound> Fold<T> for $name {
            type Acc = $acc;
            #[inline(always)]
            fn identity() -> Self::Acc { $identity }
            #[inline(always)]
            fn step<I: Isa>($s: Self::Acc, $x: T::Op) -> Self::Acc { $step }
            #[inline(always)]
            fn combine($p: Self::Acc, $q: Self::Acc) -> Self::Acc { $combine }
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
    Folding::<T, _, _>::new::<I, Sum>(store::<T>).run(out, x)
}

/// `out = sum(x) / R`
pub fn mean<I: Isa, T: Floating>(out: &Tensor, x: &Tensor) -> Result<()>
where
    T::Op: Math,
{
    let finish = |out: &mut [T], sums: &[T::Op], r: usize| {
        let n = T::Op::from_f64(r as f64);
        each_pair(out, sums, |_, sum| T::down(sum.div(n)));
    };
    Folding::<T, _, _>::new::<I, Sum>(finish).run(out, x)
}

/// `out = prod(x)`
pub fn prod<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    Folding::<T, _, _>::new::<I, Product>(store::<T>).run(out, x)
}

/// `out = max(x)`
pub fn amax<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    Folding::<T, _, _>::new::<I, Largest>(store::<T>).run(out, x)
}

/// `out = min(x)`
pub fn amin<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    Folding::<T, _, _>::new::<I, Smallest>(store::<T>).run(out, x)
}

/// `out = all(x != 0)`
pub fn all<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    Folding::<T, _, _>::new::<I, All>(store_truth).run(out, x)
}

/// `out = any(x != 0)`
pub fn any<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    Folding::<T, _, _>::new::<I, Any>(store_truth).run(out, x)
}
