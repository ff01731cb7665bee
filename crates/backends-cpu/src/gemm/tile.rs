//! The tile: a few rows by one or two vectors of the result, summed in registers over a stretch of the inner dimension.

use std::mem::MaybeUninit;

use super::ahead::Ahead;
use super::blend;
use super::units::Units;
use crate::arrays::{each, map};
use crate::loops::{MatMut, MatRef};
use crate::simd::{Arith, Value};

/// `c = alpha * sum + beta * old`
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Update<S> {
    pub alpha: S,
    pub beta: S,
}

/// A part of the result, and of what its sums are added to: where they begin, and their strides.
pub(super) struct Place<T> {
    pub at: *mut T,
    pub row_stride: isize,
    pub col_stride: isize,
    pub old: *const T,
    pub old_row_stride: isize,
    pub old_col_stride: isize,
}

impl<T> Place<T> {
    /// A matrix and what is added to it: itself, or another one as large.
    #[inline(always)]
    pub fn new(c: &mut MatMut<'_, T>, old: Option<MatRef<'_, T>>) -> Self {
        let itself = Self::of(c.as_mut_ptr(), c.row_stride(), c.col_stride());
        let Some(old) = old else { return itself };
        Self { old: old.as_ptr(), old_row_stride: old.row_stride(), old_col_stride: old.col_stride(), ..itself }
    }

    /// A matrix that is added to itself.
    #[inline(always)]
    pub fn of(at: *mut T, row_stride: isize, col_stride: isize) -> Self {
        Self { at, row_stride, col_stride, old: at, old_row_stride: row_stride, old_col_stride: col_stride }
    }

    /// What begins at row `i` and column `j`.
    #[inline(always)]
    pub fn from(self, i: usize, j: usize) -> Self {
        let (i, j) = (i as isize, j as isize);
        Self {
            at: self.at.wrapping_offset(i * self.row_stride + j * self.col_stride),
            old: self.old.wrapping_offset(i * self.old_row_stride + j * self.old_col_stride),
            ..self
        }
    }
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Place<T> {}

/// What a tile is computed from, and where it goes.
pub(super) struct Tile<'a, U: Units, T> {
    /// units of the inner dimension
    pub steps: usize,
    /// `R` units a step side by side if it is packed
    pub strip: *const U::Unit,
    /// units from a row to the next one, of a strip that is not packed
    pub row_stride: isize,
    /// `V * L` units a step
    pub panel: *const U::Unit,
    /// units from a step of the panel to the next one
    pub distance: usize,
    /// what is fetched meanwhile, if the level does that
    pub ahead: Ahead<'a>,
    pub update: Update<U::Sum>,
    pub c: Place<T>,
    /// at most `R`
    pub rows: usize,
    /// at most `V * L`
    pub cols: usize,
}

/// True if tiles of vectors of `L` sums fetch ahead: smaller registers leave no time for it.
pub(super) const fn fetches<S, const L: usize>() -> bool {
    size_of::<[S; L]>() == 64
}

/// Updates a tile with the product of its strip, packed unless it is `FAR`, and its panel. A function of its own: the sums are to
/// have all registers. Its arguments are in memory, and read one by one: as a list on the stack they would be copied by pairs,
/// and such a load waits until the tile before has been written.
///
/// # Safety
/// The strip and the panel are as said, and the elements of `c` valid for reads and writes, by this call alone.
#[inline(never)]
pub(super) unsafe fn tile<
    U: Units,
    T: Value<Op = U::Sum>,
    const R: usize,
    const V: usize,
    const L: usize,
    const FAR: bool,
>(
    tile: &Tile<'_, U, T>,
) {
    U::run(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        || unsafe {
            let sums = sums::<U, T, R, V, L, FAR>(tile);
            let c = &tile.c;
            if tile.rows == R && tile.cols == V * L && c.col_stride == 1 && c.old_col_stride == 1 {
                whole(sums, tile);
            } else {
                // A copy: sums whose address is taken would not stay in registers.
                let mut copy = MaybeUninit::uninit();
                let copy: &mut [[[U::Sum; L]; V]; R] = copy.write(sums);
                edge::<U, T, L>(copy.as_flattened().as_flattened(), V * L, tile);
            }
        },
    );
}

/// # Safety
/// As of [`tile`].
#[inline(always)]
unsafe fn sums<U: Units, T, const R: usize, const V: usize, const L: usize, const FAR: bool>(
    &Tile { steps, strip, row_stride, panel, distance, ahead, .. }: &Tile<'_, U, T>,
) -> [[[U::Sum; L]; V]; R] {
    let mut sums = [[[<U::Sum as Arith>::ZERO; L]; V]; R];
    // Every third row has a pointer, the two after it an offset.
    let mut bases: [*const U::Unit; 4] = each(
        #[inline(always)]
        |i| strip.wrapping_offset(3 * i as isize * row_stride),
    );
    for p in 0..steps {
        // A few rows take no time.
        if const { fetches::<U::Sum, L>() } {
            if R < 12 {
                ahead.fetch(2 * p);
                ahead.fetch(2 * p + 1);
            } else {
                ahead.fetch(p);
            }
        }
        // SAFETY: step `p < steps` of the panel: `V * L` units.
        let y = unsafe { panel.add(p * distance).cast::<[[U::Unit; L]; V]>().read_unaligned() };
        // No loop over the rows: LLVM might take them for the lanes of a vector.
        macro_rules! rows {
            ($($r:literal)*) => { $(
                if $r < R {
                    // SAFETY: step `p < steps` of the strip: `R` units.
                    let x = unsafe {
                        if FAR { *bases[$r / 3].offset($r % 3 * row_stride) } else { *strip.add(p * R + $r) }
                    };
                    for v in 0..V {
                        U::accumulate(&mut sums[$r][v], x, &y[v]);
                    }
                }
            )* };
        }
        rows!(0 1 2 3 4 5 6 7 8 9 10 11);
        if FAR {
            bases = map(
                bases,
                #[inline(always)]
                |base| base.wrapping_add(1),
            );
        }
    }
    sums
}

/// The update of a whole tile whose rows are elements side by side.
///
/// # Safety
/// As of [`tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn whole<U: Units, T: Value<Op = U::Sum>, const R: usize, const V: usize, const L: usize>(
    sums: [[[T::Op; L]; V]; R],
    Tile { update, c, .. }: &Tile<'_, U, T>,
) {
    let row = |r: usize, v: usize| c.at.wrapping_offset(r as isize * c.row_stride).wrapping_add(v * L).cast::<[T; L]>();
    let old =
        |r: usize, v: usize| c.old.wrapping_offset(r as isize * c.old_row_stride).wrapping_add(v * L).cast::<[T; L]>();
    let (alpha, beta) = (update.alpha, update.beta);
    if beta == <T::Op as Arith>::ZERO {
        for r in 0..R {
            for v in 0..V {
                // SAFETY: `L` elements of row `r` of `c`, side by side.
                unsafe {
                    *row(r, v) = map(
                        sums[r][v],
                        #[inline(always)]
                        |sum| T::down(alpha.mul(sum)),
                    );
                }
            }
        }
    } else {
        for r in 0..R {
            for v in 0..V {
                // SAFETY: as above.
                unsafe {
                    let old = *old(r, v);
                    *row(r, v) = each(
                        #[inline(always)]
                        |l| blend(alpha, sums[r][v][l], beta, old[l]),
                    );
                }
            }
        }
    }
}

/// The update of what is no whole tile, or lies in memory otherwise.
///
/// # Safety
/// As of [`tile`].
#[inline(never)]
unsafe fn edge<U: Units, T: Value<Op = U::Sum>, const L: usize>(sums: &[U::Sum], width: usize, tile: &Tile<'_, U, T>) {
    U::run(
        #[inline(always)]
        || {
            for r in 0..tile.rows {
                // SAFETY: row `r` of `c`.
                unsafe { update_row::<T, L>(&sums[r * width..][..tile.cols], tile.update, tile.c.from(r, 0)) };
            }
        },
    );
}

/// What becomes of elements `j..j + W` of a row.
///
/// # Safety
/// There are as many sums, and elements at `old`, valid for reads, unless `beta` is 0.
#[inline(always)]
unsafe fn updated<T: Value, const W: usize>(
    sums: &[T::Op],
    Update { alpha, beta }: Update<T::Op>,
    old: *const T,
    j: usize,
) -> [T; W] {
    // SAFETY: forwarded from the caller.
    let some = unsafe { *sums.as_ptr().add(j).cast::<[T::Op; W]>() };
    if beta == <T::Op as Arith>::ZERO {
        return map(
            some,
            #[inline(always)]
            |sum| T::down(alpha.mul(sum)),
        );
    }
    // SAFETY: as above.
    let old = unsafe { *old.add(j).cast::<[T; W]>() };
    each(
        #[inline(always)]
        |l| blend(alpha, some[l], beta, old[l]),
    )
}

/// Updates the elements of the first row of `c`.
///
/// # Safety
/// There are as many as sums, valid for reads and writes.
#[inline(always)]
pub(super) unsafe fn update_row<T: Value, const L: usize>(sums: &[T::Op], update: Update<T::Op>, c: Place<T>) {
    let (alpha, beta, n) = (update.alpha, update.beta, sums.len());
    let mut j = 0;
    if c.col_stride == 1 && c.old_col_stride == 1 {
        while j + L <= n {
            // SAFETY: elements `j..j + L` of `n`, side by side.
            unsafe { *c.at.add(j).cast() = updated::<T, L>(sums, update, c.old, j) };
            j += L;
        }
        // What is left, in two vectors that overlap.
        macro_rules! left {
            ($($width:literal)*) => { $(
                if L > $width && n - j >= $width {
                    // SAFETY: elements `j..n`, at least as many as the width, side by side.
                    unsafe {
                        let first = updated::<T, $width>(sums, update, c.old, j);
                        let last = updated::<T, $width>(sums, update, c.old, n - $width);
                        *c.at.add(j).cast() = first;
                        *c.at.add(n - $width).cast() = last;
                    }
                    return;
                }
            )* };
        }
        left!(8 4 2);
    }
    while j < n {
        let c = c.from(0, j);
        // SAFETY: element `j < n`.
        unsafe { *c.at = blend(alpha, sums[j], beta, *c.old) };
        j += 1;
    }
}
