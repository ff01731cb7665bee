//! Pooling: checks, windows and memory formats, for two and three spatial dimensions. Other numbers are composites.

mod adaptive;
mod unpool;

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, MemoryFormat, Result, bail, check};

use super::convolution::{laid_out, list};
use crate::kernels::{self, PoolDivisor, PoolShape, PoolWindow, PoolingKernels};
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

pub use adaptive::*;
pub use unpool::*;

fn table(device: Device) -> Result<&'static PoolingKernels> {
    kernels::pooling(device)
}

/// The windows of a call, one value a spatial dimension.
struct Params {
    name: &'static str,
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    ceil: bool,
}

fn expand(values: &[i64], dims: usize, error: impl FnOnce(&str) -> String) -> Result<Dims> {
    if values.len() == 1 {
        return Ok(Dims::from_elem(values[0], dims));
    }
    if values.len() != dims {
        bail!(Runtime, "{}", error(if dims == 2 { "two" } else { "three" }));
    }
    Ok(Dims::from_slice(values))
}

impl Params {
    fn new(
        name: &'static str,
        dims: usize,
        (kernel, stride, padding, dilation): (&[i64], &[i64], &[i64], &[i64]),
        ceil: bool,
    ) -> Result<Self> {
        let either = |what: &'static str| {
            move |n: &str| format!("{name}: {what} must either be a single int, or a tuple of {n} ints")
        };
        let kernel = expand(kernel, dims, either("kernel_size"))?;
        let stride = if stride.is_empty() {
            kernel.clone()
        } else {
            expand(stride, dims, |n| {
                format!("{name}: stride must either be omitted, a single int, or a tuple of {n} ints")
            })?
        };
        let padding = expand(padding, dims, either("padding"))?;
        let dilation = expand(dilation, dims, |n| {
            format!("{name}: dilation must be either a single int, or a tuple of {n} ints")
        })?;
        Ok(Self { name, kernel, stride, padding, dilation, ceil })
    }

    fn dims(&self) -> usize {
        self.kernel.len()
    }

    /// How many windows dimension `d` has.
    fn windows(&self, size: i64, d: usize) -> Result<i64> {
        let (kernel, stride, pad, dilation) = (self.kernel[d], self.stride[d], self.padding[d], self.dilation[d]);
        check!(stride != 0, "stride should not be zero");
        check!(pad >= 0, "pad must be non-negative, but got pad: {pad}");
        let span = dilation.saturating_mul(kernel.saturating_sub(1)).saturating_add(1);
        check!(
            pad <= span / 2,
            "pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={kernel} and \
             dilation={dilation}"
        );
        let padded = size.saturating_add(pad.saturating_mul(2)).saturating_sub(span);
        let round = if self.ceil { stride.saturating_sub(1) } else { 0 };
        let mut windows = padded.saturating_add(round).div_euclid(stride).saturating_add(1);
        // The last window starts within the image or the padding before it.
        if self.ceil && (windows - 1).saturating_mul(stride) >= size.saturating_add(pad) {
            windows -= 1;
        }
        Ok(windows)
    }

    /// Names of the dimensions with a prefix, and values: `dH: 1 dW: 2`.
    fn named(&self, prefix: &str, values: &[i64]) -> String {
        let names: &[&str] = if values.len() == 3 { &["T", "H", "W"] } else { &["H", "W"] };
        names.iter().zip(values).map(|(n, v)| format!("{prefix}{n}: {v}")).collect::<Vec<_>>().join(" ")
    }

    /// The shape of what comes out.
    fn output(&self, x: &Tensor) -> Result<Dims> {
        let dims = self.dims();
        let lead = x.dim().saturating_sub(dims);
        let mut sizes = Dims::from_slice(&x.sizes()[..lead]);
        for d in 0..dims {
            let size = x.size(d as i64 - dims as i64)?;
            sizes.push(self.windows(size, d)?);
        }
        let positive = |values: &Dims| values.iter().all(|&v| v > 0);
        check!(
            positive(&self.kernel),
            "kernel size should be greater than zero, but got {}",
            self.named("k", &self.kernel)
        );
        check!(positive(&self.stride), "stride should be greater than zero, but got {}", self.named("d", &self.stride));
        check!(
            positive(&self.dilation),
            "dilation should be greater than zero, but got {}",
            self.named("dilation", &self.dilation)
        );
        self.check_input(x)?;
        let image = &x.sizes()[lead..];
        if sizes[lead..].iter().any(|&size| size < 1) {
            let by = |sizes: &[i64]| sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
            let planes = x.sizes()[lead - 1];
            bail!(
                Runtime,
                "Given input size: ({planes}x{}). Calculated output size: ({planes}x{}). Output size is too small",
                by(image),
                by(&sizes[lead..])
            );
        }
        Ok(sizes)
    }

    fn check_input(&self, x: &Tensor) -> Result<()> {
        let (n, dims, sizes) = (x.dim(), self.dims(), x.sizes());
        let ranks = n == dims + 1 || n == dims + 2;
        let skip = usize::from(n == dims + 2);
        if dims == 2 {
            check!(
                ranks && !sizes[skip..].contains(&0),
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
                list(sizes)
            );
            return Ok(());
        }
        check!(ranks, "{}: Expected 4D or 5D tensor for input, but got: {}", self.name, list(sizes));
        if let Some(d) = sizes.iter().position(|&size| size == 0).filter(|&d| d >= skip) {
            bail!(
                Runtime,
                "{}_with_indices_out_cpu_template(): Expected input to have non-zero size for non-batch dimensions, but \
                 input has sizes {} with dimension {d} being empty",
                self.name,
                list(sizes)
            );
        }
        Ok(())
    }

    fn window(&self) -> PoolWindow {
        let three = |values: &Dims, fill: i64| -> [usize; 3] {
            std::array::from_fn(|d| (if d + values.len() < 3 { fill } else { values[d + values.len() - 3] }) as usize)
        };
        PoolWindow::Fixed {
            kernel: three(&self.kernel, 1),
            stride: three(&self.stride, 1),
            padding: three(&self.padding, 0),
            dilation: three(&self.dilation, 1),
        }
    }
}

/// Where channels lie: last in memory, if the image has them so (in three dimensions only for operators that keep that).
fn format_of(x: &Tensor, dims: usize, in_three: bool) -> MemoryFormat {
    match x.suggest_memory_format() {
        MemoryFormat::ChannelsLast if dims == 2 && x.dim() == 4 => MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d if dims == 3 && x.dim() == 5 && in_three => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::Contiguous,
    }
}

fn shape(x: &[i64], result: &[i64], dims: usize, last: bool, window: PoolWindow) -> PoolShape {
    let three = |sizes: &[i64]| -> [usize; 3] {
        let spatial = &sizes[sizes.len() - dims..];
        std::array::from_fn(|d| if d + dims < 3 { 1 } else { spatial[d + dims - 3] as usize })
    };
    let lead: i64 = x[..x.len() - dims].iter().product();
    let channels = if last { x[1] as usize } else { 1 };
    PoolShape { planes: lead as usize / channels.max(1), channels, image: three(x), result: three(result), window }
}

fn spec(sizes: &[i64], dtype: DType, like: &Tensor, format: MemoryFormat) -> Result<Spec> {
    Ok(Spec { strides: Some(strides::of_format(sizes, format)?), ..Spec::dense(sizes, dtype, like.device()) })
}

fn is_last(format: MemoryFormat) -> bool {
    format != MemoryFormat::Contiguous
}

/// An input in the order of memory that the kernel works in.
fn ordered(x: &Tensor, last: bool) -> Result<Tensor> {
    if last { laid_out(x, true, x.dtype()) } else { ops::contiguous(x, MemoryFormat::Contiguous) }
}

/// The memory of a slot, which has the format's strides already.
fn place(slot: &Slot, last: bool) -> Result<Tensor> {
    if last { laid_out(&slot.tensor, true, slot.tensor.dtype()) } else { Ok(slot.tensor.clone()) }
}

/// Values and indices of the largest elements of windows.
fn max_pool(
    out: Out<'_>,
    x: &Tensor,
    sizes: &[i64],
    dims: usize,
    window: PoolWindow,
    error: &str,
) -> Result<(Tensor, Tensor)> {
    if !x.is_meta() {
        table(x.device())?.max_pool.get(x.dtype(), error)?;
    }
    let format = format_of(x, dims, true);
    let values = out.prepare(0, spec(sizes, x.dtype(), x, format)?, &[x])?;
    let indices = out.prepare(1, spec(sizes, DType::I64, x, format)?, &[x])?;
    if !values.is_meta() && values.tensor.numel() > 0 {
        let last = is_last(format);
        let shape = shape(x.sizes(), sizes, dims, last, window);
        let kernel = table(x.device())?.max_pool.get(x.dtype(), error)?;
        kernel(&place(&values, last)?, &place(&indices, last)?, &ordered(x, last)?, &shape)?;
    }
    Ok((values.finish()?, indices.finish()?))
}

fn check_ranks(x: &Tensor, dims: usize) -> Result<()> {
    check!(
        x.dim() == dims + 1 || x.dim() == dims + 2,
        "non-empty {}D or {}D (batch mode) tensor expected for input",
        dims + 1,
        dims + 2
    );
    Ok(())
}

/// The largest elements of windows over two dimensions.
pub fn max_pool2d_with_indices(
    out: Out<'_>,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let params = Params::new("max_pool2d", 2, (kernel_size, stride, padding, dilation), ceil_mode)?;
    check_ranks(self_, 2)?;
    max_pool(out, self_, &params.output(self_)?, 2, params.window(), "max_pool2d")
}

/// The largest elements of windows over three dimensions.
pub fn max_pool3d_with_indices(
    out: Out<'_>,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let params = Params::new("max_pool3d", 3, (kernel_size, stride, padding, dilation), ceil_mode)?;
    check_ranks(self_, 3)?;
    max_pool(out, self_, &params.output(self_)?, 3, params.window(), "max_pool3d")
}

/// Refuses a gradient of another dtype or shape than the output's.
fn check_grad(grad: &Tensor, x: &Tensor, sizes: &[i64], dims: usize, name: &str) -> Result<()> {
    check!(
        grad.dtype() == x.dtype(),
        "expected dtype {} for `{name}` but got dtype {}",
        x.dtype().c_name(),
        grad.dtype().c_name()
    );
    check_sizes(grad, sizes, dims)
}

fn check_sizes(grad: &Tensor, sizes: &[i64], dims: usize) -> Result<()> {
    let n = sizes.len();
    for (d, &size) in sizes.iter().enumerate().skip(n - dims - 1) {
        let got = grad.sizes().get(d).copied();
        check!(
            grad.dim() == n && got == Some(size),
            "Expected a tensor of dimension {n} and tensor.size[{d}] == {} but got: dimension {} and tensor.size[{d}] = {}",
            size,
            grad.dim(),
            got.unwrap_or(0)
        );
    }
    check!(grad.sizes() == sizes, "expected a tensor of size {} but got {}", list(sizes), list(grad.sizes()));
    Ok(())
}

/// The gradient at the elements that were the largest.
fn unpool(
    out: Out<'_>,
    grad: &Tensor,
    x: &Tensor,
    indices: &Tensor,
    dims: usize,
    window: PoolWindow,
    error: &str,
) -> Result<Tensor> {
    check!(indices.dtype() == DType::I64, "expected scalar type Long but found {}", indices.dtype().cpp_name());
    if !x.is_meta() {
        table(x.device())?.unpool.get(x.dtype(), error)?;
    }
    let format = format_of(x, dims, true);
    let slot = out.prepare(0, spec(x.sizes(), x.dtype(), x, format)?, &[grad, x, indices])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let last = is_last(format);
        let shape = shape(x.sizes(), grad.sizes(), dims, last, window);
        let kernel = table(x.device())?.unpool.get(x.dtype(), error)?;
        kernel(&place(&slot, last)?, &ordered(grad, last)?, &ordered(indices, last)?, &shape, true)?;
    }
    slot.finish()
}

/// Gradient of [`max_pool2d_with_indices`].
pub fn max_pool2d_with_indices_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    let params = Params::new("max_pool2d", 2, (kernel_size, stride, padding, dilation), ceil_mode)?;
    check_ranks(self_, 2)?;
    let sizes = params.output(self_)?;
    check_grad(grad_output, self_, &sizes, 2, "gradOutput")?;
    check_sizes(indices, &sizes, 2)?;
    unpool(out, grad_output, self_, indices, 2, params.window(), "max_pool2d_backward")
}

/// Gradient of [`max_pool3d_with_indices`].
pub fn max_pool3d_with_indices_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    let params = Params::new("max_pool3d", 3, (kernel_size, stride, padding, dilation), ceil_mode)?;
    check_ranks(self_, 3)?;
    let sizes = params.output(self_)?;
    check_grad(grad_output, self_, &sizes, 3, "gradOutput")?;
    check_sizes(indices, &sizes, 3)?;
    unpool(out, grad_output, self_, indices, 3, params.window(), "max_pool3d_backward")
}

/// What averages are divided by.
fn divisor(count_include_pad: bool, number: Option<i64>) -> Result<PoolDivisor> {
    check!(number != Some(0), "divisor must be not zero");
    Ok(match number {
        Some(number) => PoolDivisor::Number(number),
        None if count_include_pad => PoolDivisor::WithPadding,
        None => PoolDivisor::Inside,
    })
}

/// The averages of windows.
fn average(
    out: Out<'_>,
    x: &Tensor,
    sizes: &[i64],
    dims: usize,
    window: PoolWindow,
    divisor: PoolDivisor,
    error: &str,
) -> Result<Tensor> {
    if !x.is_meta() {
        table(x.device())?.avg_pool.get(x.dtype(), error)?;
    }
    let format = format_of(x, dims, false);
    let slot = out.prepare(0, spec(sizes, x.dtype(), x, format)?, &[x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let last = is_last(format);
        let shape = shape(x.sizes(), sizes, dims, last, window);
        let kernel = table(x.device())?.avg_pool.get(x.dtype(), error)?;
        kernel(&place(&slot, last)?, &ordered(x, last)?, &shape, divisor)?;
    }
    slot.finish()
}

/// The gradient of averages of windows of `x`.
fn average_backward(
    out: Out<'_>,
    grad: &Tensor,
    x: &Tensor,
    dims: usize,
    window: PoolWindow,
    divisor: PoolDivisor,
    error: &str,
) -> Result<Tensor> {
    if !x.is_meta() {
        table(x.device())?.avg_pool_backward.get(x.dtype(), error)?;
    }
    let format = format_of(x, dims, false);
    let slot = out.prepare(0, spec(x.sizes(), x.dtype(), x, format)?, &[grad, x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let last = is_last(format);
        let shape = shape(x.sizes(), grad.sizes(), dims, last, window);
        let kernel = table(x.device())?.avg_pool_backward.get(x.dtype(), error)?;
        kernel(&place(&slot, last)?, &ordered(grad, last)?, &shape, divisor)?;
    }
    slot.finish()
}

/// The averages of windows over two dimensions.
pub fn avg_pool2d(
    out: Out<'_>,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let params = Params::new("avg_pool2d", 2, (kernel_size, stride, padding, &[1]), ceil_mode)?;
    let divisor = divisor(count_include_pad, divisor_override)?;
    self_.size(-3)?;
    average(out, self_, &params.output(self_)?, 2, params.window(), divisor, "avg_pool2d")
}

/// The averages of windows over three dimensions.
pub fn avg_pool3d(
    out: Out<'_>,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let params = Params::new("avg_pool3d", 3, (kernel_size, stride, padding, &[1]), ceil_mode)?;
    check_ranks(self_, 3)?;
    let divisor = divisor(count_include_pad, divisor_override)?;
    average(out, self_, &params.output(self_)?, 3, params.window(), divisor, "avg_pool3d_out_frame")
}

/// Gradient of [`avg_pool2d`].
pub fn avg_pool2d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let params = Params::new("avg_pool2d", 2, (kernel_size, stride, padding, &[1]), ceil_mode)?;
    let divisor = divisor(count_include_pad, divisor_override)?;
    self_.size(-3)?;
    check_grad(grad_output, self_, &params.output(self_)?, 2, "gradOutput")?;
    average_backward(out, grad_output, self_, 2, params.window(), divisor, "avg_pool2d")
}

/// Gradient of [`avg_pool3d`].
pub fn avg_pool3d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let params = Params::new("avg_pool3d", 3, (kernel_size, stride, padding, &[1]), ceil_mode)?;
    check_ranks(self_, 3)?;
    let divisor = divisor(count_include_pad, divisor_override)?;
    check_grad(grad_output, self_, &params.output(self_)?, 3, "gradOutput")?;
    average_backward(out, grad_output, self_, 3, params.window(), divisor, "avg_pool3d_backward_out_frame")
}
