//! Which element of the source each element of the kernel shows to each result, dimension by dimension, and how sources are laid
//! out for that: so that every element of the kernel sees the elements of neighbouring results side by side.
//!
//! The source of a forward convolution is the image, taken apart into as many planes as its strides have phases; that of an
//! adjoint one are the results, and what comes out has the phases. Within a plane, result `o` sees element `o + shift`.

use std::ops::Range;

use tensor_aten::kernels::ConvShape;

use super::lanes::{Row, copy_lines, copy_stepped};

/// An element of the kernel along a dimension: result `o` sees element `(o + shift) * every + phases[phase]` of the source.
#[derive(Clone, Copy)]
pub struct Tap {
    tap: usize,
    phase: usize,
    shift: isize,
}

/// The results of one phase along a dimension: elements `first`, `first + step`, .. of what comes out.
pub struct Pass {
    first: usize,
    taps: Vec<Tap>,
}

/// One dimension.
pub struct Axis {
    /// elements of the source
    source: usize,
    /// elements of what comes out
    pub out: usize,
    /// the phases of the source
    every: usize,
    /// the phases of what comes out
    pub step: usize,
    /// those of the phases that the kernel meets
    phases: Vec<usize>,
    /// elements of the kernel
    kernel: usize,
    /// one for each phase of what comes out
    passes: Vec<Pass>,
    /// the least and the greatest shift
    reach: (isize, isize),
}

impl Axis {
    fn new(s: &ConvShape, d: usize, forward: bool) -> Self {
        let (stride, kernel) = (s.stride[d], s.kernel[d]);
        let at = |tap: usize| (tap * s.dilation[d]) as isize - s.padding[d];
        let step = stride as isize;
        let pass = |first: usize| {
            let taps = (0..kernel).filter_map(|tap| {
                let at = if forward { at(tap) } else { first as isize - at(tap) };
                let phase = at.rem_euclid(step) as usize;
                (forward || phase == 0).then_some(Tap { tap, phase, shift: at.div_euclid(step) })
            });
            Pass { first, taps: taps.collect() }
        };
        let (source, out) = if forward { (s.image[d], s.result[d]) } else { (s.result[d], s.image[d]) };
        let mut passes: Vec<Pass> = (0..if forward { 1 } else { stride }).map(pass).collect();
        let taps = || passes.iter().flat_map(|pass| &pass.taps);
        let phases: Vec<usize> = (0..stride).filter(|&phase| taps().any(|tap| tap.phase == phase)).collect();
        let reach = (taps().map(|t| t.shift).min().unwrap_or(0), taps().map(|t| t.shift).max().unwrap_or(0));
        for tap in passes.iter_mut().flat_map(|pass| &mut pass.taps) {
            tap.phase = phases.iter().position(|&phase| phase == tap.phase).unwrap_or(0);
        }
        let (every, step) = if forward { (stride, 1) } else { (1, stride) };
        Self { source, out, every, step, phases, kernel, passes, reach }
    }

    /// How many elements of the source have a phase.
    fn elements(&self, phase: usize) -> usize {
        self.source.saturating_sub(phase).div_ceil(self.every)
    }

    /// The elements of the kernel that an element of what comes out meets, and those of the source.
    fn meets(&self, out: usize) -> impl Iterator<Item = (usize, usize)> {
        let o = (out / self.step) as isize;
        self.passes[out % self.step].taps.iter().filter_map(move |t| {
            let at = (o + t.shift) * self.every as isize + self.phases[t.phase] as isize;
            (at >= 0 && (at as usize) < self.source).then_some((t.tap, at as usize))
        })
    }

    /// Lays out the source of a range of what comes out.
    fn window(&self, out: Range<usize>) -> Window {
        let first = out.start / self.step;
        let results = out.end.div_ceil(self.step) - first;
        let (lo, hi) = self.reach;
        let last = first + results;
        let begin = (first as isize + lo).max(0);
        let end = ((last as isize + hi).max(begin)).min((self.elements(0) as isize).max(begin));
        let (from, to) = (begin - first as isize, end - first as isize);
        // Lines follow each other so closely that the zeros after one are those before the next.
        let pitch = (results as isize).max(results as isize + hi - from).max(to - lo) as usize;
        Window { first, results, out, source: begin as usize..end as usize, from, pitch }
    }
}

/// One dimension of the part of a source that a part of the results sees.
pub struct Window {
    /// the first result
    first: usize,
    /// results of each phase, at most
    results: usize,
    /// those of all phases, as elements of what comes out
    out: Range<usize>,
    /// elements of the source (within a phase)
    source: Range<usize>,
    /// where they begin, counted from the first result
    from: isize,
    /// from the results of one line or image to the next
    pitch: usize,
}

impl Window {
    /// Elements of what comes out that a pass makes: the first, and how many.
    fn made(&self, axis: &Axis, pass: &Pass) -> (usize, usize) {
        let first = self.first * axis.step + pass.first;
        (first, self.out.end.saturating_sub(first).div_ceil(axis.step))
    }
}

/// A convolution or the adjoint of one, as sums over windows of a source. Both are contiguous, (N, C, D, H, W).
pub struct Plan {
    /// images
    pub batch: usize,
    /// groups of channels
    pub groups: usize,
    /// the source's channels of a group
    pub ins: usize,
    /// what comes out: channels of a group
    pub outs: usize,
    /// depth, height and width
    pub axes: [Axis; 3],
}

impl Plan {
    /// From images to results.
    pub fn forward(s: &ConvShape) -> Self {
        Self::new(s, s.in_channels, s.out_channels, true)
    }

    /// From results to images.
    pub fn adjoint(s: &ConvShape) -> Self {
        Self::new(s, s.out_channels, s.in_channels, false)
    }

    fn new(s: &ConvShape, ins: usize, outs: usize, forward: bool) -> Self {
        let axes = std::array::from_fn(|d| Axis::new(s, d, forward));
        Self { batch: s.batch, groups: s.groups, ins: ins / s.groups, outs: outs / s.groups, axes }
    }

    /// Elements of the kernel.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// What comes out of a channel.
    pub fn out_plane(&self) -> usize {
        self.axes.iter().map(|axis| axis.out).product()
    }

    /// The source's elements of a channel.
    fn source_plane(&self) -> usize {
        self.axes.iter().map(|axis| axis.source).product()
    }

    /// The part of columns `range` of what comes out of a channel, which lie in plane `depth`: whole lines, or some of one.
    pub fn part(&self, images: usize, depth: usize, range: Range<usize>) -> Part {
        let [_, height, width] = &self.axes;
        let plane = height.out * width.out;
        let (begin, end) = (range.start - depth * plane, range.end - depth * plane);
        if height.out == 1 {
            Part { images, depth, lines: 0..1, cols: begin..end }
        } else {
            Part { images, depth, lines: begin / width.out..end.div_ceil(width.out), cols: 0..width.out }
        }
    }

    /// Elements of scratch that a channel of the source takes for each result, about.
    pub fn planes(&self) -> usize {
        let phases: usize = self.axes[1..].iter().map(|axis| axis.phases.len()).product();
        self.axes[0].kernel.min(self.axes[0].out) * phases
    }
}

/// A part of what comes out: images, one plane of the depth, lines and columns.
pub struct Part {
    /// how many images
    pub images: usize,
    /// the plane
    pub depth: usize,
    /// lines of it
    pub lines: Range<usize>,
    /// columns of it
    pub cols: Range<usize>,
}

/// How the source of a [`Part`] lies in scratch: (channels, planes that are seen, phases of lines, phases of columns, elements).
pub struct Layout<'a> {
    plan: &'a Plan,
    images: usize,
    /// The elements of the kernel along the depth and the planes of the source that they meet.
    depths: Vec<(usize, usize)>,
    lines: Window,
    cols: Window,
    /// where the first result lies in a plane of scratch
    base: usize,
    /// elements of a plane of scratch
    plane: usize,
}

/// The results of one phase of a [`Layout`].
pub struct Results<'a> {
    layout: &'a Layout<'a>,
    passes: [&'a Pass; 2],
}

impl<'a> Layout<'a> {
    /// The layout of a part.
    pub fn new(plan: &'a Plan, part: Part) -> Self {
        let [depth, height, width] = &plan.axes;
        let (lines, cols) = (height.window(part.lines), width.window(part.cols));
        let pitch = cols.pitch as isize;
        let base = (-(height.reach.0 * pitch + width.reach.0)).max(0);
        let stacked = ((part.images - 1) * lines.pitch + lines.results) as isize;
        let end = |reach: &dyn Fn(&Axis) -> isize| {
            base + (stacked - 1 + reach(height)) * pitch + cols.results as isize + reach(width)
        };
        let plane = end(&|axis| axis.reach.1).max(end(&|_| 0)) as usize;
        let depths = depth.meets(part.depth).collect();
        Self { plan, images: part.images, depths, lines, cols, base: base as usize, plane }
    }

    /// Planes of scratch of a channel.
    fn planes(&self) -> usize {
        self.depths.len() * self.plan.axes[1].phases.len() * self.plan.axes[2].phases.len()
    }

    /// Elements of scratch that some channels take. Behind them `slack` more are read.
    pub fn len(&self, channels: usize, slack: usize) -> usize {
        channels * self.planes() * self.plane + slack
    }

    /// Positions from the first result to the last: those between the lines count.
    pub fn positions(&self) -> usize {
        ((self.images - 1) * self.lines.pitch + self.lines.results - 1) * self.cols.pitch + self.cols.results
    }

    /// The lines of results one by one, where vectors of `lanes` fill them so well that they are fewer than those of all
    /// positions; they lie closely then, in whole vectors.
    pub fn by_lines(&self, lanes: usize) -> Option<Grid> {
        let (lines, width) = (self.lines.results, self.cols.results.next_multiple_of(lanes));
        let fewer = self.images * lines * width < self.positions().next_multiple_of(lanes);
        fewer.then(|| Grid {
            images: self.images,
            lines,
            n: width,
            image: self.lines.pitch * self.cols.pitch,
            pitch: self.cols.pitch,
        })
    }

    /// Lays some channels of the source out, counted over all groups, from image `first` on. What is left of `out` is zero.
    #[inline(always)]
    pub fn gather<T: Copy>(&self, source: &[T], first: usize, channels: Range<usize>, zero: T, out: &mut [T]) {
        let [_, height, width] = &self.plan.axes;
        let (out, slack) = out.split_at_mut(self.len(channels.len(), 0));
        slack.fill(zero);
        let mut planes = out.chunks_exact_mut(self.plane.max(1));
        for channel in channels {
            for &(_, depth) in &self.depths {
                for &line_phase in &height.phases {
                    for &phase in &width.phases {
                        let Some(out) = planes.next() else { return };
                        self.gather_plane(source, (first, channel, depth), [line_phase, phase], zero, out);
                    }
                }
            }
        }
    }

    /// Lays out a phase of one plane of a channel.
    #[inline(always)]
    fn gather_plane<T: Copy>(
        &self,
        source: &[T],
        (first, channel, depth): (usize, usize, usize),
        [line_phase, phase]: [usize; 2],
        zero: T,
        out: &mut [T],
    ) {
        let [_, height, width] = &self.plan.axes;
        let (lines, cols) = (&self.lines, &self.cols);
        out.fill(zero);
        let begin = cols.source.start;
        let n = cols.source.end.min(width.elements(phase)).saturating_sub(begin);
        let count = lines.source.end.min(height.elements(line_phase)).saturating_sub(lines.source.start);
        if n == 0 || count == 0 {
            return;
        }
        let to = (self.base as isize + lines.from * cols.pitch as isize + cols.from) as usize;
        let line = lines.source.start * height.every + line_phase;
        let from = (depth * height.source + line) * width.source + begin * width.every + phase;
        let (down, image) = (height.every * width.source, self.plan.groups * self.plan.ins * self.plan.source_plane());
        for i in 0..self.images {
            let source = &source[(first + i) * image + channel * self.plan.source_plane() + from..];
            let out = &mut out[i * lines.pitch * cols.pitch + to..];
            if width.every == 1 {
                copy_lines((out, cols.pitch), (source, down), count, n);
                continue;
            }
            for line in 0..count {
                copy_stepped(&mut out[line * cols.pitch..][..n], &source[line * down..], width.every);
            }
        }
    }

    /// The results' phases, those with elements.
    pub fn results(&self) -> impl Iterator<Item = Results<'_>> {
        let [_, height, width] = &self.plan.axes;
        let pairs = height.passes.iter().flat_map(|line| width.passes.iter().map(move |col| [line, col]));
        pairs.map(|passes| Results { layout: self, passes }).filter(|r| r.made().iter().all(|(_, n)| *n > 0))
    }
}

impl Results<'_> {
    /// For lines and columns: the first element of what comes out, and how many there are.
    fn made(&self) -> [(usize, usize); 2] {
        let [_, height, width] = &self.layout.plan.axes;
        [self.layout.lines.made(height, self.passes[0]), self.layout.cols.made(width, self.passes[1])]
    }

    /// The rows of weights, numbered (channel, kd, kh, kw), with the elements that they meet at the first result.
    pub fn rows(&self, channels: Range<usize>) -> Vec<Row> {
        let layout = self.layout;
        let [depth, height, width] = &layout.plan.axes;
        let plane = layout.plane as isize;
        let mut rows = Vec::with_capacity(channels.len() * layout.plan.taps());
        for (i, channel) in channels.enumerate() {
            for (d, &(kd, _)) in layout.depths.iter().enumerate() {
                for line in &self.passes[0].taps {
                    for col in &self.passes[1].taps {
                        let planes = (i * layout.depths.len() + d) * height.phases.len() + line.phase;
                        let at = ((planes * width.phases.len() + col.phase) as isize) * plane
                            + layout.base as isize
                            + line.shift * layout.cols.pitch as isize
                            + col.shift;
                        let weight =
                            ((channel * depth.kernel + kd) * height.kernel + line.tap) * width.kernel + col.tap;
                        rows.push(Row { weight: weight as u32, at: at as u32 });
                    }
                }
            }
        }
        rows
    }

    /// Where each line's results begin among the positions, and how many results a line has.
    pub fn starts(&self) -> (Vec<u32>, usize) {
        let (mut starts, mut length) = (Vec::new(), 0);
        self.lines(|_, _, _, n, position| {
            starts.push(position as u32);
            length = n;
        });
        (starts, length)
    }

    /// How the results lie among the positions.
    #[inline(always)]
    pub fn grid(&self) -> Grid {
        let (lines, cols) = (&self.layout.lines, &self.layout.cols);
        let [(_, count), (_, n)] = self.made();
        let (images, image) = (self.layout.images, lines.pitch * cols.pitch);
        Grid { images, lines: count, n, image, pitch: cols.pitch }
    }

    /// Where they lie in a plane of what comes out: the first one, from a line to the next, from a result to the next.
    #[inline(always)]
    pub fn places(&self) -> [usize; 3] {
        let [_, height, width] = &self.layout.plan.axes;
        let [(line, _), (col, _)] = self.made();
        [line * width.out + col, height.step * width.out, width.step]
    }

    /// Calls `f(image, first, step, n, position)` for the lines of results: `n` elements of a plane of what comes out, from
    /// `first` on, and where the first of them lies among the positions.
    #[inline(always)]
    pub fn lines(&self, mut f: impl FnMut(usize, usize, usize, usize, usize)) {
        let (grid, [first, down, step]) = (self.grid(), self.places());
        for image in 0..grid.images {
            for i in 0..grid.lines {
                f(image, first + i * down, step, grid.n, image * grid.image + i * grid.pitch);
            }
        }
    }
}

/// Lines of results among positions.
#[derive(Clone, Copy)]
pub struct Grid {
    /// how many images
    pub images: usize,
    /// lines of each
    pub lines: usize,
    /// results of a line
    pub n: usize,
    /// positions of an image
    pub image: usize,
    /// positions of a line
    pub pitch: usize,
}

impl Grid {
    /// The same lines without anything in between.
    pub fn closely(self) -> Self {
        Self { image: self.lines * self.n, pitch: self.n, ..self }
    }

    /// Positions of all images.
    pub fn len(&self) -> usize {
        self.images * self.image
    }
}
