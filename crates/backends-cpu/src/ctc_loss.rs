//! Connectionist temporal classification: the forward and backward variables of each sequence (Graves et al., 2006), as
//! logarithms. State s of a sequence of L labels (2 L + 1 states) is blank for even s, label s / 2 for odd s.

use tensor_aten::Tensor;
use tensor_aten::kernels::CtcShape;
use tensor_core::Result;

use crate::isa::Baseline;
use crate::loops::views::{lock, par_rows, par_rows2};
use crate::simd::{Math, Real, RealFloating};

const NEVER: f64 = f64::NEG_INFINITY;

/// `log(sum exp(x))`
fn log_sum(values: [f64; 3]) -> f64 {
    let most = values.into_iter().fold(NEVER, f64::max);
    if most == NEVER {
        return NEVER;
    }
    values.into_iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most
}

/// Rounds to the precision of `T`, in which sums are kept.
fn round<T: RealFloating>(x: f64) -> f64 {
    T::down(T::Op::from_f64(x)).up().to_f64()
}

/// The class of a state.
fn class(labels: &[usize], s: usize, blank: usize) -> usize {
    if s.is_multiple_of(2) { blank } else { labels[s / 2] }
}

/// True if a sequence may go from state `s` to `s + 2`: a label that is another one than the last.
fn skips(labels: &[usize], s: usize, blank: usize) -> bool {
    !s.is_multiple_of(2) && class(labels, s, blank) != class(labels, s + 2, blank)
}

/// `losses` (N) and `alpha` (N, T, states) from log probabilities (T, N, C); what no sequence reaches is never.
pub fn ctc<T: RealFloating>(losses: &Tensor, alpha: &Tensor, log_probs: &Tensor, shape: &CtcShape) -> Result<()> {
    let locked = lock(&[log_probs.as_impl()], &[losses.as_impl(), alpha.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let (time, batch, classes) = (x.size(0), x.size(1), x.size(2));
    let x = x.dense();
    let (mut losses, mut alpha) = (locked.write::<T>(0)?, locked.write::<T>(1)?);
    let narrow = |x: f64| T::down(T::Op::from_f64(x));
    losses.with_dense(|losses| {
        alpha.with_dense(|alpha| {
            par_rows2::<Baseline, T, T>(losses, alpha, batch, time * shape.states * 30, |b, loss, alpha| {
                let (labels, length) = (&shape.labels[b], shape.input_lengths[b]);
                let (states, blank) = (2 * labels.len() + 1, shape.blank);
                let at = |t: usize, s: usize| x[(t * batch + b) * classes + class(labels, s, blank)].up().to_f64();
                alpha.fill(narrow(NEVER));
                if length == 0 {
                    loss[0] = narrow(if labels.is_empty() { 0.0 } else { f64::INFINITY });
                    return;
                }
                let mut row = vec![NEVER; states];
                for t in 0..length {
                    let last = std::mem::replace(&mut row, vec![NEVER; states]);
                    for s in 0..states {
                        row[s] = if t == 0 {
                            if s < 2 { at(0, s) } else { NEVER }
                        } else {
                            let before = |n: usize| if s >= n { last[s - n] } else { NEVER };
                            let jump = if s >= 2 && skips(labels, s - 2, blank) { before(2) } else { NEVER };
                            round::<T>(round::<T>(log_sum([before(0), before(1), jump])) + at(t, s))
                        };
                        alpha[t * shape.states + s] = narrow(row[s]);
                    }
                }
                let ends = if states > 1 { [row[states - 1], row[states - 2], NEVER] } else { [row[0], NEVER, NEVER] };
                loss[0] = narrow(-log_sum(ends));
            });
        });
    });
    Ok(())
}

/// The gradient of log probabilities (T, N, C), from `[grad, log_probs, losses, alpha]`.
pub fn ctc_backward<T: RealFloating>(out: &Tensor, inputs: [&Tensor; 4], shape: &CtcShape) -> Result<()> {
    let locked = lock(&inputs.map(|input| &**input.as_impl()), &[out.as_impl()])?;
    let x = locked.read::<T>(1)?;
    let (time, batch, classes) = (x.size(0), x.size(1), x.size(2));
    let (grad, x) = (locked.read::<T>(0)?.dense(), x.dense());
    let (losses, alpha) = (locked.read::<T>(2)?.dense(), locked.read::<T>(3)?.dense());
    // One sequence after the other in memory, for the threads: (N, T, C).
    let mut grads = vec![0.0; batch * time * classes];
    par_rows::<Baseline, f64>(&mut grads, batch, time * (shape.states * 30 + classes), |b, grads| {
        let (labels, length) = (&shape.labels[b], shape.input_lengths[b]);
        let (states, blank, loss) = (2 * labels.len() + 1, shape.blank, losses[b].up().to_f64());
        if (shape.zero_infinity && loss == f64::INFINITY) || length == 0 {
            return;
        }
        let log_prob = |t: usize, c: usize| x[(t * batch + b) * classes + c].up().to_f64();
        let outer = grad[b].up().to_f64();
        let mut beta = vec![NEVER; states];
        for t in (0..length).rev() {
            let next = std::mem::replace(&mut beta, vec![NEVER; states]);
            // The logarithms of what each class takes part in.
            let mut parts = vec![NEVER; classes];
            for s in 0..states {
                let c = class(labels, s, blank);
                beta[s] = if t + 1 == length {
                    if s + 2 >= states { log_prob(t, c) } else { NEVER }
                } else {
                    let after = |n: usize| next.get(s + n).copied().unwrap_or(NEVER);
                    let jump = if s + 2 < states && skips(labels, s, blank) { after(2) } else { NEVER };
                    round::<T>(round::<T>(log_sum([after(0), after(1), jump])) + log_prob(t, c))
                };
                let both = round::<T>(alpha[(b * time + t) * shape.states + s].up().to_f64() + beta[s]);
                parts[c] = round::<T>(log_sum([parts[c], both, NEVER]));
            }
            for (c, out) in grads[t * classes..][..classes].iter_mut().enumerate() {
                let log_prob = log_prob(t, c);
                *out = (log_prob.exp() - round::<T>(round::<T>(parts[c] + loss) - log_prob).exp()) * outer;
            }
        }
    });
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, time * batch, classes, |row, out| {
            let (t, b) = (row / batch, row % batch);
            for (out, grad) in out.iter_mut().zip(&grads[(b * time + t) * classes..][..classes]) {
                *out = T::down(T::Op::from_f64(*grad));
            }
        });
    });
    Ok(())
}
