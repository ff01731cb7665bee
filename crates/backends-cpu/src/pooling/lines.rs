//! Lines of images, many of them one after the other, laid out so that all windows along them are one loop a window's element:
//! padded on both sides, and taken apart into phases where windows lie far from each other.

use tensor_aten::kernels::{PoolShape, PoolWindow};

use super::windows::{Line, Windows, down};
use crate::convolution::copy_whole;
use crate::parallel::GRAIN;
use crate::simd::Value;

/// The windows along the last dimension where they lie in even steps.
#[derive(Clone, Copy)]
pub struct Steps {
    /// elements of a window
    pub kernel: usize,
    /// from one window to the next
    pub stride: usize,
    /// elements before the image
    pub padding: usize,
    /// from one element of a window to the next
    pub dilation: usize,
    /// how many windows there are
    pub results: usize,
}

/// Results that a loop works on together. There is room for a multiple of them and one more: a loop over every other element
/// leaves its last round to single ones.
pub const TOGETHER: usize = 16;

/// Results that are made at once and elements that are laid out for them, about: so many that short lines fill vectors, so few
/// that the nearest cache holds them.
const LAID: [usize; 2] = [512, 4096];

/// The greatest step whose elements loops take as they lie.
const NEAR: usize = 3;

impl Steps {
    /// `None` where windows are uneven, or channels come last.
    pub fn of(s: &PoolShape) -> Option<Self> {
        let (image, results) = (s.image[2], s.result[2]);
        let even = match s.window {
            PoolWindow::Fixed { kernel, stride, padding, dilation } => {
                Self { kernel: kernel[2], stride: stride[2], padding: padding[2], dilation: dilation[2], results }
            }
            PoolWindow::Adaptive if results > 0 && image.is_multiple_of(results) => {
                let kernel = image / results;
                Self { kernel, stride: kernel, padding: 0, dilation: 1, results }
            }
            PoolWindow::Adaptive => return None,
        };
        // A window over the whole line leaves the loops nothing to do together.
        (s.channels == 1 && (results > 1 || even.kernel <= TOGETHER)).then_some(even)
    }

    /// From the results of a line to those of the next: so many that no window sees two lines.
    pub fn pitch(&self) -> usize {
        let span = (self.results.max(1) - 1) * self.stride + (self.kernel.max(1) - 1) * self.dilation + 1;
        span.div_ceil(self.stride)
    }

    /// Lines of results that are made at once, of windows that have `rows` lines each.
    pub fn lines(&self, rows: usize) -> usize {
        let pitch = self.pitch();
        (LAID[0] / pitch).min(LAID[1] / (pitch * self.stride * rows.max(1))).max(1)
    }

    /// Results of some lines, those between the lines and the loops' last ones counted.
    pub fn room(&self, lines: usize) -> usize {
        (lines * self.pitch()).next_multiple_of(TOGETHER) + 1
    }
}

/// Lines with their padding, as the windows of some lines of results see them: (lines of a window, phases, lines of results).
pub struct Stage<'a, T> {
    shape: &'a PoolShape,
    windows: &'a [Windows; 3],
    steps: Steps,
    /// the lines of results
    lines: Vec<Line>,
    /// how far each line of a window lies from the first one, and as what it is seen
    rows: Vec<Row>,
    elements: Vec<T>,
    padding: T,
    /// in how many phases each line lies
    phases: usize,
    /// elements of a line of a phase
    pitch: usize,
    /// elements of a phase of all lines
    phase: usize,
}

/// A line of a window.
#[derive(Clone, Copy)]
pub struct Row {
    /// plane and line within the window
    at: [usize; 2],
    /// how far it lies from the first one, as elements of the image's plane
    pub down: usize,
}

impl<'a, T: Value> Stage<'a, T> {
    /// As many lines of padding as the steps say.
    pub fn new(shape: &'a PoolShape, windows: &'a [Windows; 3], steps: Steps, padding: T) -> Self {
        let [depth, height] = [windows[0].longest(), windows[1].longest()];
        let mut rows = Vec::with_capacity(depth * height);
        for z in 0..depth {
            for y in 0..height {
                rows.push(Row { at: [z, y], down: down(shape, windows, z, y) });
            }
        }
        let lines = steps.lines(rows.len());
        let phases = if steps.stride > NEAR { steps.stride } else { 1 };
        let phase = (steps.room(lines) * steps.stride + steps.kernel * steps.dilation).div_ceil(phases);
        let elements = vec![padding; rows.len() * phases * phase];
        let pitch = steps.pitch() * steps.stride / phases;
        Self { shape, windows, steps, lines: Vec::with_capacity(lines), rows, elements, padding, phases, pitch, phase }
    }

    /// The lines of a window.
    #[inline(always)]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Lays out what some lines of results see.
    #[inline(always)]
    pub fn put(&mut self, x: &[T], first: usize, count: usize) {
        let n = self.shape.image[2].min(self.pitch * self.phases - self.steps.padding);
        let lines = &mut self.lines;
        lines.clear();
        Line::each(
            self.shape,
            self.windows,
            first,
            count,
            #[inline(always)]
            |line| lines.push(line),
        );
        let (elements, padding, with) = (&mut self.elements[..], self.steps.padding, self.padding);
        let (size, phases, phase, pitch) = (self.phases * self.phase, self.phases, self.phase, self.pitch);
        // The length decides outside of the loops.
        macro_rules! put {
            ($put:expr) => {
                for (i, line) in lines.iter().enumerate() {
                    let x = x.get(line.plane + line.first..).unwrap_or_default();
                    for (r, row) in self.rows.iter().enumerate() {
                        let seen = row.at[0] < line.sees[0] && row.at[1] < line.sees[1];
                        let from = if seen { &x[row.down..][..n] } else { &[] };
                        $put(r * size + i * pitch, from);
                    }
                }
            };
        }
        macro_rules! whole {
            ($n:literal) => {
                put!(|at: usize, line: &[T]| put_line::<T, $n>(&mut elements[at..at + pitch], line, padding, with))
            };
        }
        match n {
            _ if phases > 1 => put!(|at: usize, line: &[T]| {
                for p in 0..phases {
                    let out = &mut elements[at + p * phase..][..pitch];
                    put_phase(out, line, [p, phases], padding, with);
                }
            }),
            16.. => whole!(16),
            8.. => whole!(8),
            4.. => whole!(4),
            _ => whole!(1),
        }
    }

    /// The lines of results that are laid out.
    #[inline(always)]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// What the windows see of their line `row` from their element at `offset` on, and the step from one window to the next.
    #[inline(always)]
    pub fn from(&self, row: usize, offset: usize) -> (&[T], usize) {
        let elements = &self.elements[row * self.phases * self.phase..];
        match self.phases {
            1 => (&elements[offset..], self.steps.stride),
            phases => (&elements[offset % phases * self.phase + offset / phases..], 1),
        }
    }
}

/// A line of at least `W` elements behind its padding, or nothing but padding.
#[inline(always)]
fn put_line<T: Copy, const W: usize>(out: &mut [T], line: &[T], padding: usize, with: T) {
    match line.is_empty() {
        true => out.fill(with),
        false => {
            copy_whole::<T, W>(&mut out[padding..][..line.len()], line);
        }
    }
}

/// The elements of one phase of a line behind its padding, or nothing but padding.
#[inline(always)]
fn put_phase<T: Copy>(out: &mut [T], line: &[T], [phase, phases]: [usize; 2], padding: usize, with: T) {
    if line.is_empty() {
        return out.fill(with);
    }
    // The first element of the phase that is no padding.
    let skipped = padding.saturating_sub(phase).div_ceil(phases);
    let mut at = phase + skipped * phases - padding;
    for out in &mut out[skipped..] {
        let Some(&v) = line.get(at) else { break };
        *out = v;
        at += phases;
    }
}

/// Runs a body with `$step` as a constant where it is one of the usual steps, so that its loop vectorises.
macro_rules! with_step {
    ($step:expr, $name:ident => $body:block else $other:block) => {
        match $step {
            1 => {
                const $name: usize = 1;
                $body
            }
            2 => {
                const $name: usize = 2;
                $body
            }
            3 => {
                const $name: usize = 3;
                $body
            }
            _ => $other,
        }
    };
}

/// Calls `f(j, x[j * step])` for all `j < n`.
#[inline(always)]
pub fn each_step<T: Copy>(x: &[T], step: usize, n: usize, mut f: impl FnMut(usize, T)) {
    with_step!(step, STEP => {
        let x = &x.as_chunks::<STEP>().0[..n];
        for (j, x) in x.iter().enumerate() {
            f(j, x[0]);
        }
    } else {
        x.iter().step_by(step).take(n).enumerate().for_each(|(j, &x)| f(j, x));
    });
}

/// Calls `f(j, [x[j * step], x[j * step + apart], x[j * step + 2 * apart]])` for all `j < n`; false, without a call, where
/// the step is none of the usual ones.
#[inline(always)]
pub fn each_three<T: Copy>(x: &[T], [step, apart]: [usize; 2], n: usize, mut f: impl FnMut(usize, [T; 3])) -> bool {
    with_step!(step, STEP => {
        let a = &x.as_chunks::<STEP>().0[..n];
        let b = &x[apart..].as_chunks::<STEP>().0[..n];
        let c = &x[2 * apart..].as_chunks::<STEP>().0[..n];
        for j in 0..n {
            f(j, [a[j][0], b[j][0], c[j][0]]);
        }
        true
    } else { false })
}

/// [`each_three`] of two.
#[inline(always)]
pub fn each_two<T: Copy>(x: &[T], [step, apart]: [usize; 2], n: usize, mut f: impl FnMut(usize, [T; 2])) -> bool {
    with_step!(step, STEP => {
        let a = &x.as_chunks::<STEP>().0[..n];
        let b = &x[apart..].as_chunks::<STEP>().0[..n];
        for j in 0..n {
            f(j, [a[j][0], b[j][0]]);
        }
        true
    } else { false })
}

/// Elements of a chunk of whole lines of `width`, of which each costs about `work` element steps.
pub fn chunk(width: usize, work: usize) -> usize {
    (GRAIN / work.max(1)).max(1) * width.max(1)
}
