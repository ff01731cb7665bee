//! Gradients of the rarer element-wise operators.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, Scalar};

use super::conj;

fn zeros(x: &Tensor) -> Result<Tensor> {
    ops::zeros_like(x, None, None, None, None, None)
}

/// `x` but for 0 where the mask holds.
fn without(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ops::masked_fill_scalar(x, mask, 0)
}

/// Gradient of `sinc`: (pi x cos(pi x) - sin(pi x)) / (pi x^2), 0 at 0.
pub fn sinc_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    let turned = ops::mul_scalar(x, std::f64::consts::PI)?;
    let above = ops::sub(&ops::mul(&turned, &ops::cos(&turned)?)?, &ops::sin(&turned)?, 1)?;
    let slope = ops::div(&above, &ops::mul(&turned, x)?)?;
    ops::mul(grad, &conj(&without(&slope, &ops::eq_scalar(x, 0)?)?)?)
}

/// What `x` is too small beside 1 to be told from 0.
fn is_tiny(x: &Tensor) -> Result<Tensor> {
    let epsilon = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    ops::le_scalar(&ops::abs(x)?, epsilon)
}

/// `lower(x) - result / x`, the slope of a Bessel function of order 1; `limit` where the mask holds.
fn slope_of_order_1(lower: &Tensor, x: &Tensor, result: &Tensor, at_zero: &Tensor, limit: f64) -> Result<Tensor> {
    let safe = ops::masked_fill_scalar(x, at_zero, 1)?;
    let slope = ops::sub(lower, &ops::div(result, &safe)?, 1)?;
    ops::masked_fill_scalar(&slope, at_zero, limit)
}

/// Gradient of `special_i1` and `special_modified_bessel_i1`: i0(x) - i1(x) / x, 1/2 at 0.
pub fn i1_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &slope_of_order_1(&ops::i0(x)?, x, result, &is_tiny(x)?, 0.5)?)
}

/// Gradient of `special_bessel_j1`: j0(x) - j1(x) / x, 1/2 at 0.
pub fn bessel_j1_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &slope_of_order_1(&ops::special_bessel_j0(x)?, x, result, &is_tiny(x)?, 0.5)?)
}

/// Gradient of `special_bessel_y1`: y0(x) - y1(x) / x, infinity at 0.
pub fn bessel_y1_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let at_zero = ops::eq_scalar(x, 0)?;
    ops::mul(grad, &slope_of_order_1(&ops::special_bessel_y0(x)?, x, result, &at_zero, f64::INFINITY)?)
}

/// Gradient of `special_log_ndtr`: sqrt(2 / pi) / erfcx(-x / sqrt(2)) below -1, exp(-x^2 / 2 - result) / sqrt(2 pi) above,
/// each where it neither cancels nor overflows.
pub fn log_ndtr_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    let is_low = ops::lt_scalar(x, -1)?;
    let low = ops::where_scalar_other(&is_low, x, -1)?;
    let scaled = ops::reciprocal(&ops::special_erfcx(&ops::mul_scalar(&low, -FRAC_1_SQRT_2)?)?)?;
    let low = ops::mul_scalar(&scaled, FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    let high = ops::masked_fill_scalar(x, &is_low, 0)?;
    let exponent = ops::add(&ops::mul_scalar(&ops::mul(&high, &high)?, 0.5)?, result, 1)?;
    let exponent = ops::masked_fill_scalar(&ops::neg(&exponent)?, &is_low, 0)?;
    let high = ops::mul_scalar(&ops::exp(&exponent)?, 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
    ops::mul(grad, &ops::where_self(&is_low, &low, &high)?)
}

/// Gradient of `special_i1e`: i0e(x) - i1e(x) (sign(x) + 1 / x), 1/2 at 0.
pub fn i1e_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let at_zero = ops::eq_scalar(x, 0)?;
    let safe = ops::masked_fill_scalar(x, &at_zero, 1)?;
    let factor = ops::add(&ops::sign(x)?, &ops::reciprocal(&safe)?, 1)?;
    let slope = ops::sub(&ops::special_i0e(x)?, &ops::mul(result, &factor)?, 1)?;
    ops::mul(grad, &ops::masked_fill_scalar(&slope, &at_zero, 0.5)?)
}

/// The real part of a complex tensor, as a complex one.
fn real(x: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(&ops::add(x, &ops::conj(x)?, 1)?, 0.5)
}

/// Gradient of `sgn`: 0 for real numbers, what turns the direction for complex ones.
pub fn sgn_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    if !x.is_complex() {
        return zeros(grad);
    }
    let modulus = ops::abs(x)?;
    let along = ops::mul(&real(&ops::mul(grad, &ops::conj(result)?)?)?, result)?;
    let slope = ops::div(&ops::sub(grad, &along, 1)?, &modulus)?;
    without(&slope, &ops::eq_scalar(&modulus, 0)?)
}

/// Gradient of `polygamma`.
pub fn polygamma_backward(grad: &Tensor, n: i64, x: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &ops::polygamma(n + 1, x)?)
}

fn first_of_max(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::logical_or(&ops::ge(a, b)?, &ops::isnan(b)?)
}

fn first_of_min(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::logical_or(&ops::le(a, b)?, &ops::isnan(b)?)
}

/// `grad` but for 0 where the mask holds, and half of it on ties.
fn shared(grad: &Tensor, a: &Tensor, b: &Tensor, loses: &Tensor) -> Result<Tensor> {
    ops::where_self(&ops::eq(a, b)?, &ops::div_scalar(grad, 2)?, &without(grad, loses)?)
}

/// Gradient of `atan2` with respect to its first argument; nothing flows back from the origin.
pub fn atan2_self_backward(grad: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    ops::mul(&ops::mul(grad, x)?, &inverse_square(y, x)?)
}

/// Gradient of `atan2` with respect to its second argument.
pub fn atan2_other_backward(grad: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    ops::mul(&ops::mul(grad, &ops::neg(y)?)?, &inverse_square(y, x)?)
}

fn inverse_square(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let square = ops::add(&ops::mul(y, y)?, &ops::mul(x, x)?, 1)?;
    without(&ops::reciprocal(&square)?, &ops::eq_scalar(&square, 0)?)
}

/// Gradient of `fmax(a, b)` with respect to `a`, shared on ties.
pub fn fmax_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shared(grad, a, b, &ops::logical_not(&first_of_max(a, b)?)?)
}

/// Gradient of `fmax(a, b)` with respect to `b`.
pub fn fmax_other_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shared(grad, a, b, &first_of_max(a, b)?)
}

/// Gradient of `fmin(a, b)` with respect to `a`, shared on ties.
pub fn fmin_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shared(grad, a, b, &ops::logical_not(&first_of_min(a, b)?)?)
}

/// Gradient of `fmin(a, b)` with respect to `b`.
pub fn fmin_other_backward(grad: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shared(grad, a, b, &first_of_min(a, b)?)
}

/// Gradient of `copysign` with respect to the magnitude.
pub fn copysign_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let ratio = without(&ops::div(result, x)?, &ops::eq_scalar(x, 0)?)?;
    ops::mul(grad, &ratio)
}

/// Gradient of `xlogy` with respect to the factor.
pub fn xlogy_self_backward(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let nothing = ops::logical_and(&ops::eq_scalar(x, 0)?, &ops::le_scalar(y, 0)?)?;
    without(&ops::xlogy(grad, y)?, &nothing)
}

/// [`xlogy_self_backward`] with a number.
pub fn xlogy_scalar_backward(grad: &Tensor, x: &Tensor, y: Scalar) -> Result<Tensor> {
    let slope = ops::xlogy_scalar_other(grad, y)?;
    if y.to_f64() > 0.0 { Ok(slope) } else { without(&slope, &ops::eq_scalar(x, 0)?) }
}

/// Gradient of `special_xlog1py` with respect to the factor.
pub fn xlog1py_self_backward(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let nothing = ops::logical_and(&ops::eq_scalar(x, 0)?, &ops::le_scalar(y, -1)?)?;
    without(&ops::mul(&ops::log1p(y)?, grad)?, &nothing)
}

/// [`xlog1py_self_backward`] with a number.
pub fn xlog1py_scalar_backward(grad: &Tensor, x: &Tensor, y: Scalar) -> Result<Tensor> {
    let slope = ops::mul_scalar(grad, y.to_f64().ln_1p())?;
    if y.to_f64() > -1.0 { Ok(slope) } else { without(&slope, &ops::eq_scalar(x, 0)?) }
}

/// Gradient of `special_zeta` of a number.
pub fn zeta_scalar_backward(grad: &Tensor, x: Scalar, q: &Tensor) -> Result<Tensor> {
    let next = ops::special_zeta_self_scalar(x.to_f64() + 1.0, q)?;
    ops::mul(&ops::mul_scalar(grad, -x.to_f64())?, &next)
}

/// Gradient of `remainder` with respect to the divisor.
pub fn remainder_other_backward(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    ops::mul(&ops::neg(grad)?, &ops::div_tensor_mode(x, y, Some("floor"))?)
}

/// Gradient of the remainder of a number with respect to the divisor.
pub fn remainder_number_backward(grad: &Tensor, number: Scalar, y: &Tensor) -> Result<Tensor> {
    let quotient = ops::floor(&ops::mul_scalar(&ops::reciprocal(y)?, number)?)?;
    ops::mul(&ops::neg(grad)?, &quotient)
}

/// Gradient of `angle`: `g i x / |x|^2` of complex numbers, 0 at 0 and of real ones.
pub fn angle_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    if !x.is_complex() {
        return ops::zeros_like(grad, None, None, None, None, None);
    }
    let [re, im] = [ops::real(x)?, ops::imag(x)?];
    let square = ops::add(&ops::mul(&re, &re)?, &ops::mul(&im, &im)?, 1)?;
    let slope = ops::div(&ops::complex(&ops::neg(&im)?, &re)?, &square)?;
    without(&ops::mul(grad, &slope)?, &ops::eq_scalar(x, 0)?)
}

/// Gradient of `logit_backward` with respect to the input: `g go (2 x - 1) / (x (1 - x))^2`.
pub fn logit_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    let bend = ops::add_scalar(&ops::mul_scalar(x, 2)?, -1, 1)?;
    let both = ops::mul(&ops::mul(grad, grad_output)?, &bend)?;
    ops::logit_backward(&ops::div(&both, &ops::mul(x, &ops::rsub_scalar(x, 1, 1)?)?)?, x, eps)
}

/// Gradient of `fmod` with respect to the divisor.
pub fn fmod_other_backward(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    ops::mul(&ops::neg(grad)?, &ops::div_tensor_mode(x, y, Some("trunc"))?)
}

/// Gradient of `elu_backward` with respect to the input or result.
pub fn elu_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: &Tensor,
) -> Result<Tensor> {
    let both = ops::mul_scalar(&ops::mul(grad, grad_output)?, input_scale)?;
    let bend = if is_result { both } else { ops::elu_backward(&both, alpha, scale, input_scale, false, x)? };
    ops::mul(&bend, &ops::lt_scalar(x, 0)?)
}

/// Gradient of `celu`.
pub fn celu_backward(grad: &Tensor, alpha: Scalar, x: &Tensor) -> Result<Tensor> {
    ops::elu_backward(grad, alpha, 1, 1.0 / alpha.to_f64(), false, x)
}

/// Gradient of `celu_` from its result.
pub fn celu_result_backward(grad: &Tensor, alpha: Scalar, result: &Tensor) -> Result<Tensor> {
    ops::elu_backward(grad, alpha, 1, 1.0 / alpha.to_f64(), true, result)
}

/// Gradient of `softplus_backward` with respect to the input.
pub fn softplus_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    beta: Scalar,
    threshold: Scalar,
) -> Result<Tensor> {
    let scaled = ops::mul_scalar(x, beta)?;
    let bend = ops::sigmoid_backward(&ops::mul(grad, grad_output)?, &ops::sigmoid(&scaled)?)?;
    ops::mul_scalar(&ops::mul(&bend, &ops::lt_scalar(&scaled, threshold)?)?, beta)
}

/// Gradient of `glu_backward` with respect to the gradient: `g_a s(b) + g_b a s'(b)`.
pub fn glu_double_backward_grad_output(grad: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let [of_a, of_b] = halves(grad, dim)?;
    let [a, b] = halves(x, dim)?;
    let gate = ops::sigmoid(&b)?;
    let slope = ops::mul(&gate, &ops::rsub_scalar(&gate, 1, 1)?)?;
    ops::add(&ops::mul(&of_a, &gate)?, &ops::mul(&ops::mul(&of_b, &a)?, &slope)?, 1)
}

/// Gradient of `glu_backward` with respect to the input: `g_b go s'(b)` and `go (g_a s'(b) + g_b a s''(b))`.
pub fn glu_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let [of_a, of_b] = halves(grad, dim)?;
    let [a, b] = halves(x, dim)?;
    let gate = ops::sigmoid(&b)?;
    let slope = ops::mul(grad_output, &ops::mul(&gate, &ops::rsub_scalar(&gate, 1, 1)?)?)?;
    let bend = ops::mul(&ops::mul(&of_b, &a)?, &ops::rsub_scalar(&ops::mul_scalar(&gate, 2)?, 1, 1)?)?;
    ops::cat(&[&ops::mul(&of_b, &slope)?, &ops::mul(&slope, &ops::add(&of_a, &bend, 1)?)?], dim)
}

/// The two halves of a dimension.
fn halves(x: &Tensor, dim: i64) -> Result<[Tensor; 2]> {
    let half = x.size(dim)? / 2;
    Ok([ops::narrow(x, dim, 0, half)?, ops::narrow(x, dim, half, half)?])
}

/// Gradient of `hardswish_backward` with respect to the input.
pub fn hardswish_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    let inside = ops::logical_and(&ops::gt_scalar(x, -3)?, &ops::lt_scalar(x, 3)?)?;
    let both = ops::div_scalar(&ops::mul(grad, grad_output)?, 3)?;
    ops::mul(&both, &inside)
}

/// Gradient of `nan_to_num`: nothing flows back from what was replaced.
pub fn nan_to_num_backward(grad: &Tensor, x: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &ops::isfinite(x)?)
}

/// Gradient of `_prelu_kernel` with respect to the input.
pub fn prelu_self_backward(grad: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ops::where_self(&ops::gt_scalar(x, 0)?, grad, &ops::mul(weight, grad)?)
}

/// Gradient of `_prelu_kernel` with respect to the weight.
pub fn prelu_weight_backward(grad: &Tensor, x: &Tensor, _weight: &Tensor) -> Result<Tensor> {
    without(&ops::mul(x, grad)?, &ops::gt_scalar(x, 0)?)
}

/// Gradients of `_prelu_kernel_backward` for the gradient, the input and the weight, from those of its two results.
pub fn prelu_double_backward(
    of_self: Option<&Tensor>,
    of_weight: Option<&Tensor>,
    grad: &Tensor,
    x: &Tensor,
    weight: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let above = ops::gt_scalar(x, 0)?;
    let through = of_self.map(|g| prelu_self_backward(g, x, weight)).transpose()?;
    let across = of_weight.map(|g| without(&ops::mul(x, g)?, &above)).transpose()?;
    let of_grad = match (through, across) {
        (Some(a), Some(b)) => Some(ops::add(&a, &b, 1)?),
        (a, b) => a.or(b),
    };
    let of_x = of_weight.map(|g| without(&ops::mul(g, grad)?, &above)).transpose()?;
    let of_w = of_self.map(|g| without(&ops::mul(g, grad)?, &above)).transpose()?;
    Ok((of_grad, of_x, of_w))
}

/// Gradient of `log_sigmoid_backward` with respect to the input.
pub fn log_sigmoid_double_backward(grad: &Tensor, grad_output: &Tensor, x: &Tensor) -> Result<Tensor> {
    let gate = ops::sigmoid(x)?;
    let bend = ops::mul(&ops::sub_scalar(&gate, 1, 1)?, &gate)?;
    ops::mul(&ops::mul(grad, grad_output)?, &bend)
}

/// Gradient of `rad2deg`.
pub fn rad2deg_backward(grad: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(grad, 180.0 / std::f64::consts::PI)
}

/// Gradient of `deg2rad`.
pub fn deg2rad_backward(grad: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(grad, std::f64::consts::PI / 180.0)
}

/// Gradient of `ldexp` with respect to the factor.
pub fn ldexp_self_backward(grad: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    ops::mul(grad, &conj(&ops::pow_scalar(2.0, exponent)?)?)
}

/// Gradient of `ldexp` with respect to the exponent.
pub fn ldexp_other_backward(grad: &Tensor, result: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(&ops::mul(grad, &conj(result)?)?, std::f64::consts::LN_2)
}

/// A part of a complex gradient: 0 is the real one, 1 the imaginary one.
pub fn complex_part_backward(grad: &Tensor, part: i64) -> Result<Tensor> {
    ops::select_int(&ops::view_as_real(grad)?, -1, part)
}

/// Gradient of `polar` with respect to the modulus.
pub fn polar_abs_backward(grad: &Tensor, result: &Tensor) -> Result<Tensor> {
    complex_part_backward(&ops::mul(&ops::conj(grad)?, &ops::sgn(result)?)?, 0)
}

/// Gradient of `polar` with respect to the angle.
pub fn polar_angle_backward(grad: &Tensor, result: &Tensor) -> Result<Tensor> {
    ops::neg(&complex_part_backward(&ops::mul(&ops::conj(grad)?, result)?, 1)?)
}

/// Gradient of `mvlgamma`.
pub fn mvlgamma_backward(grad: &Tensor, x: &Tensor, p: i64) -> Result<Tensor> {
    let start = -(p as f64) / 2.0 + 0.5;
    let terms = ops::arange_start_step(start, 0.5, 0.5, Some(x.dtype()), None, Some(x.device()), None)?;
    let slopes = ops::digamma(&ops::add(&ops::unsqueeze(x, -1)?, &terms, 1)?)?;
    ops::mul(grad, &ops::sum_dim_int_list(&slopes, Some(&[-1]), false, None)?)
}

/// Gradient of a distance with respect to the first point.
pub fn dist_backward(grad: &Tensor, a: &Tensor, b: &Tensor, p: Scalar, result: &Tensor) -> Result<Tensor> {
    super::vector_norm_backward(grad, &ops::sub(a, b, 1)?, result, p, None, false)
}

/// Gradient of a norm over dimensions, the 2-norm where absent.
pub fn norm_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    p: Option<Scalar>,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    super::vector_norm_backward(grad, x, result, p.unwrap_or(Scalar::Float(2.0)), Some(dim), keepdim)
}

/// Gradient of a norm of everything.
pub fn norm_all_backward(grad: &Tensor, x: &Tensor, result: &Tensor, p: Scalar) -> Result<Tensor> {
    super::vector_norm_backward(grad, x, result, p, None, false)
}

/// Gradient of running extrema: each hands its own to the element that it is.
pub fn cumulative_extremum_backward(grad: &Tensor, x: &Tensor, indices: &Tensor, dim: i64) -> Result<Tensor> {
    if x.numel() == 0 {
        return zeros(x);
    }
    ops::scatter_add(&zeros(x)?, dim, indices, grad)
}

/// Gradient of `logcumsumexp`.
pub fn logcumsumexp_backward(grad: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if x.dim() == 0 || x.numel() == 0 {
        return Ok(grad.clone());
    }
    // sum over j >= i of grad[j] exp(x[i] - result[j]), the positive and the negative gradients in logarithms
    let side = |sign: f64| {
        let part = ops::clamp_min(&ops::mul_scalar(grad, sign)?, 0)?;
        let logs = ops::sub(&ops::log(&part)?, result, 1)?;
        let sums = ops::flip(&ops::logcumsumexp(&ops::flip(&logs, &[dim])?, dim)?, &[dim])?;
        ops::exp(&ops::add(&sums, x, 1)?)
    };
    ops::sub(&side(1.0)?, &side(-1.0)?, 1)
}
