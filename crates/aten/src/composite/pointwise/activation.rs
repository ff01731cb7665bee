//! Activations and scalings that are made of other operators.

use tensor_core::strides::Dims;
use tensor_core::{Result, Scalar, check, promotion};

use crate::{Tensor, ops};

/// x between 0 and 6.
pub fn relu6(self_: &Tensor) -> Result<Tensor> {
    ops::hardtanh(self_, 0, 6)
}

/// `relu6` in place.
pub fn relu6_(self_: &Tensor) -> Result<()> {
    ops::hardtanh_(self_, 0, 6).map(drop)
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// `elu` with the numbers that keep mean and variance.
pub fn selu(self_: &Tensor) -> Result<Tensor> {
    ops::elu(self_, SELU_ALPHA, SELU_SCALE, 1)
}

/// `selu` in place.
pub fn selu_(self_: &Tensor) -> Result<()> {
    ops::elu_(self_, SELU_ALPHA, SELU_SCALE, 1).map(drop)
}

/// `alpha * elu(x / alpha)`.
pub fn celu(self_: &Tensor, alpha: Scalar) -> Result<Tensor> {
    check!(alpha.to_f64() != 0.0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    ops::elu(self_, alpha, 1, 1.0 / alpha.to_f64())
}

/// `celu` in place.
pub fn celu_(self_: &Tensor, alpha: Scalar) -> Result<()> {
    check!(alpha.to_f64() != 0.0, "ZeroDivisionError: alpha cannot be 0 for CELU");
    ops::elu_(self_, alpha, 1, 1.0 / alpha.to_f64()).map(drop)
}

/// The logarithm of `sigmoid`.
pub fn log_sigmoid(self_: &Tensor) -> Result<Tensor> {
    Ok(ops::log_sigmoid_forward(self_)?.0)
}

/// Gradient of `mish`: with s = softplus(x), t = tanh(s), it is grad (t + x (1 - t^2) sigmoid(x)).
pub fn mish_backward(grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
    let t = ops::tanh(&ops::softplus(self_, 1, 20)?)?;
    let bend = ops::mul(&ops::mul(self_, &ops::sigmoid(self_)?)?, &ops::rsub_scalar(&ops::mul(&t, &t)?, 1, 1)?)?;
    ops::mul(grad_output, &ops::add(&t, &bend, 1)?)
}

/// Gradient of `glu`.
pub fn glu_backward(grad_output: &Tensor, self_: &Tensor, dim: i64) -> Result<Tensor> {
    let half = self_.size(dim)? / 2;
    let (a, b) = (ops::narrow(self_, dim, 0, half)?, ops::narrow(self_, dim, half, half)?);
    let gate = ops::sigmoid(&b)?;
    let of_a = ops::mul(grad_output, &gate)?;
    let of_b = ops::mul(&ops::mul(&of_a, &a)?, &ops::rsub_scalar(&gate, 1, 1)?)?;
    ops::cat(&[&of_a, &of_b], dim)
}

/// The gradient where an element is further from 0 than `lambd`, else 0.
pub fn hardshrink_backward(grad_out: &Tensor, self_: &Tensor, lambd: Scalar) -> Result<Tensor> {
    let limit = lambd.to_f64();
    let within = ops::logical_and(&ops::ge_scalar(self_, -limit)?, &ops::le_scalar(self_, limit)?)?;
    ops::masked_fill_scalar(grad_out, &within, 0)
}

/// The same as [`hardshrink_backward`]: the two differ in what they give, not in their slopes.
pub fn softshrink_backward(grad_output: &Tensor, self_: &Tensor, lambd: Scalar) -> Result<Tensor> {
    hardshrink_backward(grad_output, self_, lambd)
}

/// Gradient of `logit`: nothing flows back from beyond its bounds.
pub fn logit_backward(grad_output: &Tensor, self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let slope = ops::div(grad_output, &ops::mul(self_, &ops::rsub_scalar(self_, 1, 1)?)?)?;
    let (low, high) = eps.map_or((0.0, 1.0), |eps| (eps, 1.0 - eps));
    let inside = ops::logical_and(&ops::ge_scalar(self_, low)?, &ops::le_scalar(self_, high)?)?;
    let beyond = if eps.is_some() { 0.0 } else { f64::NAN };
    ops::masked_fill_scalar(&slope, &ops::logical_not(&inside)?, beyond)
}

/// x above 0, x times a weight of its channel (dimension 1) below.
pub fn prelu(self_: &Tensor, weight: &Tensor) -> Result<Tensor> {
    check!(
        self_.dtype() == weight.dtype(),
        "prelu: Type promoting not supported. Got {} and {}",
        self_.dtype().cpp_name(),
        weight.dtype().cpp_name()
    );
    let mut weight = weight.clone();
    if weight.numel() != 1 {
        check!(self_.dim() > 0, "Not allow zero-dim input tensor.");
        let channels = if self_.dim() > 1 { self_.sizes()[1] } else { 1 };
        check!(
            channels == weight.numel(),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
            weight.numel()
        );
    }
    check!(weight.dim() <= 1, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}", weight.dim());
    if self_.dim() == 0 {
        weight = ops::reshape(&weight, &[])?;
    } else if weight.dim() == 1 {
        let last = self_.dim() > 1;
        let shape: Dims = (0..self_.dim()).map(|d| if d == usize::from(last) { weight.numel() } else { 1 }).collect();
        weight = ops::reshape(&weight, &shape)?;
    }
    ops::_prelu_kernel(self_, &weight)
}

/// Half of 1 plus the error function of x over the root of 2.
pub fn special_ndtr(self_: &Tensor) -> Result<Tensor> {
    let x = ops::mul_scalar(self_, std::f64::consts::FRAC_1_SQRT_2)?;
    ops::mul_scalar(&ops::add_scalar(&ops::erf(&x)?, 1, 1)?, 0.5)
}

/// Each element times a number, in memory laid out as `empty_like` has it.
fn scaled(self_: &Tensor, factor: f64) -> Result<Tensor> {
    let dtype = if self_.dtype().is_integral(true) { promotion::default_dtype() } else { self_.dtype() };
    let made = ops::empty_like(self_, Some(dtype), None, None, None, None)?;
    ops::mul_out(self_, &Tensor::wrapped_number_beside(factor, self_)?, &made)?;
    Ok(made)
}

/// Radians in degrees.
pub fn rad2deg(self_: &Tensor) -> Result<Tensor> {
    check!(!self_.is_complex(), "rad2deg is not supported for complex tensors.");
    scaled(self_, 180.0 / std::f64::consts::PI)
}

/// `rad2deg` in place.
pub fn rad2deg_(self_: &Tensor) -> Result<()> {
    check!(!self_.is_complex(), "rad2deg is not supported for complex tensors.");
    ops::mul_scalar_(self_, 180.0 / std::f64::consts::PI).map(drop)
}

/// Degrees in radians.
pub fn deg2rad(self_: &Tensor) -> Result<Tensor> {
    check!(!self_.is_complex(), "deg2rad is not supported for complex tensors.");
    scaled(self_, std::f64::consts::PI / 180.0)
}

/// `deg2rad` in place.
pub fn deg2rad_(self_: &Tensor) -> Result<()> {
    check!(!self_.is_complex(), "deg2rad is not supported for complex tensors.");
    ops::mul_scalar_(self_, std::f64::consts::PI / 180.0).map(drop)
}

/// Rounded to some decimals; before the point where they are negative.
pub fn round_decimals(self_: &Tensor, decimals: i64) -> Result<Tensor> {
    let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    match decimals {
        0 => ops::round(self_),
        1.. => ops::div_scalar(&ops::round(&ops::mul_scalar(self_, power)?)?, power),
        _ => ops::mul_scalar(&ops::round(&ops::div_scalar(self_, power)?)?, power),
    }
}

/// `round_decimals` in place.
pub fn round_decimals_(self_: &Tensor, decimals: i64) -> Result<()> {
    crate::composite::copy::copy_(self_, &round_decimals(self_, decimals)?, false)
}

/// `self * 2 ** other`.
pub fn ldexp(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::mul(self_, &ops::pow_scalar(2.0, other)?)
}

/// `ldexp` in place.
pub fn ldexp_(self_: &Tensor, other: &Tensor) -> Result<()> {
    let factor = ops::pow_scalar(2.0, other)?;
    check!(
        promotion::can_cast(factor.dtype(), self_.dtype()),
        "ldexp can't be cast to the desired output type {}",
        self_.dtype().cpp_name()
    );
    ops::mul_(self_, &factor).map(drop)
}
