//! Windows of signals: weights that fall to both sides.

use std::f64::consts::TAU;

use tensor_core::promotion::default_dtype;
use tensor_core::{DType, Device, Layout, Result, check, check_not_implemented};

use crate::{Tensor, ops};

/// The dtype, layout, device and pinning of a call.
type Options = (Option<DType>, Option<Layout>, Option<Device>, Option<bool>);

/// How upstream's errors write options.
fn shown(dtype: DType, (_, layout, device, pinned): Options) -> String {
    let default = |given: bool| if given { "" } else { " (default)" };
    let layout_name = if layout.is_none_or(|layout| layout == Layout::Strided) { "Strided" } else { "Sparse" };
    format!(
        "TensorOptions(dtype={}, device={}{}, layout={layout_name}{}, requires_grad=false (default), \
         pinned_memory={}{}, memory_format=(nullopt))",
        dtype.c_name(),
        device.unwrap_or(Device::CPU),
        default(device.is_some()),
        default(layout.is_some()),
        pinned.unwrap_or(false),
        default(pinned.is_some()),
    )
}

/// The steps 0, 1, .. of a window in f64, and the last one that it is symmetric with.
struct Steps {
    numbers: Tensor,
    last: f64,
}

impl Steps {
    /// -1 at the first step, 1 at the last one.
    fn centered(&self) -> Result<Tensor> {
        ops::sub_scalar(&ops::mul_scalar(&self.numbers, 2.0 / self.last)?, 1, 1)
    }

    fn triangle(&self) -> Result<Tensor> {
        ops::rsub_scalar(&ops::abs(&self.centered()?)?, 1, 1)
    }

    /// `a - b cos(x) + c cos(2 x)`
    fn cosines(&self, a: f64, b: f64, c: f64) -> Result<Tensor> {
        let x = ops::mul_scalar(&self.numbers, TAU / self.last)?;
        let first = ops::rsub_scalar(&ops::mul_scalar(&ops::cos(&x)?, b)?, a, 1)?;
        if c == 0.0 {
            return Ok(first);
        }
        ops::add(&first, &ops::cos(&ops::mul_scalar(&x, 2)?)?, c)
    }

    fn kaiser(&self, beta: f64) -> Result<Tensor> {
        let x = self.centered()?;
        let root = ops::sqrt(&ops::clamp_min(&ops::rsub_scalar(&ops::mul(&x, &x)?, 1, 1)?, 0)?)?;
        let at_middle =
            ops::i0(&ops::mul_scalar(&ops::ones_like(&self.numbers, None, None, None, None, None)?, beta)?)?;
        ops::div(&ops::i0(&ops::mul_scalar(&root, beta)?)?, &at_middle)
    }
}

/// The checks of all windows, and the short ones.
fn window(
    name: &str,
    length: i64,
    periodic: bool,
    options: Options,
    weights: impl FnOnce(&Steps) -> Result<Tensor>,
) -> Result<Tensor> {
    let (dtype, layout, device, _) = options;
    let dtype = dtype.unwrap_or_else(default_dtype);
    check!(
        layout.is_none_or(|layout| layout == Layout::Strided),
        "{name} is not implemented for sparse types, got: {}",
        shown(dtype, options)
    );
    check!(
        dtype.is_floating_point() || dtype.is_complex(),
        "{name} expects floating point dtypes, got: {}",
        shown(dtype, options)
    );
    check!(length >= 0, "{name} requires non-negative window_length, got window_length={length}");
    if length <= 1 {
        return ops::ones(&[length], Some(dtype), None, device, None);
    }
    check_not_implemented!(!dtype.is_complex(), "\"arange_cpu\" not implemented for '{}'", dtype.cpp_name());
    let numbers = ops::arange(length, Some(DType::F64), None, device, None)?;
    let last = if periodic { length as f64 } else { (length - 1) as f64 };
    ops::to_dtype(&weights(&Steps { numbers, last })?, dtype, false, false, None)
}

/// The triangle that is 1 in the middle and 0 at the ends, without the last step.
pub fn bartlett_window(
    window_length: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("bartlett_window", window_length, true, (dtype, layout, device, pin_memory), |m| m.triangle())
}

/// `bartlett_window`, with the last step unless `periodic`.
pub fn bartlett_window_periodic(
    window_length: i64,
    periodic: bool,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("bartlett_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| m.triangle())
}

/// 0.42 - 0.5 cos(x) + 0.08 cos(2 x) for x from 0 to 2 pi, without the last step.
pub fn blackman_window(
    window_length: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("blackman_window", window_length, true, (dtype, layout, device, pin_memory), |m| m.cosines(0.42, 0.5, 0.08))
}

/// `blackman_window`, with the last step unless `periodic`.
pub fn blackman_window_periodic(
    window_length: i64,
    periodic: bool,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("blackman_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| {
        m.cosines(0.42, 0.5, 0.08)
    })
}

/// (1 - cos(x)) / 2 for x from 0 to 2 pi, without the last step.
pub fn hann_window(
    window_length: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hann_window", window_length, true, (dtype, layout, device, pin_memory), |m| m.cosines(0.5, 0.5, 0.0))
}

/// `hann_window`, with the last step unless `periodic`.
pub fn hann_window_periodic(
    window_length: i64,
    periodic: bool,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hann_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| m.cosines(0.5, 0.5, 0.0))
}

/// `alpha - beta cos(x)` for x from 0 to 2 pi, 0.54 and 0.46 where they are not given, without the last step.
pub fn hamming_window(
    window_length: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hamming_window", window_length, true, (dtype, layout, device, pin_memory), |m| m.cosines(0.54, 0.46, 0.0))
}

/// `hamming_window`, with the last step unless `periodic`.
pub fn hamming_window_periodic(
    window_length: i64,
    periodic: bool,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hamming_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| {
        m.cosines(0.54, 0.46, 0.0)
    })
}

/// `hamming_window`, with the last step unless `periodic`.
pub fn hamming_window_periodic_alpha(
    window_length: i64,
    periodic: bool,
    alpha: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hamming_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| {
        m.cosines(alpha, 0.46, 0.0)
    })
}

/// `hamming_window`, with the last step unless `periodic`.
#[allow(clippy::too_many_arguments)]
pub fn hamming_window_periodic_alpha_beta(
    window_length: i64,
    periodic: bool,
    alpha: f64,
    beta: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("hamming_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| {
        m.cosines(alpha, beta, 0.0)
    })
}

/// I0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1, 12 where `beta` is not given, without the last step.
pub fn kaiser_window(
    window_length: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("kaiser_window", window_length, true, (dtype, layout, device, pin_memory), |m| m.kaiser(12.0))
}

/// `kaiser_window`, with the last step unless `periodic`.
pub fn kaiser_window_periodic(
    window_length: i64,
    periodic: bool,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("kaiser_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| m.kaiser(12.0))
}

/// `kaiser_window`, with the last step unless `periodic`.
pub fn kaiser_window_beta(
    window_length: i64,
    periodic: bool,
    beta: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    window("kaiser_window", window_length, periodic, (dtype, layout, device, pin_memory), |m| m.kaiser(beta))
}
