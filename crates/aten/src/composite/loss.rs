//! Losses that are made of other operators.

use tensor_core::stream::Streamed;
use tensor_core::strides::{Dims, show};
use tensor_core::{Result, Scalar, bail, check, check_value};

use crate::{Tensor, ops};

/// What is done with each loss, as numbers in schemas.
const NONE: i64 = 0;
const MEAN: i64 = 1;
const SUM: i64 = 2;

/// Each loss, their mean or their sum.
fn reduced(losses: &Tensor, reduction: i64) -> Result<Tensor> {
    match reduction {
        MEAN => ops::mean(losses, None),
        SUM => ops::sum(losses, None),
        _ => Ok(losses.clone()),
    }
}

/// The negative log likelihood of classes, from log probabilities (C) or (N, C).
pub fn nll_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    Ok(ops::nll_loss_forward(self_, target, weight, reduction, ignore_index)?.0)
}

/// The negative log likelihood of classes at positions, from log probabilities (N, C, H, W).
pub fn nll_loss2d(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    Ok(ops::nll_loss2d_forward(self_, target, weight, reduction, ignore_index)?.0)
}

/// The negative log likelihood of classes at any number of positions: (C), (N, C) or (N, C, ..).
pub fn nll_loss_nd(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<Tensor> {
    check_value!(self_.dim() >= 1, "Expected 1 or more dimensions (got {})", self_.dim());
    if self_.dim() != 1 {
        let (own, others) = (self_.sizes()[0], target.sizes().first().copied());
        check_value!(
            Some(own) == others,
            "Expected input batch_size ({own}) to match target batch_size ({}).",
            others.unwrap_or(0)
        );
    }
    match self_.dim() {
        1 | 2 => return ops::nll_loss(self_, target, weight, reduction, ignore_index),
        4 => return ops::nll_loss2d(self_, target, weight, reduction, ignore_index),
        _ => {}
    }
    let (n, c) = (self_.sizes()[0], self_.sizes()[1]);
    let shape: Dims = [n].iter().chain(&self_.sizes()[2..]).copied().collect();
    check!(
        target.sizes()[1..] == self_.sizes()[2..],
        "Expected target size {}, got {}",
        show(&shape),
        show(target.sizes())
    );
    // Positions become one dimension of (N, C, 1, S).
    let positions = shape[1..].iter().product::<i64>();
    let flat = |x: &Tensor, sizes: &[i64]| -> Result<Tensor> {
        ops::reshape(&ops::contiguous(x, tensor_core::MemoryFormat::Contiguous)?, sizes)
    };
    let input = flat(self_, &[n, c, 1, positions])?;
    let target = flat(target, &[n, 1, positions])?;
    let losses = ops::nll_loss2d(&input, &target, weight, reduction, ignore_index)?;
    if reduction == NONE { ops::view(&losses, &shape) } else { Ok(losses) }
}

/// The weights of the classes along the class dimension of `x`.
fn along_classes(weight: &Tensor, x: &Tensor, class_dim: usize) -> Result<Tensor> {
    let mut shape = Dims::from_elem(1, x.dim());
    shape[class_dim] = weight.numel();
    ops::view(weight, &shape)
}

fn invalid(reduction: i64) -> Result<Tensor> {
    bail!(Runtime, "Invalid reduction type encountered in cross_entropy: {reduction}")
}

/// Cross entropy with the probabilities of all classes.
fn with_probabilities(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let class_dim = usize::from(x.dim() != 1);
    let classes = x.size(class_dim as i64)?;
    check!(
        weight.is_none_or(|weight| weight.dim() == 1 && weight.numel() == classes),
        "cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight tensor \
         of shape: {}",
        show(weight.map_or(&[][..], Tensor::sizes))
    );
    let log = ops::log_softmax_int(x, class_dim as i64, Some(x.dtype()))?;
    let smoothed;
    let target = if smoothing > 0.0 {
        let kept = ops::mul_scalar(target, 1.0 - smoothing)?;
        smoothed = ops::add_scalar(&kept, smoothing / classes as f64, 1)?;
        &smoothed
    } else {
        target
    };
    let mut terms = ops::mul(&log, target)?;
    if let Some(weight) = weight {
        terms = ops::mul(&terms, &along_classes(weight, x, class_dim)?)?;
    }
    match reduction {
        NONE => ops::neg(&ops::sum_dim_int_list(&terms, Some(&[class_dim as i64]), false, None)?),
        SUM => ops::neg(&ops::sum(&terms, None)?),
        MEAN => {
            let sum = ops::neg(&ops::sum(&terms, None)?)?;
            if x.numel() == 0 {
                return ops::mul_scalar(&sum, f64::NAN);
            }
            ops::div_scalar(&sum, (x.numel() / classes) as f64)
        }
        other => invalid(other),
    }
}

/// Cross entropy with one class an element, a share `smoothing` of it spread over all classes.
fn with_smoothing(
    x: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    smoothing: f64,
) -> Result<Tensor> {
    let class_dim = usize::from(x.dim() != 1);
    let classes = x.size(class_dim as i64)?;
    let log = ops::log_softmax_int(x, class_dim as i64, Some(x.dtype()))?;
    let losses = ops::nll_loss_nd(&log, target, weight, reduction, ignore_index)?;
    let weighted = match weight {
        Some(weight) => {
            check!(
                weight.numel() == classes,
                "cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got \
                 weight tensor of shape: {}",
                show(weight.sizes())
            );
            ops::mul(&log, &along_classes(weight, x, class_dim)?)?
        }
        None => log.clone(),
    };
    let ignored = ops::eq_scalar(target, ignore_index)?;
    let smooth = ops::neg(&ops::sum_dim_int_list(&weighted, Some(&[class_dim as i64]), false, None)?)?;
    let smooth = ops::masked_fill_scalar(&smooth, &ignored, Scalar::Int(0))?;
    let smooth = match reduction {
        NONE => smooth,
        SUM => ops::sum(&smooth, None)?,
        MEAN => match weight {
            Some(weight) => {
                let flat = ops::reshape(target, &[-1])?;
                let kept = ops::masked_fill_scalar(&flat, &ops::reshape(&ignored, &[-1])?, Scalar::Int(0))?;
                let weights = ops::index_select(weight, 0, &kept)?;
                let weights = ops::masked_fill_scalar(&weights, &ops::reshape(&ignored, &[-1])?, Scalar::Int(0))?;
                ops::div(&ops::sum(&smooth, None)?, &ops::sum(&weights, None)?)?
            }
            None => {
                let count = ops::sum(&ops::logical_not(&ignored)?, None)?;
                ops::div(&ops::sum(&smooth, None)?, &count)?
            }
        },
        other => return invalid(other),
    };
    let (own, shared) = (1.0 - smoothing, smoothing / classes as f64);
    ops::add(&ops::mul_scalar(&losses, own)?, &ops::mul_scalar(&smooth, shared)?, 1)
}

/// The cross entropy of logits with classes, or with probabilities of all classes.
pub fn cross_entropy_loss(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    label_smoothing: f64,
) -> Result<Tensor> {
    check!(
        label_smoothing.is_nan() || label_smoothing <= 1.0,
        "label_smoothing must be between 0.0 and 1.0. Got: {}",
        Streamed(label_smoothing)
    );
    if self_.sizes() == target.sizes() {
        check!(
            target.dtype().is_floating_point(),
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().cpp_name()
        );
        check!(ignore_index < 0, "ignore_index is not supported for floating point target");
        return with_probabilities(self_, target, weight, reduction, label_smoothing);
    }
    if label_smoothing > 0.0 {
        return with_smoothing(self_, target, weight, reduction, ignore_index, label_smoothing);
    }
    let class_dim = i64::from(self_.dim() != 1);
    let log = ops::log_softmax_int(self_, class_dim, Some(self_.dtype()))?;
    ops::nll_loss_nd(&log, target, weight, reduction, ignore_index)
}

/// The absolute differences of `self` and `target`.
pub fn l1_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    reduced(&ops::abs(&ops::sub(self_, target, 1)?)?, reduction)
}

/// [`nll_loss`] into a tensor of its dtype.
pub fn nll_loss_out(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    out: &Tensor,
) -> Result<()> {
    let total_weight = Tensor::new_dense(&[0], self_.dtype(), self_.device())?;
    ops::nll_loss_forward_output(self_, target, weight, reduction, ignore_index, out, &total_weight).map(drop)
}

/// [`nll_loss2d`] into a tensor of its dtype.
pub fn nll_loss2d_out(
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    out: &Tensor,
) -> Result<()> {
    let total_weight = Tensor::new_dense(&[0], self_.dtype(), self_.device())?;
    ops::nll_loss2d_forward_output(self_, target, weight, reduction, ignore_index, out, &total_weight).map(drop)
}

/// `max(0, -target * (input1 - input2) + margin)`
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    let difference = ops::sub(input1, input2, 1)?;
    let losses = ops::add_scalar(&ops::mul(&ops::neg(target)?, &difference)?, margin, 1)?;
    reduced(&ops::clamp_min(&losses, 0)?, reduction)
}

/// `self` where `target` is 1, `max(0, margin - self)` where it is -1.
pub fn hinge_embedding_loss(self_: &Tensor, target: &Tensor, margin: f64, reduction: i64) -> Result<Tensor> {
    let zeros = ops::zeros_like(self_, None, None, None, None, None)?;
    let apart = ops::clamp_min(&ops::rsub_scalar(self_, margin, 1)?, 0)?;
    let of_apart = ops::where_self(&ops::ne_scalar(target, 1)?, &apart, &zeros)?;
    let of_close = ops::where_self(&ops::ne_scalar(target, -1)?, self_, &zeros)?;
    reduced(&ops::add(&of_apart, &of_close, 1)?, reduction)
}

/// `1 - cos(input1, input2)` where `target` is 1, `max(0, cos - margin)` where it is -1.
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    reduction: i64,
) -> Result<Tensor> {
    check!(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
    let expected = 1 + target.dim();
    check!(
        input1.dim() == expected && input2.dim() == expected,
        "{}D target tensor expects {expected}D input tensors, but found inputs with sizes {} and {}.",
        target.dim(),
        show(input1.sizes()),
        show(input2.sizes())
    );
    let dim = [target.dim() as i64];
    let sum = |a: &Tensor, b: &Tensor| ops::sum_dim_int_list(&ops::mul(a, b)?, Some(&dim), false, None);
    let square = |x: &Tensor| ops::add_scalar(&sum(x, x)?, 1e-12, 1);
    let lengths = ops::sqrt(&ops::mul(&square(input1)?, &square(input2)?)?)?;
    let cos = ops::div(&sum(input1, input2)?, &lengths)?;
    let zeros = ops::zeros_like(&cos, None, None, None, None, None)?;
    let apart = ops::clamp_min(&ops::sub_scalar(&cos, margin, 1)?, 0)?;
    let of_close = ops::where_self(&ops::eq_scalar(target, 1)?, &ops::rsub_scalar(&cos, 1, 1)?, &zeros)?;
    let of_apart = ops::where_self(&ops::eq_scalar(target, -1)?, &apart, &zeros)?;
    reduced(&ops::add(&of_close, &of_apart, 1)?, reduction)
}

/// `input - target * log(input + eps)`, of `exp(input)` where that is the logarithm; `full` adds Stirling's term.
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: i64,
) -> Result<Tensor> {
    let mut losses = if log_input {
        ops::sub(&ops::exp(input)?, &ops::mul(target, input)?, 1)?
    } else {
        let log = ops::log(&ops::add_scalar(input, eps, 1)?)?;
        ops::sub(input, &ops::mul(target, &log)?, 1)?
    };
    if full {
        let entropy = ops::sub(&ops::mul(target, &ops::log(target)?)?, target, 1)?;
        let circle = ops::log(&ops::mul_scalar(target, std::f64::consts::TAU)?)?;
        let stirling = ops::add(&entropy, &ops::mul_scalar(&circle, 0.5)?, 1)?;
        let stirling = ops::masked_fill_scalar(&stirling, &ops::le_scalar(target, 1)?, Scalar::Int(0))?;
        losses = ops::add(&losses, &stirling, 1)?;
    }
    reduced(&losses, reduction)
}

/// `max(0, |anchor - positive| - |anchor - negative| + margin)` with p-norms over the last dimension; with `swap` the
/// negative may be measured from the positive instead.
#[allow(clippy::too_many_arguments)]
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    reduction: i64,
) -> Result<Tensor> {
    check!(
        anchor.dim() == positive.dim() && positive.dim() == negative.dim(),
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, \
         positive {}D, and negative {}D inputs",
        anchor.dim(),
        positive.dim(),
        negative.dim()
    );
    let distance = |a: &Tensor, b: &Tensor| {
        let difference = ops::add_scalar(&ops::sub(a, b, 1)?, eps, 1)?;
        ops::linalg_vector_norm(&difference, p, Some(&[-1]), false, None)
    };
    let close = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = ops::minimum(&far, &distance(positive, negative)?)?;
    }
    let losses = ops::sub(&ops::add_scalar(&close, margin, 1)?, &far, 1)?;
    reduced(&ops::clamp_min(&losses, 0)?, reduction)
}
