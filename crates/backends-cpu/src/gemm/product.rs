//! The product of matrices, split into blocks of the result for the threads.

use std::any::TypeId;

use super::block::{self, Cut, Packed};
use super::tile::{Place, Update, update_row};
use super::units::Units;
use crate::loops::{MatMut, MatRef, scratch};
use crate::parallel::{get_num_threads, in_parallel_region};
use crate::simd::{Arith, Value};

/// Rows of a block whose sums are kept apart from the result.
const APART: usize = 480;

/// Multiplications that are worth a thread.
const WORTH: usize = 64 * 64 * 64;

/// Strips and panels of a block, at most `most` of these: those with which the threads are done first.
fn grid(strips: usize, panels: usize, most: usize, threads: usize) -> (usize, usize) {
    if threads <= 1 {
        return (strips, panels.div_ceil(panels.div_ceil(most)));
    }
    let mut best = (usize::MAX, (strips, panels.min(most)));
    for down in (0..).flat_map(|s| [2usize << s, 3 << s]).take_while(|&d| d <= 4 * threads).chain([1]) {
        let rows = strips.div_ceil(down);
        for cols in 1..=panels.min(most) {
            let blocks = strips.div_ceil(rows) * panels.div_ceil(cols);
            // The cycles of a step: of tiles, and of packing panels and strips.
            let cost = blocks.div_ceil(threads) * (24 * rows * cols + 8 * cols + 3 * rows);
            best = best.min((cost, (rows, cols)));
        }
    }
    best.1
}

/// `c = alpha * a @ b + beta * old`, in tiles of `R` rows by two vectors of `L` lanes.
pub(super) fn product<U: Units, T: Value<Op = U::Sum>, const R: usize, const L: usize>(
    update: Update<U::Sum>,
    a: MatRef<'_, U::In>,
    b: MatRef<'_, U::In>,
    old: Option<MatRef<'_, T>>,
    c: MatMut<'_, T>,
) {
    if c.row_stride() == 1 && c.col_stride() != 1 {
        // Tiles are written along their vectors.
        return product::<U, T, R, L>(update, b.t(), a.t(), old.map(MatRef::t), c.t());
    }
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    let workers = if in_parallel_region() { 1 } else { get_num_threads() };
    let threads = workers.min(m.saturating_mul(n).saturating_mul(k) / WORTH).max(1);
    let cut = Cut::of::<U, R, L>(b);
    let (strips, panels) = grid(m.div_ceil(R), n.div_ceil(2 * L), cut.panels, threads);
    let apart = k > cut.steps * U::GROUP && TypeId::of::<T>() != TypeId::of::<T::Op>();
    let (rows, cols) = (if apart { (strips * R).min(APART) } else { strips * R }, panels * 2 * L);
    c.par_blocks(rows, cols, |i, j, mut c| {
        let end = j + c.cols();
        // What this thread multiplies next, if all are equally fast.
        let next = j + threads * cols;
        let next = (c.rows() == m && next < n).then(|| b.cols_range(next, n.min(next + cols)));
        let (rows, b) = (i..i + c.rows(), b.cols_range(j, end));
        let a = a.rows_range(rows.start, rows.end);
        let old = old.map(|old| old.rows_range(rows.start, rows.end).cols_range(j, end));
        one::<U, T, R, L>(update, a, (b, next), Place::new(&mut c, old), [c.rows(), c.cols()], cut, apart);
    });
}

/// [`product`] of one block, on this thread, with its sums in the result or apart.
fn one<U: Units, T: Value<Op = U::Sum>, const R: usize, const L: usize>(
    update: Update<U::Sum>,
    a: MatRef<'_, U::In>,
    (b, next): (MatRef<'_, U::In>, Option<MatRef<'_, U::In>>),
    place: Place<T>,
    [rows, cols]: [usize; 2],
    cut: Cut,
    apart: bool,
) {
    let panels = cut.steps * cols.next_multiple_of(2 * L);
    let strips = cut.steps * R * cut.band.min(rows.div_ceil(R));
    let packed = ((panels + strips) * size_of::<U::Unit>()).next_multiple_of(64);
    let sums = if apart { rows * cols * size_of::<U::Sum>() } else { 0 };
    scratch::with(packed + sums, |buffer: &mut [u8]| {
        let buffer = buffer.as_mut_ptr();
        let room = Packed { panels: buffer.cast::<U::Unit>(), strips: buffer.cast::<U::Unit>().wrapping_add(panels) };
        // SAFETY: `room` has a stretch's panels and strips; `place` is the block, or as large and in the scratch alone; both fit `a`
        // and `b`, whose shapes the caller of `gemm` has seen checked.
        unsafe {
            if !apart {
                return block::run::<U, T, R, L>(update, a, (b, next), place, room, cut);
            }
            let sums = buffer.add(packed).cast::<U::Sum>();
            let whole = Update { alpha: <U::Sum as Arith>::ONE, beta: <U::Sum as Arith>::ZERO };
            let apart = Place::of(sums, cols as isize, 1);
            block::run::<U, U::Sum, R, L>(whole, a, (b, next), apart, room, cut);
            let sums = std::slice::from_raw_parts(sums, rows * cols);
            U::run(
                #[inline(always)]
                || {
                    for i in 0..rows {
                        update_row::<T, L>(&sums[i * cols..][..cols], update, place.from(i, 0));
                    }
                },
            );
        }
    });
}
