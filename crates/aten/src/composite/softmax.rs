//! Softmax in the dtype that is asked for.

use tensor_core::{DType, Result, Scalar};

use crate::{Tensor, ops};

/// A tensor in another dtype; itself where it has that, or none is asked for.
fn cast(x: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype {
        Some(dtype) => ops::to_dtype(x, dtype, false, false, None),
        None => Ok(x.clone()),
    }
}

/// `exp(x) / sum(exp(x))` along a dimension.
pub fn softmax_int(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    ops::_softmax(&cast(self_, dtype)?, dim, false)
}

/// `x - log(sum(exp(x)))` along a dimension.
pub fn log_softmax_int(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    ops::_log_softmax(&cast(self_, dtype)?, dim, false)
}

/// `softmax_int` into a tensor of its dtype.
pub fn softmax_int_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()> {
    ops::_softmax_out(&cast(self_, dtype)?, dim, false, out).map(drop)
}

/// `log_softmax_int` into a tensor of its dtype.
pub fn log_softmax_int_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()> {
    ops::_log_softmax_out(&cast(self_, dtype)?, dim, false, out).map(drop)
}

/// `softmax` under its name in `special`.
pub fn special_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    ops::softmax_int(self_, dim, dtype)
}

/// `log_softmax` under its name in `special`.
pub fn special_log_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    ops::log_softmax_int(self_, dim, dtype)
}

/// Softmax that is 0 where all elements of a lane are minus infinity.
pub fn _safe_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let result = ops::softmax_int(self_, dim, dtype)?;
    let masked = ops::eq_scalar(self_, f64::NEG_INFINITY)?;
    let masked = ops::all_dim(&masked, dim, true)?;
    ops::masked_fill_scalar(&result, &masked, Scalar::Int(0))
}
