//! Where the windows of a dimension lie.

use tensor_aten::kernels::{PoolDivisor, PoolShape, PoolWindow};

/// The windows of one dimension.
pub struct Windows {
    /// first element and end within the image, by result
    pub bounds: Vec<(usize, usize)>,
    /// steps within a window
    pub step: usize,
    /// elements of each window within the image
    pub inside: Vec<usize>,
    /// elements of each window, with those of the padding
    whole: Vec<usize>,
}

impl Windows {
    fn of(s: &PoolShape, d: usize) -> Self {
        let (image, results) = (s.image[d], s.result[d]);
        match s.window {
            PoolWindow::Fixed { kernel, stride, padding, dilation } => {
                let (kernel, stride, pad, step) = (kernel[d], stride[d], padding[d], dilation[d]);
                let mut whole = Vec::with_capacity(results);
                let bounds = (0..results).map(|o| {
                    let (begin, span) = (o * stride, (kernel - 1) * step + 1);
                    whole.push((begin + span).min(image + 2 * pad).saturating_sub(begin));
                    // The first element of the window that lies within the image.
                    let skipped = pad.saturating_sub(begin).div_ceil(step) * step;
                    let first = (begin + skipped).saturating_sub(pad);
                    (first, (begin + span).saturating_sub(pad).min(image).max(first.min(image)))
                });
                let bounds: Vec<_> = bounds.map(|(a, b)| (a.min(b), b)).collect();
                let inside = bounds.iter().map(|(a, b)| (b - a).div_ceil(step)).collect();
                Self { bounds, step, inside, whole }
            }
            PoolWindow::Adaptive => {
                let bounds: Vec<(usize, usize)> =
                    (0..results).map(|o| (o * image / results, ((o + 1) * image).div_ceil(results))).collect();
                let whole: Vec<_> = bounds.iter().map(|(a, b)| b - a).collect();
                Self { bounds, step: 1, inside: whole.clone(), whole }
            }
        }
    }

    /// Elements of the longest window.
    pub fn longest(&self) -> usize {
        self.inside.iter().copied().max().unwrap_or(0)
    }

    /// Those of the three dimensions.
    pub fn all(s: &PoolShape) -> [Self; 3] {
        std::array::from_fn(|d| Self::of(s, d))
    }

    /// How many elements an average over window `o` counts in this dimension.
    pub fn count(&self, o: usize, divisor: PoolDivisor) -> usize {
        let (a, b) = self.bounds[o];
        if matches!(divisor, PoolDivisor::WithPadding) { self.whole[o] } else { b - a }
    }

    /// The windows that hold element `i`; they are neighbours.
    pub fn holding(&self, i: usize) -> std::ops::Range<usize> {
        let first = self.bounds.partition_point(|&(_, end)| end <= i);
        let end = self.bounds.partition_point(|&(start, _)| start <= i);
        first..end.max(first)
    }
}

/// A line of results, or one of pixels: where its windows begin, and what they see of the image.
#[derive(Clone, Copy, Default)]
pub struct Line {
    /// planes of results and lines of a plane before it
    pub at: [usize; 2],
    /// elements (or pixels) of the image before its plane
    pub plane: usize,
    /// the first line that its windows see, as elements of the plane
    pub first: usize,
    /// how many planes of the depth and lines its windows see
    pub sees: [usize; 2],
}

impl Line {
    /// Calls `f` for `count` lines of all results, from number `first` on.
    #[inline(always)]
    pub fn each(s: &PoolShape, windows: &[Windows; 3], first: usize, count: usize, mut f: impl FnMut(Self)) {
        let [depth, lines, _] = s.result;
        let (mut d, mut h) = (first / lines % depth, first % lines);
        let size = s.image[0] * s.image[1] * s.image[2];
        let mut plane = first / (depth * lines) * size;
        for _ in 0..count {
            f(Self {
                at: [d, h],
                plane,
                first: (windows[0].bounds[d].0 * s.image[1] + windows[1].bounds[h].0) * s.image[2],
                sees: [windows[0].inside[d], windows[1].inside[h]],
            });
            h += 1;
            if h == lines {
                (h, d) = (0, d + 1);
            }
            if d == depth {
                (d, plane) = (0, plane + size);
            }
        }
    }
}

/// How far line `y` of plane `z` that windows see lies from their first one, as elements of the plane.
#[inline(always)]
pub fn down(s: &PoolShape, windows: &[Windows; 3], z: usize, y: usize) -> usize {
    (z * windows[0].step * s.image[1] + y * windows[1].step) * s.image[2]
}
