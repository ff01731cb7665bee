//! One block of a product, stretch after stretch of the inner dimension: the panels of `b` are packed once, then band after
//! band of strips of `a` is packed and meets all panels. What is packed next is fetched meanwhile.

use super::ahead::Ahead;
use super::pack::pack;
use super::tile::{Place, Tile, Update, fetches, tile};
use super::units::Units;
use crate::loops::MatRef;
use crate::simd::{Arith, Value};

/// Bytes of a stretch of `b` that are not worth packing for tiles of this many rows: low ones read it more often.
const fn direct(rows: usize) -> usize {
    if rows == 6 { 128 * 1024 } else { 512 * 1024 }
}

/// Rows of `a` that do not pay the packing of `b`.
const FEW: usize = 4;

/// How much of a product is packed at a time.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Units of the inner dimension in a stretch. They depend on `k` and on where `b` lies alone, as results do.
    pub steps: usize,
    /// Strips that meet a panel before the next panel does.
    pub band: usize,
    /// Panels at most.
    pub panels: usize,
    /// True if panels are in cache anyway, and stay where they are.
    pub direct: bool,
}

impl Cut {
    /// Tiles of 12 rows read few bytes a cycle: a strip stays in the first-level cache, and panels come from the second level.
    /// Tiles of 6 rows read twice as many: a panel stays in the first level, a band of strips in the second, and panels come
    /// from the third, so many that few strips are packed twice. What is read where it lies need not be turned about.
    pub fn of<U: Units, const R: usize, const L: usize>(b: MatRef<'_, U::In>) -> Self {
        let units = b.rows().div_ceil(U::GROUP);
        // About equal stretches, of a multiple of 8 steps.
        let steps = |bytes: usize| {
            let parts = units.div_ceil(bytes / size_of::<U::Unit>());
            units.div_ceil(parts).next_multiple_of(8)
        };
        let panels = |bytes: usize, steps: usize| bytes / (steps * 2 * L * size_of::<U::Unit>());
        let long = steps(2048);
        let bytes = (b.rows().min(long * U::GROUP) * b.row_stride() as usize).saturating_mul(size_of::<U::Unit>());
        let direct = U::as_is() && b.col_stride() == 1 && bytes <= direct(R);
        if const { R == 6 } && !direct {
            let steps = steps((256 * size_of::<U::Unit>()).max(1024));
            return Self { steps, band: 16, panels: panels(1024 * 1024, steps).clamp(1, 128), direct };
        }
        Self { steps: long, band: 1, panels: panels(512 * 1024, long).clamp(1, 32), direct }
    }
}

/// Room for what a stretch packs: panels side by side, and a band of strips.
pub(super) struct Packed<U> {
    pub panels: *mut U,
    pub strips: *mut U,
}

impl<U> Clone for Packed<U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U> Copy for Packed<U> {}

/// `c = alpha * a @ b + beta * old` in the stretches of `cut`. `next` is what is multiplied after `b`.
///
/// # Safety
/// `room` is that of a stretch; `c` is a matrix of the caller's alone that fits `a` and `b`.
pub(super) unsafe fn run<U: Units, T: Value<Op = U::Sum>, const R: usize, const L: usize>(
    update: Update<U::Sum>,
    a: MatRef<'_, U::In>,
    (b, next): (MatRef<'_, U::In>, Option<MatRef<'_, U::In>>),
    c: Place<T>,
    room: Packed<U::Unit>,
    cut: Cut,
) {
    let (k, depth) = (a.cols(), cut.steps * U::GROUP);
    for start in (0..k).step_by(depth) {
        let end = k.min(start + depth);
        // Later stretches add to what the first one left.
        let (update, c) = match start {
            0 => (update, c),
            _ => (Update { beta: <U::Sum as Arith>::ONE, ..update }, Place::of(c.at, c.row_stride, c.col_stride)),
        };
        let next = if end < k { Some(b.rows_range(end, k)) } else { next };
        let stretch = Stretch::<U> { a: a.cols_range(start, end), b: b.rows_range(start, end), next, room, cut };
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
    cut: Cut,
}

impl<U: Units> Stretch<'_, U> {
    fn steps(&self) -> usize {
        self.a.cols().div_ceil(U::GROUP)
    }

    /// True if panels stay where they are: in cache anyway, or read once.
    fn stays(&self) -> bool {
        self.cut.direct || (U::as_is() && self.b.col_stride() == 1 && self.a.rows() <= FEW)
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
        let (m, n, band) = (self.a.rows(), self.b.cols(), self.cut.band * R);
        for start in (0..m).step_by(band) {
            let end = m.min(start + band);
            // A few rows leave registers for two panels at once.
            let wide = const { R == 12 } && end - start <= 4 && self.stays();
            for (strip, i) in (start..end).step_by(R).enumerate() {
                // SAFETY: forwarded from the caller.
                unsafe { self.pack_strip::<R, L>(strip, i, R.min(end - i)) };
            }
            let mut j = 0;
            while j < n {
                let cols = (n - j).min(if wide && n - j >= 4 * L { 4 * L } else { 2 * L });
                for (strip, i) in (start..end).step_by(R).enumerate() {
                    let (rows, at) = (R.min(end - i), (strip, i, j));
                    // SAFETY: forwarded from the caller; the strips were packed just now.
                    unsafe {
                        // Fewer than four rows would wait for each other's sums: they cost as much.
                        if const { R == 4 } || rows <= 4 {
                            self.tile::<T, 4, R, L>(at, (rows, cols), update, c);
                        } else if const { R == 6 } {
                            self.tile::<T, 6, R, L>(at, (rows, cols), update, c);
                        } else if rows <= 8 {
                            self.tile::<T, 8, R, L>(at, (rows, cols), update, c);
                        } else {
                            self.tile::<T, 12, R, L>(at, (rows, cols), update, c);
                        }
                    }
                }
                j += cols;
            }
        }
    }

    /// True if a whole strip stays where it is, as it is used once or twice, unless its rows lie in the same cache sets.
    #[inline(always)]
    fn near<const R: usize, const L: usize>(&self, rows: usize) -> bool {
        let (stride, once) = (self.a.row_stride() as usize, if const { R == 6 } { 2 * L } else { L });
        let near = const { R != 4 } && U::as_is() && self.a.col_stride() == 1 && rows == R && self.b.cols() <= once;
        near && !(stride * size_of::<U::Unit>()).is_multiple_of(4096)
    }

    /// The packed strip of that number in its band.
    #[inline(always)]
    fn packed_strip<const R: usize>(&self, strip: usize) -> *mut U::Unit {
        self.room.strips.wrapping_add(strip * R * self.steps())
    }

    /// Packs the strip of rows `i..i + rows`, unless it stays where it is.
    ///
    /// # Safety
    /// `room` is that of a stretch; there are these rows.
    #[inline(always)]
    unsafe fn pack_strip<const R: usize, const L: usize>(&self, strip: usize, i: usize, rows: usize) {
        if self.near::<R, L>(rows) {
            return;
        }
        let (a, to) = (self.a.rows_range(i, i + rows), self.packed_strip::<R>(strip));
        let (from, strides, depth) = (a.as_ptr(), (a.row_stride(), a.col_stride()), a.cols());
        // SAFETY: forwarded from the caller.
        unsafe {
            if const { R == 4 } || rows <= 4 {
                pack::<U, 4>(to, from, strides, rows, depth);
            } else if const { R == 6 } {
                pack::<U, 6>(to, from, strides, rows, depth);
            } else if rows <= 8 {
                pack::<U, 8>(to, from, strides, rows, depth);
            } else {
                pack::<U, 12>(to, from, strides, rows, depth);
            }
        }
    }

    /// The tile of a strip of the band, which begins at row `i`, and the panel at column `j`; of `H` rows at most.
    ///
    /// # Safety
    /// Its strip and its panel are packed, if they do not stay where they are; it is a part of `c`.
    #[inline(always)]
    unsafe fn tile<T: Value<Op = U::Sum>, const H: usize, const R: usize, const L: usize>(
        &self,
        (strip, i, j): (usize, usize, usize),
        (rows, cols): (usize, usize),
        update: Update<U::Sum>,
        c: Place<T>,
    ) {
        let (stays, c) = (self.stays(), c.from(i, j));
        let near = const { H == R } && self.near::<R, L>(rows);
        let (strip, row_stride) = if near {
            (self.a.rows_range(i, i + rows).as_ptr().cast(), self.a.row_stride())
        } else {
            (self.packed_strip::<R>(strip).cast_const(), 0)
        };
        let (panel, distance) = self.panel::<L>(stays, j, cols);
        let ahead =
            if const { fetches::<U::Sum, L>() } { self.ahead::<T, R, L>(stays, (i, j), c) } else { Ahead::nothing() };
        let parts = Tile { steps: self.steps(), strip, row_stride, panel, distance, ahead, update, c, rows, cols };
        // SAFETY: forwarded from the caller.
        unsafe {
            if const { H == R } && near && cols <= L {
                tile::<U, T, H, 1, L, true>(&parts);
            } else if const { H == 6 } && near {
                tile::<U, T, H, 2, L, true>(&parts);
            } else if const { H == 4 && R == 12 } && cols > 2 * L {
                tile::<U, T, H, 4, L, false>(&parts);
            } else if cols > L {
                tile::<U, T, H, 2, L, false>(&parts);
            } else {
                tile::<U, T, H, 1, L, false>(&parts);
            }
        }
    }
}
