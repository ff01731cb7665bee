//! Losses that want scores apart by a margin: of one class, and of several, with their gradients.

use tensor_core::{DType, MemoryFormat, Result, Scalar, check};

use super::convolution::list;
use super::padding::check_scalar_type;
use crate::kernels::{self, MarginLoss};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// Samples and classes of scores (C), (N, C), or one alone.
fn extent(x: &Tensor) -> Result<[i64; 2]> {
    let sizes = x.sizes();
    check!(
        (sizes.len() <= 1 && x.numel() > 0) || (sizes.len() == 2 && sizes[1] > 0),
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
        list(sizes)
    );
    Ok(match *sizes {
        [] => [1, 1],
        [c] => [1, c],
        _ => [sizes[0], sizes[1]],
    })
}

fn dense(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::view(&ops::contiguous(x, MemoryFormat::Contiguous)?, sizes)
}

/// Checks the arguments of a loss of one class, and gives samples, classes and the exponent.
fn check_multi(x: &Tensor, target: &Tensor, p: Scalar, weight: Option<&Tensor>) -> Result<([i64; 2], i64)> {
    let extent @ [n, c] = extent(x)?;
    let p = p.to_f64();
    check!(p == 1.0 || p == 2.0, "only p == 1 and p == 2 supported");
    check!(
        target.dim() <= 1 && target.numel() == n,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected \
         target size [{n}], but got {}. Input has shape {}.",
        list(target.sizes()),
        list(x.sizes())
    );
    check!(
        weight.is_none_or(|weight| weight.dim() <= 1 && weight.numel() == c),
        "inconsistent weight size, expected {c} but got {}",
        list(weight.map_or(&[][..], |weight| weight.sizes()))
    );
    Ok((extent, p as i64))
}

/// `sum over c other than t of max(0, margin - x[t] + x[c])^p * weight[t] / C`: each, their mean or their sum.
pub fn multi_margin_loss(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let (extent, p) = check_multi(self_, target, p, weight)?;
    let kernel = match self_.is_meta() {
        true => None,
        false => {
            check_scalar_type(DType::I64, target.dtype())?;
            Some(
                kernels::margin_loss(self_.device())?
                    .multi_margin
                    .get(self_.dtype(), "multi_margin_loss_cpu_kernel")?,
            )
        }
    };
    if let Some(weight) = weight {
        check_scalar_type(self_.dtype(), weight.dtype())?;
    }
    let sizes = if reduction == 0 { target.sizes() } else { &[] };
    let slot = out.prepare(0, Spec::like(sizes, self_), &[self_, target])?;
    if let Some(kernel) = kernel {
        let target = dense(target, &extent[..1])?;
        let loss = MarginLoss { target: &target, weight, p, margin: margin.to_f64(), reduction };
        kernel(&slot.tensor, &dense(self_, &extent)?, loss)?;
    }
    slot.finish()
}

/// Gradient of [`multi_margin_loss`].
#[allow(clippy::too_many_arguments)]
pub fn multi_margin_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    let (extent, p) = check_multi(self_, target, p, weight)?;
    let name = "multi_margin_loss_backward_cpu_kernel";
    let kernel = match self_.is_meta() {
        true => None,
        false => {
            check_scalar_type(DType::I64, target.dtype())?;
            Some(kernels::margin_loss(self_.device())?.multi_margin_backward.get(self_.dtype(), name)?)
        }
    };
    for x in [Some(grad_output), weight].into_iter().flatten() {
        check_scalar_type(self_.dtype(), x.dtype())?;
    }
    check_grad(grad_output, extent[0], reduction)?;
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), &[grad_output, self_, target])?;
    if let Some(kernel) = kernel.filter(|_| self_.numel() > 0) {
        let target = dense(target, &extent[..1])?;
        let loss = MarginLoss { target: &target, weight, p, margin: margin.to_f64(), reduction };
        let result = ops::view(&slot.tensor, &extent)?;
        kernel(&result, &ops::reshape(grad_output, &[-1])?, &dense(self_, &extent)?, loss)?;
    }
    slot.finish()
}

/// A gradient is one number, or one a sample where losses are not reduced.
fn check_grad(grad: &Tensor, n: i64, reduction: i64) -> Result<()> {
    if reduction == 0 && grad.dim() > 0 {
        check!(
            grad.dim() == 1 && grad.sizes()[0] == n,
            "Expected a tensor of dimension 1 and tensor.size[0] == {n} but got: dimension {} and tensor.size[0] = {}",
            grad.dim(),
            grad.sizes()[0]
        );
        return Ok(());
    }
    check!(grad.numel() == 1, "Expected a single element grad_output tensor, but got: {}", list(grad.sizes()));
    Ok(())
}

/// Checks the arguments of a loss of several classes, and gives samples and classes.
fn check_multilabel(x: &Tensor, target: &Tensor) -> Result<[i64; 2]> {
    let extent = extent(x)?;
    let fits = match x.dim() {
        2 => target.sizes() == x.sizes(),
        _ => target.dim() <= 1 && target.numel() == extent[1],
    };
    check!(fits, "inconsistent target size: {} for input of size: {}", list(target.sizes()), list(x.sizes()));
    Ok(extent)
}

/// `sum over targets t and others c of max(0, 1 - x[t] + x[c]) / C`, and where the targets are. A row of targets ends at
/// its first -1.
pub fn multilabel_margin_loss_forward(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<(Tensor, Tensor)> {
    let extent = check_multilabel(self_, target)?;
    let kernel = match self_.is_meta() {
        true => None,
        false => {
            let name = "multilabel_margin_loss_forward_out_frame";
            let kernel = kernels::margin_loss(self_.device())?.multilabel_margin.get(self_.dtype(), name)?;
            check_scalar_type(DType::I64, target.dtype())?;
            Some(kernel)
        }
    };
    let each = reduction == 0 && self_.dim() == 2;
    let output = out.prepare(0, Spec::like(if each { &extent[..1] } else { &[] }, self_), &[self_, target])?;
    let is_target = out.prepare(1, Spec::like(target.sizes(), self_), &[self_, target])?;
    if let Some(kernel) = kernel {
        let marks = ops::view(&is_target.tensor, &extent)?;
        // One loss is its own sum.
        let reduction = if reduction == 0 && !each { 2 } else { reduction };
        kernel(&output.tensor, &marks, &dense(self_, &extent)?, &dense(target, &extent)?, reduction)?;
    }
    Ok((output.finish()?, is_target.finish()?))
}

/// Gradient of [`multilabel_margin_loss_forward`].
pub fn multilabel_margin_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    reduction: i64,
    is_target: &Tensor,
) -> Result<Tensor> {
    let extent = check_multilabel(self_, target)?;
    check!(
        target.sizes() == is_target.sizes(),
        "Expected tensor for argument #3 'target' to have same size as tensor for argument #5 'is_target'; but {} does not \
         equal {} (while checking arguments for multilabel_margin_loss_backward_cpu_template)",
        list(target.sizes()),
        list(is_target.sizes())
    );
    let kernel = match self_.is_meta() {
        true => None,
        false => {
            let name = "multilabel_margin_loss_backward_out_frame";
            let kernel = kernels::margin_loss(self_.device())?.multilabel_margin_backward.get(self_.dtype(), name)?;
            check_scalar_type(DType::I64, target.dtype())?;
            Some(kernel)
        }
    };
    for x in [grad_output, is_target] {
        check_scalar_type(self_.dtype(), x.dtype())?;
    }
    check_grad(grad_output, extent[0], reduction)?;
    let inputs = [grad_output, self_, target, is_target];
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), &inputs)?;
    if let Some(kernel) = kernel.filter(|_| self_.numel() > 0) {
        let result = ops::view(&slot.tensor, &extent)?;
        let (x, target) = (dense(self_, &extent)?, dense(target, &extent)?);
        let inputs = [&ops::reshape(grad_output, &[-1])?, &x, &target, &dense(is_target, &extent)?];
        kernel(&result, inputs, reduction)?;
    }
    slot.finish()
}
