//! `torch.fft`: its functions in terms of `_fft_c2c`, `_fft_r2c` and `_fft_c2r`, frequencies and shifts.

use tensor_core::promotion::default_dtype;
use tensor_core::strides::wrap_dim;
use tensor_core::{DType, Device, Layout, Result, bail, check, check_index, check_not_implemented, check_type};

use crate::{Tensor, ops};

/// Integers as floats, and all as complex numbers if asked for.
fn promote(x: &Tensor, to_complex: bool) -> Result<Tensor> {
    if x.is_complex() {
        return Ok(x.clone());
    }
    let real = if x.is_floating_point() { x.dtype() } else { default_dtype() };
    check_not_implemented!(matches!(real, DType::F32 | DType::F64), "Unsupported dtype {}", real.cpp_name());
    let dtype = if to_complex { real.to_complex() } else { real };
    ops::to_dtype(x, dtype, false, false, None)
}

fn check_real(x: &Tensor, what: &str) -> Result<()> {
    check_type!(!x.is_complex(), "{what}, but got {}", x.dtype().cpp_name());
    Ok(())
}

fn check_points(n: i64) -> Result<i64> {
    check!(n > 0, "Invalid number of data points ({n}) specified");
    Ok(n)
}

/// The number by which kernels know how to scale.
fn normalization(norm: Option<&str>, forward: bool) -> Result<i64> {
    const NONE: i64 = 0;
    const BY_ROOT: i64 = 1;
    const BY_NUMBER: i64 = 2;
    Ok(match (norm, forward) {
        (None | Some("backward"), true) | (Some("forward"), false) => NONE,
        (None | Some("backward"), false) | (Some("forward"), true) => BY_NUMBER,
        (Some("ortho"), _) => BY_ROOT,
        (Some(other), _) => bail!(Runtime, "Invalid normalization mode: \"{other}\""),
    })
}

/// Dimensions cut, or filled up with zeros, to sizes.
fn resized(x: &Tensor, dims: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let mut pad = vec![0; 2 * x.dim()];
    let mut x = x.clone();
    let mut padded = false;
    for (&dim, &size) in dims.iter().zip(sizes) {
        let given = x.size(dim)?;
        if given > size {
            x = ops::narrow(&x, dim, 0, size)?;
        } else if given < size {
            let last = pad.len() - 1;
            pad[last - 2 * dim as usize] = size - given;
            padded = true;
        }
    }
    if padded { ops::constant_pad_nd(&x, &pad, 0) } else { Ok(x) }
}

/// The one dimension of a transform, and its size.
fn dim_and_size(x: &Tensor, n: Option<i64>, dim: i64) -> Result<(i64, i64)> {
    check_index!(x.dim() > 0, "Dimension specified as {dim} but tensor has no dimensions");
    let dim = wrap_dim(dim, x.dim())? as i64;
    Ok((
        dim,
        check_points(match n {
            Some(n) => n,
            None => x.size(dim)?,
        })?,
    ))
}

fn one_complex(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let x = promote(self_, false)?;
    let (dim, size) = dim_and_size(&x, n, dim)?;
    let norm = normalization(norm, forward)?;
    let x = resized(&x, &[dim], &[size])?;
    if x.is_complex() {
        return ops::_fft_c2c(&x, &[dim], norm, forward);
    }
    let spectrum = ops::_fft_r2c(&x, &[dim], norm, false)?;
    if forward { Ok(spectrum) } else { ops::_conj(&spectrum) }
}

/// From real numbers to half a spectrum.
fn one_from_real(
    name: &str,
    self_: &Tensor,
    n: Option<i64>,
    dim: i64,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    check_real(self_, &format!("{name} expects a real input tensor"))?;
    let x = promote(self_, false)?;
    let (dim, size) = dim_and_size(&x, n, dim)?;
    let norm = normalization(norm, forward)?;
    let half = ops::_fft_r2c(&resized(&x, &[dim], &[size])?, &[dim], norm, true)?;
    if forward { Ok(half) } else { ops::_conj(&half) }
}

/// From half a spectrum to real numbers.
fn one_to_real(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>, forward: bool) -> Result<Tensor> {
    let x = promote(self_, true)?;
    check_index!(x.dim() > 0, "Dimension specified as {dim} but tensor has no dimensions");
    let dim = wrap_dim(dim, x.dim())? as i64;
    let size = check_points(match n {
        Some(n) => n,
        None => 2 * (x.size(dim)? - 1),
    })?;
    let norm = normalization(norm, forward)?;
    let x = resized(&x, &[dim], &[size / 2 + 1])?;
    let x = if forward { ops::conj(&x)? } else { x };
    ops::_fft_c2r(&x, &[dim], norm, size)
}

/// The discrete Fourier transform along a dimension, cut or filled up to `n` elements.
pub fn fft_fft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_complex(self_, n, dim, norm, true)
}

/// The inverse of `fft_fft`.
pub fn fft_ifft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_complex(self_, n, dim, norm, false)
}

/// The first half of the transform of real numbers.
pub fn fft_rfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_from_real("rfft", self_, n, dim, norm, true)
}

/// The inverse of `fft_rfft`.
pub fn fft_irfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_to_real(self_, n, dim, norm, false)
}

/// The real transform of a signal that mirrors itself, from its first half.
pub fn fft_hfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_to_real(self_, n, dim, norm, true)
}

/// The inverse of `fft_hfft`.
pub fn fft_ihfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Option<&str>) -> Result<Tensor> {
    one_from_real("ihfft", self_, n, dim, norm, false)
}

/// The dimensions of a transform and their sizes.
fn dims_and_sizes(x: &Tensor, sizes: Option<&[i64]>, dims: Option<&[i64]>) -> Result<(Vec<i64>, Vec<i64>)> {
    let ndim = x.dim();
    let mut named: Vec<i64> = Vec::new();
    for &dim in dims.unwrap_or_default() {
        check_index!(ndim > 0, "Dimension specified as {dim} but tensor has no dimensions");
        let dim = wrap_dim(dim, ndim)? as i64;
        check!(!named.contains(&dim), "FFT dims must be unique");
        named.push(dim);
    }
    if let Some(sizes) = sizes {
        check!(
            dims.is_none() || named.len() == sizes.len(),
            "When given, dim and shape arguments must have the same length"
        );
        check!(
            sizes.len() <= ndim,
            "Got shape with {} values but input tensor only has {ndim} dimensions.",
            sizes.len()
        );
    }
    if dims.is_none() {
        let from = ndim - sizes.map_or(ndim, <[i64]>::len);
        named = (from as i64..ndim as i64).collect();
    }
    let mut lengths = Vec::new();
    for (i, &dim) in named.iter().enumerate() {
        let length = match sizes.and_then(|sizes| sizes.get(i)) {
            Some(&size) if size != -1 => size,
            _ => x.size(dim)?,
        };
        lengths.push(check_points(length)?);
    }
    Ok((named, lengths))
}

fn many_complex(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let x = promote(self_, true)?;
    let (dims, sizes) = dims_and_sizes(&x, s, dim)?;
    ops::_fft_c2c(&resized(&x, &dims, &sizes)?, &dims, normalization(norm, forward)?, forward)
}

/// As [`many_complex`] to real numbers; `s` has the size of the last dimension's result.
fn many_to_real(
    name: &str,
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let x = promote(self_, true)?;
    let (dims, mut sizes) = dims_and_sizes(&x, s, dim)?;
    let Some(last) = sizes.last_mut() else { bail!(Runtime, "{name} must transform at least one axis") };
    let size = match s.and_then(<[i64]>::last) {
        Some(&size) if size != -1 => size,
        _ => 2 * (*last - 1),
    };
    *last = check_points(size)? / 2 + 1;
    let norm = normalization(norm, forward)?;
    let x = resized(&x, &dims, &sizes)?;
    let x = if forward { ops::conj(&x)? } else { x };
    ops::_fft_c2r(&x, &dims, norm, size)
}

/// `fft_fft` along several dimensions.
pub fn fft_fftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    many_complex(self_, s, dim, norm, true)
}

/// `fft_ifft` along several dimensions.
pub fn fft_ifftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    many_complex(self_, s, dim, norm, false)
}

/// `fft_rfft` along the last of several dimensions, `fft_fft` along the others.
pub fn fft_rfftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    check_real(self_, "rfftn expects a real-valued input tensor")?;
    let x = promote(self_, false)?;
    let (dims, sizes) = dims_and_sizes(&x, s, dim)?;
    check!(!dims.is_empty(), "rfftn must transform at least one axis");
    ops::_fft_r2c(&resized(&x, &dims, &sizes)?, &dims, normalization(norm, true)?, true)
}

/// The inverse of `fft_rfftn`.
pub fn fft_irfftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    many_to_real("irfftn", self_, s, dim, norm, false)
}

/// `fft_hfft` along the last of several dimensions, `fft_fft` along the others.
pub fn fft_hfftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    many_to_real("hfftn", self_, s, dim, norm, true)
}

/// The inverse of `fft_hfftn`.
pub fn fft_ihfftn(self_: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>, norm: Option<&str>) -> Result<Tensor> {
    let x = promote(self_, false)?;
    let (dims, sizes) = dims_and_sizes(&x, s, dim)?;
    let Some((&last, others)) = dims.split_last() else { bail!(Runtime, "ihfftn must transform at least one axis") };
    let norm = normalization(norm, false)?;
    let half = ops::_conj(&ops::_fft_r2c(&resized(&x, &dims, &sizes)?, &[last], norm, true)?)?;
    if others.is_empty() { Ok(half) } else { ops::_fft_c2c(&half, others, norm, false) }
}

/// `fft_fft` along two dimensions.
pub fn fft_fft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_fftn(self_, s, Some(dim), norm)
}

/// `fft_ifft` along two dimensions.
pub fn fft_ifft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_ifftn(self_, s, Some(dim), norm)
}

/// `fft_rfftn` along two dimensions.
pub fn fft_rfft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_rfftn(self_, s, Some(dim), norm)
}

/// `fft_irfftn` along two dimensions.
pub fn fft_irfft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_irfftn(self_, s, Some(dim), norm)
}

/// `fft_hfftn` along two dimensions.
pub fn fft_hfft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_hfftn(self_, s, Some(dim), norm)
}

/// `fft_ihfftn` along two dimensions.
pub fn fft_ihfft2(self_: &Tensor, s: Option<&[i64]>, dim: &[i64], norm: Option<&str>) -> Result<Tensor> {
    ops::fft_ihfftn(self_, s, Some(dim), norm)
}

/// `length` numbers that count on from `first`, times `1 / (n d)`.
fn frequencies(first: i64, length: i64, step: f64, (dtype, device): (DType, Option<Device>)) -> Result<Tensor> {
    let numbers = ops::arange_start(first, first + length, Some(dtype), None, device, None)?;
    ops::mul_scalar(&numbers, step)
}

fn frequency_dtype(name: &str, dtype: Option<DType>) -> Result<DType> {
    let dtype = dtype.unwrap_or_else(default_dtype);
    check!(dtype.is_floating_point() || dtype.is_complex(), "{name} requires a floating point or complex dtype");
    Ok(dtype)
}

/// The frequencies of `fft_fft`'s results, in cycles per `d`: 0, 1, .., then the negative ones, over `n d`.
pub fn fft_fftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let kind = (frequency_dtype("fftfreq", dtype)?, device);
    check!(n >= 0, "Trying to create tensor with negative dimension {n}: [{n}]");
    let step = 1.0 / (n as f64 * d);
    let negative = n / 2;
    let first = frequencies(0, n - negative, step, kind)?;
    ops::cat(&[&first, &frequencies(-negative, negative, step, kind)?], 0)
}

/// The frequencies of `fft_rfft`'s results.
pub fn fft_rfftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let kind = (frequency_dtype("rfftfreq", dtype)?, device);
    let length = n / 2 + 1;
    check!(length >= 0, "Trying to create tensor with negative dimension {length}: [{length}]");
    frequencies(0, length, 1.0 / (n as f64 * d), kind)
}

fn rolled(x: &Tensor, dim: Option<&[i64]>, shift: impl Fn(i64) -> i64) -> Result<Tensor> {
    let dims: Vec<i64> = match dim {
        Some(dims) => dims.to_vec(),
        None => (0..x.dim() as i64).collect(),
    };
    let shifts = dims.iter().map(|&d| x.size(d).map(&shift)).collect::<Result<Vec<i64>>>()?;
    ops::roll(x, &shifts, &dims)
}

/// The element of frequency 0 moved to the middle of each dimension.
pub fn fft_fftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    rolled(self_, dim, |size| size / 2)
}

/// The inverse of `fft_fftshift`.
pub fn fft_ifftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    rolled(self_, dim, |size| (size + 1) / 2)
}
