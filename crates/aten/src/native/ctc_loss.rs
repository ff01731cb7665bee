//! Connectionist temporal classification: checks of sequences and their lengths, and the call of a kernel.

use tensor_core::{DType, MemoryFormat, Result, check};

use super::padding::check_scalar_type;
use crate::kernels::{self, CtcShape};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

const FUNCTION: &str = "ctc_loss_allocate_outputs";

/// The sequences of a call, as kernels read them.
fn sequences(
    log_probs: &Tensor,
    targets: &Tensor,
    (input_lengths, target_lengths): (&[i64], &[i64]),
    blank: i64,
    zero_infinity: bool,
) -> Result<CtcShape> {
    check!(log_probs.numel() > 0, "log_probs tensor must not be empty");
    check!(
        matches!(targets.dtype(), DType::I32 | DType::I64),
        "Expected tensor for argument #2 'targets' to have scalar type Int; but got {} instead (while checking arguments for \
         {FUNCTION})",
        if targets.dtype() == DType::Bool {
            "CPUBoolType".to_owned()
        } else {
            format!("torch.{}Tensor", targets.dtype().cpp_name())
        }
    );
    check!(
        log_probs.dim() == 3,
        "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs' (while checking arguments for \
         {FUNCTION})",
        log_probs.dim()
    );
    check!(
        targets.dim() == 1 || targets.dim() == 2,
        "Expected 1 to 2 dimensions, but got {}-dimensional tensor for argument #2 'targets' (while checking arguments for \
         {FUNCTION})",
        targets.dim()
    );
    let (time, batch, classes) = (log_probs.sizes()[0], log_probs.sizes()[1], log_probs.sizes()[2]);
    check!(blank >= 0 && blank < classes, "blank must be in label range");
    check!(input_lengths.len() as i64 == batch, "input_lengths must be of size batch_size");
    check!(target_lengths.len() as i64 == batch, "target_lengths must be of size batch_size");
    for length in target_lengths {
        check!(
            *length >= 0,
            "Expected target_lengths to have value at least 0, but got value {length} (while checking arguments for {FUNCTION})"
        );
    }
    let longest = target_lengths.iter().copied().max().unwrap_or(0);
    let total = target_lengths.iter().fold(0, |sum: i64, &length| sum.saturating_add(length));
    let found = targets.sizes()[0];
    let starts: Vec<usize> = if targets.dim() == 1 {
        check!(
            found == total,
            "Expected tensor to have size {total} at dimension 0, but got size {found} for argument #2 'targets' (while checking \
             arguments for {FUNCTION})"
        );
        let ends = target_lengths.iter().scan(0, |end, &length| {
            *end += length;
            Some(*end - length)
        });
        ends.map(|start| start as usize).collect()
    } else {
        let width = targets.sizes()[1];
        check!(
            found == batch,
            "Expected tensor to have size {batch} at dimension 0, but got size {found} for argument #2 'targets' (while checking \
             arguments for {FUNCTION})"
        );
        check!(
            width >= longest,
            "Expected tensor to have size at least {longest} at dimension 1, but got size {width} for argument #2 'targets' \
             (while checking arguments for {FUNCTION})"
        );
        (0..batch).map(|b| (b * width) as usize).collect()
    };
    for length in input_lengths {
        check!(
            *length >= 0,
            "Expected input_lengths to have value at least 0, but got value {length} (while checking arguments for {FUNCTION})"
        );
        check!(
            *length <= time,
            "Expected input_lengths to have value at most {time}, but got value {length} (while checking arguments for \
             {FUNCTION})"
        );
    }
    let lengths = |list: &[i64]| list.iter().map(|&length| length as usize).collect::<Vec<_>>();
    let mut labels = Vec::new();
    if !log_probs.is_meta() {
        let flat = ops::contiguous(&ops::to_dtype(targets, DType::I64, false, false, None)?, MemoryFormat::Contiguous)?;
        let flat = flat.to_vec::<i64>()?;
        for (&start, &length) in starts.iter().zip(target_lengths) {
            let own = &flat[start..start + length as usize];
            check!(
                own.iter().all(|&label| label >= 0 && label < classes),
                "ctc_loss: a target is beyond the {classes} classes"
            );
            labels.push(own.iter().map(|&label| label as usize).collect());
        }
    }
    Ok(CtcShape {
        labels,
        input_lengths: lengths(input_lengths),
        states: 2 * longest as usize + 1,
        blank: blank as usize,
        zero_infinity,
    })
}

/// The negative log likelihood of target sequences (N), and the logarithms of the forward variables (N, T, 2 S + 1).
pub fn _ctc_loss(
    out: Out<'_>,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    let shape = sequences(log_probs, targets, (input_lengths, target_lengths), blank, zero_infinity)?;
    let kernel = match log_probs.is_meta() {
        true => None,
        false => Some(kernels::ctc_loss(log_probs.device())?.ctc.get(log_probs.dtype(), "ctc_loss_cpu")?),
    };
    let (time, batch) = (log_probs.sizes()[0], log_probs.sizes()[1]);
    let losses = out.prepare(0, Spec::like(&[batch], log_probs), &[log_probs, targets])?;
    let alpha = out.prepare(1, Spec::like(&[batch, time, shape.states as i64], log_probs), &[log_probs, targets])?;
    if let Some(kernel) = kernel {
        kernel(&losses.tensor, &alpha.tensor, &ops::contiguous(log_probs, MemoryFormat::Contiguous)?, &shape)?;
    }
    Ok((losses.finish()?, alpha.finish()?))
}

/// Lengths as a list.
pub(crate) fn lengths(x: &Tensor, name: &str) -> Result<Vec<i64>> {
    check!(x.dtype().is_integral(false), "{name} must be integral");
    let x = ops::contiguous(&ops::to_dtype(x, DType::I64, false, false, None)?, MemoryFormat::Contiguous)?;
    x.to_vec::<i64>()
}

/// [`_ctc_loss`] with tensors of lengths.
pub fn _ctc_loss_tensor(
    out: Out<'_>,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    let inputs = lengths(input_lengths, "input_lengths")?;
    let labels = lengths(target_lengths, "target_lengths")?;
    _ctc_loss(out, log_probs, targets, &inputs, &labels, blank, zero_infinity)
}

/// Gradient of [`_ctc_loss`] with respect to the log probabilities.
#[allow(clippy::too_many_arguments)]
pub fn _ctc_loss_backward(
    out: Out<'_>,
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    neg_log_likelihood: &Tensor,
    log_alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let shape = sequences(log_probs, targets, (input_lengths, target_lengths), blank, zero_infinity)?;
    let kernel = match log_probs.is_meta() {
        true => None,
        false => {
            Some(kernels::ctc_loss(log_probs.device())?.ctc_backward.get(log_probs.dtype(), "ctc_loss_backward_cpu")?)
        }
    };
    let (time, batch) = (log_probs.sizes()[0], log_probs.sizes()[1]);
    let states = [batch, time, shape.states as i64];
    for (x, sizes) in [(grad, &[batch][..]), (neg_log_likelihood, &[batch]), (log_alpha, &states)] {
        check_scalar_type(log_probs.dtype(), x.dtype())?;
        check!(
            x.sizes() == sizes,
            "_ctc_loss_backward: expected a tensor of size {}, but got {}",
            super::convolution::list(sizes),
            super::convolution::list(x.sizes())
        );
    }
    let inputs = [grad, log_probs, neg_log_likelihood, log_alpha];
    let slot = out.prepare(0, Spec::like(log_probs.sizes(), log_probs), &inputs)?;
    if let Some(kernel) = kernel {
        let dense = |x: &Tensor| ops::contiguous(x, MemoryFormat::Contiguous);
        let inputs = [&dense(grad)?, &dense(log_probs)?, &dense(neg_log_likelihood)?, &dense(log_alpha)?];
        kernel(&slot.tensor, inputs, &shape)?;
    }
    slot.finish()
}

/// [`_ctc_loss_backward`] with tensors of lengths.
#[allow(clippy::too_many_arguments)]
pub fn _ctc_loss_backward_tensor(
    out: Out<'_>,
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    neg_log_likelihood: &Tensor,
    log_alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let inputs = lengths(input_lengths, "input_lengths")?;
    let labels = lengths(target_lengths, "target_lengths")?;
    _ctc_loss_backward(
        out,
        grad,
        log_probs,
        targets,
        &inputs,
        &labels,
        neg_log_likelihood,
        log_alpha,
        blank,
        zero_infinity,
    )
}
