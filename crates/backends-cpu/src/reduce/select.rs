//! Extremes with their index along the middle dimension of a contiguous (A, R, B) tensor. The first one counts, and the
//! first no-number before all others.

use tensor_aten::Tensor;
use tensor_core::Result;

use super::{Fold, Largest, Smallest, extents, fold_block};
use crate::isa::{Baseline, Isa};
use crate::loops::views::{column_runs, lock, par_chunks2};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Ordered};

/// Elements whose extreme is found before they are compared with it.
const BLOCK: usize = 1024;
/// Elements that are compared at once.
const RUN: usize = 32;
/// Columns that are looked through side by side.
const COLUMNS: usize = 64;

/// An order of elements: the extreme of many, and whether one comes before another.
trait Order<T: Ordered>: Fold<T, Acc = T::Op> {
    /// True if `a` comes before `b`; not so for equals and for no-numbers.
    fn before(a: T::Op, b: T::Op) -> bool;
}
impl<T: Ordered> Order<T> for Largest {
    #[inline(always)]
    fn before(a: T::Op, b: T::Op) -> bool {
        a > b
    }
}
impl<T: Ordered> Order<T> for Smallest {
    #[inline(always)]
    fn before(a: T::Op, b: T::Op) -> bool {
        a < b
    }
}

/// True if `a`, which comes later, takes the place of `b`.
#[inline(always)]
fn wins<T: Ordered, F: Order<T>>(a: T::Op, b: T::Op) -> bool {
    !b.is_nan() & (F::before(a, b) | a.is_nan())
}

/// Where the first element is that equals the extreme, or is no number.
#[inline(always)]
fn first<T: Ordered>(x: &[T], extreme: T::Op) -> usize {
    let is = |x: T| (x.up() == extreme) | x.up().is_nan();
    let (runs, rest) = x.as_chunks::<RUN>();
    let mut at = 0;
    for run in runs {
        let mut any = false;
        for &x in run {
            any |= is(x);
        }
        if any {
            break;
        }
        at += RUN;
    }
    let end = if at == runs.len() * RUN { at + rest.len() } else { at + RUN };
    while at < end && !is(x[at]) {
        at += 1;
    }
    at
}

/// The place of the extreme of a row that is not empty: the extreme of each block, then where it is in the winning one.
#[inline(never)]
fn select_row<I: Isa, T: Ordered, F: Order<T>>(x: &[T]) -> usize {
    let (mut start, mut best) = (0, x[0].up());
    for (i, block) in x.chunks(BLOCK).enumerate() {
        let extreme = fold_block::<I, T, F>(block);
        if wins::<T, F>(extreme, best) {
            (start, best) = (i * BLOCK, extreme);
        }
    }
    let block = &x[start..x.len().min(start + BLOCK)];
    I::run(
        #[inline(always)]
        || start + first(block, best),
    )
}

/// The places of the extremes of neighbouring columns, `pitch` from row to row.
#[inline(never)]
fn select_columns<I: Isa, T: Ordered, F: Order<T>>(x: &[T], rows: u32, pitch: usize, at: &mut [u32]) {
    I::run(
        #[inline(always)]
        || {
            let width = at.len();
            let mut best = [T::Op::ZERO; COLUMNS];
            let mut places = [0u32; COLUMNS];
            let (best, places) = (&mut best[..width], &mut places[..width]);
            for i in 0..width {
                best[i] = x[i].up();
            }
            for r in 1..rows {
                let x = &x[r as usize * pitch..][..width];
                for i in 0..width {
                    let x = x[i].up();
                    let won = wins::<T, F>(x, best[i]);
                    best[i] = if won { x } else { best[i] };
                    places[i] = if won { r } else { places[i] };
                }
            }
            at.copy_from_slice(places);
        },
    )
}

/// A selection at a level: what is compiled for it is behind these functions, and what is around them there once for all.
struct Selection<T> {
    /// [`select_row`]
    row: fn(&[T]) -> usize,
    /// [`select_columns`]
    columns: fn(&[T], u32, usize, &mut [u32]),
    /// [`wins`]
    wins: fn(T, T) -> bool,
}

impl<T: Ordered> Selection<T> {
    fn new<I: Isa, F: Order<T>>() -> Self {
        Self {
            row: select_row::<I, T, F>,
            columns: select_columns::<I, T, F>,
            wins: |later, earlier| wins::<T, F>(later.up(), earlier.up()),
        }
    }

    fn run(&self, values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
        let (a, r, b) = extents(x);
        let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
        let x = locked.read::<T>(0)?.dense();
        let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
        values.with_dense(|values| {
            indices.with_dense(|indices| {
                if a * b == 1 {
                    let chunk = |begin: usize, end: usize| begin + (self.row)(&x[begin..end]);
                    let later = |p: usize, q: usize| if (self.wins)(x[q], x[p]) { q } else { p };
                    let at = parallel_reduce(r, GRAIN, 0, chunk, later);
                    (values[0], indices[0]) = (x[at], at as i64);
                    return;
                }
                let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(COLUMNS.min(b));
                par_chunks2::<Baseline, T, i64>(values, indices, grain, |start, values, indices| {
                    if b == 1 {
                        for (i, (value, index)) in values.iter_mut().zip(indices).enumerate() {
                            let row = &x[(start + i) * r..][..r];
                            let at = (self.row)(row);
                            (*value, *index) = (row[at], at as i64);
                        }
                        return;
                    }
                    column_runs(start, values.len(), b, COLUMNS, |done, row, column, width| {
                        let columns = &x[row * r * b + column..];
                        let mut at = [0usize; COLUMNS];
                        // Places are counted in 32 bits from a base on, to be as wide as the common elements.
                        for base in (0..r).step_by(u32::MAX as usize) {
                            let rows = (r - base).min(u32::MAX as usize) as u32;
                            let mut found = [0u32; COLUMNS];
                            (self.columns)(&columns[base * b..], rows, b, &mut found[..width]);
                            for (c, (at, found)) in at[..width].iter_mut().zip(found).enumerate() {
                                let found = base + found as usize;
                                if base == 0 || (self.wins)(columns[found * b + c], columns[*at * b + c]) {
                                    *at = found;
                                }
                            }
                        }
                        for (c, at) in at[..width].iter().enumerate() {
                            (values[done + c], indices[done + c]) = (columns[at * b + c], *at as i64);
                        }
                    });
                });
            });
        });
        Ok(())
    }
}

/// `values, indices = max(x)`
pub fn max_dim<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    Selection::<T>::new::<I, Largest>().run(values, indices, x)
}

/// `values, indices = min(x)`
pub fn min_dim<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    Selection::<T>::new::<I, Smallest>().run(values, indices, x)
}
