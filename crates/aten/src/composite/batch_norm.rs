//! Batch norm and instance norm with the checks that users meet.

use tensor_core::strides::{Dims, show};
use tensor_core::{DType, Result, check};

use crate::{Tensor, ops};

/// Refuses a parameter of another length than there are channels.
fn check_length(name: &str, parameter: Option<&Tensor>, channels: i64) -> Result<()> {
    if let Some(parameter) = parameter {
        check!(parameter.numel() == channels, "{name} should contain {channels} elements not {}", parameter.numel());
    }
    Ok(())
}

/// Batch norm: the result alone.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    cudnn_enabled: bool,
) -> Result<Tensor> {
    let all = ops::_batch_norm_impl_index(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        momentum,
        eps,
        cudnn_enabled,
    )?;
    Ok(all.0)
}

/// Batch norm: result, mean, inverse deviation, a reserve (empty) and which implementation ran (0: the native one).
#[allow(clippy::too_many_arguments)]
pub fn _batch_norm_impl_index(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor, i64)> {
    let device = input.device();
    let empty = |dtype| ops::empty_memory_format(&[0], Some(dtype), None, Some(device), None, None);
    // A batch norm of nothing is nothing, with a graph that goes through the parameters.
    if input.numel() == 0 {
        let mut result = ops::clone(input, None)?;
        if let Some(weight) = weight {
            result = ops::mul(&result, &ops::select_int(weight, 0, 0)?)?;
        }
        if let Some(bias) = bias {
            result = ops::add(&result, &ops::select_int(bias, 0, 0)?, 1)?;
        }
        let statistics = || match running_mean {
            Some(mean) => ops::empty_memory_format(mean.sizes(), Some(DType::F64), None, Some(device), None, None),
            None => empty(DType::F64),
        };
        return Ok((result, statistics()?, statistics()?, empty(DType::U8)?, 0));
    }
    let channels = input.size(1)?;
    match running_mean {
        Some(_) => check_length("running_mean", running_mean, channels)?,
        None => check!(training, "running_mean must be defined in evaluation mode"),
    }
    match running_var {
        Some(_) => check_length("running_var", running_var, channels)?,
        None => check!(training, "running_var must be defined in evaluation mode"),
    }
    check_length("weight", weight, channels)?;
    check_length("bias", bias, channels)?;
    let (result, mean, invstd) =
        ops::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)?;
    Ok((result, mean, invstd, empty(DType::U8)?, 0))
}

/// Batch norm with the running numbers.
pub fn _native_batch_norm_legit_no_training(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    ops::native_batch_norm(input, weight, bias, Some(running_mean), Some(running_var), false, momentum, eps)
}

/// Each channel of each image with mean 0 and variance 1: batch norm of (1, N x C, ..).
#[allow(clippy::too_many_arguments)]
pub fn instance_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    cudnn_enabled: bool,
) -> Result<Tensor> {
    check!(
        use_input_stats || (running_mean.is_some() && running_var.is_some()),
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    check!(
        input.dim() >= 2,
        "Expected an input of at least two dimensions, but got input of size {}",
        show(input.sizes())
    );
    let (n, c) = (input.sizes()[0], input.sizes()[1]);
    let mut shape = Dims::from_slice(input.sizes());
    (shape[0], shape[1]) = (1, n * c);
    let repeated = |x: Option<&Tensor>| x.map(|x| ops::repeat(x, &[n])).transpose();
    let (weight, bias) = (repeated(weight)?, repeated(bias)?);
    let (mean, var) = (repeated(running_mean)?, repeated(running_var)?);
    let reshaped = ops::view(&ops::contiguous(input, tensor_core::MemoryFormat::Contiguous)?, &shape)?;
    let result = ops::batch_norm(
        &reshaped,
        weight.as_ref(),
        bias.as_ref(),
        mean.as_ref(),
        var.as_ref(),
        use_input_stats,
        momentum,
        eps,
        cudnn_enabled,
    )?;
    // The running numbers are the means of those of the images.
    for (running, repeated) in [(running_mean, mean), (running_var, var)] {
        if let (true, Some(running), Some(repeated)) = (use_input_stats, running, repeated) {
            let mean = ops::mean_dim(&ops::view(&repeated, &[n, c])?, Some(&[0]), false, None)?;
            ops::copy_(&ops::detach(running)?, &mean, false)?;
        }
    }
    ops::view(&result, input.sizes())
}

/// Batch norm in training that says that it writes to the running numbers; with the moments and an empty reserve.
pub fn _batch_norm_with_update(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (result, mean, invstd) =
        ops::_native_batch_norm_legit(input, weight, bias, running_mean, running_var, true, momentum, eps)?;
    let reserve = ops::empty_memory_format(&[0], Some(DType::U8), None, Some(input.device()), None, None)?;
    Ok((result, mean, invstd, reserve))
}

/// Gradients of batch norm, whichever implementation ran; `native_batch_norm_backward`.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_var: Option<&Tensor>,
    update: bool,
    eps: f64,
    output_mask: [bool; 3],
    _reserve: &Tensor,
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    ops::native_batch_norm_backward(
        grad_out,
        input,
        Some(weight),
        running_mean,
        running_var,
        save_mean,
        save_var,
        update,
        eps,
        output_mask,
    )
}
