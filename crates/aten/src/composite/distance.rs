//! Norms, distances and similarities.

use tensor_core::{Result, Scalar, check};

use crate::{Tensor, ops};

/// The `p`-norm of all elements.
pub fn norm_scalar(self_: &Tensor, p: Scalar) -> Result<Tensor> {
    ops::linalg_vector_norm(self_, p, None, false, None)
}

/// The `p`-norm (2 where absent) over dimensions.
pub fn norm_scalar_opt_dim(self_: &Tensor, p: Option<Scalar>, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    ops::linalg_vector_norm(self_, p.unwrap_or(Scalar::Float(2.0)), Some(dim), keepdim, None)
}

/// The `p`-norm of the difference.
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    ops::linalg_vector_norm(&ops::sub(self_, other, 1)?, p, None, false, None)
}

/// The `p`-norm of the differences of rows, with `eps` added to each difference.
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
    let last = x1.dim().max(x2.dim()) as i64 - 1;
    let difference = ops::add_scalar(&ops::sub(x1, x2, 1)?, eps, 1)?;
    ops::norm_scalar_opt_dim(&difference, Some(Scalar::Float(p)), &[last.max(0)], keepdim)
}

/// The cosine of the angle between vectors along a dimension; lengths below `eps` count as `eps`.
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    let dtype = tensor_core::promotion::result_type([&**x1.as_impl(), &**x2.as_impl()]);
    check!(
        dtype.is_differentiable() && !dtype.is_complex(),
        "expected common dtype to be floating point, yet common dtype is {}",
        dtype.cpp_name()
    );
    let shape = tensor_core::strides::broadcast(x1.sizes(), x2.sizes())?;
    let wide = |x: &Tensor| ops::expand(&ops::to_dtype(x, dtype, false, false, None)?, &shape, false);
    let (x1, x2) = (wide(x1)?, wide(x2)?);
    let length = |x: &Tensor| {
        let norm = ops::linalg_vector_norm(x, 2, Some(&[dim]), true, None)?;
        ops::clamp_min(&norm, eps)
    };
    let (unit1, unit2) = (ops::div(&x1, &length(&x1)?)?, ops::div(&x2, &length(&x2)?)?);
    ops::sum_dim_int_list(&ops::mul(&unit1, &unit2)?, Some(&[dim]), false, None)
}

/// The divergence of the distribution whose logarithms are `self` from `target`.
pub fn kl_div(self_: &Tensor, target: &Tensor, reduction: i64, log_target: bool) -> Result<Tensor> {
    check!(!self_.is_complex() && !target.is_complex(), "kl_div: Complex inputs not supported.");
    let each = if log_target {
        ops::mul(&ops::exp(target)?, &ops::sub(target, self_, 1)?)?
    } else {
        ops::sub(&ops::xlogy(target, target)?, &ops::mul(target, self_)?, 1)?
    };
    match reduction {
        1 => ops::mean(&each, None),
        2 => ops::sum(&each, None),
        _ => Ok(each),
    }
}
