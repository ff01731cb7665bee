//! Pooling over one dimension, and under the names that leave out indices.

use tensor_core::{MemoryFormat, Result, bail, check};

use crate::{Tensor, ops};

fn check_ranks(x: &Tensor, name: &str) -> Result<()> {
    check!(
        x.dim() == 2 || x.dim() == 3,
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
         {name})",
        x.dim()
    );
    Ok(())
}

/// The one value of a list over one dimension.
fn one(values: &[i64], name: &str, what: &str) -> Result<i64> {
    match values {
        [value] => Ok(*value),
        _ => bail!(Runtime, "{name}() argument '{what}' should contain one int (got {})", values.len()),
    }
}

/// The largest elements of windows over one dimension, and their places.
pub fn max_pool1d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let name = "max_pool1d";
    check_ranks(self_, name)?;
    let kernel = one(kernel_size, name, "kernel_size")?;
    let stride = if stride.is_empty() { kernel } else { one(stride, name, "stride")? };
    let (padding, dilation) = (one(padding, name, "padding")?, one(dilation, name, "dilation")?);
    let (values, indices) = ops::max_pool2d_with_indices(
        &ops::unsqueeze(self_, -2)?,
        &[1, kernel],
        &[1, stride],
        &[0, padding],
        &[1, dilation],
        ceil_mode,
    )?;
    Ok((ops::squeeze_dim(&values, -2)?, ops::squeeze_dim(&indices, -2)?))
}

fn check_max_pool1d(
    x: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<()> {
    let name = "max_pool1d";
    let kernel = one(kernel_size, name, "kernel_size")?;
    let stride = if stride.is_empty() { kernel } else { one(stride, name, "stride")? };
    let (padding, dilation) = (one(padding, name, "padding")?, one(dilation, name, "dilation")?);
    for (what, value) in [("kernel_size", kernel), ("stride", stride)] {
        check!(value > 0, "{name}() {what} must be greater than zero, but got {value}");
    }
    check!(padding >= 0, "{name}() padding must be non-negative, but got {padding}");
    check!(
        padding <= kernel / 2,
        "{name}() padding should be at most half of kernel size, but got padding={padding} and kernel_size={kernel}"
    );
    check!(dilation > 0, "{name}() dilation must be greater than zero, but got {dilation}");
    let Some(span) = (kernel - 1).checked_mul(dilation).and_then(|span| span.checked_add(1)) else {
        bail!(Runtime, "effective kernel size overflows, but got kernel_size={kernel} and dilation={dilation}");
    };
    let size = x.size(-1)?;
    let round = if ceil_mode { stride - 1 } else { 0 };
    let padded = size.saturating_add(2 * padding).saturating_sub(span).saturating_add(round);
    let mut results = padded.div_euclid(stride) + 1;
    if ceil_mode && (results - 1).saturating_mul(stride) >= size.saturating_add(padding) {
        results -= 1;
    }
    check!(results > 0, "{name}() Invalid computed output size: {results}");
    Ok(())
}

/// The largest elements of windows over one dimension.
pub fn max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    let filled = |dims: std::ops::Range<usize>| self_.sizes().get(dims).is_some_and(|sizes| !sizes.contains(&0));
    if !((self_.dim() == 2 && filled(0..2)) || (self_.dim() == 3 && filled(1..3))) {
        let sizes: Vec<String> = self_.sizes().iter().map(i64::to_string).collect();
        bail!(
            Runtime,
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[{}]",
            sizes.join(", ")
        );
    }
    check_max_pool1d(self_, kernel_size, stride, padding, dilation, ceil_mode)?;
    // Without a gradient, results are row-major whatever the input is.
    let x = if self_.requires_grad() { self_.clone() } else { ops::contiguous(self_, MemoryFormat::Contiguous)? };
    ops::max_pool1d_with_indices(&x, kernel_size, stride, padding, dilation, ceil_mode).map(|(values, _)| values)
}

/// The largest elements of windows over two dimensions.
pub fn max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    ops::max_pool2d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode).map(|(values, _)| values)
}

/// The largest elements of windows over three dimensions.
pub fn max_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    ops::max_pool3d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode).map(|(values, _)| values)
}

/// The averages of windows over one dimension.
pub fn avg_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Tensor> {
    let name = "avg_pool1d";
    check_ranks(self_, name)?;
    let kernel = one(kernel_size, name, "kernel_size")?;
    let stride = if stride.is_empty() { kernel } else { one(stride, name, "stride")? };
    let padding = one(padding, name, "padding")?;
    let lines = ops::unsqueeze(self_, -2)?;
    let average =
        ops::avg_pool2d(&lines, &[1, kernel], &[1, stride], &[0, padding], ceil_mode, count_include_pad, None)?;
    ops::squeeze_dim(&average, -2)
}

/// The averages of an image split evenly, over one dimension.
pub fn adaptive_avg_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_ranks(self_, "adaptive_avg_pool1d")?;
    let size = one(output_size, "adaptive_avg_pool1d", "output_size")?;
    ops::squeeze_dim(&ops::adaptive_avg_pool2d(&ops::unsqueeze(self_, -2)?, &[1, size])?, -2)
}

fn check_output(output_size: &[i64], dims: usize) -> Result<()> {
    check!(output_size.len() == dims, "adaptive_avg_pool{dims}d: output_size must be {dims}");
    if output_size.iter().any(|&size| size < 0) {
        let sizes: Vec<String> = output_size.iter().map(i64::to_string).collect();
        // PyTorch's message lacks the last blank in three dimensions.
        let sizes = if dims == 3 { format!("{}, {},{}", sizes[0], sizes[1], sizes[2]) } else { sizes.join(", ") };
        bail!(
            Runtime,
            "adaptive_avg_pool{dims}d: elements of output_size must be greater than or equal to 0 but received {{{sizes}}}"
        );
    }
    Ok(())
}

/// The averages of an image split evenly, over two dimensions.
pub fn adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_output(output_size, 2)?;
    if output_size != [1, 1] {
        return ops::_adaptive_avg_pool2d(self_, output_size);
    }
    let mean = ops::mean_dim(self_, Some(&[-1, -2]), true, None)?;
    if self_.dim() == 4 && self_.suggest_memory_format() == MemoryFormat::ChannelsLast {
        let (n, c) = (self_.sizes()[0], self_.sizes()[1]);
        ops::as_strided_(&mean, &[n, c, 1, 1], &[c, 1, c, c], None)?;
    }
    Ok(mean)
}

/// The averages of an image split evenly, over three dimensions.
pub fn adaptive_avg_pool3d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_output(output_size, 3)?;
    if output_size != [1, 1, 1] {
        return ops::_adaptive_avg_pool3d(self_, output_size);
    }
    ops::mean_dim(self_, Some(&[-1, -2, -3]), true, None)
}

/// The largest elements of an image split evenly, over one dimension, and their places.
pub fn adaptive_max_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    check_ranks(self_, "adaptive_max_pool1d")?;
    let size = one(output_size, "adaptive_max_pool1d", "output_size")?;
    let (values, indices) = ops::adaptive_max_pool2d(&ops::unsqueeze(self_, -2)?, &[1, size])?;
    Ok((ops::squeeze_dim(&values, -2)?, ops::squeeze_dim(&indices, -2)?))
}
