//! Normalisation of the rows of a contiguous (M, K, S) tensor: layer norm (K elements, S = 1) and group norm (K channels of
//! S elements). `g`, `h` below are a row's gradient and `g * weight`.

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_aten::kernels::RowNorm;
use tensor_core::{Result, TensorImpl};

use crate::isa::{Baseline, Isa};
use crate::loops::views::{Dense, Locked, lock, par_chunks, par_rows3};
use crate::parallel::{GRAIN, parallel_for};
use crate::rows;
use crate::simd::{Arith, Math, Real, RealFloating};

/// The most partial sums of weight gradients that are kept: beyond it, chunks of rows grow.
const PARTS: usize = 64;
/// Element steps that a row's normalisation costs an element.
const WORK: usize = 4;

/// The (M, K, S) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [m, k, s] => (m as usize, k as usize, s as usize),
        _ => (1, x.numel() as usize, 1),
    }
}

/// An optional parameter that was locked as the next input.
pub(crate) fn parameter<'a, O: tensor_core::Element>(
    locked: &'a Locked<'_>,
    next: &mut usize,
    present: bool,
) -> Result<Option<Dense<'a, O>>> {
    if !present {
        return Ok(None);
    }
    let view = locked.read::<O>(*next)?;
    *next += 1;
    Ok(Some(view.dense()))
}

/// Tensors to lock: the given ones and those of some options that are there.
pub(crate) fn with_options<'a>(given: &[&'a Tensor], options: &[Option<&'a Tensor>]) -> Vec<&'a TensorImpl> {
    given.iter().copied().chain(options.iter().copied().flatten()).map(|t| &**t.as_impl()).collect()
}

/// `out = (x - mean) * rstd * weight + bias`, `rstd = 1 / sqrt(var + eps)`
pub fn norm<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor, norm: RowNorm<'_>, eps: f64) -> Result<()> {
    let (m, k, s) = extents(x);
    let reads = with_options(&[x], &[norm.weight, norm.bias]);
    let locked = lock(&reads, &[out.as_impl(), norm.mean.as_impl(), norm.rstd.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let mut next = 1;
    let weight = parameter::<T::Op>(&locked, &mut next, norm.weight.is_some())?;
    let bias = parameter::<T::Op>(&locked, &mut next, norm.bias.is_some())?;
    let (x, weight, bias): (&[T], _, _) = (&x, weight.as_deref(), bias.as_deref());
    let (mut out, mut mean, mut rstd) = (locked.write::<T>(0)?, locked.write::<T::Op>(1)?, locked.write::<T::Op>(2)?);
    let length = k * s;
    let row = |i: usize| {
        let channels = i % norm.groups * k..(i % norm.groups + 1) * k;
        (&x[i * length..][..length], weight.map(|w| &w[channels.clone()]), bias.map(|b| &b[channels]))
    };
    out.with_dense(|out| {
        mean.with_dense(|mean| {
            rstd.with_dense(|rstd| {
                par_rows3::<I, _, _, _>(
                    out,
                    mean,
                    rstd,
                    m,
                    length * WORK,
                    #[inline(always)]
                    |i, out, mean, rstd| {
                        let (x, weight, bias) = row(i);
                        let (centre, spread) = rows::moments(x);
                        let scale = 1.0 / (spread / length as f64 + eps).sqrt();
                        let (centre, scale) = (T::Op::from_f64(centre), T::Op::from_f64(scale));
                        (mean[0], rstd[0]) = (centre, scale);
                        affine::<I, T>(out, x, (centre, scale), (weight, bias), s);
                    },
                )
            })
        })
    });
    Ok(())
}

/// `out = (x - centre) * scale * weight + bias`, the parameters one a run of `s` elements.
#[inline(always)]
fn affine<I: Isa, T: RealFloating>(
    out: &mut [T],
    x: &[T],
    (centre, scale): (T::Op, T::Op),
    (weight, bias): (Option<&[T::Op]>, Option<&[T::Op]>),
    s: usize,
) {
    let normal = |x: &T| x.up().sub(centre).mul(scale);
    if s != 1 {
        for i in 0..x.len().div_ceil(s) {
            let (out, x) = (rows::piece_mut(out, i, s), rows::piece(x, i, s));
            let (weight, bias) = (weight.map_or(T::Op::ONE, |w| w[i]), bias.map_or(T::Op::ZERO, |b| b[i]));
            for (out, x) in out.iter_mut().zip(x) {
                *out = T::down(normal(x).mul_add::<I>(weight, bias));
            }
        }
        return;
    }
    let elements = out.iter_mut().zip(x);
    match (weight, bias) {
        (Some(weight), Some(bias)) => {
            for ((out, x), (w, b)) in elements.zip(weight.iter().zip(bias)) {
                *out = T::down(normal(x).mul_add::<I>(*w, *b));
            }
        }
        (Some(weight), None) => elements.zip(weight).for_each(|((out, x), w)| *out = T::down(normal(x).mul(*w))),
        (None, Some(bias)) => elements.zip(bias).for_each(|((out, x), b)| *out = T::down(normal(x).add(*b))),
        (None, None) => elements.for_each(|(out, x)| *out = T::down(normal(x))),
    }
}

/// Partial gradients of weight and bias.
type Partial<O> = (Vec<O>, Vec<O>);

/// What a backward pass reads.
#[derive(Clone, Copy)]
struct Inputs<'a, T, O> {
    grad: &'a [T],
    x: &'a [T],
    mean: &'a [O],
    rstd: &'a [O],
    weight: Option<&'a [O]>,
    /// groups, K, S
    shape: (usize, usize, usize),
}

/// `grad_input = rstd * (h - mean(h) - y * mean(h * y))` with `y = (x - mean) * rstd`; `grad_weight = sum(g * y)` and
/// `grad_bias = sum(g)` over the rows and the S elements of a channel.
pub fn norm_backward<I: Isa, T: RealFloating>(
    grads: [Option<&Tensor>; 3],
    grad: &Tensor,
    x: &Tensor,
    norm: RowNorm<'_>,
) -> Result<()> {
    let (m, k, s) = extents(x);
    let reads = with_options(&[grad, x, norm.mean, norm.rstd], &[norm.weight]);
    let locked = lock(&reads, &with_options(&[], &grads))?;
    let (grad, x) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (mean, rstd) = (locked.read::<T::Op>(2)?.dense(), locked.read::<T::Op>(3)?.dense());
    let weight = parameter::<T::Op>(&locked, &mut 4, norm.weight.is_some())?;
    let shape = (norm.groups, k, s);
    let inputs = Inputs { grad: &grad, x: &x, mean: &mean, rstd: &rstd, weight: weight.as_deref(), shape };
    let (length, channels) = (k * s, norm.groups * k);
    let summed = if grads[1].is_some() || grads[2].is_some() { channels } else { 0 };
    // Chunks depend on the shape alone, so the order of the sums does as well.
    let chunk = (GRAIN / (length * WORK).max(1)).max(1).max(m.div_ceil(PARTS));
    let parts: Vec<Mutex<Option<Partial<T::Op>>>> = (0..m.div_ceil(chunk)).map(|_| Mutex::new(None)).collect();
    let partial = || (vec![T::Op::ZERO; summed], vec![T::Op::ZERO; summed]);
    let mut next = 0;
    if grads[0].is_some() {
        next = 1;
        locked.write::<T>(0)?.with_dense(|out| {
            // The level is entered inside, once: within itself it would keep the body from being inlined.
            par_chunks::<Baseline, T>(out, chunk * length, |start, out| {
                let (begin, mut part) = (start / length, partial());
                I::run(
                    #[inline(always)]
                    || chunk_backward::<I, T>(out, inputs, begin, (summed > 0).then_some(&mut part)),
                );
                *parts[begin / chunk].lock() = Some(part);
            })
        });
    } else {
        parallel_for(m, chunk, |begin, end| {
            let mut part = partial();
            I::run(
                #[inline(always)]
                || (begin..end).for_each(|i| accumulate::<I, T>(&mut part, inputs, i)),
            );
            *parts[begin / chunk].lock() = Some(part);
        });
    }
    let mut sums = (vec![T::Op::ZERO; channels], vec![T::Op::ZERO; channels]);
    for part in parts.into_iter().filter_map(Mutex::into_inner) {
        sums.0.iter_mut().zip(part.0).for_each(|(sum, part)| *sum = sum.add(part));
        sums.1.iter_mut().zip(part.1).for_each(|(sum, part)| *sum = sum.add(part));
    }
    for (wanted, sums) in [(grads[1].is_some(), sums.0), (grads[2].is_some(), sums.1)] {
        if wanted {
            locked.write::<T::Op>(next)?.copy_from(&sums);
            next += 1;
        }
    }
    Ok(())
}

impl<'a, T: RealFloating> Inputs<'a, T, T::Op> {
    /// Gradient, input and weight of a row.
    #[inline(always)]
    fn row(&self, i: usize) -> (&'a [T], &'a [T], Option<&'a [T::Op]>) {
        let (groups, k, s) = self.shape;
        let (at, own) = (i * k * s, i % groups * k);
        (&self.grad[at..at + k * s], &self.x[at..at + k * s], self.weight.map(|w| &w[own..own + k]))
    }
}

/// The rows from `begin` on: gradients of the input, and their share in those of the parameters.
#[inline(always)]
fn chunk_backward<I: Isa, T: RealFloating>(
    out: &mut [T],
    inputs: Inputs<'_, T, T::Op>,
    begin: usize,
    mut part: Option<&mut Partial<T::Op>>,
) {
    let length = inputs.shape.1 * inputs.shape.2;
    for i in 0..out.len() / length {
        let out = rows::piece_mut(out, i, length);
        match (part.as_deref_mut(), inputs.weight) {
            (Some(part), Some(weight)) if inputs.shape.2 == 1 => {
                row_and_parameters::<I, T>(out, part, inputs, weight, begin + i);
            }
            (part, _) => {
                row_backward::<I, T>(out, inputs, begin + i);
                if let Some(part) = part {
                    accumulate::<I, T>(part, inputs, begin + i);
                }
            }
        }
    }
}

/// The means of `h = grad * weight` and of `h * normal(x)` over a row.
#[inline(always)]
fn weighted_means<T: RealFloating>(
    grad: &[T],
    weight: &[T::Op],
    x: &[T],
    normal: impl Fn(T) -> T::Op,
) -> (T::Op, T::Op) {
    let (sum, dot) = rows::sums3(
        grad,
        weight,
        x,
        #[inline(always)]
        |g: T, w: T::Op, x| {
            let h = g.up().mul(w);
            (h, h.mul(normal(x)))
        },
    );
    let n = grad.len() as f64;
    (T::Op::from_f64(sum / n), T::Op::from_f64(dot / n))
}

/// [`row_backward`] and [`accumulate`] of layer norm in one pass, the common case.
#[inline(always)]
fn row_and_parameters<I: Isa, T: RealFloating>(
    out: &mut [T],
    part: &mut Partial<T::Op>,
    inputs: Inputs<'_, T, T::Op>,
    weight: &[T::Op],
    i: usize,
) {
    let (grad, x, _) = inputs.row(i);
    let (mean, rstd, k) = (inputs.mean[i], inputs.rstd[i], grad.len());
    let own = i % inputs.shape.0 * k;
    let weight = &weight[own..own + k];
    let normal = |x: T| x.up().sub(mean).mul(rstd);
    let (a, b) = weighted_means(grad, weight, x, normal);
    let term = mean.mul(rstd).neg();
    let sums = part.0[own..own + k].iter_mut().zip(&mut part.1[own..own + k]);
    for ((((out, g), w), x), (weight_sum, bias_sum)) in out.iter_mut().zip(grad).zip(weight).zip(x).zip(sums) {
        let g = g.up();
        *out = T::down(g.mul(*w).sub(a).sub(normal(*x).mul(b)).mul(rstd));
        *weight_sum = weight_sum.mul_accumulate::<I>(g, x.up().mul_add::<I>(rstd, term));
        *bias_sum = bias_sum.add(g);
    }
}

#[inline(always)]
fn row_backward<I: Isa, T: RealFloating>(out: &mut [T], inputs: Inputs<'_, T, T::Op>, i: usize) {
    let (grad, x, weight) = inputs.row(i);
    let (mean, rstd, s) = (inputs.mean[i], inputs.rstd[i], inputs.shape.2);
    let n = grad.len() as f64;
    let normal = |x: T| x.up().sub(mean).mul(rstd);
    let finish = |h: T::Op, x: T, a: T::Op, b: T::Op| T::down(h.sub(a).sub(normal(x).mul(b)).mul(rstd));
    let means = |(sum, dot): (f64, f64)| (T::Op::from_f64(sum / n), T::Op::from_f64(dot / n));
    match weight {
        None => {
            let (a, b) = means(rows::sums(
                grad,
                x,
                #[inline(always)]
                |g: T, x| (g.up(), g.up().mul(normal(x))),
            ));
            for ((out, g), x) in out.iter_mut().zip(grad).zip(x) {
                *out = finish(g.up(), *x, a, b);
            }
        }
        Some(weight) if s == 1 => {
            let (a, b) = weighted_means(grad, weight, x, normal);
            for (((out, g), w), x) in out.iter_mut().zip(grad).zip(weight).zip(x) {
                *out = finish(g.up().mul(*w), *x, a, b);
            }
        }
        Some(weight) => {
            let mut sums = (0.0, 0.0);
            for (i, w) in weight.iter().enumerate() {
                let (grad, x) = (rows::piece(grad, i, s), rows::piece(x, i, s));
                let of = rows::sums(
                    grad,
                    x,
                    #[inline(always)]
                    |g: T, x| (g.up(), g.up().mul(normal(x))),
                );
                let w = Real::to_f64(*w);
                sums = (sums.0 + of.0 * w, sums.1 + of.1 * w);
            }
            let (a, b) = means(sums);
            for (i, w) in weight.iter().enumerate() {
                let (out, grad, x) = (rows::piece_mut(out, i, s), rows::piece(grad, i, s), rows::piece(x, i, s));
                for ((out, g), x) in out.iter_mut().zip(grad).zip(x) {
                    *out = finish(g.up().mul(*w), *x, a, b);
                }
            }
        }
    }
}

/// Adds a row's share to the gradients of weight and bias.
#[inline(always)]
fn accumulate<I: Isa, T: RealFloating>(part: &mut Partial<T::Op>, inputs: Inputs<'_, T, T::Op>, i: usize) {
    let (grad, x, _) = inputs.row(i);
    let (mean, rstd, (groups, k, s)) = (inputs.mean[i], inputs.rstd[i], inputs.shape);
    let own = i % groups * k;
    // As PyTorch does: one rounding less than `(x - mean) * rstd`, another result where that is 0.
    let term = mean.mul(rstd).neg();
    let normal = |x: T| x.up().mul_add::<I>(rstd, term);
    let sums = part.0[own..own + k].iter_mut().zip(&mut part.1[own..own + k]);
    if s == 1 {
        for (((weight, bias), g), x) in sums.zip(grad).zip(x) {
            *weight = weight.mul_accumulate::<I>(g.up(), normal(*x));
            *bias = bias.add(g.up());
        }
    } else {
        for (i, (weight, bias)) in sums.enumerate() {
            let (grad, x) = (rows::piece(grad, i, s), rows::piece(x, i, s));
            let (sum, dot) = rows::sums(
                grad,
                x,
                #[inline(always)]
                |g: T, x| (g.up(), g.up().mul(normal(x))),
            );
            *weight = weight.add(T::Op::from_f64(dot));
            *bias = bias.add(T::Op::from_f64(sum));
        }
    }
}
