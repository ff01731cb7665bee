//! Losses of each element, their mean or sum, and their gradients.

use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::promotion::can_cast;
use tensor_core::strides::show;
use tensor_core::{Device, Result, Scalar, check};

use crate::iterate;
use crate::kernels::{self, Columns, IterKernel, LossKernels};
use crate::out::{Out, copy_into};
use crate::{Tensor, ops};

/// What is done with each loss, as numbers in schemas: nothing (0 and all others), the mean, the sum.
const MEAN: i64 = 1;
const SUM: i64 = 2;

type Column = fn(&LossKernels) -> &Columns<IterKernel>;

fn column(pick: Column) -> impl FnOnce(Device) -> Result<&'static Columns<IterKernel>> {
    move |device| Ok(pick(kernels::loss(device)?))
}

/// Each loss where it belongs, or their mean or sum.
fn reduced(out: Out<'_>, reduction: i64, each: impl FnOnce(Out<'_>) -> Result<Tensor>) -> Result<Tensor> {
    let whole = match reduction {
        MEAN => ops::mean(&each(Out::Fresh)?, None)?,
        SUM => ops::sum(&each(Out::Fresh)?, None)?,
        _ => return each(out),
    };
    match out.target(0) {
        None => Ok(whole),
        Some(target) => {
            check!(
                can_cast(whole.dtype(), target.dtype()),
                "result type {} can't be cast to the desired output type {}",
                whole.dtype().cpp_name(),
                target.dtype().cpp_name()
            );
            copy_into(target, &whole)?;
            Ok(target.clone())
        }
    }
}

/// [`reduced`] by way of the out tensor, which holds each loss before.
fn reduced_within(out: Out<'_>, reduction: i64, each: impl FnOnce(Out<'_>) -> Result<Tensor>) -> Result<Tensor> {
    let Some(target) = out.target(0).filter(|_| matches!(reduction, MEAN | SUM)) else {
        return reduced(out, reduction, each);
    };
    let losses = each(out)?;
    let whole = if reduction == MEAN { ops::mean(&losses, None)? } else { ops::sum(&losses, None)? };
    copy_into(target, &whole)?;
    Ok(target.clone())
}

/// The factor of each loss in what it is reduced to.
fn share(reduction: i64, x: &Tensor) -> f64 {
    if reduction == MEAN { 1.0 / x.numel() as f64 } else { 1.0 }
}

fn with(mut iter: TensorIter, params: &[f64]) -> TensorIter {
    let params: Vec<Scalar> = params.iter().map(|&p| Scalar::Float(p)).collect();
    iter.set_params(&params);
    iter
}

/// `|self - target|` beyond `beta`, a parabola within it.
pub fn smooth_l1_loss(out: Out<'_>, self_: &Tensor, target: &Tensor, reduction: i64, beta: f64) -> Result<Tensor> {
    check!(beta >= 0.0, "smooth_l1_loss does not support negative values for beta.");
    reduced(out, reduction, |out| {
        let iter = with(iterate::binary(out, self_, target)?, &[beta]);
        iterate::run(iter, out, "smooth_l1_cpu", column(|k| &k.smooth_l1_loss))
    })
}

/// Gradient of [`smooth_l1_loss`] with respect to `self`.
pub fn smooth_l1_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    beta: f64,
) -> Result<Tensor> {
    let iter = with(iterate::ternary(out, grad_output, self_, target)?, &[share(reduction, self_), beta]);
    iterate::run(iter, out, "smooth_l1_backward_cpu_out", column(|k| &k.smooth_l1_loss_backward))
}

/// `delta * (|self - target| - delta / 2)` beyond `delta`, half the square within it.
pub fn huber_loss(out: Out<'_>, self_: &Tensor, target: &Tensor, reduction: i64, delta: f64) -> Result<Tensor> {
    check!(delta > 0.0, "huber_loss does not support non-positive values for delta.");
    reduced_within(out, reduction, |out| {
        let iter = with(iterate::binary(out, self_, target)?, &[delta]);
        iterate::run(iter, out, "huber_cpu", column(|k| &k.huber_loss))
    })
}

/// Gradient of [`huber_loss`] with respect to `self`.
pub fn huber_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    delta: f64,
) -> Result<Tensor> {
    let iter = with(iterate::ternary(out, grad_output, self_, target)?, &[share(reduction, self_), delta]);
    iterate::run(iter, out, "huber_backward_cpu_out", column(|k| &k.huber_loss_backward))
}

/// `log(1 + exp(-target * self))`
pub fn soft_margin_loss(out: Out<'_>, self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduced(out, reduction, |out| {
        iterate::run(iterate::binary(out, self_, target)?, out, "soft_margin_cpu", column(|k| &k.soft_margin_loss))
    })
}

/// Gradient of [`soft_margin_loss`] with respect to `self`.
pub fn soft_margin_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<Tensor> {
    // In this order, which the strides of the result follow.
    let iter = with(iterate::ternary(out, target, self_, grad_output)?, &[share(reduction, self_)]);
    iterate::run(iter, out, "soft_margin_backward_cpu", column(|k| &k.soft_margin_loss_backward))
}

/// Refuses numbers that are no probabilities, before anything is written.
fn check_unit(name: &str, x: &Tensor) -> Result<()> {
    if x.is_meta() || x.numel() == 0 {
        return Ok(());
    }
    let inside = kernels::loss(x.device())?.all_in_unit.get(x.dtype(), "binary_cross_entropy")?(x)?;
    check!(inside, "all elements of {name} should be between 0 and 1");
    Ok(())
}

/// A plan without promotion whose result has the first tensor's shape.
fn same(out: Out<'_>, x: &Tensor, inputs: &[&Tensor]) -> Result<TensorIter> {
    let mut config = IterConfig::new().output(out.target(0).map(Tensor::as_impl));
    for input in inputs {
        config = config.input(input.as_impl());
    }
    let iter = config.build()?;
    check!(
        iter.output(0).sizes() == x.sizes(),
        "output with shape {} doesn't match the broadcast shape {}",
        show(x.sizes()),
        show(iter.output(0).sizes())
    );
    Ok(iter)
}

/// `-(target * log(self) + (1 - target) * log(1 - self)) * weight`, with logarithms of at least -100.
pub fn binary_cross_entropy(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == self_.dtype(),
            "Found dtype {} but expected {}",
            target.dtype().cpp_name(),
            self_.dtype().cpp_name()
        );
    }
    reduced(out, reduction, |out| {
        let iter = same(out, self_, &[self_, target])?;
        check_unit("input", self_)?;
        check_unit("target", target)?;
        let losses = iterate::run(iter, out, "binary_cross_entropy", column(|k| &k.binary_cross_entropy))?;
        if let Some(weight) = weight {
            ops::mul_(&losses, weight)?;
        }
        Ok(losses)
    })
}

/// Gradient of [`binary_cross_entropy`] with respect to `self`.
pub fn binary_cross_entropy_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let iter = same(out, self_, &[grad_output, self_, target])?;
    let name = "binary_cross_entropy_backward";
    let grad = iterate::run(iter, out, name, column(|k| &k.binary_cross_entropy_backward))?;
    if let Some(weight) = weight {
        ops::mul_(&grad, weight)?;
    }
    if reduction == MEAN {
        ops::mul_scalar_(&grad, share(reduction, self_))?;
    }
    Ok(grad)
}

/// [`binary_cross_entropy`] of `sigmoid(self)`, where the losses of `target` 1 count `pos_weight`.
pub fn binary_cross_entropy_with_logits(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    reduced(out, reduction, |out| {
        let name = "log_sigmoid_cpu";
        let losses = match pos_weight {
            None => iterate::run(iterate::binary(out, self_, target)?, out, name, column(|k| &k.logits_loss))?,
            Some(pos_weight) => {
                let iter = iterate::ternary(out, self_, target, pos_weight)?;
                iterate::run(iter, out, name, column(|k| &k.weighted_logits_loss))?
            }
        };
        match weight {
            Some(weight) if out.target(0).is_none() => ops::mul(&losses, weight),
            Some(weight) => ops::mul_(&losses, weight).cloned(),
            None => Ok(losses),
        }
    })
}
