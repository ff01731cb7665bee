//! [`par_tiles`]: columns of matrices over the pool, each [`Tile`] of columns given to one thread.

use std::marker::PhantomData;

use super::parts::rows_per_chunk;
use crate::isa::Isa;
use crate::parallel::parallel_for;

/// Neighbouring columns of a row-major matrix that nobody else reads or writes while they live.
pub struct Tile<'a, T> {
    pointer: *mut T,
    rows: usize,
    width: usize,
    stride: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<T> Tile<'_, T> {
    /// The number of columns.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The tile's elements of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of a tile of {} rows", self.rows);
        // SAFETY: `width` elements of an existing row, which are this tile's alone; borrowed with the tile.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(row * self.stride), self.width) }
    }

    /// All elements, row by row, if the tile has all columns of its matrix.
    #[inline(always)]
    pub fn whole(&mut self) -> Option<&mut [T]> {
        // SAFETY: the rows of the matrix lie behind each other, and are this tile's alone; borrowed with the tile.
        (self.width == self.stride)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.pointer, self.rows * self.width) })
    }

    /// An element.
    ///
    /// # Panics
    /// When there is no such one.
    #[inline(always)]
    pub fn at(&mut self, row: usize, column: usize) -> &mut T {
        assert!(row < self.rows && column < self.width, "element ({row}, {column}) of a tile");
        // SAFETY: an element of this tile; borrowed with the tile.
        unsafe { &mut *self.pointer.add(row * self.stride + column) }
    }
}

/// The base address of matrices that threads take disjoint tiles of.
struct Base<T>(*mut T);

// SAFETY: an address; `par_tiles` makes disjoint tiles of what lies there, each used by one thread.
unsafe impl<T: Send> Sync for Base<T> {}

/// Calls `f(plane, k, tile)` in parallel, compiled for the level `I`, for the columns `bounds[k]..bounds[k + 1]` of each of
/// the `planes` matrices of `rows` rows that `out` holds. `work` is about how many element steps a tile costs.
///
/// # Panics
/// When the bounds do not ascend, or exceed the columns.
#[inline]
pub fn par_tiles<I: Isa, T: Send>(
    out: &mut [T],
    [planes, rows]: [usize; 2],
    bounds: &[usize],
    work: usize,
    f: impl Fn(usize, usize, Tile<'_, T>) + Sync,
) {
    let stride = out.len().checked_div(planes * rows).unwrap_or(0);
    let tiles = bounds.len().saturating_sub(1);
    assert!(bounds.is_sorted() && bounds.last().is_none_or(|&last| last <= stride), "tiles beyond their matrix");
    let base = Base(out.as_mut_ptr());
    parallel_for(planes * tiles, rows_per_chunk(work), |begin, end| {
        let base = &base;
        I::run(
            #[inline(always)]
            || {
                for i in begin..end {
                    let (plane, k) = (i / tiles, i % tiles);
                    // SAFETY: the first element of a row of a plane, or one past its end where the tile is empty. Ascending
                    // bounds within a row make the tiles of a plane disjoint; planes are, and each tile is visited once.
                    let pointer = unsafe { base.0.add(plane * rows * stride + bounds[k]) };
                    f(
                        plane,
                        k,
                        Tile { pointer, rows, width: bounds[k + 1] - bounds[k], stride, _elements: PhantomData },
                    );
                }
            },
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Baseline;

    #[test]
    fn tiles_cover_their_columns() {
        let mut out = vec![0; 3 * 4 * 10];
        par_tiles::<Baseline, _>(&mut out, [3, 4], &[1, 1, 4, 9], 1 << 20, |plane, k, mut tile| {
            for row in 0..4 {
                tile.row(row).fill(100 * plane + 10 * row + k);
            }
            if tile.width() > 1 {
                *tile.at(3, 1) += 1000;
            }
            assert!(tile.whole().is_none());
        });
        par_tiles::<Baseline, _>(&mut [0; 6], [2, 3], &[0, 1], 1, |_, _, mut tile| {
            assert_eq!(tile.whole().map(|all| all.len()), Some(3));
        });
        for (at, &value) in out.iter().enumerate() {
            let (plane, row, column) = (at / 40, at / 10 % 4, at % 10);
            let wanted = match column {
                1..4 => 100 * plane + 10 * row + 1,
                4..9 => 100 * plane + 10 * row + 2,
                _ => 0,
            };
            assert_eq!(value, wanted + if row == 3 && matches!(column, 2 | 5) { 1000 } else { 0 });
        }
    }
}
