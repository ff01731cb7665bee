//! Matrix products of tensors: single ones, batches, and dot products of vectors.

use tensor_aten::Tensor;
use tensor_core::{Element, Result, Scalar, check};

use crate::gemm::{Gemm, dot as inner, gemm_onto as product};
use crate::isa::Isa;
use crate::loops::views::{Locked, lock};
use crate::parallel::get_num_threads;
use crate::simd::Value;

fn number<T: Value>(s: Scalar) -> T::Op {
    <T::Op as Element>::from_scalar(s)
}

/// Locks what a product reads and writes. `old` is the last one read, if it is not `out` itself.
#[inline(always)]
fn lock_all<'a>(out: &'a Tensor, a: &'a Tensor, b: &'a Tensor, old: Option<&'a Tensor>) -> Result<Locked<'a>> {
    match old {
        Some(old) => lock(&[a.as_impl(), b.as_impl(), old.as_impl()], &[out.as_impl()]),
        None => lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()]),
    }
}

/// `out = beta * old + alpha * a @ b` over matrices of any strides; `old` is `out` if there is none, and `out` overlaps none of the
/// others.
///
/// # Errors
/// When the shapes do not fit, or the memory overlaps.
pub fn gemm<I: Isa, T: Gemm>(
    out: &Tensor,
    a: &Tensor,
    b: &Tensor,
    old: Option<&Tensor>,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    let locked = lock_all(out, a, b, old)?;
    let (a, b) = (locked.read::<T>(0)?.matrix(0)?, locked.read::<T>(1)?.matrix(0)?);
    let old = if old.is_some() { Some(locked.read::<T>(2)?.matrix(0)?) } else { None };
    product::<I, T>(number::<T>(alpha), a, b, number::<T>(beta), old, locked.write::<T>(0)?.matrix_mut(0)?)
}

/// `out[i] = beta * old[i] + alpha * a[i] @ b[i]` over batches of shapes (b, m, n), (b, m, k), (b, k, n).
///
/// Matrices go to the threads; a few large ones are split instead.
///
/// # Errors
/// When the shapes do not fit, or the memory overlaps.
pub fn batched_gemm<I: Isa, T: Gemm>(
    out: &Tensor,
    a: &Tensor,
    b: &Tensor,
    old: Option<&Tensor>,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    let locked = lock_all(out, a, b, old)?;
    let old = if old.is_some() { Some(locked.read::<T>(2)?) } else { None };
    let (a, b, mut out) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.write::<T>(0)?);
    let (count, m, n, k) = (out.size(0), out.size(1), out.size(2), a.size(2));
    check!(
        a.size(0) == count && b.size(0) == count && a.size(1) == m && b.size(2) == n && b.size(1) == k,
        "batched gemm: the shapes do not fit"
    );
    check!(
        old.as_ref().is_none_or(|old| old.sizes() == out.as_view().sizes()),
        "batched gemm: what is added does not fit"
    );
    let (alpha, beta) = (number::<T>(alpha), number::<T>(beta));
    let old = |i: usize| old.as_ref().map(|old| old.matrix(i)).transpose();
    let work = m.saturating_mul(n).saturating_mul(k).max(m * n);
    // A tail of less than a matrix a thread would leave threads idle.
    if count < 4 * get_num_threads() && work > LARGE {
        for i in 0..count {
            product::<I, T>(alpha, a.matrix(i)?, b.matrix(i)?, beta, old(i)?, out.matrix_mut(i)?)?;
        }
        return Ok(());
    }
    out.par_matrices::<I>(
        work,
        #[inline(always)]
        |i, out| {
            // The shapes were checked above: these do not fail.
            if let (Ok(a), Ok(b), Ok(old)) = (a.matrix(i), b.matrix(i), old(i)) {
                let _ = product::<I, T>(alpha, a, b, beta, old, out);
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
