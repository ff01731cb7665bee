//! Products with a vector: [`gemv`] and [`dot`].

use super::{Gemm, blend, dots};
use crate::arrays::map;
use crate::isa::Isa;
use crate::loops::views::par_rows;
use crate::loops::{MatMut, MatRef, fold2};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::Arith;

/// Sums of a task, about: they stay in the first-level cache.
const RUN: usize = 4096;

/// Elements of a matrix that are worth a task.
const WORTH: usize = 2 * GRAIN;

/// The most tasks that share the columns of a matrix.
const PARTS: usize = 16;

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
        sum_columns::<I, T>(a, &x, &mut sums);
    }
    for (i, &sum) in sums.iter().enumerate() {
        let old = c.as_ref().at(i, 0);
        c.set(i, 0, blend(alpha, sum, beta, old));
    }
}

/// `sums[i] = sum_p a[i][p] * x[p]`, where the columns of `a` are elements side by side.
///
/// Columns are read as they follow each other in memory, long runs of them, by tasks that have some columns each and sums of
/// their own: memory is slower where a thread reads a page here and a page there.
fn sum_columns<I: Isa, T: Gemm>(a: MatRef<'_, T>, x: &[T], sums: &mut [T::Op]) {
    let (m, k) = (a.rows(), a.cols());
    let run = m.div_ceil(m.div_ceil(RUN));
    let parts = (m.saturating_mul(k) / WORTH).clamp(1, PARTS).div_ceil(m.div_ceil(run)).min(k.max(1));
    let share = k.div_ceil(parts).next_multiple_of(4);
    let parts = k.div_ceil(share).max(1);
    if parts == 1 {
        return runs::<I, T>(a, x, (sums, 1), (run, share));
    }
    let mut partial = vec![<T::Op as Arith>::ZERO; parts * m];
    runs::<I, T>(a, x, (&mut partial, parts), (run, share));
    I::run(
        #[inline(always)]
        || {
            for part in 0..parts {
                let some = &partial[part * m..][..m];
                for i in 0..m {
                    sums[i] = sums[i].add(some[i]);
                }
            }
        },
    );
}

/// `sums[part][i] = sum_p a[i][p] * x[p]`, over the columns of each part, `share` of them, and runs of results.
#[allow(clippy::needless_range_loop, reason = "iterators are calls where code is not optimised across units")]
fn runs<I: Isa, T: Gemm>(
    a: MatRef<'_, T>,
    x: &[T],
    (sums, parts): (&mut [T::Op], usize),
    (run, share): (usize, usize),
) {
    let Ok(sums) = MatMut::row_major(sums, parts, a.rows()) else { return };
    sums.par_blocks(1, run, |part, start, mut sums| {
        let (begin, end) = (part * share, x.len().min((part + 1) * share));
        let (sums, x) = (sums.row_mut(0), &x[begin..end]);
        I::run(
            #[inline(always)]
            || {
                let n = sums.len();
                let sums = &mut sums[..n];
                let column = |p: usize| {
                    let at = start as isize + (begin + p) as isize * a.col_stride();
                    // SAFETY: rows `start..start + n` of column `begin + p < k`, side by side (row stride 1).
                    unsafe { std::slice::from_raw_parts(a.as_ptr().offset(at), n) }
                };
                let (fours, rest) = x.as_chunks::<4>();
                for i in 0..fours.len() {
                    let [x0, x1, x2, x3] = map(fours[i], T::up);
                    let (a, b, c, d) = (column(4 * i), column(4 * i + 1), column(4 * i + 2), column(4 * i + 3));
                    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
                    for l in 0..n {
                        let first = sums[l].mul_accumulate::<I>(x0, a[l].up()).mul_accumulate::<I>(x1, b[l].up());
                        sums[l] = first.mul_accumulate::<I>(x2, c[l].up()).mul_accumulate::<I>(x3, d[l].up());
                    }
                }
                for i in 0..rest.len() {
                    let (x, column) = (rest[i].up(), &column(4 * fours.len() + i)[..n]);
                    for l in 0..n {
                        sums[l] = sums[l].mul_accumulate::<I>(x, column[l].up());
                    }
                }
            },
        );
    });
}
