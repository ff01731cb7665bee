//! Products that others compute, on blocks of the result under our own pool: those of complex numbers through the `gemm`
//! crate, and with the feature `blas` all large ones that BLAS can name.

use super::copy;
use super::tile::Update;
use crate::loops::{MatMut, MatRef};
use crate::simd::Arith;

/// Multiplications of a block, about.
const BLOCK: usize = 128 * 128 * 128;

/// The most blocks of a product.
const BLOCKS: usize = 64;

/// Multiplications that are not worth the call of a BLAS.
#[cfg(feature = "blas")]
const SMALL: usize = 32 * 32 * 32;

/// Splits the result into blocks, about square, and calls `f(a, b, c)` for the rows of `a` and the columns of `b` that a block is
/// the product of. Blocks depend on the shape alone: sums may depend on a block's.
#[inline]
fn blocks<T: Send + Sync>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: MatMut<'_, T>,
    f: impl Fn(MatRef<'_, T>, MatRef<'_, T>, MatMut<'_, T>) + Sync,
) {
    let (m, n) = (c.rows(), c.cols());
    let work = m.saturating_mul(n).saturating_mul(a.cols());
    let parts = (work / BLOCK).clamp(1, BLOCKS).next_power_of_two();
    // The grid with the least to read: a block reads its rows of `a` and its columns of `b`.
    let read = |down: usize| m.div_ceil(down) + n.div_ceil(parts / down);
    let down = (0..=parts.ilog2()).map(|s| 1 << s).min_by_key(|&d| read(d)).unwrap_or(1);
    let size = |length: usize, parts: usize| length.div_ceil(parts).next_multiple_of(16);
    c.par_blocks(size(m, down), size(n, parts / down), |i, j, c| {
        f(a.rows_range(i, i + c.rows()), b.cols_range(j, j + c.cols()), c);
    });
}

/// `c = alpha * a @ b + beta * old` by BLAS, where it is there and can name the matrices; else by `f`.
#[cfg(feature = "blas")]
pub(super) fn by_blas_or<T: super::blas::Blas + Send + Sync>(
    update: Update<T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    old: Option<MatRef<'_, T>>,
    mut c: MatMut<'_, T>,
    f: fn(Update<T>, MatRef<'_, T>, MatRef<'_, T>, Option<MatRef<'_, T>>, MatMut<'_, T>),
) {
    if c.rows().saturating_mul(c.cols()).saturating_mul(a.cols()) <= SMALL {
        return f(update, a, b, old, c);
    }
    copy(old, &mut c);
    blocks(a, b, c, |a, b, mut c| {
        if !super::blas::gemm(update.alpha, a, b, update.beta, &mut c) {
            f(update, a, b, None, c);
        }
    });
}

/// `f`, as there is no BLAS.
#[cfg(not(feature = "blas"))]
#[inline]
pub(super) fn by_blas_or<T>(
    update: Update<T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    old: Option<MatRef<'_, T>>,
    c: MatMut<'_, T>,
    f: impl Fn(Update<T>, MatRef<'_, T>, MatRef<'_, T>, Option<MatRef<'_, T>>, MatMut<'_, T>),
) {
    f(update, a, b, old, c);
}

/// `c = alpha * a @ b + beta * old` of complex numbers by the `gemm` crate.
pub(super) fn by_crate<T: Arith + 'static>(
    Update { alpha, beta }: Update<T>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    old: Option<MatRef<'_, T>>,
    mut c: MatMut<'_, T>,
) {
    copy(old, &mut c);
    blocks(a, b, c, |a, b, mut c| {
        let (m, n, k, rs, cs) = (c.rows(), c.cols(), a.cols(), c.row_stride(), c.col_stride());
        let (a_strides, b_strides) = ((a.row_stride(), a.col_stride()), (b.row_stride(), b.col_stride()));
        let (c, keep, serial) = (c.as_mut_ptr(), beta != T::ZERO, gemm::Parallelism::None);
        let ((a, (ars, acs)), (b, (brs, bcs))) = ((a.as_ptr(), a_strides), (b.as_ptr(), b_strides));
        // SAFETY: three matrices of these shapes and strides; `c` is ours alone. The crate spells
        // `dst = alpha * dst + beta * lhs @ rhs`.
        unsafe {
            gemm::gemm(m, n, k, c, cs, rs, keep, a, acs, ars, b, bcs, brs, beta, alpha, false, false, false, serial);
        }
    });
}
