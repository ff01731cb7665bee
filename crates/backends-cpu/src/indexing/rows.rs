//! `index` and `index_put`: the elements that a plan names, in runs where the dimensions after the indexed ones lie dense.

use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_aten::kernels::IndexPlan;
use tensor_core::{Element, Error, Result, bail, strides};

use super::bounds::{all_within, check_bounds};
use super::walk::offsets;
use crate::isa::Isa;
use crate::loops::beyond::{self, STREAM, prefetch};
use crate::loops::views::{Dense, Locked, lock, par_chunks, par_rows};
use crate::parallel::GRAIN;
use crate::simd::compress::{PLACES, within};
use crate::simd::{Arith, Number};
use crate::with_level;

/// Where the rows of a result lie in the indexed memory: row (b, i) at `before[b]` plus the place of i, its element a at
/// `after[a]` from there.
struct Rows<'a> {
    plan: &'a IndexPlan,
    indices: SmallVec<[Dense<'a, i64>; 4]>,
    before: Vec<usize>,
    after: After,
    /// how many places there are
    count: usize,
}

/// The offsets of the last dimensions.
enum After {
    /// side by side, so many
    Dense(usize),
    /// anywhere
    Table(Vec<usize>),
}

impl After {
    fn len(&self) -> usize {
        match self {
            Self::Dense(n) => *n,
            Self::Table(table) => table.len(),
        }
    }

    /// The largest offset.
    fn last(&self) -> usize {
        match self {
            Self::Dense(n) => n.saturating_sub(1),
            Self::Table(table) => table.iter().copied().max().unwrap_or(0),
        }
    }
}

impl<'a> Rows<'a> {
    /// The plan's index tensors are the inputs from `first` on. Nothing is checked.
    fn new(plan: &'a IndexPlan, locked: &'a Locked<'_>, first: usize) -> Result<Self> {
        let after = if strides::is_contiguous(&plan.after.sizes, &plan.after.strides) {
            After::Dense(plan.after.sizes.iter().product::<i64>() as usize)
        } else {
            After::Table(offsets(&plan.after.sizes, &plan.after.strides))
        };
        let mut indices: SmallVec<[Dense<'a, i64>; 4]> = SmallVec::new();
        for k in 0..plan.indices.len() {
            indices.push(locked.read::<i64>(first + k)?.dense());
        }
        let count = indices.first().map_or(1, |index| index.len());
        Ok(Self { plan, indices, before: offsets(&plan.before.sizes, &plan.before.strides), after, count })
    }

    /// How many elements the result has.
    fn len(&self) -> usize {
        self.before.len() * self.count * self.after.len()
    }

    /// The least and the size that indices of tensor `k` keep to.
    #[inline]
    fn bounds(&self, k: usize) -> (i64, i64) {
        let size = self.plan.indexed.sizes[k];
        (if self.plan.bounds.wrap { -size } else { 0 }, size)
    }

    /// Refuses indices that are out of bounds.
    fn check(&self) -> Result<()> {
        for (k, index) in self.indices.iter().enumerate() {
            let (lowest, size) = self.bounds(k);
            let bounds = &self.plan.bounds;
            check_bounds(index, lowest, size).map_err(|i| (bounds.refuse)(i, bounds.first + k, size))?;
        }
        Ok(())
    }

    /// The places from number `start` on; false if an index is out of bounds.
    #[inline(always)]
    fn places(&self, start: usize, places: &mut [i64]) -> bool {
        places.fill(0);
        let mut right = true;
        for (k, index) in self.indices.iter().enumerate() {
            let (lowest, size) = self.bounds(k);
            let stride = self.plan.indexed.strides[k];
            let index = &index[start..start + places.len()];
            right &= all_within(index, lowest, size);
            for (place, &i) in places.iter_mut().zip(index) {
                *place += (if i < 0 { i.wrapping_add(size) } else { i }).wrapping_mul(stride);
            }
        }
        right
    }

    /// All places; the indices were checked.
    fn all_places(&self) -> Vec<i64> {
        let mut places = vec![0; self.count];
        with_level!(I => par_chunks::<I, i64>(
            &mut places,
            GRAIN,
            #[inline(always)]
            |start, places| {
                self.places(start, places);
            },
        ));
        places
    }
}

fn no_slice() -> Error {
    Error::runtime("the memory of an index plan is not contiguous")
}

/// `out[b, i, a] = x[b, indices[i], a]`. Indices may be checked as they are read: after an error, `out` holds anything.
pub fn index<T: Element>(out: &Tensor, plan: &IndexPlan) -> Result<()> {
    let mut reads: SmallVec<[_; 6]> = SmallVec::new();
    reads.push(&**plan.flat.as_impl());
    reads.extend(plan.indices.iter().map(|index| &**index.as_impl()));
    let locked = lock(&reads, &[out.as_impl()])?;
    let rows = Rows::new(plan, &locked, 1)?;
    if rows.len() == 0 {
        return rows.check();
    }
    let x = locked.read::<T>(0)?.slice().ok_or_else(no_slice)?;
    let cols = rows.after.len();
    let streamed = rows.len() * size_of::<T>() >= STREAM;
    // Of several blocks, each takes the same places.
    let mut all = Vec::new();
    if rows.before.len() > 1 {
        rows.check()?;
        all = rows.all_places();
    }
    let wrong = AtomicBool::new(false);
    locked.write::<T>(0)?.with_dense(|out| {
        with_level!(I => par_chunks::<I, T>(
            out,
            (GRAIN / cols).max(1) * cols,
            #[inline(always)]
            |start, part| {
                let (mut b, mut i) = (start / cols / rows.count, start / cols % rows.count);
                let mut some = [0; PLACES];
                let mut rest = part;
                while !rest.is_empty() {
                    // As many rows as are left of this b.
                    let n = (rows.count - i).min(rest.len() / cols).min(PLACES);
                    let (to, tail) = rest.split_at_mut(n * cols);
                    let places = if all.is_empty() {
                        if !rows.places(i, &mut some[..n]) {
                            return wrong.store(true, Ordering::Relaxed);
                        }
                        &some[..n]
                    } else {
                        &all[i..i + n]
                    };
                    read_rows(to, &x[rows.before[b]..], places, &rows.after, streamed);
                    rest = tail;
                    i += n;
                    if i == rows.count {
                        (b, i) = (b + 1, 0);
                    }
                }
            },
        ));
    });
    if wrong.into_inner() { rows.check() } else { Ok(()) }
}

/// Rows whose memory is asked for ahead.
const AHEAD: usize = 4;

/// `rows[r, a] = x[from[r] + after[a]]`
#[inline(always)]
fn read_rows<T: Element>(rows: &mut [T], x: &[T], from: &[i64], after: &After, streamed: bool) {
    let from = from.iter().map(|&at| at as usize);
    match after {
        After::Dense(1) => rows.iter_mut().zip(from).for_each(|(out, at)| *out = x[at]),
        After::Dense(cols) => {
            let ahead = from.clone().skip(AHEAD).chain(std::iter::repeat(usize::MAX));
            let row = from.zip(ahead).map(|(at, ahead)| {
                prefetch(x, ahead);
                prefetch(x, ahead.wrapping_add(cols / 2));
                &x[at..at + cols]
            });
            if streamed {
                beyond::copy_rows(rows, row);
            } else {
                rows.chunks_exact_mut(*cols).zip(row).for_each(|(to, row)| copy_row(to, row));
            }
        }
        After::Table(table) => {
            for (row, at) in rows.chunks_exact_mut(table.len()).zip(from) {
                row.iter_mut().zip(table).for_each(|(out, &a)| *out = x[at + a]);
            }
        }
    }
}

/// Copies a row, a short one without the call that a long one is worth.
#[inline(always)]
fn copy_row<T: Element>(to: &mut [T], row: &[T]) {
    const STEP: usize = 8;
    if row.len() > 16 * STEP {
        return to.copy_from_slice(row);
    }
    match (to.last_chunk_mut::<STEP>(), row.last_chunk::<STEP>()) {
        (Some(last), Some(from)) => *last = *from,
        _ => return to.iter_mut().zip(row).for_each(|(to, &x)| *to = x),
    }
    for (to, from) in to.as_chunks_mut::<STEP>().0.iter_mut().zip(row.as_chunks::<STEP>().0) {
        *to = *from;
    }
}

/// The values of an `index_put` in row-major order, or the one value of all elements.
enum Values<'a, T> {
    Each(&'a [T]),
    One(T),
}

impl<T: Copy> Values<'_, T> {
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        match self {
            Self::Each(values) => values[i],
            Self::One(value) => *value,
        }
    }
}

/// `x[b, indices[i], a] = values[b, i, a]`, or added to what is there, in the order of the values.
pub fn index_put<T: Number>(plan: &IndexPlan, values: &Tensor, accumulate: bool) -> Result<()> {
    let mut reads: SmallVec<[_; 6]> = SmallVec::new();
    reads.push(&**values.as_impl());
    reads.extend(plan.indices.iter().map(|index| &**index.as_impl()));
    let locked = lock(&reads, &[plan.flat.as_impl()])?;
    let rows = Rows::new(plan, &locked, 1)?;
    rows.check()?;
    if rows.len() == 0 {
        return Ok(());
    }
    let view = locked.read::<T>(0)?;
    if view.numel() != rows.len() {
        bail!(Runtime, "index_put: expected {} values, got {}", rows.len(), view.numel());
    }
    let dense;
    let values = if view.strides().iter().all(|&stride| stride == 0) {
        Values::One(view.at(&vec![0; view.dim()]))
    } else {
        dense = view.dense();
        Values::Each(&dense)
    };
    let mut out = locked.write::<T>(0)?;
    let Some(out) = out.slice_mut() else { return Err(no_slice()) };
    let write = Write { places: rows.all_places(), rows: &rows, values };
    with_level!(I => if accumulate {
        write.all::<I>(out, #[inline(always)] |to, value| *to = T::down(to.up().add(value.up())));
    } else {
        write.all::<I>(out, #[inline(always)] |to, value| *to = value);
    });
    Ok(())
}

/// Values on their way to their places.
struct Write<'w, 'a, T> {
    rows: &'w Rows<'a>,
    places: Vec<i64>,
    values: Values<'w, T>,
}

/// Parts that an output is split into. Each takes a look at every place, which costs less than a row of some elements, and
/// as much as an element.
const PARTS: usize = 16;
/// Elements of a row of some.
const SOME: usize = 8;

impl<T: Number> Write<'_, '_, T> {
    /// Puts all values, those of one element in their order. Parts of the memory that take no element of each other's go to
    /// several threads.
    #[inline]
    fn all<I: Isa>(&self, out: &mut [T], put: impl Fn(&mut T, T) + Sync) {
        let Rows { before, after, .. } = self.rows;
        let (count, cols) = (self.places.len(), after.len());
        let large = self.rows.len() > GRAIN;
        let block = out.len() / before.len();
        let blocks = before.iter().enumerate().all(|(b, &at)| at == b * block) && out.len() == before.len() * block;
        let within_block = |&at: &i64| at as usize + after.last() < block;
        if large && before.len() > 1 && blocks && self.places.iter().all(within_block) {
            // The elements of each b lie in a block of their own.
            return par_rows::<I, T>(
                out,
                before.len(),
                count * cols,
                #[inline(always)]
                |b, out| self.rows(out, b * count, &put),
            );
        }
        if large
            && cols >= SOME
            && before.len() == 1
            && let Some(unit) = self.unit()
        {
            // Each part takes the rows that begin in it.
            let part = out.len().div_ceil(unit).div_ceil(PARTS) * unit;
            return par_chunks::<I, T>(
                out,
                part,
                #[inline(always)]
                |low, part| self.part::<I>(part, low, &put),
            );
        }
        I::run(
            #[inline(always)]
            || before.iter().enumerate().for_each(|(b, &base)| self.rows(&mut out[base..], b * count, &put)),
        );
    }

    /// Elements such that every row lies between two multiples of them: rows that do not overlap. `None` if it is not plain
    /// that there are.
    fn unit(&self) -> Option<usize> {
        let After::Dense(cols) = self.rows.after else { return None };
        let unit = *self.rows.plan.indexed.strides.iter().min()?;
        let even = self.rows.plan.indexed.strides.iter().all(|stride| unit > 0 && stride % unit == 0);
        (even && unit as usize >= cols).then_some(unit as usize)
    }

    /// The rows of a block; `first` is the number of its first one.
    #[inline(always)]
    fn rows(&self, out: &mut [T], first: usize, put: &impl Fn(&mut T, T)) {
        let places = self.places.iter().map(|&at| at as usize);
        match (&self.rows.after, &self.values) {
            (After::Dense(1), Values::Each(values)) => {
                places.zip(&values[first..]).for_each(|(at, &value)| put(&mut out[at], value));
            }
            (After::Dense(1), Values::One(value)) => places.for_each(|at| put(&mut out[at], *value)),
            _ => places.enumerate().for_each(|(i, at)| self.row(&mut out[at..], first + i, put)),
        }
    }

    /// The rows that begin in the part of the output from element `low` on.
    #[inline(always)]
    fn part<I: Isa>(&self, out: &mut [T], low: usize, put: &impl Fn(&mut T, T)) {
        let mut found = [0; PLACES];
        for (block, places) in self.places.chunks(PLACES).enumerate() {
            let n = within::<I>(&mut found, places, low, out.len());
            let first = block * PLACES;
            let to = |k: u32| places[k as usize] as usize - low;
            for (i, &k) in found[..n].iter().enumerate() {
                if let Some(&k) = found[..n].get(i + AHEAD) {
                    prefetch(out, to(k));
                }
                self.row(&mut out[to(k)..], first + k as usize, put);
            }
        }
    }

    /// Row number `row`, at the beginning of `out`.
    #[inline(always)]
    fn row(&self, out: &mut [T], row: usize, put: &impl Fn(&mut T, T)) {
        match (&self.rows.after, &self.values) {
            (After::Dense(cols), Values::Each(values)) => {
                let values = &values[row * cols..(row + 1) * cols];
                out[..*cols].iter_mut().zip(values).for_each(|(to, &value)| put(to, value));
            }
            (After::Dense(cols), Values::One(value)) => out[..*cols].iter_mut().for_each(|to| put(to, *value)),
            (After::Table(table), values) => {
                for (a, &at) in table.iter().enumerate() {
                    put(&mut out[at], values.at(row * table.len() + a));
                }
            }
        }
    }
}
