//! The gradient of batch norm's gradient.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;
use tensor_core::strides::Dims;

use super::layer_norm::{Norm, Three};

/// Gradients of `native_batch_norm_backward` with respect to input, weight and its gradient.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_bias: Option<&Tensor>,
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: Option<&Tensor>,
    save_invstd: Option<&Tensor>,
    train: bool,
    eps: f64,
    need: [bool; 3],
) -> Result<Three> {
    let mut shape = Dims::from_elem(1, x.dim());
    shape[1] = x.size(1)?;
    let parameter = [shape[1]];
    let wide = |t: &Tensor| ops::reshape(t, &shape);
    let (mean, second) = if train { (save_mean, save_invstd) } else { (running_mean, running_var) };
    let (Some(mean), Some(second)) = (mean, second) else {
        tensor_core::bail!(Runtime, "batch_norm_double_backward: the statistics are not defined");
    };
    let rstd = if train { second.clone() } else { ops::rsqrt(&ops::add_scalar(second, eps, 1)?)? };
    let others: Dims = (0..x.dim() as i64).filter(|&d| d != 1).collect();
    let norm = Norm {
        x,
        mean: wide(mean)?,
        rstd: wide(&rstd)?,
        weight: weight.map(wide).transpose()?,
        moments: if train { others.clone() } else { Dims::new() },
        repeated: others,
        parameter: &parameter,
    };
    let (u, w) = (grad_weight.map(wide).transpose()?, grad_bias.map(wide).transpose()?);
    norm.double(grad, [grad_input, u.as_ref(), w.as_ref()], need)
}
