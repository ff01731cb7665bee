//! Where the windows of a dimension lie.

use tensor_aten::kernels::{PoolDivisor, PoolShape, PoolWindow};

/// The windows of one dimension.
pub struct Windows {
    /// first element and end within the image, by result
    pub bounds: Vec<(usize, usize)>,
    /// steps within a window
    pub step: usize,
    /// elements of each window, with those of the padding
    pub whole: Vec<usize>,
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
                let bounds = bounds.map(|(a, b)| (a.min(b), b)).collect();
                Self { bounds, step, whole }
            }
            PoolWindow::Adaptive => {
                let bounds: Vec<(usize, usize)> =
                    (0..results).map(|o| (o * image / results, ((o + 1) * image).div_ceil(results))).collect();
                let whole = bounds.iter().map(|(a, b)| b - a).collect();
                Self { bounds, step: 1, whole }
            }
        }
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
