//! Reductions made of others.

use tensor_core::{Result, Scalar};

use crate::{Tensor, ops};

/// The variance of all elements, by N - 1 where unbiased.
pub fn var(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
    ops::var_correction(self_, None, Some(Scalar::Int(unbiased as i64)), false)
}

/// The variance over dimensions, by N - 1 where unbiased.
pub fn var_dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
    ops::var_correction(self_, dim, Some(Scalar::Int(unbiased as i64)), keepdim)
}
