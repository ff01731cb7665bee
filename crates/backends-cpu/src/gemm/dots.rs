//! Products whose result has few columns, or rows, and whose operands lie side by side along the inner dimension: dot products,
//! a few at once. Nothing is packed, and the large operand is read once.

use tensor_core::DType;

use super::blend;
use super::tile::Update;
use crate::arrays::each;
use crate::isa::{Isa, Level};
use crate::loops::{MatMut, MatRef};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Value};

/// The most columns.
pub(super) const COLS: usize = 4;

/// True for the dtypes of which LLVM makes vector code of these loops: the others are widened, or summed, across them.
pub(super) const fn has<T: Value>() -> bool {
    matches!(T::DTYPE, DType::F32 | DType::F64)
}

/// `c = alpha * a @ b + beta * c` for at most [`COLS`] columns; the rows of `a` and the columns of `b` are elements side by side.
pub(super) fn dots<I: Isa, T: Value>(alpha: T::Op, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T::Op, c: MatMut<'_, T>) {
    // Lanes of 64 bytes: as many running sums for a dtype at each level.
    if const { has::<T>() && size_of::<T>() == 4 } {
        in_lanes::<I, T, 16>(Update { alpha, beta }, a, b, c);
    } else if const { has::<T>() && size_of::<T>() == 8 } {
        in_lanes::<I, T, 8>(Update { alpha, beta }, a, b, c);
    }
}

fn in_lanes<I: Isa, T: Value, const L: usize>(
    update: Update<T::Op>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: MatMut<'_, T>,
) {
    let (n, k) = (b.cols(), a.cols());
    let rows = (GRAIN / k).max(1).next_multiple_of(4);
    c.par_blocks(rows, n, |first, _, mut c| {
        let (m, row_stride, col_stride) = (c.rows(), c.row_stride(), c.col_stride());
        let (a, at, whole) = (a.rows_range(first, first + m), c.as_mut_ptr(), k / L * L);
        macro_rules! groups {
            ($r:literal $n:literal) => {
                for i in (0..m).step_by($r) {
                    let mut sums = [[[<T::Op as Arith>::ZERO; L]; $n]; $r];
                    // SAFETY: rows of `a` from `i` on, the columns of `b`, and as many elements of `c`.
                    unsafe {
                        running::<I, T, $r, $n, L>(a.rows_range(i, m), b, k, &mut sums);
                        for (r, sums) in sums[..$r.min(m - i)].iter().enumerate() {
                            let row = a.as_ptr().offset((i + r) as isize * a.row_stride()).add(whole);
                            for (j, sums) in sums[..n].iter().enumerate() {
                                let col = b.as_ptr().offset(j as isize * b.col_stride()).add(whole);
                                let sum = total::<I, T, L>(sums, (row, col), k - whole);
                                let to = at.offset((i + r) as isize * row_stride + j as isize * col_stride);
                                *to = blend(update.alpha, sum, update.beta, *to);
                            }
                        }
                    }
                }
            };
        }
        // As many sums as registers hold.
        if n == 1 {
            groups!(4 1);
        } else if const { I::LEVEL as u8 == Level::V4 as u8 } {
            if n == 2 {
                groups!(4 2);
            } else {
                groups!(4 4);
            }
        } else if n == 2 {
            groups!(2 2);
        } else {
            groups!(1 4);
        }
    });
}

/// The running sums of the first `R` rows and `N` columns, which are those that exist and the last one again and again, over the
/// elements of `k` that fill the lanes. A function of its own: LLVM might vectorise across it what is done with the sums.
///
/// # Safety
/// `a` has a row and `b` a column, of `k` elements side by side each.
#[inline(never)]
unsafe fn running<I: Isa, T: Value, const R: usize, const N: usize, const L: usize>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    k: usize,
    sums: &mut [[[T::Op; L]; N]; R],
) {
    I::run(
        #[inline(always)]
        || {
            // SAFETY: rows and columns that exist.
            let (rows, cols): ([*const T; R], [*const T; N]) = unsafe {
                (
                    each(
                        #[inline(always)]
                        |r| a.as_ptr().offset(r.min(a.rows() - 1) as isize * a.row_stride()),
                    ),
                    each(
                        #[inline(always)]
                        |n| b.as_ptr().offset(n.min(b.cols() - 1) as isize * b.col_stride()),
                    ),
                )
            };
            let mut lanes = [[[<T::Op as Arith>::ZERO; L]; N]; R];
            for p in (0..k / L * L).step_by(L) {
                // SAFETY: elements `p..p + L` of `k`.
                let y: [[T; L]; N] = each(
                    #[inline(always)]
                    |n| unsafe { *cols[n].add(p).cast() },
                );
                // No loop over the rows: LLVM might take them for the lanes of a vector.
                macro_rules! rows {
                    ($($r:literal)*) => { $(
                        if $r < R {
                            // SAFETY: as above.
                            let x: [T; L] = unsafe { *rows[$r].add(p).cast() };
                            for n in 0..N {
                                for l in 0..L {
                                    lanes[$r][n][l] = lanes[$r][n][l].mul_accumulate::<I>(x[l].up(), y[n][l].up());
                                }
                            }
                        }
                    )* };
                }
                rows!(0 1 2 3);
            }
            *sums = lanes;
        },
    );
}

/// The sum of running sums, and of what is left of a row and a column.
///
/// # Safety
/// There are `left` elements at both.
#[inline(never)]
unsafe fn total<I: Isa, T: Value, const L: usize>(
    lanes: &[T::Op; L],
    (x, y): (*const T, *const T),
    left: usize,
) -> T::Op {
    I::run(
        #[inline(always)]
        || {
            let mut lanes = *lanes;
            let mut width = L / 2;
            while width > 0 {
                for l in 0..width {
                    lanes[l] = lanes[l].add(lanes[l + width]);
                }
                width /= 2;
            }
            // SAFETY: forwarded from the caller.
            (0..left).fold(lanes[0], |sum, p| unsafe { sum.mul_accumulate::<I>((*x.add(p)).up(), (*y.add(p)).up()) })
        },
    )
}
