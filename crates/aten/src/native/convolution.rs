//! Convolutions: checks, geometry and memory formats. The three products of a convolution (forward, with respect to the
//! images, with respect to the weights) serve transposed ones too, with the roles of forward and adjoint exchanged.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, MemoryFormat, Result, bail, check};

use crate::kernels::{self, ConvKernel, ConvShape, ConvolutionKernels};
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

/// A size list as PyTorch writes it, `[2, 3]`.
pub(crate) fn list(sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// `2 x 3`
fn by(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ")
}

/// The parameters of a convolution, one value a spatial dimension.
struct Params {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    output_padding: Dims,
    transposed: bool,
    groups: i64,
}

fn expand(values: &[i64], name: &str, dims: usize) -> Result<Dims> {
    match values {
        [one] => Ok(Dims::from_elem(*one, dims)),
        _ => {
            check!(
                values.len() == dims,
                "expected {name} to be a single integer value or a list of {dims} values to match the convolution \
                 dimensions, but got {name}={}",
                list(values)
            );
            Ok(Dims::from_slice(values))
        }
    }
}

impl Params {
    #[allow(clippy::too_many_arguments)]
    fn new(
        weight: &Tensor,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        transposed: bool,
        output_padding: &[i64],
        groups: i64,
    ) -> Result<Self> {
        check!(weight.dim() > 2, "weight should have at least three dimensions");
        check!(groups > 0, "non-positive groups is not supported");
        let dims = weight.dim() - 2;
        Ok(Self {
            stride: expand(stride, "stride", dims)?,
            padding: expand(padding, "padding", dims)?,
            dilation: expand(dilation, "dilation", dims)?,
            output_padding: expand(output_padding, "output_padding", dims)?,
            transposed,
            groups,
        })
    }

    /// How many elements a kernel spans in dimension `d`.
    fn span(&self, weight: &Tensor, d: usize) -> i64 {
        self.dilation[d].saturating_mul(weight.sizes()[d + 2] - 1).saturating_add(1)
    }

    fn check(&self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        let negative = |values: &Dims| values.iter().any(|&v| v < 0);
        check!(!negative(&self.padding), "negative padding is not supported");
        check!(!negative(&self.output_padding), "negative output_padding is not supported");
        check!(self.stride.iter().all(|&s| s > 0), "non-positive stride is not supported");
        check!(self.dilation.iter().all(|&d| d > 0), "dilation should be greater than zero");
        let (sizes, groups) = (weight.sizes(), self.groups);
        check!(
            weight.dim() == input.dim(),
            "Expected {k}-dimensional input for {k}-dimensional weight {}, but got {}-dimensional input of size {} instead",
            list(sizes),
            input.dim(),
            list(input.sizes()),
            k = weight.dim(),
        );
        check!(
            sizes[0] >= groups,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {} \
             instead",
            list(sizes)
        );
        check!(
            sizes[0] % groups == 0,
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size \
             [{}] instead",
            list(sizes)
        );
        let (given, channels, out) = if self.transposed {
            ("transposed=1".to_string(), sizes[0], sizes[1].saturating_mul(groups))
        } else {
            (format!("groups={groups}"), sizes[1].saturating_mul(groups), sizes[0])
        };
        check!(
            input.sizes()[1] == channels,
            "Given {given}, weight of size {}, expected input{} to have {channels} channels, but got {} channels instead",
            list(sizes),
            list(input.sizes()),
            input.sizes()[1]
        );
        if let Some(bias) = bias {
            let given = if self.transposed { "Given transposed=1, " } else { "Given " };
            check!(
                bias.dim() == 1 && bias.sizes()[0] == out,
                "{given}weight of size {}, expected bias to be 1-dimensional with {out} elements, but got bias of size {} \
                 instead",
                list(sizes),
                list(bias.sizes())
            );
        }
        if !self.transposed {
            let dims = 0..weight.dim() - 2;
            let padded: Vec<i64> =
                dims.clone().map(|d| input.sizes()[d + 2].saturating_add(self.padding[d].saturating_mul(2))).collect();
            let spans: Vec<i64> = dims.map(|d| self.span(weight, d)).collect();
            check!(
                padded.iter().zip(&spans).all(|(size, span)| size >= span),
                "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than \
                 actual input size",
                by(&padded),
                by(&spans)
            );
        }
        check!(weight.dim() <= 5, "unsupported ConvNd parameters");
        check!(
            input.sizes()[0] == 0 || input.sizes()[1] == 0 || input.numel() > 0,
            "Only zero batch or zero channel inputs are supported, but got input shape: {}",
            list(input.sizes())
        );
        if sizes[2..].contains(&0) {
            bail!(Runtime, "kernel size should be greater than zero, but got {}", self.named("kernel", &sizes[2..]));
        }
        if self.transposed {
            self.check_output_padding()?;
        }
        Ok(())
    }

    /// `stride_height: 1 stride_width: 2`, as the messages of kernels over two or three dimensions have it.
    fn named(&self, what: &str, values: &[i64]) -> String {
        let names: &[&str] = if values.len() == 3 { &["depth", "height", "width"] } else { &["height", "width"] };
        let fill = match what {
            "output_padding" => 0,
            _ => 1,
        };
        let missing = names.len() - values.len();
        let values = std::iter::repeat_n(&fill, missing).chain(values);
        names.iter().zip(values).map(|(name, v)| format!("{what}_{name}: {v}")).collect::<Vec<_>>().join(" ")
    }

    fn check_output_padding(&self) -> Result<()> {
        let small = (0..self.stride.len())
            .all(|d| self.output_padding[d] < self.stride[d] || self.output_padding[d] < self.dilation[d]);
        check!(
            small,
            "output padding must be smaller than either stride or dilation, but got {} {} {}",
            self.named("output_padding", &self.output_padding),
            self.named("stride", &self.stride),
            self.named("dilation", &self.dilation)
        );
        Ok(())
    }

    /// The shape of what comes out.
    fn output(&self, input: &Tensor, weight: &Tensor) -> Result<Dims> {
        let (x, w) = (input.sizes(), weight.sizes());
        let channels = if self.transposed { w[1].saturating_mul(self.groups) } else { w[0] };
        let mut sizes = Dims::from_slice(&[x[0], channels]);
        for d in 0..w.len() - 2 {
            let (size, span, pad) = (x[d + 2], self.span(weight, d), self.padding[d].saturating_mul(2));
            sizes.push(if self.transposed {
                (size - 1)
                    .saturating_mul(self.stride[d])
                    .saturating_sub(pad)
                    .saturating_add(span)
                    .saturating_add(self.output_padding[d])
            } else {
                size.saturating_add(pad).saturating_sub(span) / self.stride[d] + 1
            });
        }
        if sizes[2..].iter().any(|&size| size < 1) {
            let missing = 4usize.saturating_sub(sizes.len());
            let full =
                |sizes: &[i64]| -> Vec<i64> { std::iter::repeat_n(1, missing).chain(sizes.iter().copied()).collect() };
            bail!(
                Runtime,
                "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
                by(&full(&x[2..])),
                by(&full(&sizes[2..]))
            );
        }
        Ok(sizes)
    }

    /// The geometry of the convolution whose images are `image` and whose results are `result`.
    fn shape(&self, image: &[i64], weight: &[i64], result: &[i64], channels_last: bool) -> ConvShape {
        let missing = 5 - weight.len();
        let three = |values: &[i64], fill: i64| -> [i64; 3] {
            std::array::from_fn(|d| if d < missing { fill } else { values[d - missing] })
        };
        let sizes = |values: &[i64], fill: i64| three(values, fill).map(|v| v as usize);
        ConvShape {
            batch: image[0] as usize,
            groups: self.groups as usize,
            in_channels: image[1] as usize,
            out_channels: result[1] as usize,
            image: sizes(&image[2..], 1),
            kernel: sizes(&weight[2..], 1),
            result: sizes(&result[2..], 1),
            stride: sizes(&self.stride, 1),
            padding: three(&self.padding, 0).map(|v| v as isize),
            dilation: sizes(&self.dilation, 1),
            channels_last,
        }
    }
}

/// The dtype that halves are convolved in.
fn compute_dtype(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

fn check_types(input: &Tensor, weight: &Tensor) -> Result<()> {
    let (a, b) = (input.dtype(), weight.dtype());
    check!(
        a == b || a != DType::BF16,
        "Input type (CPUBFloat16Type) and weight type (torch.{}Tensor) should be the same or input should be a MKLDNN \
         tensor and weight is a dense tensor",
        b.cpp_name()
    );
    check!(a == b, "expected scalar type {} but found {}", a.cpp_name(), b.cpp_name());
    Ok(())
}

/// Channels come last in memory where the image or the weights have it so, in two dimensions.
fn format_of(input: &Tensor, weight: &Tensor) -> MemoryFormat {
    let last = |x: &Tensor| x.dim() == 4 && x.suggest_memory_format() == MemoryFormat::ChannelsLast;
    if last(input) || last(weight) { MemoryFormat::ChannelsLast } else { MemoryFormat::Contiguous }
}

/// The order of memory as a contiguous tensor of five dimensions: a view where it has that order, else a copy.
pub(super) fn laid_out(x: &Tensor, channels_last: bool, dtype: DType) -> Result<Tensor> {
    let x = if x.dtype() == dtype { x.clone() } else { ops::_to_copy(x, Some(dtype), None, None, None, false, None)? };
    let missing = 5 - x.dim();
    let order: [usize; 5] = if channels_last { [0, 2, 3, 4, 1] } else { [0, 1, 2, 3, 4] };
    let at = |list: &[i64], d: usize, fill: i64| match d {
        0 | 1 => list[d],
        _ if d - 2 < missing => fill,
        _ => list[d - missing],
    };
    let sizes: Dims = order.iter().map(|&d| at(x.sizes(), d, 1)).collect();
    let strides: Dims = order.iter().map(|&d| at(x.strides(), d, 0)).collect();
    let view = x.view_of_storage(&sizes, &strides, x.storage_offset())?;
    if view.is_contiguous() { Ok(view) } else { ops::clone(&view, Some(MemoryFormat::Contiguous)) }
}

/// A result on its way, and the contiguous tensor in which a kernel makes it.
struct Target {
    slot: Slot,
    work: Tensor,
}

impl Target {
    fn new(slot: Slot, channels_last: bool, dtype: DType) -> Result<Self> {
        // Memory is always initialised: what is copied here does not matter.
        let work = laid_out(&slot.tensor, channels_last, dtype)?;
        Ok(Self { slot, work })
    }

    /// The result; brought to the slot if it was made elsewhere.
    fn finish(self) -> Result<Tensor> {
        let slot = &self.slot.tensor;
        if !self.work.storage().ptr_eq(slot.storage()) {
            let (mut sizes, mut strides) = (Dims::from_slice(slot.sizes()), Dims::from_slice(slot.strides()));
            let missing = self.work.dim() - slot.dim();
            for _ in 0..missing {
                sizes.insert(2, 1);
                strides.insert(2, 1);
            }
            let wide = slot.view_of_storage(&sizes, &strides, slot.storage_offset())?;
            let last = self.work.sizes() != wide.sizes();
            let work =
                if last { crate::composite::view::permute(&self.work, &[0, 4, 1, 2, 3])? } else { self.work.clone() };
            super::matmul::write(&wide, &work)?;
        }
        self.slot.finish()
    }
}

type Pick = fn(&ConvolutionKernels) -> &kernels::Columns<ConvKernel>;

fn kernel(x: &Tensor, dtype: DType, pick: Pick) -> Result<ConvKernel> {
    pick(kernels::convolution(x.device())?).get(dtype, "slow_conv2d_cpu")
}

/// The products that need channels side by side in memory: those of one channel a group do not.
fn works_last(format: MemoryFormat, shape: &ConvShape, forward: bool) -> bool {
    let depthwise = shape.groups > 1 && shape.groups == shape.in_channels;
    format == MemoryFormat::ChannelsLast && (forward || !depthwise)
}

/// The convolution of `input` with `weight`, or the adjoint of one.
pub fn convolution(
    out: Out<'_>,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let params = Params::new(weight, stride, padding, dilation, transposed, output_padding, groups)?;
    params.check(input, weight, bias)?;
    let sizes = params.output(input, weight)?;
    check_types(input, weight)?;
    let dtype = compute_dtype(input.dtype());
    let pick: Pick = if transposed { |k| &k.conv_adjoint } else { |k| &k.conv_forward };
    let kernel = if input.is_meta() || weight.is_meta() { None } else { Some(kernel(input, dtype, pick)?) };
    let format = format_of(input, weight);
    let like = if weight.is_meta() { weight } else { input };
    let spec = Spec { strides: Some(strides::of_format(&sizes, format)?), ..Spec::like(&sizes, like) };
    let bias_input = bias.unwrap_or(weight);
    let slot = out.prepare(0, spec, &[input, weight, bias_input])?;
    let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) else { return slot.finish() };
    let (image, result): (&[i64], &[i64]) = if transposed { (&sizes, input.sizes()) } else { (input.sizes(), &sizes) };
    let mut shape = params.shape(image, weight.sizes(), result, false);
    shape.channels_last = works_last(format, &shape, !transposed);
    let last = shape.channels_last;
    let bias = bias.map(|b| ops::to_dtype(b, dtype, false, false, None)).transpose()?;
    let bias = bias.map(|b| ops::contiguous(&b, MemoryFormat::Contiguous)).transpose()?;
    let target = Target::new(slot, last, dtype)?;
    kernel(&target.work, &laid_out(input, last, dtype)?, &laid_out(weight, last, dtype)?, bias.as_ref(), &shape)?;
    target.finish()
}

/// [`convolution`] with settings of backends, which do nothing here.
pub fn _convolution(
    out: Out<'_>,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    _benchmark: bool,
    _deterministic: bool,
    _cudnn_enabled: bool,
    _allow_tf32: bool,
) -> Result<Tensor> {
    convolution(out, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
}

/// Refuses a gradient that has not the shape of the output.
fn check_grad(grad: &Tensor, input: &Tensor, sizes: &[i64]) -> Result<()> {
    check!(
        grad.dim() == input.dim(),
        "Expected input and grad_output to have the same number of dimensions, but got: {} and {}",
        input.dim(),
        grad.dim()
    );
    for (d, &size) in sizes.iter().enumerate() {
        check!(
            grad.sizes()[d] == size,
            "Expected a tensor of dimension {n} and tensor.size[{d}] == {size} but got: dimension {n} and \
             tensor.size[{d}] = {}",
            grad.sizes()[d],
            n = sizes.len()
        );
    }
    Ok(())
}

/// Gradients of a convolution with respect to its input, weight and bias, those that `output_mask` asks for.
pub fn convolution_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    _bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    output_mask: [bool; 3],
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let params = Params::new(weight, stride, padding, dilation, transposed, output_padding, groups)?;
    params.check(input, weight, None)?;
    let sizes = params.output(input, weight)?;
    check_grad(grad_output, input, &sizes)?;
    check_types(input, weight)?;
    check_types(input, grad_output)?;
    let dtype = compute_dtype(input.dtype());
    let meta = [grad_output, input, weight].iter().any(|x| x.is_meta());
    let table = if meta { None } else { Some(kernels::convolution(input.device())?) };
    let table = table.filter(|_| grad_output.numel() > 0 && input.numel() > 0);
    let format = format_of(input, weight);
    let inputs = [grad_output, input, weight];
    let with_format = |like: &Tensor| -> Result<Spec> {
        Ok(Spec { strides: Some(strides::of_format(like.sizes(), format)?), ..Spec::like(like.sizes(), like) })
    };
    let (image, result): (&[i64], &[i64]) = if transposed { (&sizes, input.sizes()) } else { (input.sizes(), &sizes) };
    let mut shape = params.shape(image, weight.sizes(), result, false);

    let grad_input = if output_mask[0] {
        let slot = out.prepare(0, with_format(input)?, &inputs)?;
        shape.channels_last = works_last(format, &shape, transposed);
        let last = shape.channels_last;
        match table {
            Some(table) => {
                let columns = if transposed { &table.conv_forward } else { &table.conv_adjoint };
                let kernel = columns.get(dtype, "slow_conv2d_backward_cpu")?;
                let target = Target::new(slot, last, dtype)?;
                let (grad, weight) = (laid_out(grad_output, last, dtype)?, laid_out(weight, last, dtype)?);
                kernel(&target.work, &grad, &weight, None, &shape)?;
                Some(target.finish()?)
            }
            None => Some(zeroed(slot)?),
        }
    } else {
        None
    };
    let grad_weight = if output_mask[1] {
        let slot = out.prepare(1, with_format(weight)?, &inputs)?;
        shape.channels_last = works_last(format, &shape, false);
        let last = shape.channels_last;
        match table {
            Some(table) => {
                let kernel = table.conv_weight.get(dtype, "slow_conv2d_backward_cpu")?;
                let target = Target::new(slot, last, dtype)?;
                let (x, y) = if transposed { (grad_output, input) } else { (input, grad_output) };
                kernel(&target.work, &laid_out(x, last, dtype)?, &laid_out(y, last, dtype)?, None, &shape)?;
                Some(target.finish()?)
            }
            None => Some(zeroed(slot)?),
        }
    } else {
        None
    };
    let grad_bias = if output_mask[2] {
        let dims: Dims = (0..grad_output.dim() as i64).filter(|&d| d != 1).collect();
        Some(match out.target(2) {
            None => ops::sum_dim_int_list(grad_output, Some(&dims), false, None)?,
            Some(target) => ops::sum_int_list_out(grad_output, Some(&dims), false, None, target)?.clone(),
        })
    } else {
        None
    };
    Ok((grad_input, grad_weight, grad_bias))
}

/// A result of zeros: that of an empty convolution.
fn zeroed(slot: Slot) -> Result<Tensor> {
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        ops::zero_(&slot.tensor)?;
    }
    slot.finish()
}
