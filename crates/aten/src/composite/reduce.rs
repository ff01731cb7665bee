//! Reductions made of others.

use tensor_core::strides::wrap_dim;
use tensor_core::{DType, Result, Scalar, check};

use crate::{Tensor, ops};

/// The variance of all elements, by N - 1 where unbiased.
pub fn var(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
    ops::var_correction(self_, None, Some(Scalar::Int(unbiased as i64)), false)
}

/// The variance over dimensions, by N - 1 where unbiased.
pub fn var_dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
    ops::var_correction(self_, dim, Some(Scalar::Int(unbiased as i64)), keepdim)
}

/// How many elements of some dimensions are not zero.
pub fn count_nonzero_dim_int_list(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    ops::sum_dim_int_list(&ops::ne_scalar(self_, 0)?, Some(dim), false, Some(DType::I64))
}

/// How many elements of a dimension, or in all, are not zero.
pub fn count_nonzero(self_: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(dim) => count_nonzero_dim_int_list(self_, &[dim]),
        None => ops::sum(&ops::ne_scalar(self_, 0)?, Some(DType::I64)),
    }
}

/// The sum of the elements that are numbers.
pub fn nansum(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    check!(!self_.is_complex(), "nansum does not support complex inputs");
    if self_.dtype().is_integral(true) {
        return ops::sum_dim_int_list(self_, dim, keepdim, dtype);
    }
    let numbers = ops::masked_fill_scalar(self_, &ops::isnan(self_)?, 0)?;
    ops::sum_dim_int_list(&numbers, dim, keepdim, dtype)
}

/// The mean of the elements that are numbers.
pub fn nanmean(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    check!(
        self_.dtype().is_differentiable(),
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        self_.dtype().cpp_name()
    );
    let numbers = ops::logical_not(&ops::isnan(&ops::detach(self_)?)?)?;
    let count = ops::sum_dim_int_list(&numbers, dim, keepdim, None)?;
    ops::div(&ops::nansum(self_, dim, keepdim, dtype)?, &count)
}

fn by(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(i64::from(unbiased)))
}

/// The root of the variance over dimensions.
pub fn std_correction(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    ops::sqrt(&ops::var_correction(self_, dim, correction, keepdim)?)
}

/// The root of the variance of all elements.
pub fn std(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
    ops::std_correction(self_, None, by(unbiased), false)
}

/// The root of the variance over dimensions.
pub fn std_dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
    ops::std_correction(self_, dim, by(unbiased), keepdim)
}

/// Variance and mean over dimensions.
pub fn var_mean_correction(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    Ok((ops::var_correction(self_, dim, correction, keepdim)?, ops::mean_dim(self_, dim, keepdim, None)?))
}

/// Variance and mean of all elements.
pub fn var_mean(self_: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    ops::var_mean_correction(self_, None, by(unbiased), false)
}

/// Variance and mean over dimensions.
pub fn var_mean_dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<(Tensor, Tensor)> {
    ops::var_mean_correction(self_, dim, by(unbiased), keepdim)
}

/// The root of the variance, and the mean, over dimensions.
pub fn std_mean_correction(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    Ok((std_correction(self_, dim, correction, keepdim)?, ops::mean_dim(self_, dim, keepdim, None)?))
}

/// The root of the variance, and the mean, of all elements.
pub fn std_mean(self_: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
    ops::std_mean_correction(self_, None, by(unbiased), false)
}

/// The root of the variance, and the mean, over dimensions.
pub fn std_mean_dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<(Tensor, Tensor)> {
    ops::std_mean_correction(self_, dim, by(unbiased), keepdim)
}

/// The smallest and the largest element.
pub fn aminmax(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(Tensor, Tensor)> {
    if let Some(dim) = dim {
        let d = wrap_dim(dim, self_.dim())?;
        tensor_core::check_index!(
            self_.dim() == 0 || self_.sizes()[d] != 0,
            "aminmax: Expected reduction dim {d} to have non-zero size."
        );
    } else {
        check!(
            self_.numel() > 0,
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        );
    }
    let dims: Vec<i64> = dim.into_iter().collect();
    let (low, high) = (ops::amin(self_, &dims, keepdim)?, ops::amax(self_, &dims, keepdim)?);
    Ok((low, high))
}

/// The differences of neighbours along a dimension, `n` times.
pub fn diff(self_: &Tensor, n: i64, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>) -> Result<Tensor> {
    check!(self_.dim() >= 1, "diff expects input to be at least one-dimensional");
    check!(n >= 0, "order must be non-negative but got {n}");
    let d = wrap_dim(dim, self_.dim())? as i64;
    for (name, other) in [("prepend", prepend), ("append", append)] {
        let Some(other) = other else { continue };
        check!(other.dim() == self_.dim(), "diff expects prepend or append to be the same dimension as input");
        for (k, (have, want)) in other.sizes().iter().zip(self_.sizes()).enumerate() {
            check!(
                k as i64 == d || have == want,
                "diff expects the shape of tensor to {name} to match that of input except along the differencing dimension; \
                 input.size({k}) = {want}, but got tensor.size({k}) = {have}"
            );
        }
    }
    let parts: Vec<&Tensor> = [prepend, Some(self_), append].into_iter().flatten().collect();
    let mut x = if parts.len() == 1 { self_.clone() } else { ops::cat(&parts, d)? };
    for _ in 0..n {
        let size = x.size(d)?;
        let left = (size - 1).max(0);
        let (from, to) = (ops::narrow(&x, d, 0, left)?, ops::narrow(&x, d, size - left, left)?);
        x = if x.dtype() == DType::Bool { ops::logical_xor(&to, &from)? } else { ops::sub(&to, &from, 1)? };
    }
    if n > 0 {
        return Ok(x);
    }
    let copy = ops::zeros_like(self_, None, None, None, None, None)?;
    ops::copy_(&copy, self_, false)?;
    Ok(copy)
}
