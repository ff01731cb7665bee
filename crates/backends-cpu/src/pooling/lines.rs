//! Lines of images, laid out so that all windows along them are one loop a window's element: padded on both sides.

use tensor_aten::kernels::{PoolShape, PoolWindow};

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
    results: usize,
}

/// Results that a loop works on together. Lines have room for a multiple of them and one more: a loop over every other
/// element leaves its last round to single ones.
const TOGETHER: usize = 16;

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

    /// How many results a line has room for.
    pub fn room(&self) -> usize {
        self.results.next_multiple_of(TOGETHER) + 1
    }
}

/// One line of an image with its padding.
pub struct Stage<T> {
    line: Vec<T>,
    padding: usize,
}

impl<T: Value> Stage<T> {
    /// A line of padding.
    pub fn new(steps: &Steps, image: usize, padding: T) -> Self {
        let span = steps.room() * steps.stride + steps.kernel * steps.dilation;
        Self { line: vec![padding; span.max(steps.padding + image)], padding: steps.padding }
    }

    /// Puts a line of the image in its place.
    #[inline(always)]
    pub fn put(&mut self, line: &[T]) {
        self.line[self.padding..self.padding + line.len()].copy_from_slice(line);
    }

    /// What the windows see from their element at `offset` on.
    #[inline(always)]
    pub fn from(&self, offset: usize) -> &[T] {
        &self.line[offset..]
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
