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

use crate::isa::Isa;
use crate::loops::views::{column_runs, lock, par_chunks};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Floating, Math, Number, Ordered, Real, Value};

pub use moments::{norm, var};
pub use select::{max_dim, min_dim};

/// Independent accumulators of a row: enough to keep the vector units busy.
const WIDTH: usize = 64;
/// Elements that are accumulated in a straight line before partial results are combined pairwise.
const BLOCK: usize = 2048;
/// Columns that are accumulated side by side: whole pages of a row at a time, whose accumulators stay in the nearest cache.
const COLUMNS: usize = 512;
/// Rows that a column accumulates in a straight line.
const DEPTH: usize = 128;

/// How a lane is folded: a step an element, and the combination of two partial results.
trait Fold<T: Value>: Copy + Send + Sync {
    type Acc: Copy + Send + Sync;
    fn identity(self) -> Self::Acc;
    fn step<I: Isa>(self, acc: Self::Acc, x: T::Op) -> Self::Acc;
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

/// Folds a row in blocks, combined pairwise.
#[inline(always)]
fn fold_row<I: Isa, T: Value, F: Fold<T>>(fold: F, row: &[T]) -> F::Acc {
    // Partial results of 2^level blocks, as in binary counting: a cascade without recursion.
    let mut levels = [fold.identity(); 48];
    let mut blocks = 0u64;
    let mut result = None;
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
    for (level, &part) in levels.iter().enumerate() {
        if blocks >> level & 1 == 1 {
            result = Some(match result {
                None => part,
                Some(right) => fold.combine(part, right),
            });
        }
    }
    result.unwrap_or_else(|| fold.identity())
}

#[inline(always)]
fn fold_block<I: Isa, T: Value, F: Fold<T>>(fold: F, block: &[T]) -> F::Acc {
    let mut acc = [fold.identity(); WIDTH];
    let (runs, rest) = block.as_chunks::<WIDTH>();
    if runs.is_empty() {
        return rest.iter().fold(fold.identity(), |acc, x| fold.step::<I>(acc, x.up()));
    }
    for run in runs {
        // Not in place: that LLVM would not keep in registers.
        let mut next = acc;
        for i in 0..WIDTH {
            next[i] = fold.step::<I>(acc[i], run[i].up());
        }
        acc = next;
    }
    for (acc, x) in acc.iter_mut().zip(rest) {
        *acc = fold.step::<I>(*acc, x.up());
    }
    let mut width = WIDTH;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = fold.combine(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

/// Folds `columns.len()` neighbouring columns of `rows` rows, `pitch` apart.
#[inline(always)]
fn fold_columns<I: Isa, T: Value, F: Fold<T>>(fold: F, x: &[T], rows: usize, pitch: usize, columns: &mut [F::Acc]) {
    let width = columns.len();
    let mut start = 0;
    while start < rows {
        let mut acc = [fold.identity(); COLUMNS];
        let end = rows.min(start + DEPTH);
        for r in start..end {
            for (acc, x) in acc[..width].iter_mut().zip(&x[r * pitch..][..width]) {
                *acc = fold.step::<I>(*acc, x.up());
            }
        }
        for (total, part) in columns.iter_mut().zip(acc) {
            *total = fold.combine(*total, part);
        }
        start = end;
    }
}

/// The (A, R, B) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [a, r, b] => (a as usize, r as usize, b as usize),
        _ => (1, x.numel() as usize, 1),
    }
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
            let whole = parallel_reduce(
                r,
                GRAIN,
                fold.identity(),
                |begin, end| {
                    I::run(
                        #[inline(always)]
                        || fold_row::<I, T, F>(fold, &x[begin..end]),
                    )
                },
                |p, q| fold.combine(p, q),
            );
            out[0] = finish(whole, r);
        } else if b == 1 {
            par_chunks::<I, O>(
                out,
                (GRAIN / r.max(1)).max(1),
                #[inline(always)]
                |start, part| {
                    for (i, out) in part.iter_mut().enumerate() {
                        *out = finish(fold_row::<I, T, F>(fold, &x[(start + i) * r..][..r]), r);
                    }
                },
            );
        } else {
            let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(COLUMNS.min(b));
            par_chunks::<I, O>(
                out,
                grain,
                #[inline(always)]
                |start, part| {
                    column_runs(
                        start,
                        part.len(),
                        b,
                        COLUMNS,
                        #[inline(always)]
                        |done, row, column, width| {
                            let mut columns = [fold.identity(); COLUMNS];
                            if r > 0 {
                                fold_columns::<I, T, F>(fold, &x[row * r * b + column..], r, b, &mut columns[..width]);
                            }
                            for (out, acc) in part[done..done + width].iter_mut().zip(columns) {
                                *out = finish(acc, r);
                            }
                        },
                    );
                },
            );
        }
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
