//! Matrix products of tensors: single ones, batches, and dot products of vectors.

use tensor_aten::Tensor;
use tensor_core::{Element, Result, Scalar, check};

use crate::gemm::{Gemm, dot as inner, gemm as product};
use crate::isa::Isa;
use crate::loops::views::lock;
use crate::parallel::get_num_threads;
use crate::simd::Value;

fn number<T: Value>(s: Scalar) -> T::Op {
    <T::Op as Element>::from_scalar(s)
}

/// `out = beta * out + alpha * a @ b` over matrices of any strides; `out` overlaps neither.
///
/// # Errors
/// When the shapes do not fit, or the memory overlaps.
pub fn gemm<I: Isa, T: Gemm>(out: &Tensor, a: &Tensor, b: &Tensor, alpha: Scalar, beta: Scalar) -> Result<()> {
    let locked = lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, b) = (locked.read::<T>(0)?.matrix(0)?, locked.read::<T>(1)?.matrix(0)?);
    product::<I, T>(number::<T>(alpha), a, b, number::<T>(beta), locked.write::<T>(0)?.matrix_mut(0)?)
}

/// `out[i] = beta * out[i] + alpha * a[i] @ b[i]` over batches of shapes (b, m, n), (b, m, k), (b, k, n).
///
/// Matrices go to the threads; a few large ones are split instead.
///
/// # Errors
/// When the shapes do not fit, or the memory overlaps.
pub fn batched_gemm<I: Isa, T: Gemm>(out: &Tensor, a: &Tensor, b: &Tensor, alpha: Scalar, beta: Scalar) -> Result<()> {
    let locked = lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, b, mut out) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.write::<T>(0)?);
    let (count, m, n, k) = (out.size(0), out.size(1), out.size(2), a.size(2));
    check!(
        a.size(0) == count && b.size(0) == count && a.size(1) == m && b.size(2) == n && b.size(1) == k,
        "batched gemm: the shapes do not fit"
    );
    let (alpha, beta) = (number::<T>(alpha), number::<T>(beta));
    let work = m.saturating_mul(n).saturating_mul(k).max(m * n);
    // A tail of less than a matrix a thread would leave threads idle.
    if count < 4 * get_num_threads() && work > LARGE {
        for i in 0..count {
            product::<I, T>(alpha, a.matrix(i)?, b.matrix(i)?, beta, out.matrix_mut(i)?)?;
        }
        return Ok(());
    }
    out.par_matrices::<I>(
        work,
        #[inline(always)]
        |i, out| {
            // The shapes were checked above: these do not fail.
            if let (Ok(a), Ok(b)) = (a.matrix(i), b.matrix(i)) {
                let _ = product::<I, T>(alpha, a, b, beta, out);
            }
        },
    )
}

/// Multiplications of a matrix product that occupy several threads.
const LARGE: usize = 192 * 192 * 192;

/// `out = sum_i a[i] * b[i]` of two vectors.
///
/// # Errors
/// When the memory overlaps.
pub fn dot<I: Isa, T: Gemm>(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    let locked = lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, b) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    locked.write::<T>(0)?.fill(T::down(inner::<I, T>(&a, &b)));
    Ok(())
}
