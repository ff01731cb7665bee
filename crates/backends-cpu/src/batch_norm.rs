//! Normalisation of the channels of a contiguous (N, C, S) tensor; channels last is (N x positions, C, 1).
//!
//! Sums over a channel are made in chunks that depend on the shape alone and added in f64. Where S is large they run along
//! the S elements, otherwise along neighbouring channels.

use tensor_aten::Tensor;
use tensor_aten::kernels::ChannelNorm;
use tensor_core::{DType, Result};

use crate::isa::Isa;
use crate::layer_norm::{parameter, with_options};
use crate::loops::views::{lock, par_chunks, par_rows};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::rows;
use crate::simd::{Arith, Math, Real, RealFloating};

/// From so many elements side by side a channel is summed along them.
const LONG: usize = 16;
/// The most partial sums that are kept: beyond it, chunks of images grow.
const PARTS: usize = 64;
/// Elements of rows that are finished together.
const HELD: usize = 2048;
/// Neighbouring channels that are summed in registers.
const WIDTH: usize = 16;
/// Rows of channels that are accumulated in the type of computation before they are carried on in f64.
const DEPTH: usize = 128;

/// The (N, C, S) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [n, c, s] => (n as usize, c as usize, s as usize),
        _ => (1, x.numel() as usize, 1),
    }
}

/// Two sums of each channel over a pair of tensors: `sum f(p, a, b)` in f64, with a number `p` for each channel.
#[inline]
fn channel_sums<I: Isa, T: RealFloating>(
    (a, b, p): (&[T], &[T], &[T::Op]),
    (n, c, s): (usize, usize, usize),
    f: impl Fn(T::Op, T, T) -> (T::Op, T::Op) + Sync,
) -> (Vec<f64>, Vec<f64>) {
    let image = c * s;
    let chunk = (GRAIN / (image * 2)).max(1).max(n.div_ceil(PARTS));
    let part = |begin: usize, end: usize| {
        let mut sums = (vec![0.0; c], vec![0.0; c]);
        let mut run = (vec![T::Op::ZERO; c], vec![T::Op::ZERO; c]);
        let (a, b) = (&a[begin * image..end * image], &b[begin * image..end * image]);
        if s >= LONG {
            I::run(
                #[inline(always)]
                || {
                    for i in 0..end - begin {
                        let (a, b) = (rows::piece(a, i, image), rows::piece(b, i, image));
                        let channels = sums.0.iter_mut().zip(sums.1.iter_mut()).zip(p);
                        for (channel, ((first, second), p)) in channels.enumerate() {
                            let (a, b) = (rows::piece(a, channel, s), rows::piece(b, channel, s));
                            let of = rows::sums(
                                a,
                                b,
                                #[inline(always)]
                                |a, b| f(*p, a, b),
                            );
                            (*first, *second) = (*first + of.0, *second + of.1);
                        }
                    }
                },
            );
            return sums;
        }
        for (a, b) in a.chunks(image * DEPTH).zip(b.chunks(image * DEPTH)) {
            run.0.fill(T::Op::ZERO);
            run.1.fill(T::Op::ZERO);
            let (first, second, p) = (&mut run.0[..c], &mut run.1[..c], &p[..c]);
            I::run(
                #[inline(always)]
                || {
                    // Channels whose sums stay in registers.
                    let held = if s == 1 { c / WIDTH * WIDTH } else { 0 };
                    for k in (0..held).step_by(WIDTH) {
                        let p = &p[k..][..WIDTH];
                        let (mut sums, mut others) = ([T::Op::ZERO; WIDTH], [T::Op::ZERO; WIDTH]);
                        for i in 0..a.len() / c {
                            let (a, b) = (&a[i * c + k..][..WIDTH], &b[i * c + k..][..WIDTH]);
                            let mut of = [[T::Op::ZERO; WIDTH]; 2];
                            for l in 0..WIDTH {
                                (of[0][l], of[1][l]) = f(p[l], a[l], b[l]);
                            }
                            for l in 0..WIDTH {
                                sums[l] = sums[l].add(of[0][l]);
                            }
                            for l in 0..WIDTH {
                                others[l] = others[l].add(of[1][l]);
                            }
                        }
                        first[k..][..WIDTH].copy_from_slice(&sums);
                        second[k..][..WIDTH].copy_from_slice(&others);
                    }
                    for i in 0..a.len().div_ceil(image) {
                        let (a, b) = (rows::piece(a, i, image), rows::piece(b, i, image));
                        for k in held..c {
                            for j in k * s..(k + 1) * s {
                                let of = f(p[k], a[j], b[j]);
                                (first[k], second[k]) = (first[k].add(of.0), second[k].add(of.1));
                            }
                        }
                    }
                },
            );
            sums.0.iter_mut().zip(&run.0).for_each(|(sum, run)| *sum += Real::to_f64(*run));
            sums.1.iter_mut().zip(&run.1).for_each(|(sum, run)| *sum += Real::to_f64(*run));
        }
        sums
    };
    let add = |mut a: (Vec<f64>, Vec<f64>), b: (Vec<f64>, Vec<f64>)| {
        a.0.iter_mut().zip(b.0).for_each(|(a, b)| *a += b);
        a.1.iter_mut().zip(b.1).for_each(|(a, b)| *a += b);
        a
    };
    parallel_reduce(n, chunk, (vec![0.0; c], vec![0.0; c]), part, add)
}

/// `out = finish(a, b, p)` for each element, with four numbers `p` for each channel.
fn map_channels<I: Isa, T: RealFloating>(
    out: &mut [T],
    (a, b, p): (&[T], &[T], [&[T::Op]; 4]),
    (n, c, s): (usize, usize, usize),
    finish: impl Fn(T::Op, T::Op, [T::Op; 4]) -> T::Op + Sync,
) {
    let at_channel = |channel: usize| [p[0][channel], p[1][channel], p[2][channel], p[3][channel]];
    if s >= LONG {
        par_rows::<I, T>(
            out,
            n * c,
            s * 2,
            #[inline(always)]
            |i, out| {
                let p = at_channel(i % c);
                for ((out, a), b) in out.iter_mut().zip(&a[i * s..]).zip(&b[i * s..]) {
                    *out = T::down(finish(a.up(), b.up(), p));
                }
            },
        );
    } else if s == 1 {
        par_chunks::<I, T>(
            out,
            (GRAIN / (2 * c).max(1)).max(1) * c,
            #[inline(always)]
            |start, out| {
                let (a, b) = (&a[start..][..out.len()], &b[start..][..out.len()]);
                let held = c / WIDTH * WIDTH;
                // As many rows as a first-level cache holds.
                let rows = (HELD / c.max(1)).max(1) * c;
                for first in (0..out.len()).step_by(rows.max(1)) {
                    let end = out.len().min(first + rows);
                    for k in (0..held).step_by(WIDTH) {
                        let mut numbers = [[T::Op::ZERO; WIDTH]; 4];
                        for i in 0..4 {
                            numbers[i].copy_from_slice(&p[i][k..][..WIDTH]);
                        }
                        for at in (first + k..end).step_by(c) {
                            let (a, b) = (a[at..].first_chunk(), b[at..].first_chunk());
                            if let (Some(a), Some(b), Some(out)) = (a, b, out[at..].first_chunk_mut()) {
                                *out = finished(a, b, &numbers, &finish);
                            }
                        }
                    }
                }
                for k in held..c {
                    for at in (k..out.len()).step_by(c) {
                        out[at] = T::down(finish(a[at].up(), b[at].up(), at_channel(k)));
                    }
                }
            },
        );
    } else {
        let image = c * s;
        par_rows::<I, T>(
            out,
            n,
            image * 2,
            #[inline(always)]
            |i, out| {
                let (a, b) = (&a[i * image..][..image], &b[i * image..][..image]);
                for channel in 0..c {
                    let p = at_channel(channel);
                    let (out, a, b) =
                        (rows::piece_mut(out, channel, s), rows::piece(a, channel, s), rows::piece(b, channel, s));
                    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                        *out = T::down(finish(a.up(), b.up(), p));
                    }
                }
            },
        );
    }
}

/// What `finish` gives for neighbouring channels. All is read before any of it is written.
#[inline(always)]
fn finished<T: RealFloating, F: Fn(T::Op, T::Op, [T::Op; 4]) -> T::Op>(
    a: &[T; WIDTH],
    b: &[T; WIDTH],
    p: &[[T::Op; WIDTH]; 4],
    finish: &F,
) -> [T; WIDTH] {
    let mut run = *a;
    for l in 0..WIDTH {
        run[l] = T::down((*finish)(a[l].up(), b[l].up(), [p[0][l], p[1][l], p[2][l], p[3][l]]));
    }
    run
}

/// `1 / sqrt(var + eps)`
fn inverse_deviation(variance: f64, eps: f64) -> f64 {
    if variance == 0.0 && eps == 0.0 { 0.0 } else { 1.0 / (variance + eps).sqrt() }
}

/// `out = (x - mean) * invstd * weight + bias`
pub fn norm<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor, norm: ChannelNorm<'_>) -> Result<()> {
    let shape @ (n, c, s) = extents(x);
    let training = norm.saved.is_some();
    let (running, saved) = (norm.running.map(|pair| pair.map(Some)), norm.saved.map(|pair| pair.map(Some)));
    let [mean, var] = running.unwrap_or_default();
    let [save_mean, save_invstd] = saved.unwrap_or_default();
    let mut reads = with_options(&[x], &[norm.weight, norm.bias]);
    let mut writes = with_options(&[out], &[save_mean, save_invstd]);
    let place = if training { &mut writes } else { &mut reads };
    place.extend(with_options(&[], &[mean, var]));
    let locked = lock(&reads, &writes)?;
    let x = locked.read::<T>(0)?.dense();
    let x: &[T] = &x;
    let mut next = 1;
    let weight = parameter::<T::Op>(&locked, &mut next, norm.weight.is_some())?;
    let bias = parameter::<T::Op>(&locked, &mut next, norm.bias.is_some())?;
    let moments: Vec<(f64, f64)> = if training {
        let count = (n * s) as f64;
        let early = norm.rounded && T::DTYPE == DType::BF16;
        let keep = |value: f64| {
            let value = T::Op::from_f64(value);
            Real::to_f64(if norm.rounded { T::down(value).up() } else { value })
        };
        let none = vec![T::Op::ZERO; c];
        let (sums, _) = channel_sums::<I, T>(
            (x, x, &none),
            shape,
            #[inline(always)]
            |_, x, _| (x.up(), T::Op::ZERO),
        );
        let means: Vec<f64> = sums.into_iter().map(|sum| sum / count).collect();
        let centres: Vec<T::Op> = means.iter().map(|&mean| T::Op::from_f64(mean)).collect();
        let (spreads, _) = channel_sums::<I, T>(
            (x, x, &centres),
            shape,
            #[inline(always)]
            |centre, x, _| {
                let d = x.up().sub(centre);
                (d.mul(d), T::Op::ZERO)
            },
        );
        let (mut save_mean, mut save_invstd) = (locked.write::<T::Op>(1)?, locked.write::<T::Op>(2)?);
        let mut running = match norm.running {
            Some(_) => Some((locked.write::<T::Op>(3)?, locked.write::<T::Op>(4)?)),
            None => None,
        };
        let mut moments = Vec::with_capacity(c);
        for (i, (mean, spread)) in means.into_iter().zip(spreads).enumerate() {
            // PyTorch rounds to bf16 on the way, to f16 at the end.
            let (new_mean, spread) = if early { (keep(mean), keep(spread)) } else { (mean, spread) };
            let variance = |count: f64| if early { keep(spread / count) } else { spread / count };
            let invstd = keep(inverse_deviation(variance(count), norm.eps));
            let mean = keep(mean);
            let at = [i as i64];
            save_mean.set(&at, T::Op::from_f64(mean));
            save_invstd.set(&at, T::Op::from_f64(invstd));
            if let Some((running_mean, running_var)) = &mut running {
                let old = |of: T::Op| (1.0 - norm.momentum) * Real::to_f64(of);
                let new_mean = norm.momentum * new_mean + old(running_mean.as_view().at(&at));
                let new_var = norm.momentum * variance(count - 1.0) + old(running_var.as_view().at(&at));
                running_mean.set(&at, T::Op::from_f64(new_mean));
                running_var.set(&at, T::Op::from_f64(new_var));
            }
            moments.push((mean, invstd));
        }
        moments
    } else {
        let (mean, var) = (locked.read::<T::Op>(next)?.dense(), locked.read::<T::Op>(next + 1)?.dense());
        let of = |(mean, var): (&T::Op, &T::Op)| (Real::to_f64(*mean), inverse_deviation(Real::to_f64(*var), norm.eps));
        mean.iter().zip(var.iter()).map(of).collect()
    };
    let scale = |i: usize| moments[i].1 * weight.as_ref().map_or(1.0, |w| Real::to_f64(w[i]));
    let scales: Vec<T::Op> = (0..c).map(|i| T::Op::from_f64(scale(i))).collect();
    let term = |i: usize| bias.as_ref().map_or(0.0, |b| Real::to_f64(b[i])) - moments[i].0 * scale(i);
    let terms: Vec<T::Op> = (0..c).map(|i| T::Op::from_f64(term(i))).collect();
    locked.write::<T>(0)?.with_dense(|out| {
        let numbers = [&scales[..], &terms, &scales, &scales];
        map_channels::<I, T>(
            out,
            (x, x, numbers),
            shape,
            #[inline(always)]
            |x, _, [scale, term, ..]| x.mul_add::<I>(scale, term),
        );
    });
    Ok(())
}

/// In training `grad_input = weight * invstd * (g - mean(g) - y * mean(g * y))` with `y = (x - mean) * invstd`, otherwise
/// `weight * invstd * g`; `grad_weight = sum(g * y)`, `grad_bias = sum(g)`.
pub fn norm_backward<I: Isa, T: RealFloating>(
    grads: [Option<&Tensor>; 3],
    grad: &Tensor,
    x: &Tensor,
    norm: ChannelNorm<'_>,
) -> Result<()> {
    let shape @ (n, c, s) = extents(x);
    let training = norm.saved.is_some();
    let pair = norm.saved.or(norm.running).map(|pair| pair.map(Some)).unwrap_or_default();
    let reads = with_options(&[grad, x], &[pair[0], pair[1], norm.weight]);
    let locked = lock(&reads, &with_options(&[], &grads))?;
    let (grad, x) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (grad, x): (&[T], &[T]) = (&grad, &x);
    let (mean, second) = (locked.read::<T::Op>(2)?.dense(), locked.read::<T::Op>(3)?.dense());
    let invstd = |i: usize| {
        let second = Real::to_f64(second[i]);
        if training { second } else { inverse_deviation(second, norm.eps) }
    };
    let weight = parameter::<T::Op>(&locked, &mut 4, norm.weight.is_some())?;
    // Gradients of the input in evaluation need no sums.
    let (sums, dots) = if training || grads[1].is_some() || grads[2].is_some() {
        channel_sums::<I, T>(
            (grad, x, &mean),
            shape,
            #[inline(always)]
            |mean, g, x| (g.up(), g.up().mul(x.up().sub(mean))),
        )
    } else {
        (vec![0.0; c], vec![0.0; c])
    };
    let mut next = 0;
    if grads[0].is_some() {
        next = 1;
        let count = (n * s) as f64;
        let scale = |i: usize| invstd(i) * weight.as_ref().map_or(1.0, |w| Real::to_f64(w[i]));
        let scales: Vec<T::Op> = (0..c).map(|i| T::Op::from_f64(scale(i))).collect();
        locked.write::<T>(0)?.with_dense(|out| {
            if training {
                let centre: Vec<T::Op> = sums.iter().map(|sum| T::Op::from_f64(sum / count)).collect();
                let slope = |i: usize| dots[i] * invstd(i) * invstd(i) / count;
                let slopes: Vec<T::Op> = (0..c).map(|i| T::Op::from_f64(slope(i))).collect();
                let numbers = [&centre[..], &mean, &slopes, &scales];
                map_channels::<I, T>(
                    out,
                    (grad, x, numbers),
                    shape,
                    #[inline(always)]
                    |g, x, [centre, mean, slope, scale]| g.sub(centre).sub(x.sub(mean).mul(slope)).mul(scale),
                );
            } else {
                let numbers = [&scales[..]; 4];
                map_channels::<I, T>(
                    out,
                    (grad, x, numbers),
                    shape,
                    #[inline(always)]
                    |g, _, [scale, ..]| g.mul(scale),
                );
            }
        });
    }
    if grads[1].is_some() {
        let values: Vec<T::Op> = (0..c).map(|i| T::Op::from_f64(dots[i] * invstd(i))).collect();
        locked.write::<T::Op>(next)?.copy_from(&values);
        next += 1;
    }
    if grads[2].is_some() {
        let values: Vec<T::Op> = sums.iter().map(|sum| T::Op::from_f64(*sum)).collect();
        locked.write::<T::Op>(next)?.copy_from(&values);
    }
    Ok(())
}
