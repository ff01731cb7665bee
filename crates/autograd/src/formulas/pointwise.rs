//! Gradients of element-wise operators that are longer than a line.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, Scalar};

use super::conj;

fn zero() -> Scalar {
    Scalar::Int(0)
}

/// `grad` where the mask holds, else 0.
fn keep(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ops::where_self(mask, grad, &ops::zeros_like(grad, None, None, None, None, None)?)
}

/// d/dx |x| = x / |x|, 0 at 0.
pub fn abs_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.is_complex() {
        return ops::mul(grad, &ops::sign(x)?);
    }
    let modulus = ops::abs(x)?;
    let at_zero = ops::eq_scalar(&modulus, zero())?;
    let unit = ops::div(x, &ops::masked_fill_scalar(&modulus, &at_zero, Scalar::Int(1))?)?;
    ops::mul(grad, &unit)
}

/// d/dx x^(-1/2) = -1/2 y^3
pub fn rsqrt_backward(grad: &Tensor, result: &Tensor) -> Result<Tensor> {
    let cube = ops::mul(&ops::mul(result, result)?, result)?;
    ops::mul_scalar(&ops::mul(grad, &conj(&cube)?)?, Scalar::Float(-0.5))
}

/// d/dx erf(x) = 2/sqrt(pi) exp(-x^2)
pub fn erf_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let bell = ops::exp(&ops::neg(&ops::mul(x, x)?)?)?;
    ops::mul(&ops::mul_scalar(&bell, Scalar::Float(std::f64::consts::FRAC_2_SQRT_PI))?, grad)
}

/// Gradient of a product with respect to one factor: nothing flows back where the other one is complex and this is real
/// but for the real part, which the engine takes.
pub fn mul_tensor_backward(grad: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &conj(other)?)
}

/// Gradient of `x / c`.
pub fn div_scalar_backward(grad: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::div_scalar(grad, other.conj())
}

/// Gradient of `div` with a rounding mode with respect to `self`: rounded quotients are flat.
pub fn div_mode_self_backward(grad: &Tensor, other: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    match mode {
        None => ops::div(grad, &conj(other)?),
        Some(_) => ops::zeros_like(grad, None, None, None, None, None),
    }
}

/// Gradient of `div` with a rounding mode with respect to `other`.
pub fn div_mode_other_backward(grad: &Tensor, self_: &Tensor, other: &Tensor, mode: Option<&str>) -> Result<Tensor> {
    if mode.is_some() {
        return ops::zeros_like(grad, None, None, None, None, None);
    }
    let quotient = ops::div(&ops::div(self_, other)?, other)?;
    ops::mul(&ops::neg(grad)?, &conj(&quotient)?)
}

/// Gradient of `div_mode` by a number.
pub fn div_mode_scalar_backward(grad: &Tensor, other: Scalar, mode: Option<&str>) -> Result<Tensor> {
    match mode {
        None => div_scalar_backward(grad, other),
        Some(_) => ops::zeros_like(grad, None, None, None, None, None),
    }
}

/// Gradient of an extremum with respect to `a`: all of it where `a` wins, half of it on a tie.
fn extremum_backward(grad: &Tensor, loses: &Tensor, ties: &Tensor) -> Result<Tensor> {
    let half = ops::div_scalar(grad, Scalar::Int(2))?;
    let shared = ops::where_self(ties, &half, grad)?;
    ops::masked_fill_scalar(&shared, loses, zero())
}

/// Gradient of `maximum(a, b)` with respect to `a`.
pub fn maximum_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    extremum_backward(grad, &ops::lt(a, b)?, &ops::eq(a, b)?)
}

/// Gradient of `minimum(a, b)` with respect to `a`.
pub fn minimum_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    extremum_backward(grad, &ops::gt(a, b)?, &ops::eq(a, b)?)
}

/// Gradient of `clamp`: flows where the element is strictly within the bounds.
pub fn clamp_backward(grad: &Tensor, x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let above = min.map(|min| ops::gt_scalar(x, min)).transpose()?;
    let below = max.map(|max| ops::lt_scalar(x, max)).transpose()?;
    within(grad, above, below)
}

/// Gradient of `clamp` by tensors with respect to `self`.
pub fn clamp_backward_tensor(grad: &Tensor, x: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Tensor> {
    match (min, max) {
        (Some(min), Some(max)) => {
            let outside = ops::logical_or(&ops::lt(x, min)?, &ops::gt(x, max)?)?;
            extremum_backward(grad, &outside, &ops::ne(&ops::eq(x, min)?, &ops::eq(x, max)?)?)
        }
        (Some(min), None) => maximum_backward(grad, x, min),
        (None, Some(max)) => minimum_backward(grad, x, max),
        (None, None) => Ok(grad.clone()),
    }
}

fn within(grad: &Tensor, above: Option<Tensor>, below: Option<Tensor>) -> Result<Tensor> {
    match (above, below) {
        (Some(above), Some(below)) => keep(grad, &ops::logical_and(&above, &below)?),
        (Some(mask), None) | (None, Some(mask)) => keep(grad, &mask),
        (None, None) => Ok(grad.clone()),
    }
}

/// Gradient of `clamp` by tensors with respect to its bounds: flows to the bound that was taken.
pub fn clamp_backward_min_max(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
    need: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let mut grads = (None, None);
    match (min, max) {
        (Some(min), Some(max)) => {
            // On a tie of one bound alone, half of the gradient is that bound's.
            let shared = |bound: &Tensor| ops::logical_and(&ops::eq(x, bound)?, &ops::lt(min, max)?);
            let part = |taken: &Tensor, ties: &Tensor| {
                extremum_backward(grad, &ops::logical_not(&ops::logical_or(taken, ties)?)?, ties)
            };
            if need[0] {
                let taken = ops::logical_and(&ops::le(min, max)?, &ops::lt(x, min)?)?;
                grads.0 = Some(part(&taken, &shared(min)?)?);
            }
            if need[1] {
                // Neither is taken where the lower one is no number.
                let above = ops::logical_and(&ops::gt(x, max)?, &ops::le(min, max)?)?;
                let taken = ops::logical_or(&above, &ops::lt(max, min)?)?;
                grads.1 = Some(part(&taken, &shared(max)?)?);
            }
        }
        (Some(min), None) if need[0] => grads.0 = Some(maximum_backward(grad, min, x)?),
        (None, Some(max)) if need[1] => grads.1 = Some(minimum_backward(grad, max, x)?),
        _ => {}
    }
    Ok(grads)
}

/// Gradient of `clamp_min` by a number.
pub fn clamp_min_backward(grad: &Tensor, x: &Tensor, min: Scalar) -> Result<Tensor> {
    keep(grad, &ops::gt_scalar(x, min)?)
}

/// Gradient of `clamp_max` by a number.
pub fn clamp_max_backward(grad: &Tensor, x: &Tensor, max: Scalar) -> Result<Tensor> {
    keep(grad, &ops::lt_scalar(x, max)?)
}

/// Gradient of `lerp` by a number with respect to `self`: (1 - w) grad.
pub fn lerp_self_backward(grad: &Tensor, weight: Scalar) -> Result<Tensor> {
    let rest = match weight.conj() {
        Scalar::Complex(c) => Scalar::Complex(tensor_core::Complex64::new(1.0, 0.0) - c),
        other => Scalar::Float(1.0 - other.to_f64()),
    };
    ops::mul_scalar(grad, rest)
}

/// Gradient of `where` with respect to the side that is taken where the condition is `side`.
pub fn where_backward(grad: &Tensor, condition: &Tensor, side: bool) -> Result<Tensor> {
    let zeros = ops::zeros_like(grad, None, None, None, None, None)?;
    if side { ops::where_self(condition, grad, &zeros) } else { ops::where_self(condition, &zeros, grad) }
}

/// Gradient of `masked_fill` with respect to the value: the sum of what it replaced.
pub fn masked_fill_value_backward(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ops::sum(&keep(grad, mask)?, None)
}

fn minus_one(exponent: Scalar) -> Scalar {
    match exponent {
        Scalar::Complex(c) => Scalar::Complex(c - 1.0),
        Scalar::Float(f) => Scalar::Float(f - 1.0),
        other => Scalar::Int(other.to_i64() - 1),
    }
}

/// d/dx x^p = p x^(p-1), 0 for p = 0.
pub fn pow_backward(grad: &Tensor, x: &Tensor, exponent: Scalar) -> Result<Tensor> {
    if exponent.equals(0.0) {
        return ops::zeros_like(x, None, None, None, None, None);
    }
    let slope = ops::mul_scalar(&ops::pow_tensor_scalar(x, minus_one(exponent))?, exponent)?;
    ops::mul(grad, &conj(&slope)?)
}

/// Gradient of `x^p` with respect to `x`, 0 where p = 0.
pub fn pow_backward_self(grad: &Tensor, x: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    let slope = ops::mul(exponent, &ops::pow_tensor_tensor(x, &ops::sub_scalar(exponent, 1, 1)?)?)?;
    let flat = ops::eq_scalar(exponent, zero())?;
    let full = ops::mul(grad, &conj(&slope)?)?;
    ops::where_self(&flat, &ops::zeros_like(&full, None, None, None, None, None)?, &full)
}

/// Where an exponent is a real number of at least 0.
fn is_not_negative(exponent: &Tensor) -> Result<Tensor> {
    if !exponent.is_complex() {
        return ops::ge_scalar(exponent, zero());
    }
    let real = ops::eq_scalar(&ops::imag(exponent)?, zero())?;
    ops::logical_and(&real, &ops::ge_scalar(&ops::real(exponent)?, zero())?)
}

/// Gradient of `x^p` with respect to `p`: x^p log x, 0 where x = 0 and p >= 0.
pub fn pow_backward_exponent(grad: &Tensor, x: &Tensor, exponent: &Tensor, result: &Tensor) -> Result<Tensor> {
    let flat = ops::logical_and(&ops::eq_scalar(x, zero())?, &is_not_negative(exponent)?)?;
    // A complex logarithm where the power is complex, of negative numbers too.
    let x = if x.is_complex() || !result.is_complex() {
        x.clone()
    } else {
        ops::to_dtype(x, result.dtype(), false, false, None)?
    };
    let full = ops::mul(grad, &conj(&ops::mul(result, &ops::log(&x)?)?)?)?;
    ops::where_self(&flat, &ops::zeros_like(&full, None, None, None, None, None)?, &full)
}

/// Gradient of `c^p` with respect to `p`.
pub fn pow_backward_scalar_exponent(grad: &Tensor, base: Scalar, exponent: &Tensor, result: &Tensor) -> Result<Tensor> {
    let log = match base {
        Scalar::Complex(c) => Scalar::Complex(c.ln()),
        other if other.to_f64() < 0.0 && result.is_complex() => Scalar::Complex(other.to_complex().ln()),
        other => Scalar::Float(other.to_f64().ln()),
    };
    if base.equals(0.0) {
        let flat = is_not_negative(exponent)?;
        let full = ops::mul(grad, &conj(&ops::mul_scalar(result, log)?)?)?;
        return ops::where_self(&flat, &ops::zeros_like(&full, None, None, None, None, None)?, &full);
    }
    ops::mul(grad, &conj(&ops::mul_scalar(result, log)?)?)
}

/// Gradient of `sigmoid_backward` with respect to its output argument: conj(grad) * g * (1 - 2 conj(y)).
pub fn sigmoid_backward_output(grad: &Tensor, grad_output: &Tensor, output: &Tensor) -> Result<Tensor> {
    let slope = ops::rsub_scalar(&ops::mul_scalar(&conj(output)?, 2)?, 1, 1)?;
    ops::mul(&ops::mul(&conj(grad)?, grad_output)?, &slope)
}

/// Gradient of `silu_backward` with respect to `self`.
pub fn silu_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    // s' (2 + x (1 - 2 s)) with s = sigmoid(x), s' = s (1 - s)
    let s = ops::sigmoid(x)?;
    let slope = ops::mul(&s, &ops::rsub_scalar(&s, 1, 1)?)?;
    let inner = ops::mul(x, &ops::rsub_scalar(&ops::mul_scalar(&s, 2)?, 1, 1)?)?;
    let second = ops::mul(&slope, &ops::add_scalar(&inner, 2, 1)?)?;
    ops::mul(&ops::mul(grad, grad_output)?, &second)
}

/// Gradient of `gelu_backward` with respect to `self`.
pub fn gelu_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor, approximate: &str) -> Result<Tensor> {
    let second = if approximate == "tanh" {
        // u = a (x + b x^3), t = tanh u; y'' = u' (1 - t^2) + x/2 ((u'' (1 - t^2) - 2 t (1 - t^2) u'^2)
        const A: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        const B: f64 = 0.044715;
        let square = ops::mul(x, x)?;
        let u = ops::mul_scalar(&ops::mul(x, &ops::add_scalar(&ops::mul_scalar(&square, B)?, 1, 1)?)?, A)?;
        let t = ops::tanh(&u)?;
        let sech = ops::rsub_scalar(&ops::mul(&t, &t)?, 1, 1)?;
        let u1 = ops::mul_scalar(&ops::add_scalar(&ops::mul_scalar(&square, 3.0 * B)?, 1, 1)?, A)?;
        let u2 = ops::mul_scalar(x, 6.0 * A * B)?;
        let bend = ops::sub(&u2, &ops::mul(&ops::mul_scalar(&t, 2)?, &ops::mul(&u1, &u1)?)?, 1)?;
        ops::mul(&sech, &ops::add(&u1, &ops::mul(&ops::mul_scalar(x, 0.5)?, &bend)?, 1)?)?
    } else {
        // phi(x) (2 - x^2)
        let square = ops::mul(x, x)?;
        let scale = 0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        let bell = ops::mul_scalar(&ops::exp(&ops::mul_scalar(&square, -0.5)?)?, scale)?;
        ops::mul(&bell, &ops::rsub_scalar(&square, 2, 1)?)?
    };
    ops::mul(&ops::mul(grad, grad_output)?, &second)
}

/// Gradient of `mse_loss_backward` with respect to its gradient: 2/n (self - target) . grad
pub fn mse_loss_backward_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let scaled = ops::mul_scalar(&ops::mul(&ops::sub(self_, target, 1)?, grad)?, 2)?;
    match reduction {
        0 => Ok(scaled),
        1 => ops::reshape(&ops::mean(&scaled, None)?, grad_output.sizes()),
        _ => ops::reshape(&ops::sum(&scaled, None)?, grad_output.sizes()),
    }
}

/// Gradient of `mse_loss_backward` with respect to `self`: 2/n grad . g
pub fn mse_loss_backward_self(grad: &Tensor, grad_output: &Tensor, reduction: i64) -> Result<Tensor> {
    let norm = if reduction == 1 { 2.0 / grad.numel() as f64 } else { 2.0 };
    ops::mul_scalar(&ops::mul(grad, grad_output)?, norm)
}
