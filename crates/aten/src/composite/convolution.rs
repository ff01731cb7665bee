//! Convolutions under the names of users: one to three dimensions, unbatched inputs, paddings by name.

use tensor_core::strides::Dims;
use tensor_core::{Complex, Result, Scalar, bail, check};

use crate::{Tensor, ops};

fn list(sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Refuses a bias of another dtype than the input's.
fn check_bias(input: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    if let Some(bias) = bias {
        check!(
            bias.dtype() == input.dtype(),
            "Input type ({}) and bias type ({}) should be the same",
            input.dtype().c_name(),
            bias.dtype().c_name()
        );
    }
    Ok(())
}

/// Runs `f` on a batch: of one, if the input is none; the result has then no batch either.
fn batched(input: &Tensor, dims: usize, name: &str, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (single, batch) = (dims + 1, dims + 2);
    check!(
        input.dim() == single || input.dim() == batch,
        "Expected {single}D (unbatched) or {batch}D (batched) input to {name}, but got input of size: {}",
        list(input.sizes())
    );
    if input.dim() == batch {
        return f(input);
    }
    ops::squeeze_dim(&f(&ops::unsqueeze(input, 0)?)?, 0)
}

/// `f(input, weight, bias)` for a linear `f` of real tensors, of complex ones: with three of it for four (Gauss).
fn over_parts(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    f: impl Fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
) -> Result<Tensor> {
    if !input.is_complex() {
        return f(input, weight, bias);
    }
    check!(
        weight.dtype() == input.dtype(),
        "Input type ({}) and weight type ({}) should be the same",
        input.dtype().c_name(),
        weight.dtype().c_name()
    );
    let parts = |x: &Tensor| -> Result<(Tensor, Tensor)> {
        let both = ops::view_as_real(x)?;
        Ok((ops::select_int(&both, -1, 0)?, ops::select_int(&both, -1, 1)?))
    };
    let ((x_re, x_im), (w_re, w_im)) = (parts(input)?, parts(weight)?);
    let bias = bias.map(parts).transpose()?;
    let b_re = bias.as_ref().map(|(re, _)| re);
    let b_sum = bias.as_ref().map(|(re, im)| ops::add(re, im, 1)).transpose()?;
    let a = f(&x_re, &w_re, b_re)?;
    let b = f(&x_im, &w_im, None)?;
    let c = f(&ops::add(&x_re, &x_im, 1)?, &ops::add(&w_re, &w_im, 1)?, b_sum.as_ref())?;
    let imaginary = ops::sub(&ops::sub(&c, &a, 1)?, &b, 1)?;
    ops::add(&ops::sub(&a, &b, 1)?, &ops::mul_scalar(&imaginary, Scalar::Complex(Complex::new(0.0, 1.0)))?, 1)
}

struct Params<'a> {
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    groups: i64,
}

fn conv(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    p: Params<'_>,
    dims: usize,
    name: &str,
) -> Result<Tensor> {
    check_bias(input, bias)?;
    batched(input, dims, name, |input| {
        over_parts(input, weight, bias, |x, w, b| {
            ops::convolution(x, w, b, p.stride, p.padding, p.dilation, false, &[0], p.groups)
        })
    })
}

/// A convolution over one dimension.
pub fn conv1d(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv(input, weight, bias, Params { stride, padding, dilation, groups }, 1, "conv1d")
}

/// A convolution over two dimensions.
pub fn conv2d(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv(input, weight, bias, Params { stride, padding, dilation, groups }, 2, "conv2d")
}

/// A convolution over three dimensions.
pub fn conv3d(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv(input, weight, bias, Params { stride, padding, dilation, groups }, 3, "conv3d")
}

/// A convolution whose results are as many as its input: what cannot be padded evenly is padded on the right before.
fn same(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, p: Params<'_>) -> Result<Tensor> {
    let k = weight.dim();
    check!(k > 2, "weight should have at least three dimensions");
    check!(p.groups > 0, "non-positive groups is not supported");
    check!(
        input.dim() == k,
        "Expected {k}-dimensional input for {k}-dimensional weight{}, but got {}-dimensional input of size {} instead",
        list(weight.sizes()),
        input.dim(),
        list(input.sizes())
    );
    check!(p.stride.iter().all(|&s| s == 1), "padding='same' is not supported for strided convolutions");
    let mut even = Dims::new();
    let mut right = Vec::new();
    for d in 0..k - 2 {
        let Some(&dilation) = p.dilation.get(d).or(p.dilation.first()) else {
            bail!(Runtime, "dilation cannot broadcast to {} dimensions", k - 2);
        };
        let total = dilation.saturating_mul(weight.sizes()[d + 2] - 1);
        even.push(total / 2);
        right.push(total % 2);
    }
    if right.iter().all(|&more| more == 0) {
        return ops::convolution(input, weight, bias, p.stride, &even, p.dilation, false, &[0], p.groups);
    }
    let mut padded = input.clone();
    for (d, _) in right.iter().enumerate().filter(|(_, more)| **more > 0) {
        let mut sizes = Dims::from_slice(padded.sizes());
        sizes[d + 2] = 1;
        let zeros = ops::zeros(&sizes, Some(input.dtype()), None, Some(input.device()), None)?;
        padded = ops::cat(&[&padded, &zeros], d as i64 + 2)?;
    }
    ops::convolution(&padded, weight, bias, p.stride, &even, p.dilation, false, &[0], p.groups)
}

fn conv_named(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    p: (&[i64], &str, &[i64], i64),
    dims: usize,
    name: &str,
) -> Result<Tensor> {
    let (stride, padding, dilation, groups) = p;
    check_bias(input, bias)?;
    batched(input, dims, name, |input| {
        over_parts(input, weight, bias, |x, w, b| match padding {
            "same" => same(x, w, b, Params { stride, padding: &[0], dilation, groups }),
            "valid" => ops::convolution(x, w, b, stride, &[0], dilation, false, &[0], groups),
            _ => bail!(Runtime, "Invalid padding string: '{padding}'"),
        })
    })
}

/// A convolution over one dimension with a padding by name.
pub fn conv1d_padding(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv_named(input, weight, bias, (stride, padding, dilation, groups), 1, "conv1d")
}

/// A convolution over two dimensions with a padding by name.
pub fn conv2d_padding(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv_named(input, weight, bias, (stride, padding, dilation, groups), 2, "conv2d")
}

/// A convolution over three dimensions with a padding by name.
pub fn conv3d_padding(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    conv_named(input, weight, bias, (stride, padding, dilation, groups), 3, "conv3d")
}

fn transposed(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    p: Params<'_>,
    output_padding: &[i64],
    dims: usize,
) -> Result<Tensor> {
    check_bias(input, bias)?;
    batched(input, dims, &format!("conv_transpose{dims}d"), |input| {
        over_parts(input, weight, bias, |x, w, b| {
            ops::convolution(x, w, b, p.stride, p.padding, p.dilation, true, output_padding, p.groups)
        })
    })
}

/// A transposed convolution over one dimension.
pub fn conv_transpose1d(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    output_padding: &[i64],
    groups: i64,
    dilation: &[i64],
) -> Result<Tensor> {
    transposed(input, weight, bias, Params { stride, padding, dilation, groups }, output_padding, 1)
}

/// A transposed convolution over two dimensions.
pub fn conv_transpose2d_input(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    output_padding: &[i64],
    groups: i64,
    dilation: &[i64],
) -> Result<Tensor> {
    transposed(input, weight, bias, Params { stride, padding, dilation, groups }, output_padding, 2)
}

/// A transposed convolution over three dimensions.
pub fn conv_transpose3d_input(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    output_padding: &[i64],
    groups: i64,
    dilation: &[i64],
) -> Result<Tensor> {
    transposed(input, weight, bias, Params { stride, padding, dilation, groups }, output_padding, 3)
}
