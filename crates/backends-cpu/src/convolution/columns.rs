//! Images and results as matrices, the same for both layouts: the columns of the windows (depth x positions), gathered from
//! an image or added back to one, and the channels of results (channels x positions).
//!
//! Rows of the columns are numbered as the weights lie: `channel * taps + tap`, or `tap * channels + channel` where channels
//! come last. Positions count within an image, or, where channels come last, through the batch.

use std::ops::Range;

use tensor_aten::kernels::ConvShape;

use super::{Conv, MatRef};

/// Results of a channel that do not pay for packed weights (measured: 49 with 4608 x 512 weights take 1.5 times as long).
const FEW_POSITIONS: usize = 128;

/// Elements of a kernel whose phases are worth more planes than rows (measured: 3 x 3 by 3 gains from planes, 4 x 4 by 4 loses).
const MANY_TAPS: usize = 16;

/// Channels that lie side by side and make columns worth while where channels come last (measured: 64 cost what turned images
/// and results cost, 3 twice that).
const MANY_CHANNELS: usize = 16;

/// Weights that are many for few results.
const MANY_WEIGHTS: usize = 1 << 18;

/// Elements of the kernel.
pub fn taps(s: &ConvShape) -> usize {
    s.kernel.iter().product()
}

/// Channels of a group: of images, of results.
pub fn group_channels(s: &ConvShape) -> (usize, usize) {
    (s.in_channels / s.groups, s.out_channels / s.groups)
}

/// How many products make one result.
pub fn depth(s: &ConvShape) -> usize {
    group_channels(s).0 * taps(s)
}

/// The number of results of a channel, in one image or, where channels come last, in the batch.
pub fn positions(s: &ConvShape) -> usize {
    let one: usize = s.result.iter().product();
    if s.channels_last { one * s.batch } else { one }
}

/// How many parts of the batch positions count in.
pub fn images(s: &ConvShape) -> usize {
    if s.channels_last { 1 } else { s.batch }
}

/// True if the columns are the image itself.
pub fn is_pointwise(s: &ConvShape) -> bool {
    taps(s) == 1 && s.stride == [1; 3] && s.padding == [0; 3] && s.image == s.result
}

/// True where products with columns are the fastest way: where many channels come last; where windows do not overlap, so that columns are the image or one
/// copy of it, unless a few phases make good planes; for a small image with so many weights that to pack them costs more than
/// to gather columns.
pub fn suit(s: &ConvShape) -> bool {
    let apart = (0..3).all(|d| s.kernel[d] <= s.stride[d]) && s.groups == 1;
    let few = s.batch == 1 && s.result.iter().product::<usize>() <= FEW_POSITIONS;
    s.channels_last && group_channels(s).0 >= MANY_CHANNELS
        || is_pointwise(s)
        || apart && !(2..MANY_TAPS).contains(&taps(s))
        || few && s.out_channels * depth(s) >= MANY_WEIGHTS
}

/// Where a window begins in each dimension, for a result and an element of the kernel.
pub fn start(s: &ConvShape, d: usize, position: usize, tap: usize) -> isize {
    (position * s.stride[d] + tap * s.dilation[d]) as isize - s.padding[d]
}

/// The element `at` of a dimension of the image, if it has one.
pub fn within(s: &ConvShape, d: usize, at: isize) -> Option<usize> {
    (at >= 0 && (at as usize) < s.image[d]).then_some(at as usize)
}

/// The element of the kernel as coordinates.
fn tap_at(s: &ConvShape, tap: usize) -> [usize; 3] {
    let [_, kh, kw] = s.kernel;
    [tap / (kh * kw), tap / kw % kh, tap % kw]
}

/// A run of results of one line, and the line of the image that one element of the kernel sees from there.
pub struct Segment {
    /// the results, counted from the first asked for
    pub out: Range<usize>,
    /// those whose element lies within the image
    pub inside: Range<usize>,
    /// the first of those elements in the plane
    pub at: usize,
}

/// Calls `f` for the lines of positions `p` of a plane, as seen by an element of the kernel.
#[inline(always)]
pub fn segments(s: &ConvShape, p: Range<usize>, tap: usize, mut f: impl FnMut(Segment)) {
    let [kd, kh, kw] = tap_at(s, tap);
    let [_, lines, width] = s.result;
    let step = s.stride[2];
    let mut at = p.start;
    while at < p.end {
        let (line, first) = (at / width, at % width);
        let n = (width - first).min(p.end - at);
        let out = at - p.start..at - p.start + n;
        let d = within(s, 0, start(s, 0, line / lines, kd));
        let h = within(s, 1, start(s, 1, line % lines, kh));
        let x = start(s, 2, first, kw);
        // The first and last results whose column `x + j * step` lies within the image.
        let reach = |bound: isize| if bound <= 0 { 0 } else { (bound as usize).div_ceil(step).min(n) };
        let (lo, hi) = (reach(-x), reach(s.image[2] as isize - x));
        let inside = if d.is_some() && h.is_some() && lo < hi { lo..hi } else { 0..0 };
        let plane = (d.unwrap_or(0) * s.image[1] + h.unwrap_or(0)) * s.image[2];
        let column = x + (inside.start * step) as isize;
        let inside = out.start + inside.start..out.start + inside.end;
        f(Segment { out, at: if inside.is_empty() { 0 } else { plane + column as usize }, inside });
        at += n;
    }
}

/// The rows `k` of the columns at positions `p` of image `n`, group `g`.
#[derive(Clone)]
pub struct Block {
    /// the image
    pub n: usize,
    /// the group
    pub g: usize,
    /// rows
    pub k: Range<usize>,
    /// positions
    pub p: Range<usize>,
}

impl Block {
    /// How many elements its columns have.
    pub fn len(&self) -> usize {
        self.k.len() * self.p.len()
    }
}

/// Gathers the columns of a block into `buffer` (or finds them in the image): rows x positions.
pub fn gather<'a, T: Conv>(s: &ConvShape, x: &'a [T], block: &Block, buffer: &'a mut [T]) -> MatRef<'a, T> {
    let (k, p) = (block.k.len(), block.p.len());
    let fits = "the columns of a block fit its buffer";
    if is_pointwise(s) {
        return pointwise(s, x, block);
    }
    if s.channels_last {
        gather_last(s, x, block, buffer);
        MatRef::row_major(buffer, p, k).expect(fits).t()
    } else {
        gather_first(s, x, block, buffer);
        MatRef::row_major(buffer, k, p).expect(fits)
    }
}

fn pointwise<'a, T: Conv>(s: &ConvShape, x: &'a [T], block: &Block) -> MatRef<'a, T> {
    let (channels, _) = group_channels(s);
    let first = block.g * channels;
    let whole = if s.channels_last {
        MatRef::row_major(x, positions(s), s.in_channels).map(|m| m.cols_range(first, first + channels).t())
    } else {
        let plane = positions(s);
        MatRef::row_major(&x[(block.n * s.in_channels + first) * plane..], channels, plane)
    };
    whole.expect("the image is a matrix").rows_range(block.k.start, block.k.end).cols_range(block.p.start, block.p.end)
}

/// The group's channels of an image, (channels, D, H, W).
fn planes<'a, T>(s: &ConvShape, x: &'a [T], block: &Block) -> (&'a [T], usize) {
    let plane: usize = s.image.iter().product();
    let (channels, _) = group_channels(s);
    (&x[(block.n * s.in_channels + block.g * channels) * plane..][..channels * plane], plane)
}

fn gather_first<T: Conv>(s: &ConvShape, x: &[T], block: &Block, out: &mut [T]) {
    let (x, plane) = planes(s, x, block);
    let taps = taps(s);
    for (row, out) in block.k.clone().zip(out.chunks_exact_mut(block.p.len().max(1))) {
        let channel = &x[row / taps * plane..][..plane];
        segments(s, block.p.clone(), row % taps, |segment| {
            let Segment { out: run, inside, at } = segment;
            out[run.start..inside.start.max(run.start)].fill(T::ZERO);
            out[inside.end..run.end].fill(T::ZERO);
            copy_stepped(&mut out[inside], channel.get(at..).unwrap_or_default(), s.stride[2]);
        });
    }
}

#[inline(always)]
fn copy_stepped<T: Copy>(out: &mut [T], line: &[T], step: usize) {
    if step == 1 {
        let n = out.len();
        out.copy_from_slice(&line[..n]);
    } else {
        for (o, &v) in out.iter_mut().zip(line.iter().step_by(step)) {
            *o = v;
        }
    }
}

/// Calls `f(out, element)` for the runs of channels that a position sees: places in a row of columns, and the first element
/// in an image (D, H, W, C), or none outside.
#[inline(always)]
fn runs_last(s: &ConvShape, block: &Block, position: usize, mut f: impl FnMut(Range<usize>, Option<usize>)) {
    let (channels, _) = group_channels(s);
    let [_, lines, width] = s.result;
    let at = [position / (lines * width), position / width % lines, position % width];
    let mut k = block.k.start;
    while k < block.k.end {
        let (tap, channel) = (k / channels, k % channels);
        let kernel = tap_at(s, tap);
        let depth = within(s, 0, start(s, 0, at[0], kernel[0]));
        let line = within(s, 1, start(s, 1, at[1], kernel[1]));
        let column = start(s, 2, at[2], kernel[2]);
        let first = |column: usize| {
            let (d, h) = (depth?, line?);
            Some(((d * s.image[1] + h) * s.image[2] + column) * s.in_channels + block.g * channels + channel)
        };
        // A whole row of the kernel lies side by side in the image.
        let row = s.kernel[2] * channels;
        let whole = s.groups == 1 && s.dilation[2] == 1 && kernel[2] == 0 && channel == 0;
        let fits = column >= 0 && column as usize + s.kernel[2] <= s.image[2];
        let n = if whole && fits && k + row <= block.k.end { row } else { (channels - channel).min(block.k.end - k) };
        f(k - block.k.start..k - block.k.start + n, within(s, 2, column).and_then(first));
        k += n;
    }
}

fn gather_last<T: Conv>(s: &ConvShape, x: &[T], block: &Block, out: &mut [T]) {
    let (image, results) = (s.image.iter().product::<usize>() * s.in_channels, s.result.iter().product::<usize>());
    for (p, out) in block.p.clone().zip(out.chunks_exact_mut(block.k.len().max(1))) {
        let x = &x[p / results * image..][..image];
        runs_last(s, block, p % results, |run, at| match at {
            Some(at) => {
                let n = run.len();
                out[run].copy_from_slice(&x[at..at + n]);
            }
            None => out[run].fill(T::ZERO),
        });
    }
}

/// Adds the columns of a block, as [`gather`] lays them, to an image's channels that hold the block's rows: (channels, D, H,
/// W) from the first row's channel on, or the whole image (D, H, W, C).
pub fn scatter<T: Conv>(s: &ConvShape, image: &mut [T], block: &Block, columns: &[T]) {
    if s.channels_last {
        let results = s.result.iter().product::<usize>();
        for (p, columns) in block.p.clone().zip(columns.chunks_exact(block.k.len().max(1))) {
            runs_last(s, block, p % results, |run, at| {
                if let Some(at) = at {
                    add(&mut image[at..], &columns[run], 1);
                }
            });
        }
        return;
    }
    let (taps, plane) = (taps(s), s.image.iter().product::<usize>());
    let first = block.k.start / taps;
    for (row, columns) in block.k.clone().zip(columns.chunks_exact(block.p.len().max(1))) {
        let channel = &mut image[(row / taps - first) * plane..][..plane];
        segments(s, block.p.clone(), row % taps, |segment| {
            add(channel.get_mut(segment.at..).unwrap_or_default(), &columns[segment.inside], s.stride[2]);
        });
    }
}

#[inline(always)]
fn add<T: Conv>(out: &mut [T], values: &[T], step: usize) {
    if step == 1 {
        for (o, &v) in out.iter_mut().zip(values) {
            *o = o.add(v);
        }
    } else {
        for (o, &v) in out.iter_mut().step_by(step).zip(values) {
            *o = o.add(v);
        }
    }
}

/// The results of image `n`, group `g` at positions `p`: channels x positions.
pub fn results<'a, T: Conv>(s: &ConvShape, y: &'a [T], n: usize, g: usize, p: Range<usize>) -> MatRef<'a, T> {
    let ((_, channels), positions) = (group_channels(s), positions(s));
    let first = g * channels;
    let whole = if s.channels_last {
        MatRef::row_major(y, positions, s.out_channels).map(|m| m.cols_range(first, first + channels).t())
    } else {
        MatRef::row_major(&y[(n * s.out_channels + first) * positions..], channels, positions)
    };
    whole.expect("results are a matrix").cols_range(p.start, p.end)
}

/// The weights of a group: channels of results x depth.
pub fn weights<'a, T: Conv>(s: &ConvShape, w: &'a [T], g: usize) -> MatRef<'a, T> {
    let ((_, channels), depth) = (group_channels(s), depth(s));
    MatRef::row_major(&w[g * channels * depth..], channels, depth).expect("weights are a matrix")
}

/// How many positions make a block whose columns have `depth` rows.
pub fn block_positions(depth: usize) -> usize {
    (super::BLOCK / depth.max(1)).clamp(64, 1024).next_multiple_of(16)
}
