//! Connectionist temporal classification with its reductions.

use tensor_core::Result;

use crate::native::ctc_loss::lengths;
use crate::{Tensor, ops};

/// The negative log likelihood of target sequences under log probabilities (T, N, C) or (T, C): each, their mean by target
/// lengths or their sum.
#[allow(clippy::too_many_arguments)]
pub fn ctc_loss_int_list(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let batched = log_probs.dim() == 3;
    let sequences = if batched { log_probs.clone() } else { ops::unsqueeze(log_probs, 1)? };
    let (mut losses, _) = ops::_ctc_loss(&sequences, targets, input_lengths, target_lengths, blank, zero_infinity)?;
    if zero_infinity {
        let zeros = ops::zeros_like(&losses, None, None, None, None, None)?;
        losses = ops::where_self(&ops::eq_scalar(&losses, f64::INFINITY)?, &zeros, &losses)?;
    }
    match reduction {
        1 => {
            let counts: Vec<f64> = target_lengths.iter().map(|&length| length.max(1) as f64).collect();
            let counts = Tensor::from_vec(counts, &[target_lengths.len() as i64])?;
            let counts = ops::_to_copy(&counts, Some(losses.dtype()), None, Some(losses.device()), None, false, None)?;
            ops::mean(&ops::div(&losses, &counts)?, None)
        }
        2 => ops::sum(&losses, None),
        _ if batched => Ok(losses),
        _ => ops::squeeze_dim(&losses, 0),
    }
}

/// [`ctc_loss_int_list`] with tensors of lengths.
#[allow(clippy::too_many_arguments)]
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    if input_lengths.is_meta() || target_lengths.is_meta() {
        // Lengths that nobody knows change no shape here.
        let shape = if reduction == 0 && log_probs.dim() == 3 { &log_probs.sizes()[1..2] } else { &[] };
        return ops::new_empty(log_probs, shape, None, None, None, None);
    }
    let inputs = lengths(input_lengths, "input_lengths")?;
    let labels = lengths(target_lengths, "target_lengths")?;
    ops::ctc_loss_int_list(log_probs, targets, &inputs, &labels, blank, reduction, zero_infinity)
}
