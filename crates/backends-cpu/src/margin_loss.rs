//! Losses that want scores (N, C) apart by a margin, and their gradients.

use tensor_aten::Tensor;
use tensor_aten::kernels::MarginLoss;
use tensor_core::{Result, check};

use crate::isa::Baseline;
use crate::layer_norm::{parameter, with_options};
use crate::loops::views::{lock, par_rows, par_rows2};
use crate::simd::{Arith, Math, Real, RealFloating};

/// The loss of each sample, their mean or their sum.
fn reduced<T: RealFloating>(out: &mut [T], losses: Vec<f64>, reduction: i64) {
    let narrow = |x: f64| T::down(T::Op::from_f64(x));
    if reduction == 0 {
        out.iter_mut().zip(losses).for_each(|(out, loss)| *out = narrow(loss));
        return;
    }
    let sum: f64 = losses.iter().sum();
    let count = if reduction == 1 { losses.len().max(1) as f64 } else { 1.0 };
    out.iter_mut().for_each(|out| *out = narrow(sum / count));
}

fn check_target(target: &[i64], classes: usize) -> Result<()> {
    check!(target.iter().all(|&t| t >= 0 && t < classes as i64), "target out of range");
    Ok(())
}

/// `sum over c other than t of max(0, margin - x[t] + x[c])^p * weight[t] / C`
pub fn multi_margin<T: RealFloating>(out: &Tensor, x: &Tensor, loss: MarginLoss<'_>) -> Result<()> {
    let locked = lock(&with_options(&[x, loss.target], &[loss.weight]), &[out.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let (n, c) = (x.size(0), x.size(1));
    let (x, target) = (x.dense(), locked.read::<i64>(1)?.dense());
    let weight = parameter::<T>(&locked, &mut 2, loss.weight.is_some())?;
    check_target(&target, c)?;
    let mut losses = vec![0.0; n];
    par_rows::<Baseline, f64>(&mut losses, n, c * 2, |i, out| {
        let (x, t) = (&x[i * c..][..c], target[i] as usize);
        let (own, margin) = (x[t].up(), T::Op::from_f64(loss.margin));
        let mut sum = 0.0;
        for (j, x) in x.iter().enumerate() {
            let z = margin.sub(own).add(x.up());
            if j != t && z > T::Op::ZERO {
                let h = if loss.p == 1 { z } else { z.mul(z) };
                sum += weight.as_ref().map_or(h, |weight| h.mul(weight[t].up())).to_f64();
            }
        }
        out[0] = sum / c as f64;
    });
    locked.write::<T>(0)?.with_dense(|out| reduced(out, losses, loss.reduction));
    Ok(())
}

/// The gradient of a sample, or of all.
fn share<T: RealFloating>(grad: &[T], i: usize, (n, c): (usize, usize), reduction: i64) -> f64 {
    let grad = grad[if grad.len() == 1 { 0 } else { i }].up().to_f64();
    grad / if reduction == 1 { (n * c) as f64 } else { c as f64 }
}

/// The gradient of [`multi_margin`].
pub fn multi_margin_backward<T: RealFloating>(
    out: &Tensor,
    grad: &Tensor,
    x: &Tensor,
    loss: MarginLoss<'_>,
) -> Result<()> {
    let locked = lock(&with_options(&[grad, x, loss.target], &[loss.weight]), &[out.as_impl()])?;
    let x = locked.read::<T>(1)?;
    let (n, c) = (x.size(0), x.size(1));
    let (grad, x, target) = (locked.read::<T>(0)?.dense(), x.dense(), locked.read::<i64>(2)?.dense());
    let weight = parameter::<T>(&locked, &mut 3, loss.weight.is_some())?;
    check_target(&target, c)?;
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, n, c * 2, |i, out| {
            let (x, t) = (&x[i * c..][..c], target[i] as usize);
            let (own, margin) = (x[t].up(), T::Op::from_f64(loss.margin));
            let weight = weight.as_ref().map_or(1.0, |weight| weight[t].up().to_f64());
            let scale = share(&grad, i, (n, c), loss.reduction) * weight;
            let mut sum = 0.0;
            for (j, out) in out.iter_mut().enumerate() {
                let z = margin.sub(own).add(x[j].up());
                let slope = match j != t && z > T::Op::ZERO {
                    true if loss.p == 1 => scale,
                    true => 2.0 * scale * z.to_f64(),
                    false => 0.0,
                };
                sum += slope;
                *out = T::down(T::Op::from_f64(slope));
            }
            out[t] = T::down(T::Op::from_f64(-sum));
        });
    });
    Ok(())
}

/// The targets of a sample: those before the first -1.
fn targets(row: &[i64]) -> impl Iterator<Item = usize> {
    row.iter().take_while(|&&t| t >= 0).map(|&t| t as usize)
}

fn check_rows(target: &[i64], classes: usize, argument: usize) -> Result<()> {
    check!(target.iter().all(|&t| t >= -1 && t < classes as i64), "argument #{argument} 'target' is out of range");
    Ok(())
}

/// `sum over targets t and others c of max(0, 1 - x[t] + x[c]) / C`, and 1 where targets are, 0 elsewhere.
pub fn multilabel_margin<T: RealFloating>(
    out: &Tensor,
    is_target: &Tensor,
    x: &Tensor,
    target: &Tensor,
    reduction: i64,
) -> Result<()> {
    let locked = lock(&[x.as_impl(), target.as_impl()], &[out.as_impl(), is_target.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let (n, c) = (x.size(0), x.size(1));
    let (x, target) = (x.dense(), locked.read::<i64>(1)?.dense());
    check_rows(&target, c, 2)?;
    let mut losses = vec![0.0; n];
    locked.write::<T>(1)?.with_dense(|marks| {
        par_rows2::<Baseline, f64, T>(&mut losses, marks, n, c * c, |i, out, marks| {
            let (x, row) = (&x[i * c..][..c], &target[i * c..][..c]);
            marks.fill(T::zeroed());
            targets(row).for_each(|t| marks[t] = T::down(T::Op::ONE));
            let mut sum = 0.0;
            for t in targets(row) {
                for (x_other, mark) in x.iter().zip(marks.iter()) {
                    let z = T::Op::ONE.sub(x[t].up()).add(x_other.up());
                    if mark.up() == T::Op::ZERO && z > T::Op::ZERO {
                        sum += z.to_f64();
                    }
                }
            }
            out[0] = sum / c as f64;
        });
    });
    locked.write::<T>(0)?.with_dense(|out| reduced(out, losses, reduction));
    Ok(())
}

/// The gradient of [`multilabel_margin`], from `[grad, x, target, is_target]`.
pub fn multilabel_margin_backward<T: RealFloating>(out: &Tensor, inputs: [&Tensor; 4], reduction: i64) -> Result<()> {
    let locked = lock(&inputs.map(|input| &**input.as_impl()), &[out.as_impl()])?;
    let x = locked.read::<T>(1)?;
    let (n, c) = (x.size(0), x.size(1));
    let (grad, x) = (locked.read::<T>(0)?.dense(), x.dense());
    let (target, marks) = (locked.read::<i64>(2)?.dense(), locked.read::<T>(3)?.dense());
    check_rows(&target, c, 3)?;
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, n, c * c, |i, out| {
            let (x, marks) = (&x[i * c..][..c], &marks[i * c..][..c]);
            let scale = share(&grad, i, (n, c), reduction);
            let mut sums = vec![0.0; c];
            for t in targets(&target[i * c..][..c]) {
                for j in 0..c {
                    let z = T::Op::ONE.sub(x[t].up()).add(x[j].up());
                    if marks[j].up() == T::Op::ZERO && z > T::Op::ZERO {
                        sums[t] -= scale;
                        sums[j] += scale;
                    }
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::down(T::Op::from_f64(sum));
            }
        });
    });
    Ok(())
}
