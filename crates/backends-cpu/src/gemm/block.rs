//! One block of a product, stretch after stretch of the inner dimension: the panels of `b` are packed once, then strip after
//! strip of `a` is packed and meets all panels. What is packed next is fetched meanwhile.

use super::ahead::Ahead;
use super::pack::pack;
use super::tile::{Place, Update, tile};
use super::units::Units;
use crate::loops::MatRef;
use crate::simd::{Arith, Value};

/// Bytes of a stretch of `b` that are not worth packing.
const DIRECT: usize = 512 * 1024;

/// Rows of `a` that do not pay the packing of `b`.
const FEW: usize = 4;

/// Room for what a stretch packs: panels side by side, and a strip.
pub(super) struct Packed<U> {
    pub panels: *mut U,
    pub strip: *mut U,
}

impl<U> Clone for Packed<U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U> Copy for Packed<U> {}

/// `c = alpha * a @ b + beta * old` in stretches of `steps`. `next` is what is multiplied after `b`.
///
/// # Safety
/// `room` is that of a stretch; `c` is a matrix of the caller's alone that fits `a` and `b`.
pub(super) unsafe fn run<U: Units, T: Value<Op = U::Sum>, const R: usize, const L: usize>(
    update: Update<U::Sum>,
    a: MatRef<'_, U::In>,
    (b, next): (MatRef<'_, U::In>, Option<MatRef<'_, U::In>>),
    c: Place<T>,
    room: Packed<U::Unit>,
    steps: usize,
) {
    let (k, depth) = (a.cols(), steps * U::GROUP);
    for start in (0..k).step_by(depth) {
        let end = k.min(start + depth);
        // Later stretches add to what the first one left.
        let (update, c) = match start {
            0 => (update, c),
            _ => (Update { beta: <U::Sum as Arith>::ONE, ..update }, Place::of(c.at, c.row_stride, c.col_stride)),
        };
        let next = if end < k { Some(b.rows_range(end, k)) } else { next };
        let stretch = Stretch::<U> { a: a.cols_range(start, end), b: b.rows_range(start, end), next, room };
        U::run(
            #[inline(always)]
            // SAFETY: forwarded from the caller.
            || unsafe {
                stretch.pack_panels::<L>();
                stretch.multiply::<T, R, L>(update, c);
            },
        );
    }
}

/// A stretch: its part of `a` and of `b`.
struct Stretch<'a, U: Units> {
    a: MatRef<'a, U::In>,
    b: MatRef<'a, U::In>,
    next: Option<MatRef<'a, U::In>>,
    room: Packed<U::Unit>,
}

impl<U: Units> Stretch<'_, U> {
    fn steps(&self) -> usize {
        self.a.cols().div_ceil(U::GROUP)
    }

    /// True if panels stay where they are: in cache anyway, or read once.
    fn stays(&self) -> bool {
        let bytes = (self.b.rows() * self.b.row_stride() as usize).saturating_mul(size_of::<U::Unit>());
        U::as_is() && self.b.col_stride() == 1 && (self.a.rows() <= FEW || bytes <= DIRECT)
    }

    /// The panel of the columns `j..j + cols`, and the distance of its steps.
    #[inline(always)]
    fn panel<const L: usize>(&self, stays: bool, j: usize, cols: usize) -> (*const U::Unit, usize) {
        if stays && cols.is_multiple_of(L) {
            (self.b.as_ptr().wrapping_add(j).cast(), self.b.row_stride() as usize)
        } else {
            (self.room.panels.wrapping_add(j * self.steps()), if cols > L { 2 * L } else { L })
        }
    }

    /// # Safety
    /// `room` is that of a stretch.
    #[inline(always)]
    unsafe fn pack_panels<const L: usize>(&self) {
        let (b, n, k) = (self.b, self.b.cols(), self.b.rows());
        let stays = self.stays();
        // Where columns lie side by side, a few rows of all panels at a time: memory is read in long runs.
        let some = if b.col_stride() == 1 { 8 * U::GROUP } else { k };
        for start in (0..k).step_by(some) {
            let depth = some.min(k - start);
            for j in (0..n).step_by(2 * L) {
                let cols = (2 * L).min(n - j);
                if stays && cols.is_multiple_of(L) {
                    continue;
                }
                let at = start as isize * b.row_stride() + j as isize * b.col_stride();
                let (from, to) = (b.as_ptr().wrapping_offset(at), self.room.panels.wrapping_add(j * self.steps()));
                macro_rules! panel {
                    ($one:literal $two:literal) => {
                        // SAFETY: rows from `start` on of the columns `j..j + cols`, into their panel.
                        unsafe {
                            let (strides, step) = ((b.col_stride(), b.row_stride()), start / U::GROUP);
                            if cols <= L {
                                pack::<U, $one>(to.add(step * $one), from, strides, cols, depth);
                            } else {
                                pack::<U, $two>(to.add(step * $two), from, strides, cols, depth);
                            }
                        }
                    };
                }
                if const { L == 16 } {
                    panel!(16 32);
                } else if const { L == 8 } {
                    panel!(8 16);
                } else if const { L == 4 } {
                    panel!(4 8);
                } else {
                    panel!(2 4);
                }
            }
        }
    }

    /// What is fetched during a tile: the next strip during the last one of a strip, before that parts of the next panels, or
    /// what comes next of the result.
    #[inline(always)]
    fn ahead<T, const R: usize, const L: usize>(&self, stays: bool, (i, j): (usize, usize), c: Place<T>) -> Ahead<'_> {
        let (m, last) = (self.a.rows(), (self.b.cols() - 1) / (2 * L));
        if j / (2 * L) == last {
            return if i + R < m { Ahead::rows(self.a.rows_range(i + R, m), R) } else { Ahead::nothing() };
        }
        if let Some(next) = self.next
            && !stays
        {
            // Halves of panels, as late as may be: caches keep less for long. A lone strip of few rows fetches two lines a step, so
            // whole panels.
            let (halves, tiles) = (next.cols().div_ceil(2 * L) * 2, m.div_ceil(R) * last);
            let tile = i / R * last + j / (2 * L);
            let half = if m < R { j / L } else { tile.wrapping_sub(tiles.saturating_sub(halves)) };
            if half < halves {
                let next = next.cols_range(half / 2 * 2 * L, next.cols()).t();
                return Ahead::rows(next, 2 * L).skip(half % 2 * self.steps());
            }
        }
        Ahead::result(c.at.wrapping_add(2 * L), c.row_stride)
    }

    /// # Safety
    /// The panels are packed; `room` is that of a stretch; `c` is a matrix of the caller's alone that fits `a` and `b`.
    #[inline(always)]
    unsafe fn multiply<T: Value<Op = U::Sum>, const R: usize, const L: usize>(
        &self,
        update: Update<U::Sum>,
        c: Place<T>,
    ) {
        let m = self.a.rows();
        for i in (0..m).step_by(R) {
            let rows = R.min(m - i);
            // SAFETY: forwarded from the caller; rows `i..i + rows`.
            unsafe {
                // Fewer than four rows would wait for each other's sums: they cost as much.
                if const { R == 4 } || rows <= 4 {
                    self.strip::<T, 4, R, L>(i, rows, update, c);
                } else if const { R == 6 } {
                    self.strip::<T, 6, R, L>(i, rows, update, c);
                } else if rows <= 8 {
                    self.strip::<T, 8, R, L>(i, rows, update, c);
                } else {
                    self.strip::<T, 12, R, L>(i, rows, update, c);
                }
            }
        }
    }

    /// Rows `i..i + rows` in tiles of `H` rows, against all panels.
    ///
    /// # Safety
    /// As of [`Stretch::multiply`]; there are these rows.
    #[inline(always)]
    unsafe fn strip<T: Value<Op = U::Sum>, const H: usize, const R: usize, const L: usize>(
        &self,
        i: usize,
        rows: usize,
        update: Update<U::Sum>,
        c: Place<T>,
    ) {
        let (a, n, steps) = (self.a.rows_range(i, i + rows), self.b.cols(), self.steps());
        let (stays, strides) = (self.stays(), (a.row_stride(), a.col_stride()));
        let mut strip = (self.room.strip.cast_const(), 0);
        // For a single vector a strip stays where it is, unless its rows lie in the same cache sets.
        let near = const { H == R } && U::as_is() && strides.1 == 1 && rows == R && n <= L;
        let near = near && !(strides.0 as usize * size_of::<U::Unit>()).is_multiple_of(4096);
        if near {
            strip = (a.as_ptr().cast(), strides.0);
        } else {
            // SAFETY: forwarded from the caller.
            unsafe { pack::<U, H>(self.room.strip, a.as_ptr(), strides, rows, a.cols()) };
        }
        let mut j = 0;
        while j < n {
            // A few rows leave registers for two panels at once.
            let wide = const { H == 4 && R == 12 } && stays && n - j >= 4 * L;
            let cols = (n - j).min(if wide { 4 * L } else { 2 * L });
            let (size, panel) = ((rows, cols), self.panel::<L>(stays, j, cols));
            let c = c.from(i, j);
            let ahead = self.ahead::<T, R, L>(stays, (i, j), c);
            // SAFETY: rows of `a` and columns of `c` that there are, against a panel that is packed, or lies in `b`.
            unsafe {
                if const { H == R } && near {
                    tile::<U, T, H, 1, L, true>(steps, strip, panel, ahead, update, c, size);
                } else if const { H == 4 && R == 12 } && wide {
                    tile::<U, T, H, 4, L, false>(steps, strip, panel, ahead, update, c, size);
                } else if cols > L {
                    tile::<U, T, H, 2, L, false>(steps, strip, panel, ahead, update, c, size);
                } else {
                    tile::<U, T, H, 1, L, false>(steps, strip, panel, ahead, update, c, size);
                }
            }
            j += cols;
        }
    }
}
