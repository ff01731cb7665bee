//! Clipping of gradients (`torch.nn.utils.clip_grad_norm_`, `clip_grad_value_`).

use tensor_aten::{Tensor, ops};
use tensor_autograd::set_grad_enabled;
use tensor_core::{Result, check};

/// Scales the gradients of some parameters, so that their joint 2-norm is at most `max_norm`. Gives the norm that they had.
///
/// ```
/// # use tensor_nn::{Linear, Module, utils::clip_grad_norm_};
/// # use tensor_backends_cpu as _;
/// # fn main() -> tensor_core::Result<()> {
/// let net = Linear::new(4, 2)?;
/// let norm = clip_grad_norm_(net.parameters(), 1.0)?;
/// assert_eq!(norm.item()?.to_f64(), 0.0); // no gradients yet
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When an operator fails.
pub fn clip_grad_norm_<P: AsRef<Tensor>>(parameters: impl IntoIterator<Item = P>, max_norm: f64) -> Result<Tensor> {
    clip_grad_norm_opt_(parameters, max_norm, 2.0, false)
}

/// [`clip_grad_norm_`] with every argument: the norm is the `norm_type`-norm.
///
/// # Errors
/// When an operator fails; with `error_if_nonfinite`, for a norm that is infinite or no number. Nothing is scaled then.
pub fn clip_grad_norm_opt_<P: AsRef<Tensor>>(
    parameters: impl IntoIterator<Item = P>,
    max_norm: f64,
    norm_type: f64,
    error_if_nonfinite: bool,
) -> Result<Tensor> {
    let _no_grad = set_grad_enabled(false);
    let grads = grads(parameters);
    let total = get_total_norm(&grads, norm_type)?;
    if error_if_nonfinite {
        check!(
            ops::item(&total)?.to_f64().is_finite(),
            "The total norm of order {norm_type:?} for gradients from `parameters` is non-finite, so it cannot be clipped. \
             To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        );
    }
    let scale = ops::mul_scalar(&ops::reciprocal(&ops::add_scalar(&total, 1e-6, 1)?)?, max_norm)?;
    let scale = ops::clamp(&scale, None, Some(1.0.into()))?;
    for grad in &grads {
        ops::mul_(grad, &scale)?;
    }
    Ok(total)
}

/// Clamps each element of the gradients of some parameters to [-`clip_value`, `clip_value`].
///
/// # Errors
/// When an operator fails.
pub fn clip_grad_value_<P: AsRef<Tensor>>(parameters: impl IntoIterator<Item = P>, clip_value: f64) -> Result<()> {
    let _no_grad = set_grad_enabled(false);
    for grad in grads(parameters) {
        ops::clamp_(&grad, Some((-clip_value).into()), Some(clip_value.into()))?;
    }
    Ok(())
}

/// The norm of some tensors as if they were one vector (`torch.nn.utils.get_total_norm`); 0 without any.
///
/// # Errors
/// When an operator fails.
pub fn get_total_norm(tensors: &[Tensor], norm_type: f64) -> Result<Tensor> {
    if tensors.is_empty() {
        return Tensor::zeros(&[], ());
    }
    let norm = |tensor: &Tensor| ops::linalg_vector_norm(tensor, norm_type, None, false, None);
    let norms = tensors.iter().map(norm).collect::<Result<Vec<_>>>()?;
    norm(&ops::stack(&norms.iter().collect::<Vec<_>>(), 0)?)
}

fn grads<P: AsRef<Tensor>>(parameters: impl IntoIterator<Item = P>) -> Vec<Tensor> {
    parameters.into_iter().filter_map(|parameter| parameter.as_ref().grad()).collect()
}
