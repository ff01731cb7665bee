//! The largest elements of windows, where they are, and the way back.

use std::sync::atomic::{AtomicBool, Ordering};

use tensor_aten::Tensor;
use tensor_aten::kernels::PoolShape;
use tensor_core::{Element, Result, check, check_index};

use super::lines::{Stage, Steps, TOGETHER, chunk, each_step, each_three, each_two};
use super::windows::{Line, Windows, down};
use super::{slice, slice_mut};
use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks2, par_rows};
use crate::rows;
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
        self.values[..places.len()].fill(T::Op::LOWEST);
        self.places[..places.len()].copy_from_slice(places);
    }

    /// Takes what is larger of the elements at `at` of the first `n` windows: every `step`-th one of `x`.
    #[inline(always)]
    fn take(&mut self, n: usize, (x, step): (&[T], usize), at: i32) {
        let (values, places) = (&mut self.values[..n], &mut self.places[..n]);
        each_step(
            x,
            step,
            n,
            #[inline(always)]
            move |j, x| (values[j], places[j]) = larger((values[j], places[j]), [x], [at]),
        );
    }

    /// [`Best::take`] of line `row` of the windows, the usual numbers of elements at once.
    #[inline(always)]
    fn take_row(&mut self, n: usize, stage: &Stage<'_, T>, steps: &Steps, row: usize) {
        let (values, places) = (&mut self.values[..n], &mut self.places[..n]);
        let (at, apart) = (stage.rows()[row].down as i32, steps.dilation as i32);
        let (x, step) = stage.from(row, 0);
        // Phases lie apart from each other.
        let distances = [if step == steps.stride { step } else { 0 }, steps.dilation];
        let taken = match steps.kernel {
            2 => each_two(
                x,
                distances,
                n,
                #[inline(always)]
                move |j, x| (values[j], places[j]) = larger((values[j], places[j]), x, [at, at + apart]),
            ),
            3 => each_three(
                x,
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
                self.take(n, stage.from(row, k * steps.dilation), at + k as i32 * apart);
            }
        }
    }

    /// Writes the elements of windows from the one at `at` on, and their places, of windows that begin at `begins`.
    #[inline(always)]
    fn store(&self, at: usize, begins: &[i32], values: &mut [T], indices: &mut [i64]) {
        let n = values.len();
        let (from, places) = (&self.values[at..][..n], &self.places[at..][..n]);
        for j in 0..n {
            values[j] = T::down(from[j]);
        }
        let (indices, begins) = (&mut indices[..n], &begins[..n]);
        for j in 0..n {
            indices[j] = i64::from(begins[j] + places[j]);
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
    let cols = s.result[2] * s.channels;
    let sizes: usize = windows.iter().map(Windows::longest).product();
    // Few pool integers: theirs is the shorter code.
    match Steps::of(s) {
        Some(steps) if const { T::DTYPE.is_floating_point() } => {
            // The first elements of the windows of a line, from where each window begins.
            let mut firsts = vec![0; steps.room(steps.lines(windows[0].longest() * windows[1].longest()))];
            for firsts in firsts.chunks_exact_mut(steps.pitch()) {
                for (o, &(begin, _)) in windows[2].bounds.iter().enumerate() {
                    firsts[o] = (begin + steps.padding).saturating_sub(o * steps.stride) as i32;
                }
            }
            // Where windows begin.
            let mut columns = vec![0; steps.pitch().next_multiple_of(TOGETHER)];
            for (o, column) in columns.iter_mut().enumerate() {
                *column = (o * steps.stride) as i32 - steps.padding as i32;
            }
            par_chunks2::<I, T, i64>(
                values,
                indices,
                chunk(cols, cols * (sizes + 4)),
                #[inline(always)]
                |start, values, indices| {
                    even_lines(s, &windows, &steps, [&firsts, &columns], x, start / cols, values, indices);
                },
            );
        }
        _ => par_chunks2::<I, T, i64>(
            values,
            indices,
            chunk(cols, cols * sizes * 4),
            #[inline(always)]
            |start, values, indices| pixels(s, &windows, x, start / cols, values, indices),
        ),
    }
    Ok(())
}

/// Lines of results from number `first` on, some of them at once.
#[inline(always)]
fn even_lines<T: Ordered>(
    s: &PoolShape,
    windows: &[Windows; 3],
    steps: &Steps,
    [firsts, columns]: [&[i32]; 2],
    x: &[T],
    first: usize,
    values: &mut [T],
    indices: &mut [i64],
) {
    let (cols, pitch) = (steps.results, steps.pitch());
    let mut best = Best::<T>::new(firsts.len());
    let mut stage = Stage::new(s, windows, *steps, T::down(T::Op::LOWEST));
    let mut begins = vec![0; firsts.len() + TOGETHER];
    let (total, lines) = (values.len() / cols, steps.lines(stage.rows().len()));
    for done in (0..total).step_by(lines) {
        stage.put(x, first + done, lines.min(total - done));
        let n = steps.room(stage.lines().len());
        best.reset(&firsts[..n]);
        for row in 0..stage.rows().len() {
            best.take_row(n, &stage, steps, row);
        }
        // Some columns at once: what is too much of a line is overwritten by the next one.
        for (i, line) in stage.lines().iter().enumerate() {
            let (first, begins) = (line.first as i32, &mut begins[i * pitch..]);
            for at in (0..pitch).step_by(TOGETHER) {
                if let (Some(begins), Some(columns)) = (begins[at..].first_chunk_mut(), columns[at..].first_chunk()) {
                    *begins = rows::map::<_, TOGETHER>(
                        *columns,
                        #[inline(always)]
                        |column| column + first,
                    );
                }
            }
        }
        let count = stage.lines().len();
        if pitch == cols {
            let (at, n) = (done * cols, count * cols);
            best.store(0, &begins[..n], &mut values[at..at + n], &mut indices[at..at + n]);
        } else {
            for i in 0..count {
                let (at, from) = ((done + i) * cols, i * pitch);
                let (values, indices) = (&mut values[at..at + cols], &mut indices[at..at + cols]);
                best.store(from, &begins[from..from + cols], values, indices);
            }
        }
    }
}

/// Lines of pixels, or of uneven windows, from number `first` on.
#[inline(always)]
fn pixels<T: Ordered>(
    s: &PoolShape,
    windows: &[Windows; 3],
    x: &[T],
    first: usize,
    values: &mut [T],
    indices: &mut [i64],
) {
    let cols = s.result[2] * s.channels;
    let (firsts, mut begins) = (vec![0; s.channels], vec![0; s.channels]);
    let mut best = Best::<T>::new(s.channels);
    let count = values.len() / cols;
    let mut lines = values.chunks_exact_mut(cols).zip(indices.chunks_exact_mut(cols));
    Line::each(
        s,
        windows,
        first,
        count,
        #[inline(always)]
        |line| {
            let Some((values, indices)) = lines.next() else { return };
            let x = &x[line.plane * s.channels..];
            let pixels = values.chunks_exact_mut(s.channels).zip(indices.chunks_exact_mut(s.channels));
            for (&(begin, end), (values, indices)) in windows[2].bounds.iter().zip(pixels) {
                best.reset(&firsts);
                for z in 0..line.sees[0] {
                    for y in 0..line.sees[1] {
                        let down = down(s, windows, z, y);
                        for w in (begin..end).step_by(windows[2].step) {
                            let x = &x[(line.first + down + w) * s.channels..][..s.channels];
                            best.take(s.channels, (x, 1), (down + w - begin) as i32);
                        }
                    }
                }
                begins.fill((line.first + begin) as i32);
                best.store(0, &begins, values, indices);
            }
        },
    );
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
