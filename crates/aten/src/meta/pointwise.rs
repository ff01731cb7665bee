//! Shape and dtype rules of element-wise operators that check more than their kind's standard rule.

use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::{DType, Result, Scalar, check, check_not_implemented, check_type};

use crate::iterate::{self, Term};
use crate::{Out, Tensor};

/// Refuses an `alpha` of a higher category than the computation's (`alpha_check`).
fn check_alpha(dtype: DType, alpha: Scalar) -> Result<()> {
    check!(!alpha.is_boolean() || dtype == DType::Bool, "Boolean alpha only supported for Boolean results.");
    check!(
        dtype.is_differentiable() || alpha.is_integral(true),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    check!(
        dtype.is_complex() || !alpha.is_complex(),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    alpha.check_fits(dtype)
}

/// `self + alpha * other`
pub fn add<'a>(out: Out<'_>, self_: &'a Tensor, other: impl Term<'a>, alpha: Scalar) -> Result<TensorIter> {
    let iter = iterate::binary(out, self_, other)?;
    check_alpha(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `self + alpha * other` with a number
pub fn add_scalar(out: Out<'_>, self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<TensorIter> {
    add(out, self_, other, alpha)
}

fn check_sub(a: DType, b: DType) -> Result<()> {
    check_not_implemented!(
        a != DType::Bool || b != DType::Bool,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator \
         instead."
    );
    check_not_implemented!(
        a != DType::Bool && b != DType::Bool,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the \
         `~` or `logical_not()` operator instead."
    );
    Ok(())
}

/// `self - alpha * other`
pub fn sub(out: Out<'_>, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<TensorIter> {
    check_sub(self_.dtype(), other.dtype())?;
    let iter = iterate::binary(out, self_, other)?;
    check_alpha(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `self - alpha * other` with a number
pub fn sub_scalar(out: Out<'_>, self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<TensorIter> {
    check_sub(self_.dtype(), other.dtype())?;
    let iter = iterate::binary(out, self_, other)?;
    check_alpha(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `other - alpha * self`
pub fn rsub(out: Out<'_>, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<TensorIter> {
    sub(out, other, self_, alpha)
}

/// `other - alpha * self` with a number
pub fn rsub_scalar(out: Out<'_>, self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<TensorIter> {
    check_sub(other.dtype(), self_.dtype())?;
    let iter = iterate::binary(out, other, self_)?;
    check_alpha(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `-self`
pub fn neg(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(
        self_.dtype() != DType::Bool,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or \
         `logical_not()` operator instead."
    );
    iterate::unary(out, self_)
}

/// `|self|`: a complex input gives its real dtype, out of place.
pub fn abs(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    if !self_.is_complex() {
        return iterate::unary(out, self_);
    }
    check!(!matches!(out, Out::InPlace(_)), "In-place abs is not supported for complex tensors.");
    IterConfig::unary_op(out.target(0).map(Tensor::as_impl), self_.as_impl())
        .check_all_same_dtype(false)
        .static_dtype(self_.dtype().to_real())
        .build()
}

/// `sign(self)`
pub fn sign(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(
        !self_.is_complex(),
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
    );
    iterate::unary(out, self_)
}

/// `ceil(self)`
pub fn ceil(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(!self_.is_complex(), "ceil is not supported for complex inputs");
    iterate::unary(out, self_)
}

/// `floor(self)`
pub fn floor(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(!self_.is_complex(), "floor is not supported for complex inputs");
    iterate::unary(out, self_)
}

/// The nearest integer.
pub fn round(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(!self_.is_complex(), "round is not supported for complex inputs");
    iterate::unary(out, self_)
}

/// The integer part.
pub fn trunc(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(!self_.is_complex(), "trunc is not supported for complex inputs");
    iterate::unary(out, self_)
}

/// `max(self, 0)`
pub fn relu(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_not_implemented!(self_.dtype() != DType::Bool, "Boolean inputs not supported for relu");
    check_not_implemented!(!self_.is_complex(), "clamp is not supported for complex types");
    iterate::unary(out, self_)
}

/// The number that stands for gelu's `approximate` in kernels: 1 for "tanh".
fn gelu_form(approximate: &str) -> Result<Scalar> {
    match approximate {
        "none" => Ok(Scalar::Int(0)),
        "tanh" => Ok(Scalar::Int(1)),
        _ => tensor_core::bail!(Runtime, "approximate argument must be either none or tanh."),
    }
}

/// `gelu(self)`
pub fn gelu(out: Out<'_>, self_: &Tensor, approximate: &str) -> Result<TensorIter> {
    let form = gelu_form(approximate)?;
    let mut iter = iterate::unary(out, self_)?;
    iter.set_params(&[form]);
    Ok(iter)
}

/// Gradient of `gelu`
pub fn gelu_backward(out: Out<'_>, grad: &Tensor, self_: &Tensor, approximate: &str) -> Result<TensorIter> {
    let form = gelu_form(approximate)?;
    let mut iter = iterate::binary(out, grad, self_)?;
    iter.set_params(&[form]);
    Ok(iter)
}

/// Gradient of `sigmoid`
pub fn sigmoid_backward(out: Out<'_>, grad: &Tensor, output: &Tensor) -> Result<TensorIter> {
    iterate::binary(out, grad, output)
}

/// Gradient of `tanh`
pub fn tanh_backward(out: Out<'_>, grad: &Tensor, output: &Tensor) -> Result<TensorIter> {
    iterate::binary(out, grad, output)
}

/// Gradient of `silu`
pub fn silu_backward(out: Out<'_>, grad: &Tensor, self_: &Tensor) -> Result<TensorIter> {
    iterate::binary(out, grad, self_)
}

/// `self` above a threshold, a number elsewhere: idempotent, so overlaps do not matter.
pub fn threshold(out: Out<'_>, self_: &Tensor, threshold: Scalar, value: Scalar) -> Result<TensorIter> {
    threshold.check_fits(self_.dtype())?;
    value.check_fits(self_.dtype())?;
    IterConfig::unary_op(out.target(0).map(Tensor::as_impl), self_.as_impl())
        .check_mem_overlap(false)
        .promote_inputs(true)
        .cast_common_dtype_to_outputs(true)
        .enforce_safe_casting_to_output(true)
        .build()
}

/// True where an element is no number.
pub fn isnan(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == DType::Bool,
            "Expected out tensor to have dtype bool, but got {} instead",
            target.dtype().c_name()
        );
    }
    iterate::predicate(out, self_)
}

/// Gradient of `threshold`; kernels see the tensor, then the gradient.
pub fn threshold_backward(out: Out<'_>, grad: &Tensor, self_: &Tensor, threshold: Scalar) -> Result<TensorIter> {
    let iter = iterate::binary(out, self_, grad)?;
    threshold.check_fits(iter.common_dtype())?;
    Ok(iter)
}

fn check_maximum(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    check_type!(!a.is_complex() && !b.is_complex(), "{name} not implemented for complex tensors.");
    Ok(())
}

/// `maximum(self, other)`
pub fn maximum(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<TensorIter> {
    check_maximum("maximum", self_, other)?;
    iterate::binary(out, self_, other)
}

/// `minimum(self, other)`
pub fn minimum(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<TensorIter> {
    check_maximum("minimum", self_, other)?;
    iterate::binary(out, self_, other)
}

fn check_lerp(name: &str, self_: &Tensor, other: &Tensor) -> Result<()> {
    check!(
        self_.dtype() == other.dtype(),
        "expected dtype {} for `{name}` but got dtype {}",
        self_.dtype().c_name(),
        other.dtype().c_name()
    );
    Ok(())
}

/// `self + weight * (end - self)` with a number
pub fn lerp_scalar(out: Out<'_>, self_: &Tensor, end: &Tensor, weight: Scalar) -> Result<TensorIter> {
    check_lerp("end", self_, end)?;
    weight.check_fits(self_.dtype().opmath())?;
    iterate::binary(out, self_, end)
}

/// `self + weight * (end - self)`
pub fn lerp(out: Out<'_>, self_: &Tensor, end: &Tensor, weight: &Tensor) -> Result<TensorIter> {
    check_lerp("end", self_, end)?;
    let weight = if weight.dim() == 0 && weight.dtype() != self_.dtype() {
        crate::Arg::Owned(crate::ops::to_dtype(weight, self_.dtype(), false, false, None)?)
    } else {
        crate::Arg::Ref(weight)
    };
    check_lerp("weight", self_, &weight)?;
    iterate::ternary(out, self_, end, &weight)
}

/// `self + value * tensor1 * tensor2`
pub fn addcmul(out: Out<'_>, self_: &Tensor, tensor1: &Tensor, tensor2: &Tensor, value: Scalar) -> Result<TensorIter> {
    let iter = iterate::ternary(out, self_, tensor1, tensor2)?;
    value.check_fits(iter.common_dtype().opmath())?;
    Ok(iter)
}

/// `self + value * tensor1 / tensor2`
pub fn addcdiv(out: Out<'_>, self_: &Tensor, tensor1: &Tensor, tensor2: &Tensor, value: Scalar) -> Result<TensorIter> {
    check!(
        !(tensor1.dtype().is_integral(true) && tensor2.dtype().is_integral(true)),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true \
         division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * \
         torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for \
         float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), \
         for all dtypes."
    );
    let iter = iterate::ternary(out, self_, tensor1, tensor2)?;
    value.check_fits(iter.common_dtype().opmath())?;
    Ok(iter)
}

/// The `n`-th derivative of `digamma`.
pub fn polygamma(out: Out<'_>, n: i64, self_: &Tensor) -> Result<TensorIter> {
    check!(n >= 0, "polygamma(n, x) does not support negative n.");
    iterate::unary_float(out, self_)
}

/// The larger one, or the one that is a number.
pub fn fmax(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<TensorIter> {
    check_maximum("fmax", self_, other)?;
    iterate::binary(out, self_, other)
}

/// The smaller one, or the one that is a number.
pub fn fmin(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<TensorIter> {
    check_maximum("fmin", self_, other)?;
    iterate::binary(out, self_, other)
}

/// 0, 1, or `values` at zero.
pub fn heaviside(out: Out<'_>, self_: &Tensor, values: &Tensor) -> Result<TensorIter> {
    let complex = [Some(self_), Some(values), out.target(0)].into_iter().flatten().any(Tensor::is_complex);
    check!(!complex, "heaviside is not yet implemented for complex tensors.");
    let same = self_.dtype() == values.dtype() && out.target(0).is_none_or(|out| out.dtype() == self_.dtype());
    check!(same, "heaviside is not yet implemented for tensors with different dtypes.");
    iterate::binary(out, self_, values)
}

fn check_predicate(name: &str, x: &Tensor, out: Out<'_>) -> Result<()> {
    if let Some(target) = out.target(0) {
        check!(target.dtype() == DType::Bool, "{name} does not support non-boolean outputs.");
    }
    let refused =
        if name == "signbit" { "is not implemented for complex tensors." } else { "does not support complex inputs." };
    check!(!x.is_complex(), "{name} {refused}");
    Ok(())
}

/// True for infinity.
pub fn isposinf(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_predicate("isposinf", self_, out)?;
    iterate::predicate(out, self_)
}

/// True for minus infinity.
pub fn isneginf(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_predicate("isneginf", self_, out)?;
    iterate::predicate(out, self_)
}

/// True for negative numbers and -0.
pub fn signbit(out: Out<'_>, self_: &Tensor) -> Result<TensorIter> {
    check_predicate("signbit", self_, out)?;
    iterate::predicate(out, self_)
}

/// The numbers of `elu` as kernels take them.
pub(crate) fn elu_numbers(alpha: Scalar, scale: Scalar, input_scale: Scalar) -> [Scalar; 3] {
    [Scalar::Float(alpha.to_f64() * scale.to_f64()), scale, input_scale]
}

/// Scaled above 0, an exponential below.
pub fn elu(out: Out<'_>, self_: &Tensor, alpha: Scalar, scale: Scalar, input_scale: Scalar) -> Result<TensorIter> {
    let mut iter = iterate::unary(out, self_)?;
    iter.set_params(&elu_numbers(alpha, scale, input_scale));
    Ok(iter)
}

/// Gradient of `leaky_relu`; from its result only where that tells the sign of the input.
pub fn leaky_relu_backward(
    out: Out<'_>,
    grad: &Tensor,
    self_: &Tensor,
    negative_slope: Scalar,
    self_is_result: bool,
) -> Result<TensorIter> {
    check!(
        !self_is_result || negative_slope.to_f64() >= 0.0,
        "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is caused by \
         calling in-place forward function with a negative slope, please call out-of-place version instead. File an issue at \
         https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward calculation with negative \
         slope"
    );
    iterate::binary(out, grad, self_)
}

/// Towards zero by a number.
pub fn softshrink(out: Out<'_>, self_: &Tensor, lambd: Scalar) -> Result<TensorIter> {
    let value = lambd.to_f64();
    let (largest, shown) = match self_.dtype() {
        DType::F16 => (65504.0, "65504"),
        DType::BF16 => (f64::from(f32::from_bits(0x7f7f_0000)), "3.38953e+38"),
        DType::F32 => (f64::from(f32::MAX), "3.40282e+38"),
        _ => (f64::MAX, "1.79769e+308"),
    };
    check!(
        (0.0..=largest).contains(&value),
        "lambda must be in range [0, {shown}] for input dtype {}, but found {}",
        self_.dtype().cpp_name(),
        tensor_core::stream::Streamed(value)
    );
    iterate::unary(out, self_)
}

/// The logarithm of the odds; a negative parameter stands for no bounds.
pub fn logit(out: Out<'_>, self_: &Tensor, eps: Option<f64>) -> Result<TensorIter> {
    let mut iter = iterate::unary_float(out, self_)?;
    iter.set_params(&[Scalar::Float(eps.unwrap_or(-1.0))]);
    Ok(iter)
}

/// Times a weight below 0.
pub fn _prelu_kernel(out: Out<'_>, self_: &Tensor, weight: &Tensor) -> Result<TensorIter> {
    iterate::binary(out, self_, weight)
}
