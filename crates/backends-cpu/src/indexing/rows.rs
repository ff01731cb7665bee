//! `index` and `index_put`: the elements that a plan names, in runs where the dimensions after the indexed ones lie dense.

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_aten::kernels::IndexPlan;
use tensor_core::{Element, Error, Result, bail, strides};

use super::walk::offsets;
use crate::isa::Baseline;
use crate::loops::views::{Locked, lock, par_chunks, par_rows};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Number};

/// Where the elements of a result lie in the indexed memory: element (b, i, a) at `before[b] + indexed[i] + after[a]`.
struct Offsets {
    before: Vec<usize>,
    indexed: Vec<usize>,
    after: After,
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
}

impl Offsets {
    /// Checks all indices; the plan's index tensors are the inputs from `first` on.
    fn new(plan: &IndexPlan, locked: &Locked<'_>, first: usize) -> Result<Self> {
        let after = if strides::is_contiguous(&plan.after.sizes, &plan.after.strides) {
            After::Dense(plan.after.sizes.iter().product::<i64>() as usize)
        } else {
            After::Table(offsets(&plan.after.sizes, &plan.after.strides))
        };
        let mut indexed = Vec::new();
        for k in 0..plan.indices.len() {
            let index = locked.read::<i64>(first + k)?.dense();
            let (size, stride) = (plan.indexed.sizes[k], plan.indexed.strides[k]);
            let lowest = if plan.bounds.wrap { -size } else { 0 };
            check_bounds(&index, lowest, size).map_err(|i| (plan.bounds.refuse)(i, k, size))?;
            let place = |i: i64| (if i < 0 { i + size } else { i } * stride) as usize;
            if k == 0 {
                indexed = index.iter().map(|&i| place(i)).collect();
            } else {
                indexed.iter_mut().zip(index.iter()).for_each(|(at, &i)| *at += place(i));
            }
        }
        if plan.indices.is_empty() {
            indexed.push(0);
        }
        Ok(Self { before: offsets(&plan.before.sizes, &plan.before.strides), indexed, after })
    }

    /// How many elements the result has.
    fn len(&self) -> usize {
        self.before.len() * self.indexed.len() * self.after.len()
    }
}

/// The first index that is not in `lowest..size` is the error.
pub(super) fn check_bounds(index: &[i64], lowest: i64, size: i64) -> std::result::Result<(), i64> {
    let within = |i: i64| i >= lowest && i < size;
    let all = parallel_reduce(
        index.len(),
        GRAIN,
        true,
        // Without an early exit, so that it vectorises.
        |begin, end| index[begin..end].iter().fold(true, |all, &i| all & within(i)),
        |a, b| a && b,
    );
    if all { Ok(()) } else { index.iter().find(|&&i| !within(i)).map_or(Ok(()), |&i| Err(i)) }
}

fn no_slice() -> Error {
    Error::runtime("the memory of an index plan is not contiguous")
}

/// `out[b, i, a] = x[b, indices[i], a]`
pub fn index<T: Element>(out: &Tensor, plan: &IndexPlan) -> Result<()> {
    let mut reads: SmallVec<[_; 6]> = SmallVec::new();
    reads.push(&**plan.flat.as_impl());
    reads.extend(plan.indices.iter().map(|index| &**index.as_impl()));
    let locked = lock(&reads, &[out.as_impl()])?;
    let offsets = Offsets::new(plan, &locked, 1)?;
    if offsets.len() == 0 {
        return Ok(());
    }
    let x = locked.read::<T>(0)?.slice().ok_or_else(no_slice)?;
    let Offsets { before, indexed, after } = &offsets;
    let cols = after.len();
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<Baseline, T>(out, (GRAIN / cols).max(1) * cols, |start, part| {
            let (mut b, mut i) = (start / cols / indexed.len(), start / cols % indexed.len());
            let mut rest = part;
            while !rest.is_empty() {
                // As many rows as are left of this b.
                let n = (indexed.len() - i).min(rest.len() / cols);
                let (rows, tail) = rest.split_at_mut(n * cols);
                read_rows(rows, &x[before[b]..], &indexed[i..i + n], after);
                rest = tail;
                (b, i) = (b + 1, 0);
            }
        });
    });
    Ok(())
}

/// `rows[r, a] = x[from[r] + after[a]]`
fn read_rows<T: Element>(rows: &mut [T], x: &[T], from: &[usize], after: &After) {
    match after {
        After::Dense(1) => rows.iter_mut().zip(from).for_each(|(out, &at)| *out = x[at]),
        After::Dense(cols) => {
            for (row, &at) in rows.chunks_exact_mut(*cols).zip(from) {
                row.copy_from_slice(&x[at..at + cols]);
            }
        }
        After::Table(table) => {
            for (row, &at) in rows.chunks_exact_mut(table.len()).zip(from) {
                row.iter_mut().zip(table).for_each(|(out, &a)| *out = x[at + a]);
            }
        }
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
    let offsets = Offsets::new(plan, &locked, 1)?;
    if offsets.len() == 0 {
        return Ok(());
    }
    let view = locked.read::<T>(0)?;
    if view.numel() != offsets.len() {
        bail!(Runtime, "index_put: {} values for {} elements", view.numel(), offsets.len());
    }
    let one = view.sizes().iter().zip(view.strides()).all(|(&size, &stride)| size == 1 || stride == 0);
    let dense;
    let values = if one {
        Values::One(view.at(&vec![0; view.dim()]))
    } else {
        dense = view.dense();
        Values::Each(&dense)
    };
    let mut out = locked.write::<T>(0)?;
    let Some(out) = out.slice_mut() else { return Err(no_slice()) };
    let add = |to: &mut T, value: T| *to = T::down(to.up().add(value.up()));
    if accumulate {
        write(out, &offsets, &values, add)
    } else {
        write(out, &offsets, &values, |to, value| *to = value)
    }
    Ok(())
}

/// Puts all values, those of one element in their order. Parts of the memory that take no element of each other's go to
/// several threads.
#[inline]
fn write<T: Number>(out: &mut [T], offsets: &Offsets, values: &Values<'_, T>, put: impl Fn(&mut T, T) + Sync) {
    let Offsets { before, indexed, after } = offsets;
    let (rows, cols) = (indexed.len(), after.len());
    let each = |out: &mut [T], b: usize, base: usize| {
        for (i, &at) in indexed.iter().enumerate() {
            write_row(&mut out[base + at..], values, (b * rows + i) * cols, after, &put);
        }
    };
    let large = offsets.len() > GRAIN;
    let block = out.len() / before.len();
    let blocks = before.iter().enumerate().all(|(b, &at)| at == b * block) && out.len() == before.len() * block;
    if large && before.len() > 1 && blocks && indexed.iter().all(|&at| at + last(after) < block) {
        // The elements of each b lie in a block of their own.
        return par_rows::<Baseline, T>(out, before.len(), rows * cols, |b, out| each(out, b, 0));
    }
    let runs = matches!(after, After::Dense(n) if *n >= 16) && indexed.iter().all(|&at| at % cols == 0);
    if large && before.len() == 1 && runs {
        // Each thread looks through all rows for those of its part of the memory.
        let parts = out.len() / cols / 16;
        return par_chunks::<Baseline, T>(out, parts.max(1) * cols, |start, part| {
            let end = start + part.len();
            for (i, &at) in indexed.iter().enumerate() {
                if at >= start && at + cols <= end {
                    write_row(&mut part[at - start..], values, i * cols, after, &put);
                }
            }
        });
    }
    for (b, &base) in before.iter().enumerate() {
        each(out, b, base);
    }
}

/// The largest offset.
fn last(after: &After) -> usize {
    match after {
        After::Dense(n) => n.saturating_sub(1),
        After::Table(table) => table.iter().copied().max().unwrap_or(0),
    }
}

#[inline(always)]
fn write_row<T: Copy>(out: &mut [T], values: &Values<'_, T>, first: usize, after: &After, put: &impl Fn(&mut T, T)) {
    match (after, values) {
        (After::Dense(cols), Values::Each(values)) => {
            out[..*cols].iter_mut().zip(&values[first..first + cols]).for_each(|(to, &value)| put(to, value));
        }
        (After::Dense(cols), Values::One(value)) => out[..*cols].iter_mut().for_each(|to| put(to, *value)),
        (After::Table(table), values) => {
            for (a, &at) in table.iter().enumerate() {
                put(&mut out[at], values.at(first + a));
            }
        }
    }
}
