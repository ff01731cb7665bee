//! Clipping of gradients (`torch.nn.utils.clip_grad_norm_`, `clip_grad_value_`).

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::Result;

use crate::Parameter;

/// Scales the gradients of some parameters so that their joint norm is at most `max_norm`. Gives the norm that they had.
///
/// # Errors
/// When an operator fails.
pub fn clip_grad_norm_(parameters: &[Parameter], max_norm: f64, norm_type: f64) -> Result<Tensor> {
    let _no_grad = no_grad();
    let grads: Vec<Tensor> = parameters.iter().filter_map(|p| p.grad()).collect();
    if grads.is_empty() {
        return ops::zeros(&[], None, None, None, None);
    }
    let norms = grads
        .iter()
        .map(|grad| ops::linalg_vector_norm(grad, norm_type, None, false, None))
        .collect::<Result<Vec<_>>>()?;
    let total = ops::linalg_vector_norm(&ops::stack(&norms.iter().collect::<Vec<_>>(), 0)?, norm_type, None, false, None)?;
    let scale = ops::mul_scalar(&ops::reciprocal(&ops::add_scalar(&total, 1e-6, 1)?)?, max_norm)?;
    let scale = ops::clamp_max(&scale, 1.0)?;
    for grad in &grads {
        ops::mul_(grad, &scale)?;
    }
    Ok(total)
}

/// Clamps the gradients of some parameters to [-`clip_value`, `clip_value`].
///
/// # Errors
/// When an operator fails.
pub fn clip_grad_value_(parameters: &[Parameter], clip_value: f64) -> Result<()> {
    let _no_grad = no_grad();
    for grad in parameters.iter().filter_map(|p| p.grad()) {
        ops::clamp_(&grad, Some((-clip_value).into()), Some(clip_value.into()))?;
    }
    Ok(())
}
