//! Losses: the negative log likelihood of (N, C, S) log probabilities and its gradient, and losses of each element, some of
//! which are in [`crate::pointwise`].

use tensor_aten::Tensor;
use tensor_aten::kernels::ClassLoss;
use tensor_core::{Result, check_index};

use crate::elementwise;
use crate::isa::Isa;
use crate::layer_norm::{parameter, with_options};
use crate::loops::views::{lock, par_chunks, par_rows};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Math, Real, RealFloating, RealMath};

pub use crate::pointwise::{
    binary_cross_entropy, binary_cross_entropy_backward, huber_loss, huber_loss_backward, smooth_l1_loss,
    smooth_l1_loss_backward,
};

/// Elements whose losses are summed in a straight line.
const BLOCK: usize = 4096;

/// Refuses classes that there are not, before anything is written.
fn check_targets(target: &[i64], classes: usize, ignored: i64) -> Result<()> {
    for &t in target {
        check_index!((t >= 0 && t < classes as i64) || t == ignored, "Target {t} is out of bounds.");
    }
    Ok(())
}

/// `out[n, s] = -weight[t] * x[n, t, s]` with `t = target[n, s]`, or their sum, or that divided by the sum of the weights.
pub fn nll<I: Isa, T: RealFloating>(
    out: &Tensor,
    total_weight: &Tensor,
    x: &Tensor,
    loss: ClassLoss<'_>,
) -> Result<()> {
    let reads = with_options(&[x, loss.target], &[loss.weight]);
    let locked = lock(&reads, &[out.as_impl(), total_weight.as_impl()])?;
    let (x, target) = (locked.read::<T>(0)?, locked.read::<i64>(1)?.dense());
    let weight = parameter::<T>(&locked, &mut 2, loss.weight.is_some())?;
    check_targets(&target, x.size(1), loss.ignore_index)?;
    let weight_of = |class: usize| weight.as_ref().map_or(T::Op::ONE, |w| w[class].up());
    // (loss, weight) of an element; nothing where it does not count.
    let element = |i: usize| {
        let class = target[i];
        if class == loss.ignore_index {
            return (T::Op::ZERO, T::Op::ZERO);
        }
        let weight = weight_of(class as usize);
        (x.lane(1, i).get(class as usize).up().mul(weight).neg(), weight)
    };
    let (mut out, mut total_weight) = (locked.write::<T>(0)?, locked.write::<T>(1)?);
    if loss.reduction == 0 {
        total_weight.fill(T::zeroed());
        out.with_dense(|out| {
            par_chunks::<I, T>(
                out,
                GRAIN / 8,
                #[inline(always)]
                |start, part| {
                    for (i, out) in part.iter_mut().enumerate() {
                        *out = T::down(element(start + i).0);
                    }
                },
            )
        });
        return Ok(());
    }
    let sum = |begin, end| {
        (begin..end).map(element).fold((0.0, 0.0), |sum: (f64, f64), (loss, weight)| {
            (sum.0 + Real::to_f64(loss), sum.1 + Real::to_f64(weight))
        })
    };
    let (sum, weights) = parallel_reduce(target.len(), BLOCK, (0.0, 0.0), sum, |a, b| (a.0 + b.0, a.1 + b.1));
    out.fill(T::down(T::Op::from_f64(if loss.reduction == 1 { sum / weights } else { sum })));
    total_weight.fill(T::down(T::Op::from_f64(weights)));
    Ok(())
}

/// `grad_input[n, t, s] = -weight[t] * grad[n, s]`, with one `grad` for all, divided by the sum of the weights for a mean;
/// zero elsewhere.
pub fn nll_backward<I: Isa, T: RealFloating>(
    grad_input: &Tensor,
    grad: &Tensor,
    total_weight: &Tensor,
    loss: ClassLoss<'_>,
) -> Result<()> {
    let reads = with_options(&[grad, loss.target, total_weight], &[loss.weight]);
    let locked = lock(&reads, &[grad_input.as_impl()])?;
    let (grad, target) = (locked.read::<T>(0)?.dense(), locked.read::<i64>(1)?.dense());
    let total = locked.read::<T>(2)?.dense();
    let weight = parameter::<T>(&locked, &mut 3, loss.weight.is_some())?;
    let mut out = locked.write::<T>(0)?;
    let (n, c, s) = (out.size(0), out.size(1), out.size(2));
    check_targets(&target, c, loss.ignore_index)?;
    let one = |grads: &[T]| grads.first().map_or(T::Op::ZERO, |g| g.up());
    let whole = match loss.reduction {
        0 => T::Op::ZERO,
        1 => one(&grad).div(one(&total)),
        _ => one(&grad),
    };
    out.with_dense(|out| {
        par_rows::<I, T>(
            out,
            n,
            c * s,
            #[inline(always)]
            |n, out| {
                out.fill(T::zeroed());
                for (i, &class) in target[n * s..][..s].iter().enumerate() {
                    if class == loss.ignore_index {
                        continue;
                    }
                    let class = class as usize;
                    let grad = if loss.reduction == 0 { grad[n * s + i].up() } else { whole };
                    let weight = weight.as_ref().map_or(T::Op::ONE, |w| w[class].up());
                    out[class * s + i] = T::down(grad.mul(weight).neg());
                }
            },
        );
    });
    Ok(())
}

/// `log(1 + exp(x))` without overflow.
#[inline(always)]
fn softplus<I: Isa, T: RealFloating>(x: T::Op) -> T::Op {
    let over = if x > T::Op::ZERO { x } else { T::Op::ZERO };
    over.add(RealMath::abs(x).neg().exp::<I>().log1p::<I>())
}

elementwise! {
    /// `log(1 + exp(-target * x))`, with steps rounded as PyTorch's operators do: it overflows where they do.
    pub fn soft_margin_loss<T: (RealFloating)>(x: T, target: T) -> T {
        let product = T::down(target.up().neg().mul(x.up())).up();
        T::down(T::down(product.exp::<I>()).up().log1p::<I>())
    }
    /// `-norm * target * grad * sigmoid(-target * x)`; inputs: target, x, grad; parameter: norm.
    pub fn soft_margin_loss_backward<T: RealFloating>(target: T, x: T, grad: T; norm: T::Op) -> T {
        let target = target.up();
        let slope = target.mul(x.up()).neg().sigmoid::<I>();
        T::down(norm.neg().mul(target).mul(slope).mul(grad.up()))
    }

    /// `(1 - target) * x + log(1 + exp(-x))`, with steps rounded as PyTorch's operators do.
    pub fn logits_loss<T: (RealFloating)>(x: T, target: T) -> T {
        let round = |x: T::Op| T::down(x).up();
        let (x, target) = (x.up(), target.up());
        let log = round(softplus::<I, T>(x.neg()));
        T::down(round(round(T::Op::ONE.sub(target)).mul(x)).add(log))
    }
    /// `(1 - target) * x + ((weight - 1) * target + 1) * log(1 + exp(-x))`; inputs: x, target, weight.
    pub fn weighted_logits_loss<T: (RealFloating)>(x: T, target: T, weight: T) -> T {
        let round = |x: T::Op| T::down(x).up();
        let (x, target, one) = (x.up(), target.up(), T::Op::ONE);
        let weight = round(round(round(weight.up().sub(one)).mul(target)).add(one));
        let log = round(weight.mul(round(softplus::<I, T>(x.neg()))));
        T::down(round(round(one.sub(target)).mul(x)).add(log))
    }
}

/// True if all elements lie between 0 and 1.
pub fn all_in_unit<I: Isa, T: RealFloating>(x: &Tensor) -> Result<bool> {
    let locked = lock(&[x.as_impl()], &[])?;
    let x = locked.read::<T>(0)?.dense();
    let inside = |begin: usize, end: usize| {
        I::run(
            #[inline(always)]
            || {
                let inside = |x: &T| (x.up() >= T::Op::ZERO) & (x.up() <= T::Op::ONE);
                x[begin..end].iter().fold(true, |all, x| all & inside(x))
            },
        )
    };
    Ok(parallel_reduce(x.len(), GRAIN, true, inside, |a, b| a & b))
}
