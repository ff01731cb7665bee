//! Sorts and quantiles made of `native::sorting`.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, check};

use crate::{Tensor, ops};

/// Sorted along the first dimension.
pub fn msort(self_: &Tensor) -> Result<Tensor> {
    Ok(ops::sort(self_, 0, false)?.0)
}

/// Where the elements of the sorted tensor were.
pub fn argsort(self_: &Tensor, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(ops::sort(self_, dim, descending)?.1)
}

/// The quantiles `q` of a dimension (or of all elements), which come first in the result.
pub fn quantile(self_: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
    quantiles("quantile", self_, q, dim, keepdim, interpolation, false)
}

/// [`quantile`] of one number.
pub fn quantile_scalar(self_: &Tensor, q: f64, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
    ops::quantile(self_, &number(self_, q)?, dim, keepdim, interpolation)
}

/// [`quantile`] of the elements that are numbers.
pub fn nanquantile(self_: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
    quantiles("nanquantile", self_, q, dim, keepdim, interpolation, true)
}

/// [`nanquantile`] of one number.
pub fn nanquantile_scalar(
    self_: &Tensor,
    q: f64,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
) -> Result<Tensor> {
    ops::nanquantile(self_, &number(self_, q)?, dim, keepdim, interpolation)
}

fn number(x: &Tensor, q: f64) -> Result<Tensor> {
    check!((0.0..=1.0).contains(&q), "quantile() q must be in the range [0, 1] but got {q}");
    ops::full(&[], q, Some(x.dtype()), None, Some(x.device()), None)
}

fn quantiles(
    _name: &str,
    x: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
    skipped: bool,
) -> Result<Tensor> {
    check!(x.numel() > 0, "quantile() input tensor must be non-empty");
    check!(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor");
    check!(
        matches!(x.dtype(), DType::F32 | DType::F64),
        "quantile() input tensor must be either float or double dtype"
    );
    check!(x.dtype() == q.dtype(), "quantile() q tensor must be same dtype as the input tensor");
    check!(x.device() == q.device(), "quantile() q tensor must be on the same device as the input tensor");
    check!(
        matches!(interpolation, "linear" | "lower" | "higher" | "midpoint" | "nearest"),
        "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
    );
    if !q.is_meta() {
        let inside = ops::logical_and(&ops::ge_scalar(q, 0)?, &ops::le_scalar(q, 1)?)?;
        check!(ops::item(&ops::all(&inside)?)?.to_bool(), "quantile() q values must be in the range [0, 1]");
    }
    // The sorted elements come last in a shape like the result's.
    let d = wrap_dim(dim.unwrap_or(0), x.dim())?;
    let mut shape: Dims = match (dim, keepdim) {
        (Some(_), true) => x.sizes().iter().enumerate().map(|(k, &n)| if k == d { 1 } else { n }).collect(),
        (Some(_), false) => x.sizes().iter().enumerate().filter(|&(k, _)| k != d).map(|(_, &n)| n).collect(),
        (None, true) => x.sizes().iter().map(|_| 1).collect(),
        (None, false) => Dims::new(),
    };
    let sorted = match dim {
        None => ops::sort(&ops::flatten_using_ints(x, 0, -1)?, -1, false)?.0,
        Some(_) if x.dim() == 0 => ops::sort(&ops::flatten_using_ints(x, 0, -1)?, -1, false)?.0,
        Some(_) if d + 1 == x.dim() => ops::sort(x, -1, false)?.0,
        Some(_) => ops::sort(&ops::transpose_int(&ops::unsqueeze(x, -1)?, d as i64, -1)?, -1, false)?.0,
    };
    let n = sorted.sizes().last().copied().unwrap_or(1);
    shape.push(n);
    let sorted = ops::reshape(&sorted, &shape)?;
    let ranks = if skipped {
        let numbers = ops::sum_dim_int_list(&ops::logical_not(&ops::isnan(&sorted)?)?, Some(&[-1]), true, None)?;
        let ranks = ops::mul(q, &ops::sub_scalar(&numbers, 1, 1)?)?;
        ops::masked_fill_scalar(&ranks, &ops::lt_scalar(&ranks, 0)?, 0)?
    } else {
        let ranks = ops::mul_scalar(q, n - 1)?;
        ops::masked_fill_scalar(&ranks, &ops::any_dim(&ops::isnan(&sorted)?, -1, true)?, n - 1)?
    };
    let ranks = match interpolation {
        "lower" => ops::floor(&ranks)?,
        "higher" => ops::ceil(&ranks)?,
        "nearest" => ops::round(&ranks)?,
        _ => ranks,
    };
    let whole = |ranks: &Tensor| ops::_to_copy(ranks, Some(DType::I64), None, None, None, false, None);
    let below = whole(&ranks)?;
    let mut values = ops::gather(&sorted, -1, &below, false)?;
    if matches!(interpolation, "linear" | "midpoint") {
        let weights = if interpolation == "midpoint" {
            ops::full_like(&ranks, 0.5, None, None, None, None, None)?
        } else {
            ops::sub(&ranks, &below, 1)?
        };
        let above = ops::gather(&sorted, -1, &whole(&ops::ceil(&ranks)?)?, false)?;
        values = ops::lerp(&values, &above, &weights)?;
    }
    if q.dim() == 0 {
        ops::squeeze_dim_(&values, -1)?;
    } else {
        ops::unsqueeze_(&values, 0)?;
        ops::transpose_(&values, 0, -1)?;
        ops::squeeze_dim_(&values, -1)?;
    }
    Ok(values)
}
