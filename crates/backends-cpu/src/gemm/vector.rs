//! Products with a vector: [`gemv`] and [`dot`].

use super::{Gemm, blend, dots};
use crate::arrays::map;
use crate::isa::Isa;
use crate::loops::views::{par_chunks, par_rows};
use crate::loops::{MatMut, MatRef, fold2};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::Arith;

/// The sum of the products of two slices of one length.
#[inline(always)]
fn dot_slices<I: Isa, T: Gemm>(x: &[T], y: &[T]) -> T::Op {
    let zero = <T::Op as Arith>::ZERO;
    fold2(x, y, zero, |sum, x, y| sum.mul_accumulate::<I>(x.up(), y.up()), |a, b| a.add(b))
}

/// The sum of the products of two slices (of the shorter length), the same for any number of threads.
pub fn dot<I: Isa, T: Gemm>(x: &[T], y: &[T]) -> T::Op {
    let n = x.len().min(y.len());
    parallel_reduce(
        n,
        GRAIN,
        <T::Op as Arith>::ZERO,
        |begin, end| {
            I::run(
                #[inline(always)]
                || dot_slices::<I, T>(&x[begin..end], &y[begin..end]),
            )
        },
        |a, b| a.add(b),
    )
}

/// `c = alpha * a @ x + beta * c` with one column; the rows or the columns of `a` lie side by side.
pub(super) fn gemv<I: Isa, T: Gemm>(
    alpha: T::Op,
    a: MatRef<'_, T>,
    x: MatRef<'_, T>,
    beta: T::Op,
    mut c: MatMut<'_, T>,
) {
    let (m, k) = (a.rows(), a.cols());
    let x: Vec<T> = (0..k).map(|p| x.at(p, 0)).collect();
    if const { dots::has::<T>() }
        && a.col_stride() == 1
        && let Ok(x) = MatRef::row_major(&x, k, 1)
    {
        return dots::dots::<I, T>(alpha, a, x, beta, c);
    }
    let mut sums = vec![<T::Op as Arith>::ZERO; m];
    if a.col_stride() == 1 || k == 1 {
        par_rows::<I, _>(
            &mut sums,
            m,
            k,
            #[inline(always)]
            |i, sum| {
                // SAFETY: row `i` of `a`: `k` elements side by side.
                let row = unsafe { std::slice::from_raw_parts(a.as_ptr().offset(i as isize * a.row_stride()), k) };
                sum[0] = dot_slices::<I, T>(row, &x);
            },
        );
    } else {
        // Blocks of rows against all columns: each column's part is a run of elements. Four columns at a time, so that the
        // sums are read and written once for each four; blocks of pages, which are fetched ahead.
        const BLOCK: usize = 1024;
        par_chunks::<I, _>(
            &mut sums,
            BLOCK.max((GRAIN / k.max(1)).next_multiple_of(BLOCK)),
            #[inline(always)]
            |first, sums| {
                for (b, sums) in sums.chunks_mut(BLOCK).enumerate() {
                    let start = first + b * BLOCK;
                    let n = sums.len();
                    let column = |p: usize| {
                        let at = start as isize + p as isize * a.col_stride();
                        // SAFETY: rows `start..start + sums.len()` of column `p < k`, side by side (row stride 1).
                        unsafe { std::slice::from_raw_parts(a.as_ptr().offset(at), n) }
                    };
                    let (fours, rest) = x.as_chunks::<4>();
                    for (i, x) in fours.iter().enumerate() {
                        let [x0, x1, x2, x3] = map(*x, T::up);
                        let columns = column(4 * i).iter().zip(column(4 * i + 1));
                        let columns = columns.zip(column(4 * i + 2)).zip(column(4 * i + 3));
                        for (sum, (((a, b), c), d)) in sums.iter_mut().zip(columns) {
                            let first = sum.mul_accumulate::<I>(x0, a.up()).mul_accumulate::<I>(x1, b.up());
                            *sum = first.mul_accumulate::<I>(x2, c.up()).mul_accumulate::<I>(x3, d.up());
                        }
                    }
                    for (x, p) in rest.iter().zip(4 * fours.len()..) {
                        for (sum, v) in sums.iter_mut().zip(column(p)) {
                            *sum = sum.mul_accumulate::<I>(x.up(), v.up());
                        }
                    }
                }
            },
        );
    }
    for (i, &sum) in sums.iter().enumerate() {
        let old = c.as_ref().at(i, 0);
        c.set(i, 0, blend(alpha, sum, beta, old));
    }
}
