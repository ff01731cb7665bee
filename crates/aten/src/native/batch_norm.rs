//! Normalisation of channels: batch norm and its gradients.

use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, MemoryFormat, Result, check, check_index, check_value};

use super::layer_norm::{
    Computed, check_same, compute_dtype, fill_zeros, finish, gradients, parameter, parameter_dtype,
};
use super::matmul::write;
use crate::kernels::{self, ChannelNorm};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// The arguments of a batch norm beside its input.
#[derive(Clone, Copy)]
struct Norm<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    running_mean: Option<&'a Tensor>,
    running_var: Option<&'a Tensor>,
    momentum: f64,
    eps: f64,
}

fn channels(x: &Tensor) -> Result<i64> {
    check!(x.dim() != 0, "batch_norm: expected an input of at least one dimension, but got a 0-dim tensor");
    let Some(&channels) = x.sizes().get(1) else {
        check_index!(false, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
        return Ok(0);
    };
    Ok(channels)
}

/// The two running numbers, if they are there.
fn running<'a>(mean: Option<&'a Tensor>, var: Option<&'a Tensor>, training: bool) -> Result<Option<[&'a Tensor; 2]>> {
    check_value!(training || mean.is_some(), "running_mean must be defined in evaluation mode");
    match (mean, var) {
        (Some(mean), Some(var)) => Ok(Some([mean, var])),
        (None, None) => Ok(None),
        _ => {
            check_value!(false, "running_mean and running_var must either both be None or neither be None");
            Ok(None)
        }
    }
}

/// Refuses parameters of another length than there are channels.
fn check_lengths(channels: i64, parameters: &[(&str, Option<&Tensor>)]) -> Result<()> {
    for (name, parameter) in parameters {
        if let Some(parameter) = parameter {
            check!(
                parameter.numel() == channels,
                "{name} should contain {channels} elements not {}",
                parameter.numel()
            );
        }
    }
    Ok(())
}

/// Where the results of `like` lie: channels last if it is dense so, row-major otherwise.
fn format(like: &Tensor) -> MemoryFormat {
    match like.suggest_memory_format() {
        MemoryFormat::Preserve => MemoryFormat::Contiguous,
        format => format,
    }
}

fn spec(like: &Tensor, format: MemoryFormat) -> Result<Spec> {
    Ok(Spec { strides: Some(strides::of_format(like.sizes(), format)?), ..Spec::like(like.sizes(), like) })
}

/// A tensor that is dense in a memory format as (N, C, S); channels last as (N x positions, C, 1).
fn by_channel(x: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    let s: i64 = x.sizes()[2..].iter().product();
    let sizes = if format == MemoryFormat::Contiguous { [n, c, s] } else { [n * s, c, 1] };
    x.view_of_storage(&sizes, &strides::contiguous(&sizes), x.storage_offset())
}

/// [`by_channel`] of any tensor: copied unless it is dense in the format.
fn dense_by_channel(x: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    by_channel(&ops::contiguous(x, format)?, format)
}

/// The memory of a slot as (N, C, S) in a format: its own, or of a tensor beside it that [`put`] brings there.
fn workspace(slot: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    if slot.is_contiguous_in(format) {
        return Ok(slot.clone());
    }
    Tensor::new_strided(
        Dims::from_slice(slot.sizes()),
        strides::of_format(slot.sizes(), format)?,
        slot.dtype(),
        slot.device(),
    )
}

fn put(slot: &Tensor, workspace: &Tensor) -> Result<()> {
    if slot.is_same(workspace) { Ok(()) } else { write(slot, workspace) }
}

type Results = (Tensor, Tensor, Tensor);

fn forward(out: Out<'_>, input: &Tensor, norm: Norm<'_>, training: bool) -> Result<Results> {
    let c = channels(input)?;
    let running = running(norm.running_mean, norm.running_var, training)?;
    check!(
        input.numel() != 0,
        "input tensor must have at least one element, but got input_sizes = {}",
        show(input.sizes())
    );
    check_lengths(
        c,
        &[
            ("running_mean", norm.running_mean),
            ("running_var", norm.running_var),
            ("weight", norm.weight),
            ("bias", norm.bias),
        ],
    )?;
    let dtype = input.dtype();
    let kernel = match input.is_meta() {
        true => None,
        false => Some(kernels::batch_norm(input.device())?.norm.get(dtype, "batch_norm")?),
    };
    let params = parameter_dtype(dtype, &[norm.weight, norm.bias, norm.running_mean, norm.running_var])?;
    for numbers in running.iter().flatten() {
        check!(numbers.dim() == 1, "TensorAccessor expected 1 dims but tensor has {}", numbers.dim());
    }
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == dtype,
            "expected scalar type {} but found {}",
            dtype.cpp_name(),
            target.dtype().cpp_name()
        );
    }
    if let Some(target) = out.target(1).filter(|target| !training && target.dim() != 1) {
        tensor_core::bail!(Runtime, "TensorAccessor expected 1 dims but tensor has {}", target.dim());
    }
    let inputs: Vec<&Tensor> =
        [Some(input), norm.weight, norm.bias, norm.running_mean, norm.running_var].into_iter().flatten().collect();
    let format = format(input);
    // An out tensor of the right shape keeps its strides.
    let mut spec = spec(input, format)?;
    if let Some(target) = out.target(0).filter(|target| target.sizes() == input.sizes()) {
        spec.strides = Some(Dims::from_slice(target.strides()));
    }
    let result = out.prepare(0, spec, &inputs)?;
    let saved_sizes = if training || kernel.is_none() { vec![c] } else { vec![0] };
    // Without memory upstream keeps statistics in f32 whatever the parameters are.
    let saved_dtype = if kernel.is_none() { compute_dtype(dtype) } else { params };
    let saved = |i| Computed::new(out.prepare(i, Spec::dense(&saved_sizes, saved_dtype, input.device()), &inputs)?);
    let (mean, invstd) = (saved(1)?, saved(2)?);
    if let Some(kernel) = kernel {
        let compute = compute_dtype(dtype);
        let row = |x: Option<&Tensor>| x.map(|x| ops::reshape(x, &[c])).transpose();
        let (weight, bias) = (row(norm.weight)?, row(norm.bias)?);
        let (weight, bias) = (parameter(weight.as_ref(), compute)?, parameter(bias.as_ref(), compute)?);
        let [running_mean, running_var] = running.map(|pair| pair.map(Some)).unwrap_or_default();
        let numbers = [parameter(running_mean, compute)?, parameter(running_var, compute)?];
        let pair = match &numbers {
            [Some(mean), Some(var)] => Some([mean, var]),
            _ => None,
        };
        let computed = workspace(&result.tensor, format)?;
        let arguments = ChannelNorm {
            weight: weight.as_ref(),
            bias: bias.as_ref(),
            running: pair,
            saved: training.then_some([&mean.tensor, &invstd.tensor]),
            eps: norm.eps,
            momentum: norm.momentum,
            rounded: params == dtype,
        };
        kernel(&by_channel(&computed, format)?, &dense_by_channel(input, format)?, arguments)?;
        put(&result.tensor, &computed)?;
        if training && let (Some(running), Some(numbers)) = (running, pair) {
            // Upstream's schema does not say that these are written: no version is counted.
            put(running[0], numbers[0])?;
            put(running[1], numbers[1])?;
        }
    }
    Ok((result.finish()?, mean.finish()?, invstd.finish()?))
}

/// Channels (dimension 1) with mean 0 and variance 1 over the batch, scaled and shifted; with their moments in training.
#[allow(clippy::too_many_arguments)]
pub fn native_batch_norm(
    out: Out<'_>,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Results> {
    forward(out, input, Norm { weight, bias, running_mean, running_var, momentum, eps }, training)
}

/// [`native_batch_norm`] that says that it writes to the running numbers.
#[allow(clippy::too_many_arguments)]
pub fn _native_batch_norm_legit(
    out: Out<'_>,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Results> {
    let (running_mean, running_var) = (Some(running_mean), Some(running_var));
    let results = forward(out, input, Norm { weight, bias, running_mean, running_var, momentum, eps }, training)?;
    for running in [running_mean, running_var].into_iter().flatten() {
        running.as_impl().bump_version();
    }
    Ok(results)
}

/// [`native_batch_norm`] without running numbers.
pub fn _native_batch_norm_legit_no_stats(
    out: Out<'_>,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<Results> {
    forward(out, input, Norm { weight, bias, running_mean: None, running_var: None, momentum, eps }, training)
}

/// Gradients of [`native_batch_norm`].
#[allow(clippy::too_many_arguments)]
pub fn native_batch_norm_backward(
    out: Out<'_>,
    grad_out: &Tensor,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    output_mask: [bool; 3],
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let c = channels(input)?;
    check_same(grad_out, input)?;
    let pair = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let (Some(mean), Some(second)) = pair else {
        tensor_core::bail!(
            Runtime,
            "{}",
            if train {
                "save_mean and save_invstd must be defined in training mode"
            } else {
                "running_mean and running_var must be defined in evaluation mode"
            }
        );
    };
    check_lengths(c, &[("mean", Some(mean)), ("variance", Some(second)), ("weight", weight)])?;
    let dtype = input.dtype();
    let params = match weight {
        Some(weight) => parameter_dtype(dtype, &[Some(weight)])?,
        None => statistics_dtype(dtype, mean)?,
    };
    let kernel = match input.is_meta() {
        true => None,
        false => Some(kernels::batch_norm(input.device())?.norm_backward.get(dtype, "batch_norm_backward_cpu")?),
    };
    let format = format(grad_out);
    let specs =
        [spec(input, format)?, Spec::dense(&[c], params, input.device()), Spec::dense(&[c], params, input.device())];
    let inputs: Vec<&Tensor> =
        [Some(grad_out), Some(input), weight, Some(mean), Some(second)].into_iter().flatten().collect();
    let slots = gradients(out, output_mask, specs, &inputs)?;
    if input.numel() == 0 {
        fill_zeros(&slots)?;
    } else if let Some(kernel) = kernel {
        let compute = compute_dtype(dtype);
        let row = |x: &Tensor| ops::to_dtype(&ops::reshape(x, &[c])?, compute, false, false, None);
        let (weight, mean, second) = (weight.map(row).transpose()?, row(mean)?, row(second)?);
        let arguments = ChannelNorm {
            weight: weight.as_ref(),
            bias: None,
            running: (!train).then_some([&mean, &second]),
            saved: train.then_some([&mean, &second]),
            eps,
            momentum: 0.0,
            rounded: false,
        };
        let grad_input = slots[0].as_ref().map(|slot| by_channel(&slot.tensor, format)).transpose()?;
        let parameters = [1, 2].map(|i| slots[i].as_ref().map(|slot| &slot.tensor));
        let grads = [grad_input.as_ref(), parameters[0], parameters[1]];
        kernel(grads, &dense_by_channel(grad_out, format)?, &dense_by_channel(input, format)?, arguments)?;
    }
    finish(slots)
}

/// The dtype of parameters' gradients where there are none: that of the statistics.
fn statistics_dtype(dtype: DType, mean: &Tensor) -> Result<DType> {
    parameter_dtype(dtype, &[Some(mean)])
}
