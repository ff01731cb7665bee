//! Products of a few elements: no thread is asked for and no buffer, and of the operands `b` alone is laid out, on the stack.

use super::tile::{Place, Update, update_row};
use crate::arrays::each;
use crate::isa::Isa;
use crate::loops::MatRef;
use crate::simd::{Arith, Value};

/// The most rows of the result.
const ROWS: usize = 32;

/// The longest inner dimension.
const STEPS: usize = 16;

/// True for products that [`tiny`] takes, of vectors of `lanes`.
#[inline]
pub(super) fn is_tiny(m: usize, n: usize, k: usize, lanes: usize) -> bool {
    m <= ROWS && n <= lanes && k <= STEPS
}

/// `c = alpha * a @ b + beta * old` of at most [`ROWS`] rows, `L` columns and [`STEPS`] steps, none of them 0. Elements are summed
/// as in tiles.
///
/// # Safety
/// `c` is a matrix of the caller's alone that fits `a` and `b`.
#[inline(never)]
#[allow(clippy::needless_range_loop, reason = "iterators are calls where code is not optimised across units")]
pub(super) unsafe fn tiny<I: Isa, T: Value<Op: Value<Op = T::Op>>, const L: usize>(
    update: Update<T::Op>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: Place<T>,
) {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    debug_assert!(is_tiny(m, n, k, L));
    I::run(
        #[inline(always)]
        || {
            let mut panel = [[<T::Op as Arith>::ZERO; L]; STEPS];
            for p in 0..k {
                let from = b.as_ptr().wrapping_offset(p as isize * b.row_stride());
                let mut j = 0;
                if b.col_stride() == 1 && n == L {
                    // SAFETY: the columns of row `p`, side by side.
                    let all = unsafe { *from.cast::<[T; L]>() };
                    for l in 0..L {
                        panel[p][l] = all[l].up();
                    }
                    j = L;
                } else if b.col_stride() == 1 {
                    while j + 4 <= n {
                        // SAFETY: columns `j..j + 4` of row `p`, side by side.
                        let some = unsafe { *from.add(j).cast::<[T; 4]>() };
                        for l in 0..4 {
                            panel[p][j + l] = some[l].up();
                        }
                        j += 4;
                    }
                }
                while j < n {
                    // SAFETY: column `j < n` of row `p < k`.
                    panel[p][j] = unsafe { *from.offset(j as isize * b.col_stride()) }.up();
                    j += 1;
                }
            }
            for i in (0..m).step_by(4) {
                let rows: [*const T; 4] = each(
                    #[inline(always)]
                    |r| a.as_ptr().wrapping_offset((i + r).min(m - 1) as isize * a.row_stride()),
                );
                let mut sums = [[<T::Op as Arith>::ZERO; L]; 4];
                for p in 0..k {
                    let y = panel[p];
                    // No loop over the rows: LLVM might take them for the lanes of a vector.
                    macro_rules! rows {
                        ($($r:literal)*) => { $(
                            // SAFETY: step `p < k` of a row that exists.
                            let x = unsafe { *rows[$r].offset(p as isize * a.col_stride()) }.up();
                            for l in 0..L {
                                sums[$r][l] = sums[$r][l].mul_accumulate::<I>(x, y[l]);
                            }
                        )* };
                    }
                    rows!(0 1 2 3);
                }
                let sums = sums;
                for r in 0..4.min(m - i) {
                    // SAFETY: row `i + r < m` of `c`: `n` elements.
                    unsafe { update_row::<T, L>(&sums[r][..n], update, c.from(i + r, 0)) };
                }
            }
        },
    );
}
