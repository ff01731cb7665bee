//! Checks of `add`, `sub` and `neg` beyond promotion.

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Result, Scalar, check};

use crate::{Out, Tensor, iterate};

/// Refuses an `alpha` of a higher category than the computation's (`alpha_check`).
pub fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    check!(!alpha.is_boolean() || dtype == DType::Bool, "Boolean alpha only supported for Boolean results.");
    check!(
        dtype.is_floating_point() || dtype.is_complex() || alpha.is_integral(true),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    check!(
        dtype.is_complex() || !alpha.is_complex(),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    Ok(())
}

/// `self + alpha * other`
pub fn add(out: Out<'_>, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<TensorIter> {
    let iter = iterate::binary(out, self_, other)?;
    check_alpha(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `-self`
pub fn neg(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check!(
        self_.dtype() != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    iterate::unary(out, self_)
}
