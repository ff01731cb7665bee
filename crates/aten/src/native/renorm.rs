//! Parts of a tensor scaled down to a norm.

use tensor_core::{DType, Result, Scalar, check};

use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// `self` where each part along `dim` has a `p`-norm of at most `maxnorm`.
pub fn renorm(out: Out<'_>, self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    check!(!matches!(p, Scalar::Complex(_)), "renorm: p must be real-valued");
    check!(p.to_f64() > 0.0, "renorm: non-positive-norm not supported");
    check!(!matches!(maxnorm, Scalar::Complex(_)), "renorm: maxnorm must be real-valued");
    check!(maxnorm.to_f64() >= 0.0, "renorm: expected maxnorm to be >= 0 but got {}", maxnorm.to_f64());
    let n = self_.dim();
    check!(n > 1, "renorm: input needs at least 2 dimensions, got {n} dimensions");
    let dim = tensor_core::strides::wrap_dim(dim, n)?;
    let others: Vec<i64> = (0..n as i64).filter(|&d| d != dim as i64).collect();
    let half = matches!(self_.dtype(), DType::F16 | DType::BF16);
    let norm = ops::linalg_vector_norm(self_, p, Some(&others), true, half.then_some(DType::F32))?;
    let factor =
        ops::div(&ops::full_like(&norm, maxnorm, None, None, None, None, None)?, &ops::add_scalar(&norm, 1e-7, 1)?)?;
    let one = ops::ones_like(&norm, None, None, None, None, None)?;
    let factor = ops::where_self(&ops::gt_scalar(&norm, maxnorm)?, &factor, &one)?;
    let factor = if half { ops::to_dtype(&factor, self_.dtype(), false, false, None)? } else { factor };
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), &[self_])?;
    if !slot.is_meta() {
        ops::mul_out(self_, &factor, &slot.tensor)?;
    }
    slot.finish()
}
