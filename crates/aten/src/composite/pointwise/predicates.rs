//! What tensors are: finite, real, close, equal; their dtypes.

use tensor_core::promotion::{self, default_dtype};
use tensor_core::{DType, Result, Scalar, check};

use crate::{Tensor, ops};

fn all_true(x: &Tensor) -> Result<Tensor> {
    ops::ones_like(x, Some(DType::Bool), None, None, None, None)
}

/// True where an element, or a part of it, is infinite.
pub fn isinf(self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_differentiable() {
        return ops::zeros_like(self_, Some(DType::Bool), None, None, None, None);
    }
    if self_.is_complex() {
        let parts = ops::view_as_real(self_)?;
        return ops::any_dim(&isinf(&parts)?, -1, false);
    }
    ops::eq_scalar(&ops::abs(self_)?, f64::INFINITY)
}

/// True where an element is neither infinite nor no number.
pub fn isfinite(self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_differentiable() {
        return all_true(self_);
    }
    let bounded = ops::ne_scalar(&ops::abs(self_)?, f64::INFINITY)?;
    ops::mul(&ops::eq(self_, self_)?, &bounded)
}

/// True where an element has no imaginary part.
pub fn isreal(self_: &Tensor) -> Result<Tensor> {
    if !self_.is_complex() {
        return all_true(self_);
    }
    ops::eq_scalar(&ops::select_int(&ops::view_as_real(self_)?, -1, 1)?, 0)
}

/// True where `|self - other| <= atol + rtol |other|`.
pub fn isclose(self_: &Tensor, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
    check!(self_.dtype() == other.dtype(), "{} did not match {}", self_.dtype().cpp_name(), other.dtype().cpp_name());
    check!(rtol >= 0.0, "rtol must be greater than or equal to zero, but got {rtol}");
    check!(atol >= 0.0, "atol must be greater than or equal to zero, but got {atol}");
    let mut close = ops::eq(self_, other)?;
    if equal_nan && self_.dtype().is_differentiable() {
        close = ops::logical_or(&close, &ops::logical_and(&ops::isnan(self_)?, &ops::isnan(other)?)?)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    let float = |x: &Tensor| {
        if x.dtype().is_integral(true) { ops::to_dtype(x, default_dtype(), false, false, None) } else { Ok(x.clone()) }
    };
    let (x, y) = (float(self_)?, float(other)?);
    let allowed = ops::add_scalar(&ops::abs(&ops::mul_scalar(&y, rtol)?)?, atol, 1)?;
    let error = ops::abs(&ops::sub(&x, &y, 1)?)?;
    let near = ops::logical_and(&ops::isfinite(&error)?, &ops::le(&error, &allowed)?)?;
    ops::logical_or(&close, &near)
}

/// True if all elements are close.
pub fn allclose(self_: &Tensor, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    Ok(ops::item(&ops::all(&ops::isclose(self_, other, rtol, atol, equal_nan)?)?)?.to_bool())
}

/// True if shapes and elements are equal.
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    check!(
        self_.dtype() == other.dtype(),
        "Expected object of data type {} but got data type {} for argument 'other' in call to equal",
        self_.dtype().cpp_name(),
        other.dtype().cpp_name()
    );
    if self_.sizes() != other.sizes() {
        return Ok(false);
    }
    Ok(ops::item(&ops::all(&ops::eq(self_, other)?)?)?.to_bool())
}

/// True for floating dtypes.
pub fn is_floating_point(self_: &Tensor) -> Result<bool> {
    Ok(self_.dtype().is_differentiable() && !self_.is_complex())
}

/// True for complex dtypes.
pub fn is_complex(self_: &Tensor) -> Result<bool> {
    Ok(self_.is_complex())
}

/// The truth of the only element.
pub fn is_nonzero(self_: &Tensor) -> Result<bool> {
    check!(self_.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
    check!(self_.numel() < 2, "Boolean value of Tensor with more than one value is ambiguous");
    Ok(ops::item(self_)?.to_bool())
}

/// True if the shapes are equal.
pub fn is_same_size(self_: &Tensor, other: &Tensor) -> Result<bool> {
    Ok(self_.sizes() == other.sizes())
}

/// The tensor itself, unless it holds truth values.
pub fn positive(self_: &Tensor) -> Result<Tensor> {
    check!(self_.dtype() != DType::Bool, "The `+` operator, on a bool tensor is not supported.");
    Ok(self_.clone())
}

/// The dtype of an operation on two tensors.
pub fn result_type(tensor: &Tensor, other: &Tensor) -> Result<DType> {
    Ok(promotion::result_type([&**tensor.as_impl(), &**other.as_impl()]))
}

/// A tensor in f64 or complex128.
fn wide(x: &Tensor, complex: bool) -> Result<Tensor> {
    ops::to_dtype(x, if complex { DType::C128 } else { DType::F64 }, false, false, None)
}

fn wide_number(x: Scalar, complex: bool) -> Scalar {
    if complex { Scalar::Complex(x.to_complex()) } else { Scalar::Float(x.to_f64()) }
}

/// `self ** exponent` in f64 or complex128.
pub fn float_power_tensor_tensor(self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.is_complex() || exponent.is_complex();
    ops::pow_tensor_tensor(&wide(self_, complex)?, &wide(exponent, complex)?)
}

/// `self ** exponent` in f64 or complex128.
pub fn float_power_tensor_scalar(self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    let complex = self_.is_complex() || exponent.is_complex();
    ops::pow_tensor_scalar(&wide(self_, complex)?, wide_number(exponent, complex))
}

fn check_base(self_: &Tensor, complex: bool) -> Result<()> {
    let wide = if complex { DType::C128 } else { DType::F64 };
    check!(
        self_.dtype() == wide,
        "the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
        self_.dtype().cpp_name(),
        wide.cpp_name()
    );
    Ok(())
}

/// `float_power` in place.
pub fn float_power_(self_: &Tensor, exponent: &Tensor) -> Result<()> {
    let complex = self_.is_complex() || exponent.is_complex();
    check_base(self_, complex)?;
    ops::pow_(self_, &wide(exponent, complex)?).map(drop)
}

/// `float_power` in place, with a number.
pub fn float_power_scalar_(self_: &Tensor, exponent: Scalar) -> Result<()> {
    let complex = self_.is_complex() || exponent.is_complex();
    check_base(self_, complex)?;
    ops::pow_scalar_(self_, wide_number(exponent, complex)).map(drop)
}

/// `polygamma` in place.
pub fn polygamma_(self_: &Tensor, n: i64) -> Result<()> {
    crate::composite::copy::copy_(self_, &ops::polygamma(n, self_)?, false)
}

/// The remainder of a number's division.
pub fn remainder_scalar_tensor(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::remainder(&Tensor::wrapped_number_beside(self_, other)?, other)
}

/// `bitwise_and` with a number.
pub fn __and_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::bitwise_and_scalar(self_, other)
}

/// `bitwise_or` with a number.
pub fn __or_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::bitwise_or_scalar(self_, other)
}

/// `bitwise_xor` with a number.
pub fn __xor_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::bitwise_xor_scalar(self_, other)
}

/// `self ** exponent` in f64 or complex128.
pub fn float_power_scalar(self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    let complex = self_.is_complex() || exponent.is_complex();
    ops::pow_scalar(wide_number(self_, complex), &wide(exponent, complex)?)
}
