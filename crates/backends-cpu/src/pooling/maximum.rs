//! The largest elements of windows, where they are, and the way back.

use std::sync::atomic::{AtomicBool, Ordering};

use tensor_aten::Tensor;
use tensor_aten::kernels::PoolShape;
use tensor_core::{Result, check_index};

use super::windows::{Tap, Windows, taps};
use super::{slice, slice_mut};
use crate::isa::Isa;
use crate::loops::views::{lock, par_rows, par_rows2};
use crate::simd::{Arith, Ordered, Real, Value};

/// True if `v` takes the place of `best`: it is larger, or no number.
#[inline(always)]
fn beats<T: Real>(v: T, best: T) -> bool {
    (v > best) | v.is_nan()
}

/// `values[o] = max` over the window of `o`, `indices[o]` its place in the plane: the first of equals, the last of NaNs.
///
/// # Errors
/// When a tensor is not as the shape says.
pub fn max_pool<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor, s: &PoolShape) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let (plane, results): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    let x: &[T] = slice(&locked, 0, s.planes * plane * s.channels)?;
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let len = s.planes * results * s.channels;
    let (values, indices) = (slice_mut(&mut values, len)?, slice_mut(&mut indices, len)?);
    let windows = Windows::all(s);
    let even = taps(s).filter(|_| s.channels == 1);
    let [depth, lines, width] = s.result;
    let sizes: usize = windows.iter().map(|w| w.bounds.first().map_or(1, |(a, b)| (b - a).div_ceil(w.step))).product();
    let work = width * s.channels * sizes * 4;
    par_rows2::<I, T, i64>(
        values,
        indices,
        s.planes * depth * lines,
        work,
        #[inline(always)]
        |row, values, indices| {
            let (p, d, h) = (row / (depth * lines), row / lines % depth, row % lines);
            let x = &x[p * plane * s.channels..][..plane * s.channels];
            let window = [windows[0].bounds[d], windows[1].bounds[h]];
            match &even {
                Some((taps, step)) => even_line(s, x, window, &windows, taps, *step, values, indices),
                None => {
                    let pixels = values.chunks_exact_mut(s.channels).zip(indices.chunks_exact_mut(s.channels));
                    for (bounds, (values, indices)) in windows[2].bounds.iter().zip(pixels) {
                        pixel(s, x, [window[0], window[1], *bounds], &windows, values, indices);
                    }
                }
            }
        },
    );
    Ok(())
}

/// The planes' lines that a window sees, `(d, h)` as places in the plane.
#[inline(always)]
fn lines_of(s: &PoolShape, window: [(usize, usize); 2], windows: &[Windows; 3], mut f: impl FnMut(usize)) {
    for d in (window[0].0..window[0].1).step_by(windows[0].step) {
        for h in (window[1].0..window[1].1).step_by(windows[1].step) {
            f((d * s.image[1] + h) * s.image[2]);
        }
    }
}

/// A line of results whose windows lie in even steps: element by element of the window, along the line.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn even_line<T: Ordered>(
    s: &PoolShape,
    x: &[T],
    window: [(usize, usize); 2],
    windows: &[Windows; 3],
    taps: &[Tap],
    step: usize,
    values: &mut [T],
    indices: &mut [i64],
) {
    let first = (window[0].0 * s.image[1] + window[1].0) * s.image[2];
    for (i, (start, _)) in indices.iter_mut().zip(&windows[2].bounds) {
        *i = (first + start) as i64;
    }
    values.fill(T::down(T::Op::LOWEST));
    lines_of(s, window, windows, |line| {
        for tap in taps {
            let Tap { results, offset } = tap;
            let (values, indices) = (&mut values[results.clone()], &mut indices[results.clone()]);
            let x = &x[line..line + s.image[2]];
            let x = x.get(*offset..).unwrap_or_default();
            let at = (line + offset) as i64;
            match step {
                1 => take::<T, 1>(values, indices, x, at, 1),
                2 => take::<T, 2>(values, indices, x, at, 2),
                _ => take::<T, 0>(values, indices, x, at, step),
            }
        }
    });
}

/// Takes what is larger of every `step`-th element; `STEP` is the step where it is known.
#[inline(always)]
fn take<T: Ordered, const STEP: usize>(values: &mut [T], indices: &mut [i64], x: &[T], at: i64, step: usize) {
    let step = if STEP == 0 { step } else { STEP };
    let n = values.len().min(indices.len()).min(x.len().div_ceil(step));
    let (values, indices) = (&mut values[..n], &mut indices[..n]);
    for j in 0..n {
        let v = x[j * step];
        let better = beats(v.up(), values[j].up());
        values[j] = if better { v } else { values[j] };
        indices[j] = if better { at + (j * step) as i64 } else { indices[j] };
    }
}

/// One result, for all channels.
#[inline(always)]
fn pixel<T: Ordered>(
    s: &PoolShape,
    x: &[T],
    window: [(usize, usize); 3],
    windows: &[Windows; 3],
    values: &mut [T],
    indices: &mut [i64],
) {
    let first = (window[0].0 * s.image[1] + window[1].0) * s.image[2] + window[2].0;
    values.fill(T::down(T::Op::LOWEST));
    indices.fill(first as i64);
    lines_of(s, [window[0], window[1]], windows, |line| {
        for w in (window[2].0..window[2].1).step_by(windows[2].step) {
            let at = line + w;
            let x = &x[at * s.channels..][..s.channels];
            for ((value, index), &v) in values.iter_mut().zip(indices.iter_mut()).zip(x) {
                let better = beats(v.up(), value.up());
                *value = if better { v } else { *value };
                *index = if better { at as i64 } else { *index };
            }
        }
    });
}

/// `out[indices[o]] += x[o]` in each plane (`= x[o]` unless `add`), 0 elsewhere.
///
/// # Errors
/// When a tensor is not as the shape says; `IndexError` for an index that lies outside its plane.
pub fn unpool<I: Isa, T: Value>(out: &Tensor, x: &Tensor, indices: &Tensor, s: &PoolShape, add: bool) -> Result<()> {
    let locked = lock(&[x.as_impl(), indices.as_impl()], &[out.as_impl()])?;
    let (plane, results): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    let len = s.planes * results * s.channels;
    let (x, indices): (&[T], &[i64]) = (slice(&locked, 0, len)?, slice(&locked, 1, len)?);
    let mut out = locked.write::<T>(0)?;
    let out = slice_mut(&mut out, s.planes * plane * s.channels)?;
    let wrong = AtomicBool::new(false);
    let row = results * s.channels;
    par_rows::<I, T>(
        out,
        s.planes,
        (plane + 4 * results) * s.channels,
        #[inline(always)]
        |p, out| {
            // Sums of halves are made in f32.
            let mut sums = vec![<T::Op as Arith>::ZERO; out.len()];
            for (o, (&v, &i)) in x[p * row..][..row].iter().zip(&indices[p * row..][..row]).enumerate() {
                if i < 0 || i as usize >= plane {
                    wrong.store(true, Ordering::Relaxed);
                    continue;
                }
                let at = i as usize * s.channels + o % s.channels;
                sums[at] = if add { sums[at].add(v.up()) } else { v.up() };
            }
            for (out, &sum) in out.iter_mut().zip(&sums) {
                *out = T::down(sum);
            }
        },
    );
    check_index!(!wrong.into_inner(), "an index of pooling is out of bounds for a plane of {plane} elements");
    Ok(())
}
