//! Layer norm, group norm and root mean square norm, with the checks that users meet.

use tensor_core::strides::{Dims, show};
use tensor_core::{DType, Result, check};

use crate::{Tensor, ops};

/// Layer norm: the result alone.
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enable: bool,
) -> Result<Tensor> {
    Ok(ops::native_layer_norm(input, normalized_shape, weight, bias, eps)?.0)
}

/// Group norm: the result alone.
pub fn group_norm(
    input: &Tensor,
    num_groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    check!(input.dim() >= 2, "Expected at least 2 dimensions for input tensor but received {}", input.dim());
    let (n, c) = (input.sizes()[0], input.sizes()[1]);
    check!(num_groups > 0, "Expected num groups to be greater than 0, got {num_groups}");
    check!(c > 0, "Expected number of channels to be greater than 0, got {c}");
    let hxw: i64 = input.sizes()[2..].iter().product();
    check!(hxw > 0, "Expected HxW to be greater than 0, got {hxw}");
    let format = input.suggest_memory_format();
    let input = ops::contiguous(input, format)?;
    let parameter =
        |x: Option<&Tensor>| x.map(|x| ops::contiguous(x, tensor_core::MemoryFormat::Contiguous)).transpose();
    let (weight, bias) = (parameter(weight)?, parameter(bias)?);
    Ok(ops::native_group_norm(&input, weight.as_ref(), bias.as_ref(), n, c, hxw, num_groups, eps)?.0)
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the trailing dimensions, and the factor before the weight.
pub fn _fused_rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    let dims: Dims = (0..normalized_shape.len()).map(|d| (input.dim() - 1 - d) as i64).collect();
    // Half floats are computed in f32.
    let compute = match input.dtype() {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    };
    let eps = eps.unwrap_or(match compute.to_real() {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    });
    let x = ops::to_dtype(input, compute, false, false, None)?;
    let square = ops::pow_tensor_scalar(&x, 2)?;
    let mean = ops::mean_dim(&square, Some(&dims), true, None)?;
    let factor = ops::rsqrt(&ops::add_scalar(&mean, eps, 1)?)?;
    let mut result = ops::mul(&x, &factor)?;
    if let Some(weight) = weight {
        result = ops::mul(&result, weight)?;
    }
    let result = ops::to_dtype(&result, input.dtype(), false, false, None)?;
    Ok((ops::contiguous(&result, input.suggest_memory_format())?, factor))
}

/// Root mean square norm: the result alone.
pub fn rms_norm(input: &Tensor, normalized_shape: &[i64], weight: Option<&Tensor>, eps: Option<f64>) -> Result<Tensor> {
    check!(
        !normalized_shape.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
         normalized_shape = {}",
        show(normalized_shape)
    );
    if let Some(weight) = weight {
        check!(
            weight.sizes() == normalized_shape,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape {} and normalized_shape = {}",
            show(weight.sizes()),
            show(normalized_shape)
        );
    }
    if !input.sizes().ends_with(normalized_shape) {
        let shape: Vec<String> = normalized_shape.iter().map(i64::to_string).collect();
        tensor_core::bail!(
            Runtime,
            "Given normalized_shape={}, expected input with shape [*{}], but got input of size{}",
            show(normalized_shape),
            shape.join(", "),
            show(input.sizes())
        );
    }
    Ok(ops::_fused_rms_norm(input, normalized_shape, weight, eps)?.0)
}
