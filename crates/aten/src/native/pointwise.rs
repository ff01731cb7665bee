//! Element-wise operators whose kernel or dtype depends on the values of their arguments.

use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::promotion::{ResultType, can_cast};
use tensor_core::strides;
use tensor_core::{DType, Device, Result, Scalar, bail, check, check_index, check_not_implemented};

use crate::iterate::{self, Term};
use crate::kernels::{self, Columns, IterKernel};
use crate::out::Out;
use crate::{Tensor, ops};

fn column(
    pick: fn(&kernels::PointwiseKernels) -> &Columns<IterKernel>,
) -> impl FnOnce(Device) -> Result<&'static Columns<IterKernel>> {
    move |device| Ok(pick(kernels::pointwise(device)?))
}

/// `self / other`, rounded by mode.
pub fn div_tensor_mode<'a>(
    out: Out<'_>,
    self_: &'a Tensor,
    other: impl Term<'a>,
    rounding_mode: Option<&str>,
) -> Result<Tensor> {
    match rounding_mode {
        None => iterate::run(iterate::binary_float(out, self_, other)?, out, "div_cpu", column(|k| &k.div)),
        Some("trunc") => {
            iterate::run(iterate::binary(out, self_, other)?, out, "div_trunc_cpu", column(|k| &k.div_trunc))
        }
        Some("floor") => {
            iterate::run(iterate::binary(out, self_, other)?, out, "div_floor_cpu", column(|k| &k.div_floor))
        }
        Some(mode) => {
            bail!(Runtime, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
        }
    }
}

/// `self / other`, rounded by mode, with a number.
pub fn div_scalar_mode(out: Out<'_>, self_: &Tensor, other: Scalar, rounding_mode: Option<&str>) -> Result<Tensor> {
    div_tensor_mode(out, self_, other, rounding_mode)
}

/// The iterator of a clamp by numbers, whose complex ones are refused before or after the result's dtype is looked at.
fn clamped(out: Out<'_>, self_: &Tensor, bounds: [Option<Scalar>; 2], complex_first: bool) -> Result<TensorIter> {
    check_not_implemented!(!self_.is_complex(), "clamp is not supported for complex types");
    let complex = bounds.iter().flatten().any(|b| b.is_complex());
    check_not_implemented!(!(complex && complex_first), "clamp is not supported for complex types");
    let mut config = IterConfig::unary_op(out.target(0).map(Tensor::as_impl), self_.as_impl())
        .promote_inputs(true)
        .cast_common_dtype_to_outputs(true);
    for bound in bounds.into_iter().flatten() {
        config = config.number(bound);
    }
    let of_tensor = ResultType::default().tensor(self_.as_impl());
    let wanted = bounds.into_iter().flatten().fold(of_tensor, ResultType::scalar).finish();
    match out {
        Out::Into([target]) if !target.is_same(self_) => check!(
            target.dtype() == wanted,
            "Found dtype {} but expected {}",
            target.dtype().cpp_name(),
            wanted.cpp_name()
        ),
        Out::Into(_) | Out::InPlace(_) => check!(
            can_cast(wanted, self_.dtype()),
            "result type {} can't be cast to the desired output type {}",
            wanted.cpp_name(),
            self_.dtype().c_name()
        ),
        _ => {}
    }
    check_not_implemented!(!complex || bounds.iter().all(Option::is_some), "clamp is not supported for complex types");
    check!(!complex, "value cannot be converted to type double without overflow");
    config.build()
}

/// A lower or upper bound as an element: beyond the range of an integer dtype it either bounds nothing or leaves nothing.
fn bound(dtype: DType, value: Scalar, upper: bool) -> Result<Scalar> {
    if !dtype.is_integral(false) {
        value.check_fits(dtype)?;
        return Ok(value);
    }
    let unused = 64 - 8 * dtype.itemsize();
    let (lowest, highest) = match dtype {
        DType::U8 => (0, 255),
        _ => (i64::MIN >> unused, i64::MAX >> unused),
    };
    let value = value.to_i64();
    let side = if upper { "max" } else { "min" };
    check!(
        if upper { value >= lowest } else { value <= highest },
        "Clamp {side} value {value} is outside the representable range of {}",
        dtype.cpp_name()
    );
    Ok(Scalar::Int(value.clamp(lowest, highest)))
}

/// `self` between two numbers; NaN bounds make every element NaN.
pub fn clamp(out: Out<'_>, self_: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
    let mut iter = clamped(out, self_, [min, max], false)?;
    let dtype = iter.common_dtype();
    match (min, max) {
        (None, None) => bail!(Runtime, "torch.clamp: At least one of 'min' or 'max' must not be None"),
        (Some(min), None) => lower(out, iter, min),
        (None, Some(max)) => upper(out, iter, max),
        (Some(min), Some(max)) => {
            let nan = [min, max].into_iter().find(|b| b.to_f64().is_nan());
            let (min, max) = (nan.unwrap_or(min), nan.unwrap_or(max));
            iter.set_params(&[bound(dtype, min, false)?, bound(dtype, max, true)?]);
            iterate::run(iter, out, "clamp_scalar_cpu", column(|k| &k.clamp))
        }
    }
}

fn lower(out: Out<'_>, mut iter: TensorIter, min: Scalar) -> Result<Tensor> {
    iter.set_params(&[bound(iter.common_dtype(), min, false)?]);
    iterate::run(iter, out, "clamp_min_scalar_cpu", column(|k| &k.clamp_min))
}

fn upper(out: Out<'_>, mut iter: TensorIter, max: Scalar) -> Result<Tensor> {
    iter.set_params(&[bound(iter.common_dtype(), max, true)?]);
    iterate::run(iter, out, "clamp_max_scalar_cpu", column(|k| &k.clamp_max))
}

/// `self`, at least a number.
pub fn clamp_min(out: Out<'_>, self_: &Tensor, min: Scalar) -> Result<Tensor> {
    lower(out, clamped(out, self_, [Some(min), None], true)?, min)
}

/// `self`, at most a number.
pub fn clamp_max(out: Out<'_>, self_: &Tensor, max: Scalar) -> Result<Tensor> {
    upper(out, clamped(out, self_, [None, Some(max)], true)?, max)
}

/// `self` between the elements of two tensors.
pub fn clamp_tensor(out: Out<'_>, self_: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Tensor> {
    check_not_implemented!(!self_.is_complex(), "clamp is not supported for complex types");
    match (min, max) {
        (None, None) => bail!(Runtime, "torch.clamp: At least one of 'min' or 'max' must not be None"),
        (Some(min), None) => clamp_min_tensor(out, self_, min),
        (None, Some(max)) => clamp_max_tensor(out, self_, max),
        (Some(min), Some(max)) => {
            iterate::run(iterate::ternary(out, self_, min, max)?, out, "clamp_cpu", column(|k| &k.clamp_tensor))
        }
    }
}

/// `self`, at least the elements of a tensor.
pub fn clamp_min_tensor(out: Out<'_>, self_: &Tensor, min: &Tensor) -> Result<Tensor> {
    iterate::run(iterate::binary(out, self_, min)?, out, "maximum_cpu", column(|k| &k.maximum))
}

/// `self`, at most the elements of a tensor.
pub fn clamp_max_tensor(out: Out<'_>, self_: &Tensor, max: &Tensor) -> Result<Tensor> {
    iterate::run(iterate::binary(out, self_, max)?, out, "minimum_cpu", column(|k| &k.minimum))
}

/// `self` where the condition holds, else `other`.
pub fn where_self(out: Out<'_>, condition: &Tensor, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check!(
        matches!(condition.dtype(), DType::Bool | DType::U8),
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        condition.dtype().cpp_name()
    );
    let common = ResultType::default().tensor(self_.as_impl()).tensor(other.as_impl()).finish();
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == common,
            "Expected out type to be {} but got {}",
            common.cpp_name(),
            target.dtype().cpp_name()
        );
    }
    let cast = |t: &Tensor| {
        if t.dtype() == common {
            Ok(Tensor::clone(t))
        } else {
            ops::_to_copy(t, Some(common), None, None, None, false, None)
        }
    };
    let (self_, other) = (cast(self_)?, cast(other)?);
    let condition = if condition.dtype() == DType::Bool {
        Tensor::clone(condition)
    } else {
        ops::_to_copy(condition, Some(DType::Bool), None, None, None, false, None)?
    };
    let iter = IterConfig::new()
        .output(out.target(0).map(Tensor::as_impl))
        .input(condition.as_impl())
        .input(self_.as_impl())
        .input(other.as_impl())
        .check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .static_dtype(common)
        .build()?;
    run_as(iter, out, common, "where_cpu", column(|k| &k.where_self))
}

/// `iterate::run` with the kernel of another dtype than the plan's first input.
fn run_as(
    iter: TensorIter,
    out: Out<'_>,
    dtype: DType,
    name: &'static str,
    column: impl FnOnce(Device) -> Result<&'static Columns<IterKernel>>,
) -> Result<Tensor> {
    if !iter.device().is_meta() {
        let kernel = column(iter.device())?.get(dtype, name)?;
        if iter.numel() > 0 {
            kernel(&iter)?;
        }
    }
    if !matches!(out, Out::Fresh) {
        iter.output(0).bump_version();
    }
    match iter.into_outputs().next() {
        Some(output) => Ok(Tensor::from_impl(output)),
        None => bail!(Runtime, "{name}: the plan has no output"),
    }
}

/// Sets the elements of `self` where the mask, broadcast to it, holds.
pub fn masked_fill_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    check!(
        mask.dtype() == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().c_name()
    );
    value.check_fits(self_.dtype())?;
    let shape = strides::broadcast(self_.sizes(), mask.sizes())?;
    check!(
        shape.as_slice() == self_.sizes(),
        "output with shape {} doesn't match the broadcast shape {}",
        strides::show(self_.sizes()),
        strides::show(&shape)
    );
    let (sizes, strides) = strides::expand(mask.sizes(), mask.strides(), self_.sizes())?;
    let mask = mask.view_of_storage(&sizes, &strides, mask.storage_offset())?;
    tensor_core::overlap::assert_no_partial_overlap(self_.as_impl(), mask.as_impl())?;
    // Elements that share memory are allowed: some of them are set.
    let mut iter = IterConfig::new()
        .output(Some(self_.as_impl()))
        .input(self_.as_impl())
        .input(mask.as_impl())
        .check_all_same_dtype(false)
        .check_mem_overlap(false)
        .resize_outputs(false)
        .build()?;
    iter.set_params(&[value]);
    run_as(iter, Out::InPlace(self_), self_.dtype(), "masked_fill", column(|k| &k.masked_fill))?;
    Ok(())
}

/// `self ^ exponent`, element by element.
pub fn pow_tensor_tensor(out: Out<'_>, self_: &Tensor, exponent: &Tensor) -> Result<Tensor> {
    iterate::run(iterate::binary(out, self_, exponent)?, out, "pow", column(|k| &k.pow))
}

/// `self ^ exponent` with a number.
pub fn pow_tensor_scalar(out: Out<'_>, self_: &Tensor, exponent: Scalar) -> Result<Tensor> {
    check!(
        !(self_.dtype().is_integral(true) && exponent.is_integral(true) && exponent.to_i64() < 0),
        "Integers to negative integer powers are not allowed."
    );
    let mut iter = IterConfig::unary_op(out.target(0).map(Tensor::as_impl), self_.as_impl())
        .promote_inputs(true)
        .cast_common_dtype_to_outputs(true)
        .enforce_safe_casting_to_output(true)
        .number(exponent)
        .build()?;
    if exponent.equals(0.0) || exponent.equals(1.0) {
        // x^0 = 1 and x^1 = x for every dtype, bool among them.
        let result = Tensor::from_impl(iter.output(0).clone());
        if exponent.equals(0.0) {
            ops::fill_scalar_(&result, 1)?;
        } else {
            ops::copy_(&result, self_, false)?;
        }
        return Ok(result);
    }
    iter.set_params(&[exponent]);
    iterate::run(iter, out, "pow", column(|k| &k.pow_tensor_scalar))
}

/// A number to the power of `exponent`.
pub fn pow_scalar(out: Out<'_>, self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    if let Out::Fresh = out {
        let base = Tensor::wrapped_number(self_)?;
        let dtype = ResultType::default().tensor(base.as_impl()).tensor(exponent.as_impl()).finish();
        let result = Tensor::new_dense(exponent.sizes(), dtype, exponent.device())?;
        return pow_scalar(Out::Into(&[&result]), self_, exponent);
    }
    iterate::run(iterate::binary(out, self_, exponent)?, out, "pow", column(|k| &k.pow))
}

/// What a loss does with its elements, as numbers in schemas.
fn check_reduction(reduction: i64) -> Result<()> {
    check_index!((0..=2).contains(&reduction), "{reduction} is not a valid value for reduction");
    Ok(())
}

/// Squared differences: each (0), their mean (1) or sum (2).
pub fn mse_loss(out: Out<'_>, self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    check_reduction(reduction)?;
    let run =
        |out: Out<'_>| iterate::run(iterate::binary(out, self_, target)?, out, "mse_cpu", column(|k| &k.mse_loss));
    if reduction == 0 {
        return run(out);
    }
    let each = run(Out::Fresh)?;
    let whole = if reduction == 1 { ops::mean(&each, None)? } else { ops::sum(&each, None)? };
    finish(out, whole)
}

/// Brings a result that was computed apart to where it belongs.
fn finish(out: Out<'_>, result: Tensor) -> Result<Tensor> {
    match out.target(0) {
        None => Ok(result),
        Some(target) => {
            crate::out::Dtypes::Cast.copy(target, &result)?;
            Ok(Tensor::clone(target))
        }
    }
}

/// Gradient of `mse_loss` with respect to `self`.
pub fn mse_loss_backward(
    out: Out<'_>,
    grad: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let norm = if reduction == 1 { 2.0 / self_.numel() as f64 } else { 2.0 };
    if let Out::Fresh = out {
        let result = Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())?;
        return mse_loss_backward(Out::Into(&[&result]), grad, self_, target, reduction);
    }
    let mut iter = iterate::ternary(out, grad, self_, target)?;
    iter.set_params(&[Scalar::Float(norm)]);
    iterate::run(iter, out, "mse_backward_cpu_out", column(|k| &k.mse_loss_backward))
}

/// `self / other`, rounded down.
pub fn floor_divide(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    iterate::run(iterate::binary(out, self_, other)?, out, "div_floor_cpu", column(|k| &k.div_floor))
}

/// Gradient of `elu` from its input or result.
pub fn elu_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    self_or_result: &Tensor,
) -> Result<Tensor> {
    check!(
        !is_result || alpha.to_f64() >= 0.0,
        "In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by calling \
         in-place forward function with a negative slope, please call out-of-place version instead."
    );
    let mut iter = iterate::binary(out, grad_output, self_or_result)?;
    iter.set_params(&crate::meta::pointwise::elu_numbers(alpha, scale, input_scale));
    let pick = if is_result { column(|k| &k.elu_backward_result) } else { column(|k| &k.elu_backward) };
    iterate::run(iter, out, "elu_backward_cpu", pick)
}

/// x between two numbers.
pub fn hardtanh(out: Out<'_>, self_: &Tensor, min_val: Scalar, max_val: Scalar) -> Result<Tensor> {
    if self_.dtype() == DType::Bool {
        bail!(NotImplemented, "Bool inputs not supported for hardtanh");
    }
    let integral = self_.dtype().is_integral(false);
    let own = |value: Scalar| if integral { Scalar::Int(value.to_i64()) } else { value };
    let (mut low, high) = (own(min_val), own(max_val));
    if self_.dtype() == DType::U8 {
        check!(high.to_i64() >= 0, "Clamp max value {} is outside the representable range of Byte", high.to_i64());
        low = Scalar::Int(low.to_i64().max(0));
    }
    check!(low.to_f64() <= high.to_f64(), "min_val cannot be greater than max_val");
    if let Some(empty) = fresh_empty(out, self_)? {
        return Ok(empty);
    }
    clamp(out, self_, Some(low), Some(high))
}

/// The fresh result of an empty tensor: laid out as `empty_like` has it, where an iterator would choose other strides.
fn fresh_empty(out: Out<'_>, x: &Tensor) -> Result<Option<Tensor>> {
    if !matches!(out, Out::Fresh) || x.numel() > 0 {
        return Ok(None);
    }
    ops::empty_like(x, None, None, None, None, None).map(Some)
}

/// Numbers in place of no-numbers (0) and infinities (the largest and smallest ones).
pub fn nan_to_num(
    out: Out<'_>,
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == self_.dtype(),
            "nan_to_num: dtype of out: {} should be same as input: {}",
            target.dtype().cpp_name(),
            self_.dtype().cpp_name()
        );
    }
    if let Some(empty) = fresh_empty(out, self_)? {
        return Ok(empty);
    }
    if self_.dtype().is_integral(true) {
        let slot = out.prepare(0, crate::out::Spec::like(self_.sizes(), self_), &[])?;
        if !(slot.is_direct() && matches!(out, Out::InPlace(_))) {
            crate::composite::copy::copy_(&slot.tensor, self_, false)?;
        }
        return slot.finish();
    }
    if self_.is_complex() {
        let parts = ops::nan_to_num(&ops::view_as_real(self_)?, nan, posinf, neginf)?;
        return finish(out, ops::view_as_complex(&parts)?);
    }
    let largest = match self_.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    let numbers = [nan.unwrap_or(0.0), posinf.unwrap_or(largest), neginf.unwrap_or(-largest)];
    let mut iter = iterate::unary(out, self_)?;
    iter.set_params(&numbers.map(Scalar::Float));
    iterate::run(iter, out, "nan_to_num", column(|k| &k.nan_to_num))
}

/// One half of a dimension times the sigmoid of the other.
pub fn glu(out: Out<'_>, self_: &Tensor, dim: i64) -> Result<Tensor> {
    check!(self_.dim() > 0, "glu does not support 0-dimensional tensors");
    let d = strides::wrap_dim(dim, self_.dim())?;
    let size = self_.sizes()[d];
    check!(size % 2 == 0, "Halving dimension must be even, but dimension {d} is size {size}");
    let half = |start: i64| crate::composite::view::narrow(self_, d as i64, start, size / 2);
    let iter = iterate::binary(out, &half(0)?, &half(size / 2)?)?;
    iterate::run(iter, out, "glu_cpu", column(|k| &k.glu))
}

/// The logarithm of the sigmoid, and e to the power of minus the magnitude.
pub fn log_sigmoid_forward(out: Out<'_>, self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let first = out.target(0);
    let alone: [&Tensor; 1];
    let to = match first {
        Some(target) => {
            alone = [target];
            Out::Into(&alone)
        }
        None => Out::Fresh,
    };
    let output = iterate::run(iterate::unary(to, self_)?, to, "log_sigmoid_cpu", column(|k| &k.log_sigmoid))?;
    let buffer = ops::exp(&ops::neg(&ops::abs(self_)?)?)?;
    match out.target(1) {
        None => Ok((output, buffer)),
        Some(target) => {
            crate::out::copy_into(target, &buffer)?;
            Ok((output, Tensor::clone(target)))
        }
    }
}

/// Gradient of the logarithm of the sigmoid.
pub fn log_sigmoid_backward(out: Out<'_>, grad_output: &Tensor, self_: &Tensor, _buffer: &Tensor) -> Result<Tensor> {
    let iter = iterate::binary(out, grad_output, self_)?;
    iterate::run(iter, out, "log_sigmoid_backward_cpu", column(|k| &k.log_sigmoid_backward))
}
