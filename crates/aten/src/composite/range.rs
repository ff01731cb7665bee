//! Factories of regular values: ranges and unit matrices.

use tensor_core::iter::IterConfig;
use tensor_core::stream::Streamed;
use tensor_core::{DType, Device, Layout, Result, Scalar, bail, check, check_not_implemented, promotion};

use crate::{Tensor, kernels, ops};

/// The numbers from 0 up to `end`.
pub fn arange(
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange_start_step(Scalar::Int(0), end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// The numbers from `start` up to `end`.
pub fn arange_start(
    start: Scalar,
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange_start_step(start, end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// How many numbers there are from `start` to `end` (without it) in steps.
fn arange_length(start: Scalar, end: Scalar, step: Scalar, dtype: DType) -> Result<i64> {
    let (first, last, distance) = (start.to_f64(), end.to_f64(), step.to_f64());
    let length = if dtype == DType::I64 && [start, end, step].iter().all(|s| s.is_integral(true)) {
        let (first, last, distance) = (start.to_i64() as i128, end.to_i64() as i128, step.to_i64() as i128);
        if distance == 0 {
            0.0
        } else {
            let sign = distance.signum();
            ((last - first + distance - sign).div_euclid(distance)) as f64
        }
    } else {
        ((last - first) / distance).ceil()
    };
    check!(distance != 0.0, "step must be nonzero");
    check!(distance.is_finite(), "step must be finite but got {}", Streamed(distance));
    check!(first.is_finite() && last.is_finite(), "unsupported range: {} -> {}", Streamed(first), Streamed(last));
    check!(
        (distance > 0.0 && last >= first) || (distance < 0.0 && last <= first),
        "upper bound and lower bound inconsistent with step sign"
    );
    check!(length >= 0.0 && length < i64::MAX as f64, "invalid size, possible overflow?");
    Ok(length as i64)
}

/// The numbers from `start` up to `end` in steps.
pub fn arange_start_step(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let integral = [start, end, step].iter().all(|value| value.is_integral(true));
    let dtype = dtype.unwrap_or_else(|| if integral { DType::I64 } else { promotion::default_dtype() });
    for value in [start, end, step] {
        check!(
            !value.is_complex() || value.to_complex().im == 0.0,
            "value cannot be converted to type double without overflow"
        );
    }
    check_not_implemented!(
        dtype.is_integral(false) || dtype.is_floating_point(),
        "\"arange_cpu\" not implemented for '{}'",
        dtype.cpp_name()
    );
    let length = arange_length(start, end, step, dtype)?;
    let result = ops::empty_memory_format(&[length], Some(dtype), layout, device, pin_memory, None)?;
    if !result.is_meta() && length > 0 {
        kernels::range(result.device())?.arange.get(dtype, "arange_cpu")?(&result, start, step)?;
    }
    Ok(result)
}

/// Ones on the diagonal of a square matrix, zeros elsewhere.
pub fn eye(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    eye_m(n, n, dtype, layout, device, pin_memory)
}

/// Ones on the diagonal of a matrix, zeros elsewhere.
pub fn eye_m(
    n: i64,
    m: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check!(n >= 0, "n must be greater or equal to 0, got {n}");
    check!(m >= 0, "m must be greater or equal to 0, got {m}");
    let result = ops::empty_memory_format(&[n, m], dtype, layout, device, pin_memory, None)?;
    set(&result, Scalar::Int(0))?;
    let diagonal = result.view_of_storage(&[n.min(m)], &[m + 1], 0)?;
    set(&diagonal, Scalar::Int(1))?;
    Ok(result)
}

/// Sets every element of a fresh tensor, which is no in-place operation that users see.
fn set(x: &Tensor, value: Scalar) -> Result<()> {
    if !x.is_meta() && x.numel() > 0 {
        let kernel = kernels::fill(x.device())?.fill.get(x.dtype(), "fill_cpu")?;
        let mut iter = IterConfig::nullary_op(x.as_impl()).build()?;
        iter.set_params(&[value]);
        kernel(&iter)?;
    }
    Ok(())
}

/// `steps` numbers from `start` to `end`, both included, at equal distances.
pub fn linspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check!(steps >= 0, "number of steps must be non-negative");
    let complex = start.is_complex() || end.is_complex();
    let dtype = match dtype {
        None if complex => promotion::default_dtype().to_complex(),
        None => promotion::default_dtype(),
        Some(dtype) => {
            if complex && !dtype.is_complex() {
                bail!(
                    Runtime,
                    "torch.linspace(): inferred dtype {} can't be safely cast to passed dtype {}",
                    promotion::default_dtype().to_complex().c_name(),
                    dtype.cpp_name()
                );
            }
            dtype
        }
    };
    let result = ops::empty_memory_format(&[steps], Some(dtype), layout, device, pin_memory, None)?;
    if !result.is_meta() {
        let kernel = kernels::range(result.device())?.linspace.get(dtype, "linspace_cpu")?;
        if steps > 0 {
            kernel(&result, start, end)?;
        }
    }
    Ok(result)
}

/// A 0-dim tensor as a bound of a range: the operator's name, the argument's name.
fn bound(op: &str, x: &Tensor, name: &str) -> Result<Scalar> {
    check!(
        x.dim() == 0,
        "{op} only supports 0-dimensional start and end tensors, but got {name} with {} dimension(s).",
        x.dim()
    );
    ops::item(x)
}

/// Two 0-dim tensors as the bounds of a range.
fn bounds(op: &str, start: &Tensor, end: &Tensor) -> Result<(Scalar, Scalar)> {
    check!(
        start.dim() == 0 && end.dim() == 0,
        "{op} only supports 0-dimensional start and end tensors, but got start with {} dimension(s) and end with {} \
         dimension(s).",
        start.dim(),
        end.dim()
    );
    Ok((ops::item(start)?, ops::item(end)?))
}

/// `linspace` between the values of 0-dim tensors.
pub fn linspace_tensor_tensor(
    start: &Tensor,
    end: &Tensor,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (start, end) = bounds("linspace", start, end)?;
    linspace(start, end, steps, dtype, layout, device, pin_memory)
}

/// `linspace` from the value of a 0-dim tensor.
pub fn linspace_tensor_scalar(
    start: &Tensor,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    linspace(bound("linspace", start, "start")?, end, steps, dtype, layout, device, pin_memory)
}

/// `linspace` to the value of a 0-dim tensor.
pub fn linspace_scalar_tensor(
    start: Scalar,
    end: &Tensor,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    linspace(start, bound("linspace", end, "end")?, steps, dtype, layout, device, pin_memory)
}

/// `steps` powers of `base` whose exponents lie from `start` to `end`, both included, at equal distances.
pub fn logspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let complex = start.is_complex() || end.is_complex();
    let default = promotion::default_dtype();
    let dtype = dtype.unwrap_or(if complex { default.to_complex() } else { default });
    if dtype == DType::Bool {
        bail!(NotImplemented, "\"logspace_cpu\" not implemented for 'Bool'");
    }
    // Integers have integer exponents at the ends; their powers are computed in f64.
    let (start, end) =
        if dtype.is_integral(true) { (Scalar::Int(start.to_i64()), Scalar::Int(end.to_i64())) } else { (start, end) };
    let compute = if dtype.is_integral(true) { DType::F64 } else { dtype.opmath() };
    let exponents = linspace(start, end, steps, Some(compute), layout, device, pin_memory)?;
    let powers = ops::pow_scalar(base, &exponents)?;
    if compute == dtype { Ok(powers) } else { ops::_to_copy(&powers, Some(dtype), None, None, None, false, None) }
}

/// `logspace` between the values of 0-dim tensors.
pub fn logspace_tensor_tensor(
    start: &Tensor,
    end: &Tensor,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (start, end) = bounds("logspace", start, end)?;
    logspace(start, end, steps, base, dtype, layout, device, pin_memory)
}

/// `logspace` from the value of a 0-dim tensor.
pub fn logspace_tensor_scalar(
    start: &Tensor,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    logspace(bound("logspace", start, "start")?, end, steps, base, dtype, layout, device, pin_memory)
}

/// `logspace` to the value of a 0-dim tensor.
pub fn logspace_scalar_tensor(
    start: Scalar,
    end: &Tensor,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    logspace(start, bound("logspace", end, "end")?, steps, base, dtype, layout, device, pin_memory)
}
