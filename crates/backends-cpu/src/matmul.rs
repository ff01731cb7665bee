//! Matrix products of tensors.

use tensor_aten::Tensor;
use tensor_core::{Element, Result, Scalar};

use crate::gemm::{Gemm, gemm as product};
use crate::isa::Isa;
use crate::loops::views::lock;
use crate::simd::Value;

/// `out = beta * out + alpha * a @ b` over matrices of any strides; `out` overlaps neither.
///
/// # Errors
/// When the shapes do not fit, or the memory overlaps.
pub fn gemm<I: Isa, T: Gemm>(out: &Tensor, a: &Tensor, b: &Tensor, alpha: Scalar, beta: Scalar) -> Result<()> {
    let locked = lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, b) = (locked.read::<T>(0)?.matrix(0)?, locked.read::<T>(1)?.matrix(0)?);
    let number = |s: Scalar| <T::Op as Element>::from_scalar(s);
    product::<I, T>(number(alpha), a, b, number(beta), locked.write::<T>(0)?.matrix_mut(0)?)
}
