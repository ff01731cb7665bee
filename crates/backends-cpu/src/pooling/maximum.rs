//! The largest elements of windows, where they are, and the way back.

use std::sync::atomic::{AtomicBool, Ordering};

use tensor_aten::Tensor;
use tensor_aten::kernels::PoolShape;
use tensor_core::{Element, Result, check, check_index};

use super::lines::{Stage, Steps, chunk, each_step, each_three, each_two};
use super::windows::Windows;
use super::{slice, slice_mut};
use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks2, par_rows};
use crate::simd::{Arith, Ordered, Real, Value};

/// True if `v` takes the place of `best`: it is larger, or no number.
#[inline(always)]
fn beats<T: Real>(v: T, best: T) -> bool {
    (v > best) | v.is_nan()
}

/// The larger one of `best` and of `x`, and its place, one after the other. All is read before the choice: a choice of what
/// is read becomes one of addresses, which is slow. So is a store of some lanes, after which the next load waits: the larger
/// value is no choice of whether to store.
#[inline(always)]
fn larger<T: Ordered, const N: usize>(
    (mut best, mut place): (T::Op, i32),
    x: [T; N],
    places: [i32; N],
) -> (T::Op, i32) {
    for k in 0..N {
        let v = x[k].up();
        place = if beats(v, best) { places[k] } else { place };
        best = v.maximum(best);
    }
    (best, place)
}

/// The largest elements so far of some windows, and where they are, counted from a place of each window.
struct Best<T: Ordered> {
    values: Vec<T::Op>,
    places: Vec<i32>,
}

impl<T: Ordered> Best<T> {
    fn new(n: usize) -> Self {
        Self { values: vec![T::Op::LOWEST; n], places: vec![0; n] }
    }

    /// Nothing yet, at the places of the windows' first elements.
    #[inline(always)]
    fn reset(&mut self, places: &[i32]) {
        self.values.fill(T::Op::LOWEST);
        self.places.copy_from_slice(places);
    }

    /// Takes what is larger of the elements at `at` of the windows: every `step`-th one of `x`.
    #[inline(always)]
    fn take(&mut self, x: &[T], step: usize, at: i32) {
        let n = self.values.len();
        let (values, places) = (&mut self.values[..n], &mut self.places[..n]);
        each_step(
            x,
            step,
            n,
            #[inline(always)]
            move |j, x| (values[j], places[j]) = larger((values[j], places[j]), [x], [at]),
        );
    }

    /// [`Best::take`] of a line of the windows, the usual numbers of elements at once.
    #[inline(always)]
    fn take_line(&mut self, stage: &Stage<T>, steps: &Steps, at: i32) {
        let n = self.values.len();
        let (values, places) = (&mut self.values[..n], &mut self.places[..n]);
        let (distances, apart) = ([steps.stride, steps.dilation], steps.dilation as i32);
        let taken = match steps.kernel {
            2 => each_two(
                stage.from(0),
                distances,
                n,
                #[inline(always)]
                move |j, x| (values[j], places[j]) = larger((values[j], places[j]), x, [at, at + apart]),
            ),
            3 => each_three(
                stage.from(0),
                distances,
                n,
                #[inline(always)]
                move |j, x| {
                    (values[j], places[j]) = larger((values[j], places[j]), x, [at, at + apart, at + 2 * apart])
                },
            ),
            _ => false,
        };
        if !taken {
            for k in 0..steps.kernel {
                self.take(stage.from(k * steps.dilation), steps.stride, at + k as i32 * apart);
            }
        }
    }

    /// Writes the elements, and their places from `first` on, `step` more from one to the next.
    #[inline(always)]
    fn store(&self, values: &mut [T], indices: &mut [i64], first: i64, step: i64) {
        for (value, &v) in values.iter_mut().zip(&self.values) {
            *value = T::down(v);
        }
        for (j, (index, &place)) in indices.iter_mut().zip(&self.places).enumerate() {
            *index = first + j as i64 * step + i64::from(place);
        }
    }
}

/// `values[o] = max` over the window of `o`, `indices[o]` its place in the plane: the first of equals, the last of NaNs.
///
/// # Errors
/// When a tensor is not as the shape says; for planes of more than 2^31 elements.
pub fn max_pool<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor, s: &PoolShape) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let (plane, results): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    check!(i32::try_from(plane).is_ok(), "pooling: planes of {plane} elements are too large");
    let x: &[T] = slice(&locked, 0, s.planes * plane * s.channels)?;
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let len = s.planes * results * s.channels;
    let (values, indices) = (slice_mut(&mut values, len)?, slice_mut(&mut indices, len)?);
    let windows = Windows::all(s);
    let steps = Steps::of(s);
    let [depth, lines, width] = s.result;
    let sizes: usize = windows.iter().map(|w| w.bounds.first().map_or(1, |(a, b)| (b - a).div_ceil(w.step))).product();
    let cols = width * s.channels;
    // The first elements of the windows of a line, from where each window begins.
    let mut firsts = vec![0; steps.map_or(s.channels, |steps| steps.room())];
    if let Some(steps) = &steps {
        for (o, (first, &(begin, _))) in firsts.iter_mut().zip(&windows[2].bounds).enumerate() {
            *first = (begin + steps.padding).saturating_sub(o * steps.stride) as i32;
        }
    }
    par_chunks2::<I, T, i64>(
        values,
        indices,
        chunk(cols, cols * sizes * 4),
        #[inline(always)]
        |start, values, indices| {
            let mut best = Best::<T>::new(firsts.len());
            let mut stage = steps.map(|steps| Stage::new(&steps, s.image[2], T::down(T::Op::LOWEST)));
            let rows = values.chunks_exact_mut(cols).zip(indices.chunks_exact_mut(cols));
            for (i, (values, indices)) in rows.enumerate() {
                let row = start / cols + i;
                let (p, d, h) = (row / (depth * lines), row / lines % depth, row % lines);
                let x = &x[p * plane * s.channels..][..plane * s.channels];
                let window = [windows[0].bounds[d], windows[1].bounds[h]];
                let first = (window[0].0 * s.image[1] + window[1].0) * s.image[2];
                if let (Some(steps), Some(stage)) = (&steps, &mut stage) {
                    best.reset(&firsts);
                    lines_of(s, window, &windows, |line| {
                        stage.put(&x[line..line + s.image[2]]);
                        best.take_line(stage, steps, (line - first) as i32);
                    });
                    best.store(values, indices, first as i64 - steps.padding as i64, steps.stride as i64);
                    continue;
                }
                let pixels = values.chunks_exact_mut(s.channels).zip(indices.chunks_exact_mut(s.channels));
                for (&(begin, end), (values, indices)) in windows[2].bounds.iter().zip(pixels) {
                    best.reset(&firsts);
                    lines_of(s, window, &windows, |line| {
                        for w in (begin..end).step_by(windows[2].step) {
                            let x = &x[(line + w) * s.channels..][..s.channels];
                            best.take(x, 1, (line - first + w - begin) as i32);
                        }
                    });
                    best.store(values, indices, (first + begin) as i64, 0);
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
    let exact = T::DTYPE == <T::Op as Element>::DTYPE;
    par_rows::<I, T>(
        out,
        s.planes,
        (plane + 4 * results) * s.channels,
        #[inline(always)]
        |p, out| {
            let (x, indices) = (&x[p * row..][..row], &indices[p * row..][..row]);
            if !indices.iter().fold(true, |all, &i| all & ((i as u64) < plane as u64)) {
                wrong.store(true, Ordering::Relaxed);
                return;
            }
            if exact {
                out.fill(T::zeroed());
                spread(out, x, indices, s.channels, |to, v| {
                    *to = if add { T::down(to.up().add(v.up())) } else { v };
                });
            } else {
                // Sums of halves are made in f32.
                let mut sums = vec![<T::Op as Arith>::ZERO; out.len()];
                spread(&mut sums, x, indices, s.channels, |to, v| *to = if add { to.add(v.up()) } else { v.up() });
                for (out, &sum) in out.iter_mut().zip(&sums) {
                    *out = T::down(sum);
                }
            }
        },
    );
    check_index!(!wrong.into_inner(), "an index of pooling is out of bounds for a plane of {plane} elements");
    Ok(())
}

/// Puts the elements of pixels where their indices say.
#[inline(always)]
fn spread<T: Copy, A>(out: &mut [A], x: &[T], indices: &[i64], channels: usize, put: impl Fn(&mut A, T)) {
    if channels == 1 {
        return x.iter().zip(indices).for_each(|(&v, &i)| put(&mut out[i as usize], v));
    }
    for (x, indices) in x.chunks_exact(channels).zip(indices.chunks_exact(channels)) {
        for (c, (&v, &i)) in x.iter().zip(indices).enumerate() {
            put(&mut out[i as usize * channels + c], v);
        }
    }
}
