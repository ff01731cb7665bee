//! Gradients of losses and of their gradients. With `g` the gradient of the loss, a backward pass gives `g * slope(x)`,
//! divided by the number of elements for a mean.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// What is done with each loss, as numbers in schemas.
const MEAN: i64 = 1;
const SUM: i64 = 2;

/// The gradient with respect to `g`: `grad * slope`, summed where one `g` serves all losses.
fn of_grad_output(grad: &Tensor, slope: &Tensor, grad_output: &Tensor, reduction: i64) -> Result<Tensor> {
    let product = ops::mul(grad, slope)?;
    let whole = if matches!(reduction, MEAN | SUM) { ops::sum(&product, None)? } else { return Ok(product) };
    ops::reshape(&whole, grad_output.sizes())
}

/// One part of a mean.
fn shared(x: Tensor, reduction: i64) -> Result<Tensor> {
    if reduction != MEAN {
        return Ok(x);
    }
    let count = x.numel() as f64;
    ops::div_scalar(&x, count)
}

fn ones(x: &Tensor) -> Result<Tensor> {
    ops::ones_like(x, None, None, None, None, None)
}

/// `grad` where `|x - target| < limit`, else 0.
fn where_close(grad: &Tensor, x: &Tensor, target: &Tensor, limit: f64) -> Result<Tensor> {
    ops::mul(grad, &ops::lt_scalar(&ops::abs(&ops::sub(x, target, 1)?)?, limit)?)
}

/// Gradient of `smooth_l1_loss_backward` with respect to its gradient.
pub fn smooth_l1_loss_backward_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let slope = ops::smooth_l1_loss_backward(&ones(grad)?, x, target, reduction, beta)?;
    of_grad_output(grad, &slope, grad_output, reduction)
}

/// Gradient of `smooth_l1_loss_backward` with respect to `self`.
pub fn smooth_l1_loss_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let slope = where_close(&ops::mul(grad, grad_output)?, x, target, beta)?;
    shared(if beta == 0.0 { slope } else { ops::div_scalar(&slope, beta)? }, reduction)
}

/// Gradient of `huber_loss_backward` with respect to its gradient.
pub fn huber_loss_backward_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    let slope = ops::huber_loss_backward(&ones(grad)?, x, target, reduction, delta)?;
    of_grad_output(grad, &slope, grad_output, reduction)
}

/// Gradient of `huber_loss_backward` with respect to `self`.
pub fn huber_loss_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    shared(where_close(&ops::mul(grad, grad_output)?, x, target, delta)?, reduction)
}

/// Gradient of `soft_margin_loss_backward` with respect to its gradient.
pub fn soft_margin_loss_backward_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let slope = ops::soft_margin_loss_backward(&ones(grad)?, x, target, reduction)?;
    of_grad_output(grad, &slope, grad_output, reduction)
}

/// Gradient of `soft_margin_loss_backward` with respect to `self`: the slope is `-t * s(-t * x)`, s the sigmoid.
pub fn soft_margin_loss_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    let sigmoid = ops::sigmoid(&ops::mul(target, x)?)?;
    let curvature = ops::mul(&sigmoid, &ops::rsub_scalar(&sigmoid, 1, 1)?)?;
    let slope = ops::mul(&ops::mul(target, target)?, &curvature)?;
    shared(ops::mul(&ops::mul(grad, grad_output)?, &slope)?, reduction)
}

fn weighted(x: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    weight.map_or(Ok(x.clone()), |weight| ops::mul(&x, weight))
}

/// Gradient of `binary_cross_entropy` with respect to `target`.
pub fn binary_cross_entropy_target_backward(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let log = |x: &Tensor| ops::clamp_min(&ops::log(x)?, -100);
    let slope = ops::sub(&log(&ops::rsub_scalar(x, 1, 1)?)?, &log(x)?, 1)?;
    let slope = weighted(ops::mul(&slope, grad)?, weight)?;
    shared(slope, reduction)
}

/// Added to factors that may be 0.
const TINY: f64 = 1e-12;

/// `(x + tiny, 1 - x + tiny)`
fn factors(x: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((ops::add_scalar(x, TINY, 1)?, ops::add_scalar(&ops::rsub_scalar(x, 1, 1)?, TINY, 1)?))
}

/// Gradient of `binary_cross_entropy_backward` with respect to its gradient.
pub fn binary_cross_entropy_backward_grad_output(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let (a, b) = factors(x)?;
    let slope = ops::div(&ops::sub(x, target, 1)?, &ops::mul(&a, &b)?)?;
    of_grad_output(grad, &shared(weighted(slope, weight)?, reduction)?, grad_output, reduction)
}

/// Gradient of `binary_cross_entropy_backward` with respect to `self`: the slope is `(x - t) / (x * (1 - x))`.
pub fn binary_cross_entropy_double_backward(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let (a, b) = factors(x)?;
    let square = |x: &Tensor| ops::mul(x, x);
    let twice = ops::mul_scalar(&ops::mul(x, target)?, 2)?;
    let above = ops::add(&ops::sub(&square(x)?, &twice, 1)?, target, 1)?;
    let slope = ops::div(&above, &ops::mul(&square(&a)?, &square(&b)?)?)?;
    shared(weighted(ops::mul(&slope, &ops::mul(grad, grad_output)?)?, weight)?, reduction)
}

/// Gradient of `binary_cross_entropy_backward` with respect to `target`.
pub fn binary_cross_entropy_double_backward_target(
    grad: &Tensor,
    grad_output: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let (a, b) = factors(x)?;
    let slope = ops::neg(&ops::div(&ops::mul(grad, grad_output)?, &ops::mul(&a, &b)?)?)?;
    shared(weighted(slope, weight)?, reduction)
}

/// Gradient of `binary_cross_entropy_with_logits` with respect to `self`.
pub fn binary_cross_entropy_with_logits_backward(
    grad: &Tensor,
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let sigmoid = ops::sigmoid(x)?;
    let slope = match pos_weight {
        None => ops::sub(&sigmoid, target, 1)?,
        Some(pos_weight) => {
            let positive = ops::mul(pos_weight, target)?;
            let all = ops::sub(&ops::add_scalar(&positive, 1, 1)?, target, 1)?;
            ops::sub(&ops::mul(&all, &sigmoid)?, &positive, 1)?
        }
    };
    shared(weighted(ops::mul(&slope, grad)?, weight)?, reduction)
}

/// Gradient of `binary_cross_entropy_with_logits` with respect to `target`.
pub fn binary_cross_entropy_with_logits_target_backward(
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let slope = match pos_weight {
        None => ops::neg(x)?,
        Some(pos_weight) => {
            // The loss of targets 0 is -log(sigmoid(-x)), that of targets 1 is -log(sigmoid(x)).
            let loss = |target: Tensor| ops::binary_cross_entropy_with_logits(x, &target, None, None, 0);
            let (of_zero, of_one) = (loss(ops::zeros_like(x, None, None, None, None, None)?)?, loss(ones(x)?)?);
            ops::sub(&ops::mul(pos_weight, &of_one)?, &of_zero, 1)?
        }
    };
    shared(weighted(ops::mul(&slope, grad)?, weight)?, reduction)
}
