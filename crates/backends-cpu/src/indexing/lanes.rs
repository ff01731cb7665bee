//! `gather` and the `scatter` operators: an index an element, along one dimension.

use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::strides::contiguous;
use tensor_core::{Element, Error, Result, bail};

use super::bounds::{all_within, check_bounds};
use super::walk::{Walk, offsets};
use crate::isa::{Baseline, Isa};
use crate::loops::tiles::par_tiles;
use crate::loops::views::{Dense, lock, par_chunks, par_rows};
use crate::parallel::GRAIN;
use crate::rows::{piece, piece_mut};
use crate::simd::{Arith, Number, Ordered, Real};
use crate::with_level;

fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// Dimensions without those of size 1, and with neighbours that are stepped through evenly as one: sizes and strides, at
/// least one.
fn merged(sizes: &[i64], strides: &[i64]) -> (SmallVec<[i64; 6]>, SmallVec<[i64; 6]>) {
    let (mut merged, mut steps): (SmallVec<[i64; 6]>, SmallVec<[i64; 6]>) = Default::default();
    for (&size, &stride) in sizes.iter().zip(strides).filter(|&(&size, _)| size != 1) {
        match (merged.last_mut(), steps.last_mut()) {
            (Some(last), Some(step)) if *step == stride * size => (*last, *step) = (*last * size, stride),
            _ => {
                merged.push(size);
                steps.push(stride);
            }
        }
    }
    if merged.is_empty() {
        merged.push(1);
        steps.push(0);
    }
    (merged, steps)
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `dim`; `flat` is the memory of x. Indices are checked as they are read:
/// after an error, `out` holds anything.
pub fn gather<T: Element>(
    out: &Tensor,
    flat: &Tensor,
    index: &Tensor,
    strides: &[i64],
    dim: usize,
    size: i64,
) -> Result<()> {
    let locked = lock(&[flat.as_impl(), index.as_impl()], &[out.as_impl()])?;
    let index = locked.read::<i64>(1)?.dense();
    let Some(x) = locked.read::<T>(0)?.slice() else { bail!(Runtime, "gather: the memory is not contiguous") };
    // The index decides where along `dim`; the other dimensions say where that begins.
    let step = strides[dim] as usize;
    let mut others = strides.to_vec();
    others[dim] = 0;
    let (sizes, others) = merged(out.sizes(), &others);
    let last = sizes.len() - 1;
    let (cols, along) = (sizes[last] as usize, others[last] as usize);
    let wrong = AtomicBool::new(false);
    locked.write::<T>(0)?.with_dense(|out| {
        with_level!(I => par_chunks::<I, T>(
            out,
            (GRAIN / cols.max(1)).max(1) * cols,
            #[inline(always)]
            |start, part| {
                let index = &index[start..start + part.len()];
                if !all_within(index, 0, size) {
                    return wrong.store(true, Ordering::Relaxed);
                }
                let mut walk = Walk::new(&sizes[..last], [&others[..last]], start / cols);
                for row in 0..part.len().checked_div(cols).unwrap_or(0) {
                    let (out, index) = (piece_mut(part, row, cols), piece(index, row, cols));
                    gather_row(out, &x[walk.at[0]..], index, along, step);
                    walk.step();
                }
            },
        ));
    });
    if wrong.into_inner() { check_bounds(&index, 0, size).map_err(|i| out_of_bounds(i, dim, size)) } else { Ok(()) }
}

/// `out[k] = x[k * along + index[k] * step]`
#[inline(always)]
fn gather_row<T: Element>(out: &mut [T], x: &[T], index: &[i64], along: usize, step: usize) {
    let n = out.len();
    let index = &index[..n];
    match (along, step) {
        (0, 1) => {
            for k in 0..n {
                out[k] = x[index[k] as usize];
            }
        }
        (0, _) => {
            for k in 0..n {
                out[k] = x[index[k] as usize * step];
            }
        }
        (1, _) => {
            for k in 0..n {
                out[k] = x[k + index[k] as usize * step];
            }
        }
        _ => {
            for k in 0..n {
                out[k] = x[k * along + index[k] as usize * step];
            }
        }
    }
}

/// Where the source's elements come from.
enum Source<'a, T: Copy> {
    Each(Dense<'a, T>),
    One(T),
}

/// Columns of a tile: so many that whole pages of the index belong to one.
const COLUMNS: usize = 512;
/// Indices that are checked, and used while they are near.
const BLOCK: usize = 4096;
/// Pieces of a long scatter at most: each sums into a copy of its own.
const PIECES: usize = 8;

/// What a scatter does.
struct Scatter<'a, T: Copy> {
    index: &'a [i64],
    src: Source<'a, T>,
    /// the sizes of the output and of the index
    sizes: &'a [i64],
    wanted: &'a [i64],
    dim: usize,
}

impl<T: Number> Scatter<'_, T> {
    /// Puts all elements of the source, those of one place in their order. `neutral` is what `merge` leaves others as they
    /// are with: then long scatters are merged from pieces.
    fn run<A: Held<T>>(
        &self,
        out: &mut [T],
        neutral: Option<A>,
        put: impl Fn(&mut A, T) + Sync,
        merge: impl Fn(A, A) -> A + Sync,
    ) -> Result<()> {
        let (sizes, wanted, dim) = (self.sizes, self.wanted, self.dim);
        let (size, inner) = (sizes[dim] as usize, sizes[dim + 1..].iter().product::<i64>() as usize);
        let blocks = out.len() / (size * inner).max(1);
        // The places of the later dimensions' elements that the index has.
        let later = offsets(&wanted[dim + 1..], &contiguous(&sizes[dim + 1..]));
        let (along, cols) = (wanted[dim] as usize, later.len());
        let pieces = (along * cols).checked_div(2 * out.len()).map_or(0, |pieces| pieces.min(PIECES));
        if let Some(neutral) = neutral
            && blocks == 1
            && pieces > 1
            && along * cols > GRAIN
        {
            return self.in_pieces(out, pieces, &later, neutral, put, merge);
        }
        let size_of_dim = sizes[dim];
        check_bounds(self.index, 0, size_of_dim).map_err(|i| out_of_bounds(i, dim, size_of_dim))?;
        let mut bounds: Vec<usize> = later.iter().step_by(COLUMNS).copied().collect();
        bounds.push(inner);
        par_tiles::<Baseline, T>(out, [blocks, size], &bounds, 2 * along * cols.min(COLUMNS), |r, k, mut tile| {
            let Some(first) = self.first(r, along * cols) else { return };
            let begin = k * COLUMNS;
            let places = &later[begin..cols.min(begin + COLUMNS)];
            if A::APART {
                let width = tile.width();
                let mut copies: Vec<A> = Vec::with_capacity(size * width);
                (0..size).for_each(|row| copies.extend(tile.row(row).iter().map(|&x| A::of(x))));
                let at = |row: usize, place: usize| row * width + place - bounds[k];
                self.rows(0..along, first, cols, begin, places, |row, place, value| {
                    put(&mut copies[at(row, place)], value);
                });
                for (row, copies) in copies.chunks_exact(width).enumerate() {
                    tile.row(row).iter_mut().zip(copies).for_each(|(to, x)| *to = x.back());
                }
                return;
            }
            let put = |to: &mut T, value: T| {
                let mut held = A::of(*to);
                put(&mut held, value);
                *to = held.back();
            };
            match tile.whole() {
                Some(out) => self.rows(0..along, first, cols, begin, places, |row, place, value| {
                    put(&mut out[row * inner + place], value);
                }),
                None => self.rows(0..along, first, cols, begin, places, |row, place, value| {
                    put(tile.at(row, place - bounds[k]), value);
                }),
            }
        });
        Ok(())
    }

    /// [`Scatter::run`] over pieces of the dimension, each into a copy of its own.
    fn in_pieces<A: Held<T>>(
        &self,
        out: &mut [T],
        pieces: usize,
        later: &[usize],
        neutral: A,
        put: impl Fn(&mut A, T) + Sync,
        merge: impl Fn(A, A) -> A + Sync,
    ) -> Result<()> {
        let (along, cols, len, size) = (self.wanted[self.dim] as usize, later.len(), out.len(), self.sizes[self.dim]);
        let inner = len / size as usize;
        let (each, block) = (along.div_ceil(pieces), (BLOCK / cols).max(1));
        let wrong = AtomicBool::new(false);
        let mut copies = vec![neutral; pieces * len];
        copies.iter_mut().zip(&*out).for_each(|(copy, &x)| *copy = A::of(x));
        par_rows::<Baseline, A>(&mut copies, pieces, GRAIN, |piece, copy| {
            let end = along.min((piece + 1) * each);
            for begin in (piece * each..end).step_by(block) {
                let rows = begin..end.min(begin + block);
                if !all_near(&self.index[rows.start * cols..rows.end * cols], size) {
                    return wrong.store(true, Ordering::Relaxed);
                }
                self.rows(rows, 0, cols, 0, later, |row, place, value| put(&mut copy[row * inner + place], value));
            }
        });
        if wrong.into_inner() {
            return check_bounds(self.index, 0, size).map_err(|i| out_of_bounds(i, self.dim, size));
        }
        par_chunks::<Baseline, T>(out, GRAIN / pieces, |start, out| {
            for (i, out) in out.iter_mut().enumerate() {
                let mut all = copies[start + i];
                for piece in 1..pieces {
                    all = merge(all, copies[piece * len + start + i]);
                }
                *out = all.back();
            }
        });
        Ok(())
    }

    /// The indices along `dim` of a block: of all later dimensions at place `r` of the earlier ones of the output. `None`
    /// where the index does not reach; else the number of its first one.
    #[inline(always)]
    fn first(&self, r: usize, count: usize) -> Option<usize> {
        let (sizes, wanted) = (&self.sizes[..self.dim], &self.wanted[..self.dim]);
        if sizes == wanted {
            return Some(r * count);
        }
        let steps = contiguous(wanted);
        let place = Walk::new(sizes, [&steps], r);
        let reached = place.index().iter().zip(wanted).all(|(i, wanted)| i < wanted);
        reached.then_some(place.at[0] * count)
    }

    /// Calls `put(index, place, value)` for the columns of a block from number `begin` of `cols` on, which lie at `places`;
    /// `first` is the number of the block's first element.
    #[inline(always)]
    fn rows(
        &self,
        rows: std::ops::Range<usize>,
        first: usize,
        cols: usize,
        begin: usize,
        places: &[usize],
        mut put: impl FnMut(usize, usize, T),
    ) {
        if let ([place], 1) = (places, cols) {
            let at = first + rows.start;
            return self.run_at(
                at,
                rows.len(),
                #[inline(always)]
                |_, i, value| put(i, *place, value),
            );
        }
        for row in rows {
            let at = first + row * cols + begin;
            self.run_at(
                at,
                places.len(),
                #[inline(always)]
                |k, i, value| put(i, places[k], value),
            );
        }
    }

    /// Calls `put(k, index, value)` for the `k`-th one of `n` elements from number `at` on.
    #[inline(always)]
    fn run_at(&self, at: usize, n: usize, mut put: impl FnMut(usize, usize, T)) {
        let index = &self.index[at..][..n];
        match &self.src {
            Source::Each(src) => {
                let src = &src[at..][..n];
                for k in 0..n {
                    put(k, index[k] as usize, src[k]);
                }
            }
            Source::One(value) => {
                for (k, &i) in index.iter().enumerate() {
                    put(k, i as usize, *value);
                }
            }
        }
    }
}

/// [`all_within`] from 0 on, for the machine's level.
fn all_near(index: &[i64], size: i64) -> bool {
    with_level!(I => I::run(
        #[inline(always)]
        || all_within(index, 0, size)
    ))
}

/// How an element is computed with: as it is, or in another type, from which it is rounded once.
trait Held<T>: Copy + Send + Sync {
    /// True if elements must be held apart from the output until all is done.
    const APART: bool;
    fn of(x: T) -> Self;
    fn back(self) -> T;
}

/// An element as it is.
#[derive(Clone, Copy)]
struct Same<T>(T);

impl<T: Number> Held<T> for Same<T> {
    const APART: bool = false;
    #[inline(always)]
    fn of(x: T) -> Self {
        Self(x)
    }
    #[inline(always)]
    fn back(self) -> T {
        self.0
    }
}

/// An element in the type that is computed in.
#[derive(Clone, Copy)]
struct Wide<T: Number>(T::Op);

impl<T: Number> Held<T> for Wide<T> {
    const APART: bool = true;
    #[inline(always)]
    fn of(x: T) -> Self {
        Self(x.up())
    }
    #[inline(always)]
    fn back(self) -> T {
        T::down(self.0)
    }
}

/// Sets `out[.., index[.., i, ..], ..] = put(that, src[.., i, ..])` along `dim` for all elements in order. With a number that
/// is `neutral`, `put` also merges sums, and those in f16 and bf16 are made in f32.
#[inline]
fn scatter_with<T: Number>(
    out: &Tensor,
    index: &Tensor,
    src: &Tensor,
    dim: usize,
    neutral: Option<T::Op>,
    put: impl Fn(T::Op, T::Op) -> T::Op + Sync,
) -> Result<()> {
    let locked = lock(&[index.as_impl(), src.as_impl()], &[out.as_impl()])?;
    let index = locked.read::<i64>(0)?;
    let view = locked.read::<T>(1)?;
    let src = if view.strides().iter().all(|&stride| stride == 0) {
        Source::One(view.at(&vec![0; view.dim()]))
    } else {
        Source::Each(view.dense())
    };
    let (sizes, wanted) = (out.sizes(), index.sizes());
    let index = index.dense();
    let scatter = Scatter { index: &index, src, sizes, wanted, dim };
    locked.write::<T>(0)?.with_dense(|out| {
        if const { T::DTYPE.opmath() as u8 != T::DTYPE as u8 } && neutral.is_some() {
            let merge = |a: Wide<T>, b: Wide<T>| Wide(put(a.0, b.0));
            scatter.run::<Wide<T>>(out, neutral.map(Wide), |to, value| to.0 = put(to.0, value.up()), merge)
        } else {
            let both = |a: T, b: T| T::down(put(a.up(), b.up()));
            let merge = |a: Same<T>, b: Same<T>| Same(both(a.0, b.0));
            let neutral = neutral.map(|x| Same(T::down(x)));
            scatter.run::<Same<T>>(out, neutral, |to, value| to.0 = both(to.0, value), merge)
        }
    })
}

/// `out[index] = src`
pub fn scatter<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, None, |_, x| x)
}

/// `out[index] += src`
pub fn scatter_add<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    // The one zero that leaves even zeros as they are.
    scatter_with::<T>(out, index, src, dim, Some(T::Op::ZERO.neg()), |s, x| s.add(x))
}

/// What the rarer operators share one scatter by.
type Put<O> = fn(O, O) -> O;

/// `out[index] *= src`
pub fn scatter_multiply<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, Some(T::Op::ONE), (|s, x| s.mul(x)) as Put<T::Op>)
}

/// `out[index] = max(out[index], src)`
pub fn scatter_amax<T: Number + Ordered>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, Some(T::Op::LOWEST), (|s, x| s.maximum(x)) as Put<T::Op>)
}

/// `out[index] = min(out[index], src)`
pub fn scatter_amin<T: Number + Ordered>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, Some(T::Op::HIGHEST), (|s, x| s.minimum(x)) as Put<T::Op>)
}
