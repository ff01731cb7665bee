//! Losses of classes from log probabilities, and their gradients.

use tensor_core::strides::{Dims, show};
use tensor_core::{DType, MemoryFormat, Result, bail, check, check_value};

use crate::kernels::{self, ClassLoss};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// Targets as kernels read them: contiguous i64 of N x S elements.
fn classes(target: &Tensor, sizes: [i64; 2]) -> Result<Tensor> {
    check!(
        matches!(target.dtype(), DType::I64 | DType::U8),
        "expected target dtype to be Long or Byte, but got {}",
        target.dtype().cpp_name()
    );
    let target = ops::to_dtype(target, DType::I64, false, false, None)?;
    let target = ops::contiguous(&target, MemoryFormat::Contiguous)?;
    target.view_of_storage(&sizes, &[sizes[1], 1], target.storage_offset())
}

/// The weights, of the input's dtype.
fn weights(weight: Option<&Tensor>, x: &Tensor, classes: i64) -> Result<Option<Tensor>> {
    let Some(weight) = weight else { return Ok(None) };
    check!(
        weight.dim() == 1 && weight.numel() == classes,
        "weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {}",
        show(weight.sizes())
    );
    check!(
        weight.dtype() == x.dtype(),
        "expected scalar type {} but found {}",
        x.dtype().cpp_name(),
        weight.dtype().cpp_name()
    );
    Ok(Some(weight.clone()))
}

/// A tensor of (C) or (N, C) as (N, C, 1) with its own strides.
fn as_batch(x: &Tensor) -> Result<Tensor> {
    let (sizes, strides) = (x.sizes(), x.strides());
    let (sizes, strides) = match (sizes, strides) {
        (&[c], &[stride]) => ([1, c, 1], [0, stride, 1]),
        (&[n, c], &[outer, inner]) => ([n, c, 1], [outer, inner, 1]),
        _ => bail!(Runtime, "input tensor should be 1D or 2D"),
    };
    x.view_of_storage(&sizes, &strides, x.storage_offset())
}

/// A tensor of (N, C, H, W) as (N, C, H x W): a view where the memory allows it.
fn as_spatial(x: &Tensor) -> Result<Tensor> {
    let sizes = [x.sizes()[0], x.sizes()[1], x.sizes()[2] * x.sizes()[3]];
    let strides = x.strides();
    if strides[2] == strides[3] * x.sizes()[3] || x.is_contiguous() {
        let strides = [strides[0], strides[1], strides[3]];
        return x.view_of_storage(&sizes, &strides, x.storage_offset());
    }
    ops::reshape(&ops::contiguous(x, MemoryFormat::Contiguous)?, &sizes)
}

fn check_nll(x: &Tensor, target: &Tensor) -> Result<()> {
    check!(matches!(x.dim(), 1 | 2), "input tensor should be 1D or 2D");
    check!(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
    if x.dim() == 1 && target.dim() == 1 {
        check_value!(
            target.numel() == 1,
            "For 1D input, 1D target must have size 1, but got target size: {}",
            target.numel()
        );
    }
    check!(
        x.dim() == 1 || (target.dim() == 1 && x.sizes()[0] == target.sizes()[0]),
        "size mismatch (got input: {}, target: {})",
        show(x.sizes()),
        show(target.sizes())
    );
    Ok(())
}

/// What a kernel needs of the arguments: reduction, target, weight.
struct Prepared {
    target: Tensor,
    weight: Option<Tensor>,
    reduction: i64,
    ignore_index: i64,
}

impl Prepared {
    fn loss(&self) -> ClassLoss<'_> {
        ClassLoss {
            target: &self.target,
            weight: self.weight.as_ref(),
            reduction: self.reduction,
            ignore_index: self.ignore_index,
        }
    }
}

/// Runs the forward kernel over `x` (N, C, S).
fn forward(
    out: Out<'_>,
    (x, view): (&Tensor, impl FnOnce(&Tensor) -> Result<Tensor>),
    sizes: &[i64],
    prepared: impl FnOnce() -> Result<Prepared>,
    name: &str,
) -> Result<(Tensor, Tensor)> {
    if x.is_meta() {
        let output = out.prepare(0, Spec::like(sizes, x), &[x])?;
        let total_weight = out.prepare(1, Spec::like(&[], x), &[x])?;
        return Ok((output.finish()?, total_weight.finish()?));
    }
    let kernel = kernels::loss(x.device())?.nll.get(x.dtype(), name)?;
    let prepared = prepared()?;
    let output = out.prepare(0, Spec::like(sizes, x), &[x, &prepared.target])?;
    let total_weight = out.prepare(1, Spec::like(&[], x), &[x, &prepared.target])?;
    kernel(&output.tensor, &total_weight.tensor, &view(x)?, prepared.loss())?;
    Ok((output.finish()?, total_weight.finish()?))
}

/// The negative log likelihood of classes, from log probabilities (C) or (N, C); with the sum of the weights that counted.
pub fn nll_loss_forward(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    check_nll(self_, target)?;
    let c = self_.size(-1)?;
    let each = reduction == 0 && self_.dim() == 2;
    let n = if self_.dim() == 2 { self_.sizes()[0] } else { 1 };
    let weight = weights(weight, self_, c)?;
    let sizes = if each { Dims::from_slice(&[n]) } else { Dims::new() };
    // One loss is its own sum.
    let reduction = if reduction == 0 && !each { 2 } else { reduction };
    let prepared = || Ok(Prepared { target: classes(target, [n, 1])?, weight, reduction, ignore_index });
    forward(out, (self_, as_batch), &sizes, prepared, "nll_loss_out_frame")
}

fn check_single(name: &str, x: &Tensor) -> Result<()> {
    check!(x.numel() == 1, "Expected a single element {name} tensor, but got: {}", show(x.sizes()));
    Ok(())
}

/// Runs the backward kernel into a slot that is (N, C, S) in memory.
fn backward(
    out: Out<'_>,
    x: &Tensor,
    shape: [i64; 3],
    (grad, total_weight): (&Tensor, &Tensor),
    prepared: impl FnOnce() -> Result<Prepared>,
    name: &str,
) -> Result<Tensor> {
    if x.is_meta() {
        return out.prepare(0, Spec::like(x.sizes(), x), &[x])?.finish();
    }
    let kernel = kernels::loss(x.device())?.nll_backward.get(x.dtype(), name)?;
    for found in [grad, total_weight] {
        check!(
            found.dtype() == x.dtype(),
            "expected scalar type {} but found {}",
            x.dtype().cpp_name(),
            found.dtype().cpp_name()
        );
    }
    let prepared = prepared()?;
    let slot = out.prepare(0, Spec::like(x.sizes(), x), &[x, grad, total_weight, &prepared.target])?;
    if slot.tensor.numel() > 0 {
        let strides = tensor_core::strides::contiguous(&shape);
        let view = slot.tensor.view_of_storage(&shape, &strides, slot.tensor.storage_offset())?;
        kernel(&view, grad, total_weight, prepared.loss())?;
    }
    slot.finish()
}

/// Gradient of [`nll_loss_forward`].
#[allow(clippy::too_many_arguments)]
pub fn nll_loss_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    check_nll(self_, target)?;
    check!(
        total_weight.numel() == 1,
        "expected total_weight to be a  single element tensor, got: {} ({} elements)",
        show(total_weight.sizes()),
        total_weight.numel()
    );
    let c = self_.size(-1)?;
    check!(
        weight.is_none_or(|weight| weight.numel() == c),
        "weight tensor should be defined either for all or no classes"
    );
    let n = if self_.dim() == 2 { self_.sizes()[0] } else { 1 };
    let each = reduction == 0 && self_.dim() == 2;
    if each {
        let first = grad_output.size(0)?;
        check!(
            grad_output.dim() == 1 && first == n,
            "Expected a tensor of dimension 1 and tensor.size[0] == {n} but got: dimension {} and tensor.size[0] = {first}",
            grad_output.dim()
        );
    } else {
        check!(
            grad_output.dim() <= 1 && grad_output.numel() == 1,
            "Expected a single element grad_output tensor, but got: {}",
            show(grad_output.sizes())
        );
    }
    let reduction = if reduction == 0 && !each { 2 } else { reduction };
    let weight = weights(weight, self_, c)?;
    let prepared = || Ok(Prepared { target: classes(target, [n, 1])?, weight, reduction, ignore_index });
    backward(out, self_, [n, c, 1], (grad_output, total_weight), prepared, "nll_loss_backward_out_frame")
}

fn check_nll2d(x: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<[i64; 3]> {
    check!(
        target.dim() == 3,
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
        target.dim()
    );
    check!(
        x.dim() == 4,
        "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
        x.dim()
    );
    let (own, others) = (x.sizes(), target.sizes());
    check!(
        weight.is_none_or(|weight| weight.numel() == own[1]),
        "weight tensor should be defined either for all or no classes"
    );
    check!(
        own[0] == others[0] && own[2..] == others[1..],
        "size mismatch (got input: {} , target: {}",
        show(own),
        show(others)
    );
    Ok([own[0], own[1], own[2] * own[3]])
}

/// The negative log likelihood of classes at positions, from log probabilities (N, C, H, W).
pub fn nll_loss2d_forward(
    out: Out<'_>,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    let [n, c, s] = check_nll2d(self_, target, weight)?;
    let weight = weights(weight, self_, c)?;
    let sizes = if reduction == 0 { Dims::from_slice(target.sizes()) } else { Dims::new() };
    let prepared = || Ok(Prepared { target: classes(target, [n, s])?, weight, reduction, ignore_index });
    forward(out, (self_, as_spatial), &sizes, prepared, "nll_loss2d_forward_out_frame")
}

/// Gradient of [`nll_loss2d_forward`].
#[allow(clippy::too_many_arguments)]
pub fn nll_loss2d_backward(
    out: Out<'_>,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    let shape @ [n, c, s] = check_nll2d(self_, target, weight)?;
    check!(
        total_weight.numel() == 1,
        "expected total_weight to be a single element tensor, got: {} ({} elements)",
        show(total_weight.sizes()),
        total_weight.numel()
    );
    if reduction == 0 {
        check!(
            grad_output.sizes() == target.sizes(),
            "size mismatch (got grad_output: {} target: {}",
            show(grad_output.sizes()),
            show(target.sizes())
        );
    } else {
        check_single("grad_output", grad_output)?;
    }
    let weight = weights(weight, self_, c)?;
    let prepared = || Ok(Prepared { target: classes(target, [n, s])?, weight, reduction, ignore_index });
    backward(out, self_, shape, (grad_output, total_weight), prepared, "nll_loss2d_backward_out_frame")
}
