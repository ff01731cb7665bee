//! Matrix products over strided matrices: `c = alpha * a @ b + beta * c` for every numeric dtype.
//!
//! f32, f64 and complex products of some size go to the `gemm` crate, on blocks of the result under our own pool. f16 and bf16
//! are multiplied in f32. Integers, small products and vectors have loops of their own here. Shapes are the caller's matter.
#![allow(unsafe_code)]

#[cfg(feature = "blas")]
mod blas;

use std::mem::MaybeUninit;

use tensor_core::{Complex, Result, bf16, check, f16};

use crate::isa::Isa;
use crate::loops::views::par_rows;
use crate::loops::{MatMut, MatRef, fold2};
use crate::parallel::{GRAIN, get_num_threads, parallel_reduce};
use crate::simd::{Arith, Value};

/// Columns of the result that the own loops compute at once.
const PANEL: usize = 32;

/// Rows of the result that the own loops compute at once.
const STRIP: usize = 4;

/// Steps of the inner dimension between two stores of the result, for the own loops.
const DEPTH: usize = 256;

/// Products of at most this many multiplications are done by the own loops.
const SMALL: usize = 32 * 32 * 32;

/// Multiplications that are worth a thread.
const WORTH: usize = 64 * 64 * 64;

/// An element type with matrix products.
pub trait Gemm: Value {
    /// `c = alpha * a @ b + beta * c` for products that are large, in one thread or several.
    #[doc(hidden)]
    fn large<I: Isa>(alpha: Self::Op, a: MatRef<'_, Self>, b: MatRef<'_, Self>, beta: Self::Op, c: MatMut<'_, Self>);
}

/// `c = alpha * a @ b + beta * c`. With `beta` 0 the old elements of `c` do not matter; with `alpha` 0 or an empty inner
/// dimension those of `a` and `b` do not.
///
/// # Errors
/// When the shapes do not fit.
pub fn gemm<I: Isa, T: Gemm>(
    alpha: T::Op,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T::Op,
    mut c: MatMut<'_, T>,
) -> Result<()> {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    check!(
        b.rows() == k && c.rows() == m && c.cols() == n,
        "gemm: a is {m}x{k}, b is {}x{n}, c is {}x{}",
        b.rows(),
        c.rows(),
        c.cols()
    );
    let zero = <T::Op as Arith>::ZERO;
    if m == 0 || n == 0 {
        return Ok(());
    }
    if k == 0 || alpha == zero {
        scale::<I, T>(beta, c);
        return Ok(());
    }
    if n == 1 && (a.col_stride() == 1 || a.row_stride() == 1 || k == 1) {
        gemv::<I, T>(alpha, a, b, beta, c);
    } else if m == 1 && (b.col_stride() == 1 || b.row_stride() == 1 || k == 1) {
        gemv::<I, T>(alpha, b.t(), a.t(), beta, c.t());
    } else if m.saturating_mul(n).saturating_mul(k) <= SMALL {
        I::run(
            #[inline(always)]
            || own::<I, T>(alpha, a, b, beta, c.reborrow()),
        );
    } else {
        T::large::<I>(alpha, a, b, beta, c);
    }
    Ok(())
}

/// `c = beta * c`
fn scale<I: Isa, T: Gemm>(beta: T::Op, mut c: MatMut<'_, T>) {
    for i in 0..c.rows() {
        for j in 0..c.cols() {
            let value = if beta == <T::Op as Arith>::ZERO { beta } else { beta.mul(c.as_ref().at(i, j).up()) };
            c.set(i, j, T::down(value));
        }
    }
}

/// `alpha * sum + beta * old`, where `old` does not matter if `beta` is 0.
#[inline(always)]
fn blend<T: Gemm>(alpha: T::Op, sum: T::Op, beta: T::Op, old: T) -> T {
    let product = alpha.mul(sum);
    T::down(if beta == <T::Op as Arith>::ZERO { product } else { product.add(beta.mul(old.up())) })
}

/// The own product: panels of `b` side by side, strips of rows against them, sums in registers.
#[inline(always)]
fn own<I: Isa, T: Gemm>(alpha: T::Op, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T::Op, mut c: MatMut<'_, T>) {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    let zero = <T::Op as Arith>::ZERO;
    let mut packed = MaybeUninit::<[[T::Op; PANEL]; DEPTH]>::uninit();
    let packed = packed.as_mut_ptr().cast::<[T::Op; PANEL]>();
    let out = c.as_mut_ptr();
    let (crs, ccs) = (c.row_stride(), c.col_stride());
    for first in (0..n).step_by(PANEL) {
        let width = PANEL.min(n - first);
        for start in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - start);
            let beta = if start == 0 { beta } else { <T::Op as Arith>::ONE };
            for p in 0..depth {
                let mut row = [zero; PANEL];
                for (j, value) in row[..width].iter_mut().enumerate() {
                    // SAFETY: (start + p, first + j) lies within `b`.
                    *value = unsafe { read(b, start + p, first + j) }.up();
                }
                // SAFETY: `p < DEPTH`.
                unsafe { packed.add(p).write(row) };
            }
            for strip in (0..m).step_by(STRIP) {
                let rows = STRIP.min(m - strip);
                let mut sums = [[zero; PANEL]; STRIP];
                for p in 0..depth {
                    // SAFETY: row `p < depth` was packed above.
                    let row = unsafe { &*packed.add(p) };
                    for (r, sum) in sums.iter_mut().enumerate() {
                        // Rows beyond the last one repeat it; their sums are dropped.
                        // SAFETY: `strip + min(r, rows - 1) < m`.
                        let x = unsafe { read(a, strip + r.min(rows - 1), start + p) }.up();
                        for j in 0..PANEL {
                            sum[j] = sum[j].mul_accumulate::<I>(x, row[j]);
                        }
                    }
                }
                for (r, sum) in sums[..rows].iter().enumerate() {
                    for (j, &sum) in sum[..width].iter().enumerate() {
                        // SAFETY: (strip + r, first + j) lies within `c`, which is ours alone.
                        unsafe {
                            let at = out.offset((strip + r) as isize * crs + (first + j) as isize * ccs);
                            *at = blend(alpha, sum, beta, *at);
                        }
                    }
                }
            }
        }
    }
}

/// # Safety
/// (i, j) lies within the matrix.
#[inline(always)]
unsafe fn read<T: Copy>(m: MatRef<'_, T>, i: usize, j: usize) -> T {
    // SAFETY: forwarded from the caller.
    unsafe { *m.as_ptr().offset(i as isize * m.row_stride() + j as isize * m.col_stride()) }
}

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
fn gemv<I: Isa, T: Gemm>(alpha: T::Op, a: MatRef<'_, T>, x: MatRef<'_, T>, beta: T::Op, mut c: MatMut<'_, T>) {
    let (m, k) = (a.rows(), a.cols());
    let x: Vec<T> = (0..k).map(|p| x.at(p, 0)).collect();
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
        crate::loops::views::par_chunks::<I, _>(
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
                        let [x0, x1, x2, x3] = x.map(T::up);
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

/// Splits the result into blocks for the threads, about square, and calls `f(first_row, first_col, block)`.
#[inline]
fn blocks<T: Send + Sync>(
    m: usize,
    n: usize,
    k: usize,
    c: MatMut<'_, T>,
    f: impl Fn(usize, usize, MatMut<'_, T>) + Sync,
) {
    let work = m.saturating_mul(n).saturating_mul(k);
    let threads = get_num_threads().min(work / WORTH).max(1);
    // The grid with the least to read: a block reads its rows of `a` and its columns of `b`.
    let read = |down: usize| m.div_ceil(down) + n.div_ceil(threads / down);
    let down = (1..=threads).filter(|&d| threads.is_multiple_of(d)).min_by_key(|&d| read(d)).unwrap_or(1);
    let across = threads / down;
    let size = |length: usize, parts: usize| length.div_ceil(parts).next_multiple_of(16);
    c.par_blocks(size(m, down), size(n, across), f);
}

macro_rules! through_crate {
    ($($t:ty)*) => { $(
        impl Gemm for $t {
            fn large<I: Isa>(alpha: $t, a: MatRef<'_, $t>, b: MatRef<'_, $t>, beta: $t, c: MatMut<'_, $t>) {
                let k = a.cols();
                blocks(a.rows(), b.cols(), k, c, |i, j, mut c| {
                    let a = a.rows_range(i, i + c.rows());
                    let b = b.cols_range(j, j + c.cols());
                    #[cfg(feature = "blas")]
                    if blas::gemm(alpha, a, b, beta, &mut c) {
                        return;
                    }
                    let (m, n, rs, cs) = (c.rows(), c.cols(), c.row_stride(), c.col_stride());
                    // SAFETY: three matrices of these shapes and strides; `c` is ours alone. The crate spells
                    // `dst = alpha * dst + beta * lhs @ rhs`.
                    unsafe {
                        gemm::gemm(
                            m, n, k, c.as_mut_ptr(), cs, rs, beta != <$t as Arith>::ZERO,
                            a.as_ptr(), a.col_stride(), a.row_stride(),
                            b.as_ptr(), b.col_stride(), b.row_stride(),
                            beta, alpha, false, false, false, gemm::Parallelism::None,
                        );
                    }
                });
            }
        }
    )* };
}
through_crate! { f32 f64 Complex<f32> Complex<f64> }

macro_rules! through_f32 {
    ($($t:ty)*) => { $(
        impl Gemm for $t {
            fn large<I: Isa>(alpha: f32, a: MatRef<'_, $t>, b: MatRef<'_, $t>, beta: f32, c: MatMut<'_, $t>) {
                let (m, n) = (a.rows(), b.cols());
                let (a, b) = (Wide::new::<I, $t>(a), Wide::new::<I, $t>(b));
                let mut product = vec![0f32; m * n];
                if let (Ok(a), Ok(b), Ok(c)) = (a.matrix(), b.matrix(), MatMut::row_major(&mut product, m, n)) {
                    f32::large::<I>(1.0, a, b, 0.0, c);
                }
                let product = product.as_slice();
                c.par_blocks((GRAIN / n).max(1), n, |first, _, mut c| I::run(#[inline(always)] || {
                    for i in 0..c.rows() {
                        let sums = &product[(first + i) * n..][..n];
                        if c.col_stride() == 1 {
                            // SAFETY: row `i` of this block of `c`, which is ours alone: `n` elements side by side.
                            let row = unsafe {
                                std::slice::from_raw_parts_mut(c.as_mut_ptr().offset(i as isize * c.row_stride()), n)
                            };
                            for (to, &sum) in row.iter_mut().zip(sums) {
                                *to = blend(alpha, sum, beta, *to);
                            }
                        } else {
                            for (j, &sum) in sums.iter().enumerate() {
                                let old = c.as_ref().at(i, j);
                                c.set(i, j, blend(alpha, sum, beta, old));
                            }
                        }
                    }
                }));
            }
        }
    )* };
}
through_f32! { f16 bf16 }

/// A matrix as f32: its rows side by side, or those of its transpose where it lies so.
struct Wide {
    elements: Vec<f32>,
    rows: usize,
    cols: usize,
    transposed: bool,
}

impl Wide {
    fn new<I: Isa, T: Value<Op = f32>>(m: MatRef<'_, T>) -> Self {
        let transposed = m.row_stride() == 1 && m.col_stride() != 1;
        let m = if transposed { m.t() } else { m };
        let (rows, cols) = (m.rows(), m.cols());
        let mut elements = vec![0f32; rows * cols];
        par_rows::<I, _>(
            &mut elements,
            rows,
            cols,
            #[inline(always)]
            |i, row| {
                if m.col_stride() == 1 {
                    // SAFETY: row `i` of the matrix: `cols` elements side by side.
                    let from =
                        unsafe { std::slice::from_raw_parts(m.as_ptr().offset(i as isize * m.row_stride()), cols) };
                    for (value, &x) in row.iter_mut().zip(from) {
                        *value = x.up();
                    }
                } else {
                    for (j, value) in row.iter_mut().enumerate() {
                        *value = m.at(i, j).up();
                    }
                }
            },
        );
        Self { elements, rows, cols, transposed }
    }

    fn matrix(&self) -> Result<MatRef<'_, f32>> {
        let m = MatRef::row_major(&self.elements, self.rows, self.cols)?;
        Ok(if self.transposed { m.t() } else { m })
    }
}

macro_rules! own_loops {
    ($($t:ty)*) => { $(
        impl Gemm for $t {
            fn large<I: Isa>(alpha: $t, a: MatRef<'_, $t>, b: MatRef<'_, $t>, beta: $t, c: MatMut<'_, $t>) {
                blocks(a.rows(), b.cols(), a.cols(), c, |i, j, c| {
                    let a = a.rows_range(i, i + c.rows());
                    let b = b.cols_range(j, j + c.cols());
                    I::run(#[inline(always)] || own::<I, $t>(alpha, a, b, beta, c));
                });
            }
        }
    )* };
}
own_loops! { u8 i8 i16 i32 i64 }

#[cfg(test)]
mod tests {
    use tensor_core::Element;

    use super::*;
    use crate::with_level;

    fn element<T: Element>(i: usize) -> T {
        T::from_scalar((((i * 7919) % 13) as i64 - 6).into())
    }

    /// Against the definition, over shapes that take every path, strides of both orders, and three pairs of numbers.
    fn agrees<T: Gemm>() {
        let shapes = [
            (1, 1, 1),
            (3, 5, 7),
            (4, 32, 300),
            (33, 33, 33),
            (70, 41, 90),
            (1, 50, 64),
            (50, 1, 64),
            (600, 1, 40),
            (1, 9, 1),
            (128, 96, 70),
            (2, 3, 0),
            (0, 3, 2),
        ];
        for (m, n, k) in shapes {
            let a: Vec<T> = (0..m * k).map(element).collect();
            let b: Vec<T> = (0..k * n).map(|i| element(i + 3)).collect();
            for (order, (alpha, beta)) in (0..8).zip([(1, 0), (2, 1), (3, 3)].into_iter().cycle()) {
                let of = |v: i64| T::from_scalar(v.into()).up();
                let a = match order & 1 {
                    0 => MatRef::row_major(&a, m, k).unwrap(),
                    _ => MatRef::row_major(&a, k, m).unwrap().t(),
                };
                let b = match order & 2 {
                    0 => MatRef::row_major(&b, k, n).unwrap(),
                    _ => MatRef::row_major(&b, n, k).unwrap().t(),
                };
                let old: Vec<T> = (0..m * n).map(|i| element(i + 5)).collect();
                let mut c = old.clone();
                let out = match order & 4 {
                    0 => MatMut::row_major(&mut c, m, n).unwrap(),
                    _ => MatMut::row_major(&mut c, n, m).unwrap().t(),
                };
                with_level!(I => gemm::<I, T>(of(alpha), a, b, of(beta), out)).unwrap();
                for i in 0..m {
                    for j in 0..n {
                        let at = if order & 4 == 0 { i * n + j } else { j * m + i };
                        let mut sum = <T::Op as Arith>::ZERO;
                        for p in 0..k {
                            sum = sum.add(a.at(i, p).up().mul(b.at(p, j).up()));
                        }
                        let expected = T::down(of(alpha).mul(sum).add(of(beta).mul(old[at].up())));
                        assert_eq!(c[at], expected, "{m} {n} {k} order {order} at {i}, {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_agree_with_the_definition() {
        agrees::<f32>();
        agrees::<f64>();
        agrees::<i32>();
        agrees::<i64>();
        agrees::<u8>();
        agrees::<i8>();
        agrees::<Complex<f32>>();
        agrees::<Complex<f64>>();
        agrees::<bf16>();
        agrees::<f16>();
    }

    #[test]
    fn old_values_do_not_matter_without_beta() {
        let (a, b) = ([1f32; 6], [1f32; 6]);
        let mut c = [f32::NAN; 4];
        let (a, b) = (MatRef::row_major(&a, 2, 3).unwrap(), MatRef::row_major(&b, 3, 2).unwrap());
        gemm::<crate::isa::Baseline, f32>(1.0, a, b, 0.0, MatMut::row_major(&mut c, 2, 2).unwrap()).unwrap();
        assert_eq!(c, [3.0; 4]);
        assert!(MatRef::row_major(&c, 3, 2).is_err());
        assert!(MatMut::new(&mut c, 2, 2, 1, 1).is_err());
    }

    #[test]
    fn dots_of_any_length() {
        for n in [0, 1, 31, 32, 100, 70_000] {
            let x: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
            let expected: f64 = x.iter().map(|v| v * v).sum();
            with_level!(I => assert_eq!(dot::<I, f64>(&x, &x), expected));
        }
    }
}
