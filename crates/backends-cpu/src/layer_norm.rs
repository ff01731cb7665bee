//! Normalisation of the rows of a contiguous (M, K, S) tensor: layer norm (K elements, S = 1) and group norm (K channels of
//! S elements). `g`, `h` below are a row's gradient and `g * weight`.

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_aten::kernels::RowNorm;
use tensor_core::{Result, TensorImpl};

use crate::isa::{Baseline, Isa};
use crate::loops::views::{Dense, Locked, lock, par_chunks};
use crate::parallel::{GRAIN, parallel_for};
use crate::rows::{self, Sink, par_out_rows_with};
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
    forward(out, x, norm, eps, norm_row::<I, T>)
}

/// [`norm_row`] at a level: what is around it is there once for all levels.
type NormRow<T, O> = fn(Sink<'_, T>, &[T], (&[O], &[O]), f64, usize) -> (O, O);

fn forward<T: RealFloating>(
    out: &Tensor,
    x: &Tensor,
    norm: RowNorm<'_>,
    eps: f64,
    norm_row: NormRow<T, T::Op>,
) -> Result<()> {
    let (m, k, s) = extents(x);
    let reads = with_options(&[x], &[norm.weight, norm.bias]);
    let locked = lock(&reads, &[out.as_impl(), norm.mean.as_impl(), norm.rstd.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let mut next = 1;
    let weight = parameter::<T::Op>(&locked, &mut next, norm.weight.is_some())?;
    let bias = parameter::<T::Op>(&locked, &mut next, norm.bias.is_some())?;
    let (ones, zeros) =
        (constants(&weight, T::Op::ONE, norm.groups * k), constants(&bias, T::Op::ZERO, norm.groups * k));
    let (x, weight, bias): (&[T], _, _) = (&x, weight.as_deref().unwrap_or(&ones), bias.as_deref().unwrap_or(&zeros));
    let (mut out, mut mean, mut rstd) = (locked.write::<T>(0)?, locked.write::<T::Op>(1)?, locked.write::<T::Op>(2)?);
    let length = k * s;
    out.with_dense(|out| {
        mean.with_dense(|mean| {
            rstd.with_dense(|rstd| {
                par_out_rows_with(out, mean, rstd, m, length * WORK, |i, out, mean, rstd| {
                    let own = i % norm.groups * k..(i % norm.groups + 1) * k;
                    let parameters = (&weight[own.clone()], &bias[own]);
                    (mean[0], rstd[0]) = norm_row(out, &x[i * length..][..length], parameters, eps, s);
                })
            })
        })
    });
    Ok(())
}

/// As many constants as stand in for an absent parameter.
fn constants<O: tensor_core::Element>(parameter: &Option<Dense<'_, O>>, value: O, n: usize) -> Vec<O> {
    if parameter.is_some() { Vec::new() } else { vec![value; n] }
}

/// Normalises a row; gives its mean and `rstd`.
#[inline(never)]
fn norm_row<I: Isa, T: RealFloating>(
    out: Sink<'_, T>,
    x: &[T],
    parameters: (&[T::Op], &[T::Op]),
    eps: f64,
    s: usize,
) -> (T::Op, T::Op) {
    I::run(
        #[inline(always)]
        || {
            let (centre, spread) = rows::moments(x);
            let scale = 1.0 / (spread / x.len() as f64 + eps).sqrt();
            let (centre, scale) = (T::Op::from_f64(centre), T::Op::from_f64(scale));
            out.whole(
                #[inline(always)]
                |out| affine::<I, T>(out, x, (centre, scale), parameters, s),
            );
            (centre, scale)
        },
    )
}

/// `out = (x - centre) * scale * weight + bias`, the parameters one a run of `s` elements.
#[inline(always)]
fn affine<I: Isa, T: RealFloating>(
    out: &mut [T],
    x: &[T],
    (centre, scale): (T::Op, T::Op),
    (weight, bias): (&[T::Op], &[T::Op]),
    s: usize,
) {
    let n = out.len();
    if s == 1 {
        let (x, weight, bias) = (&x[..n], &weight[..n], &bias[..n]);
        for i in 0..n {
            out[i] = T::down(x[i].up().sub(centre).mul(scale).mul_add::<I>(weight[i], bias[i]));
        }
        return;
    }
    for i in 0..n.div_ceil(s) {
        let (out, x) = (rows::piece_mut(out, i, s), rows::piece(x, i, s));
        let (weight, bias, n) = (weight[i], bias[i], out.len());
        let x = &x[..n];
        for i in 0..n {
            out[i] = T::down(x[i].up().sub(centre).mul(scale).mul_add::<I>(weight, bias));
        }
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
    weight: &'a [O],
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
    backward(grads, grad, x, norm, chunk_backward::<I, T>)
}

/// [`chunk_backward`] at a level: what is around it is there once for all levels.
type ChunkBackward<T, O> = fn(&mut [T], &mut Partial<O>, Inputs<'_, T, O>, usize, usize);

fn backward<T: RealFloating>(
    grads: [Option<&Tensor>; 3],
    grad: &Tensor,
    x: &Tensor,
    norm: RowNorm<'_>,
    chunk_backward: ChunkBackward<T, T::Op>,
) -> Result<()> {
    let (m, k, s) = extents(x);
    let reads = with_options(&[grad, x, norm.mean, norm.rstd], &[norm.weight]);
    let locked = lock(&reads, &with_options(&[], &grads))?;
    let (grad, x) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (mean, rstd) = (locked.read::<T::Op>(2)?.dense(), locked.read::<T::Op>(3)?.dense());
    let weight = parameter::<T::Op>(&locked, &mut 4, norm.weight.is_some())?;
    let (length, channels) = (k * s, norm.groups * k);
    let ones = constants(&weight, T::Op::ONE, channels);
    let weight: &[T::Op] = weight.as_deref().unwrap_or(&ones);
    let inputs = Inputs { grad: &grad, x: &x, mean: &mean, rstd: &rstd, weight, shape: (norm.groups, k, s) };
    // Chunks depend on the shape alone, so the order of the sums does as well.
    let chunk = (GRAIN / (length * WORK).max(1)).max(1).max(m.div_ceil(PARTS));
    let parts: Vec<Mutex<Option<Partial<T::Op>>>> = (0..m.div_ceil(chunk)).map(|_| Mutex::new(None)).collect();
    let one = |begin: usize, end: usize, out: &mut [T]| {
        let mut part = (vec![T::Op::ZERO; channels], vec![T::Op::ZERO; channels]);
        chunk_backward(out, &mut part, inputs, begin, end);
        *parts[begin / chunk].lock() = Some(part);
    };
    let mut next = 0;
    if grads[0].is_some() {
        next = 1;
        locked.write::<T>(0)?.with_dense(|out| {
            par_chunks::<Baseline, T>(out, chunk * length, |at, out| {
                one(at / length, (at + out.len()) / length, out);
            })
        });
    } else {
        parallel_for(m, chunk, |begin, end| one(begin, end, &mut []));
    }
    if grads[1].is_none() && grads[2].is_none() {
        return Ok(());
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

/// The rows from `begin` to `end`: gradients of the input, if there is room for them, and shares in those of the parameters.
#[inline(never)]
fn chunk_backward<I: Isa, T: RealFloating>(
    out: &mut [T],
    (weights, biases): &mut Partial<T::Op>,
    inputs: Inputs<'_, T, T::Op>,
    begin: usize,
    end: usize,
) {
    let (groups, k, s) = inputs.shape;
    // One loop for all: gradients that nobody asked for go to a row of their own.
    let mut spare = if out.is_empty() { vec![T::zeroed(); k * s] } else { Vec::new() };
    I::run(
        #[inline(always)]
        || {
            for i in begin..end {
                let out = if spare.is_empty() { rows::piece_mut(out, i - begin, k * s) } else { &mut spare[..] };
                let own = i % groups * k..(i % groups + 1) * k;
                let row = Row {
                    grad: rows::piece(inputs.grad, i, k * s),
                    x: rows::piece(inputs.x, i, k * s),
                    weight: &inputs.weight[own.clone()],
                    mean: inputs.mean[i],
                    rstd: inputs.rstd[i],
                };
                let (weights, biases) = (&mut weights[own.clone()], &mut biases[own]);
                if s == 1 {
                    elements_backward::<I, T>(out, weights, biases, row);
                } else {
                    channels_backward::<T>(out, weights, biases, row, s);
                }
            }
        },
    )
}

/// A row of [`Inputs`].
struct Row<'a, T, O> {
    grad: &'a [T],
    x: &'a [T],
    weight: &'a [O],
    mean: O,
    rstd: O,
}

/// A row of channels of one element.
#[inline(always)]
fn elements_backward<I: Isa, T: RealFloating>(
    out: &mut [T],
    weights: &mut [T::Op],
    biases: &mut [T::Op],
    row: Row<'_, T, T::Op>,
) {
    let n = out.len();
    let (grad, x, weight, mean, rstd) = (&row.grad[..n], &row.x[..n], &row.weight[..n], row.mean, row.rstd);
    let (weights, biases) = (&mut weights[..n], &mut biases[..n]);
    let (sum, dot) = rows::sums3(
        grad,
        weight,
        x,
        #[inline(always)]
        |g: T, w: T::Op, x: T| {
            let h = g.up().mul(w);
            (h, h.mul(x.up().sub(mean).mul(rstd)))
        },
    );
    let (a, b) = (T::Op::from_f64(sum / n as f64), T::Op::from_f64(dot / n as f64));
    // As PyTorch does: one rounding less than `(x - mean) * rstd`, another result where that is 0.
    let term = mean.mul(rstd).neg();
    for i in 0..n {
        let (g, x) = (grad[i].up(), x[i].up());
        out[i] = T::down(g.mul(weight[i]).sub(a).sub(x.sub(mean).mul(rstd).mul(b)).mul(rstd));
        weights[i] = weights[i].mul_accumulate::<I>(g, x.mul_add::<I>(rstd, term));
        biases[i] = biases[i].add(g);
    }
}

/// A row of channels of `s` elements.
#[inline(always)]
fn channels_backward<T: RealFloating>(
    out: &mut [T],
    weights: &mut [T::Op],
    biases: &mut [T::Op],
    row: Row<'_, T, T::Op>,
    s: usize,
) {
    let (mean, rstd, n) = (row.mean, row.rstd, out.len() as f64);
    let mut sums = (0.0, 0.0);
    for (i, weight) in row.weight.iter().enumerate() {
        let (sum, dot) = rows::sums(
            rows::piece(row.grad, i, s),
            rows::piece(row.x, i, s),
            #[inline(always)]
            |g: T, x: T| (g.up(), g.up().mul(x.up().sub(mean).mul(rstd))),
        );
        weights[i] = weights[i].add(T::Op::from_f64(dot));
        biases[i] = biases[i].add(T::Op::from_f64(sum));
        let weight = Real::to_f64(*weight);
        sums = (sums.0 + sum * weight, sums.1 + dot * weight);
    }
    let (a, b) = (T::Op::from_f64(sums.0 / n), T::Op::from_f64(sums.1 / n));
    for (i, weight) in row.weight.iter().enumerate() {
        let (grad, x) = (rows::piece(row.grad, i, s), rows::piece(row.x, i, s));
        let (out, weight) = (rows::piece_mut(out, i, s), *weight);
        let n = out.len();
        let (grad, x) = (&grad[..n], &x[..n]);
        for i in 0..n {
            out[i] = T::down(grad[i].up().mul(weight).sub(a).sub(x[i].up().sub(mean).mul(rstd).mul(b)).mul(rstd));
        }
    }
}
