//! The gradient of the weights, `w = y @ columns(x).t()` summed over the batch.
//!
//! Over (N, C, D, H, W) parts of the batch are laid out as [`direct`](super::direct) does, and tiles of (rows of `x`) x (channels of
//! results) are summed over their positions; parts and channels of images go to the threads, and the parts' sums are added
//! after. Where channels come last, or the columns are the image itself, columns of `w` go to the threads, or, where there
//! are few, parts of the batch.

use tensor_aten::kernels::ConvShape;

use super::columns::{self, Block, block_positions, depth, gather, group_channels, images, positions};
use super::geometry::{Layout, Part, Plan};
use super::lanes::{Row, channels_tile, each, turn_four, with_tile};
use super::{BLOCK, Conv, MatMut, depthwise, last, multiply};
use crate::isa::Isa;
use crate::loops::scratch;
use crate::loops::views::{par_chunks, par_rows};
use crate::parallel::{GRAIN, parallel_reduce};

/// Columns of the weights that one task makes.
const COLUMNS: usize = 192;

/// Parts of the batch that are summed apart.
const PARTS: usize = 16;

/// Elements that sums of parts take, at most.
const SUMS: usize = 4 << 20;

/// Multiplications that are worth a task.
const WORTH: usize = 256 * 1024;

/// The blocks of positions of the whole batch: `(image, first, end)`.
fn block_at(s: &ConvShape, at_once: usize, i: usize) -> (usize, usize, usize) {
    let blocks = positions(s).div_ceil(at_once);
    let first = i % blocks * at_once;
    (i / blocks, first, positions(s).min(first + at_once))
}

/// Adds the products of blocks `from..to` of the batch to the columns `k` of a group's weights.
fn add<I: Isa, T: Conv>(
    s: &ConvShape,
    x: &[T],
    y: &[T],
    (g, first): (usize, usize),
    (from, to, at_once): (usize, usize, usize),
    mut w: MatMut<'_, T>,
) {
    for i in from..to {
        let (n, begin, end) = block_at(s, at_once, i);
        let block = Block { n, g, k: first..first + w.cols(), p: begin..end };
        let len = if columns::is_pointwise(s) { 0 } else { block.len() };
        scratch::with(len, |buffer| {
            let columns = gather(s, x, &block, buffer);
            let y = columns::results(s, y, n, g, begin..end);
            let beta = if i == 0 { T::ZERO } else { T::ONE };
            multiply::<I, T>(y, columns.t(), beta, w.reborrow());
        });
    }
}

/// The gradient of the weights.
pub fn run<I: Isa, T: Conv>(s: &ConvShape, w: &mut [T], x: &[T], y: &[T]) {
    if columns::suit(s) {
        return through_columns::<I, T>(s, w, x, y);
    }
    if s.channels_last {
        return last::weight(s, w, x, y, run::<I, T>);
    }
    let plan = Plan::forward(s);
    with_tile!(I, T, (L, _M, _N, K) => match depthwise::weighs(&plan, L) {
        true => depthwise::weight::<I, T, L>(&plan, w, x, y),
        false => direct::<I, T, K, L>(&plan, w, x, y),
    });
}

fn through_columns<I: Isa, T: Conv>(s: &ConvShape, w: &mut [T], x: &[T], y: &[T]) {
    let ((_, channels), depth) = (group_channels(s), depth(s));
    let at_once = block_positions(depth.min(COLUMNS));
    let blocks = images(s) * positions(s).div_ceil(at_once);
    let group = (channels * depth).max(1);
    if blocks == 0 {
        return w.fill(T::ZERO);
    }
    if depth > 2 * COLUMNS || blocks == 1 {
        for (g, w) in w.chunks_exact_mut(group).enumerate() {
            let Ok(w) = MatMut::row_major(w, channels, depth) else { return };
            w.par_blocks(channels, COLUMNS, |_, first, w| {
                add::<I, T>(s, x, y, (g, first), (0, blocks, at_once), w);
            });
        }
        return;
    }
    for (g, w) in w.chunks_exact_mut(group).enumerate() {
        let part = |from: usize, to: usize| {
            let mut sum = vec![T::ZERO; channels * depth];
            if let Ok(w) = MatMut::row_major(&mut sum, channels, depth) {
                add::<I, T>(s, x, y, (g, 0), (from, to, at_once), w);
            }
            sum
        };
        let sum = parallel_reduce(blocks, blocks.div_ceil(PARTS), Vec::new(), part, |mut a, b| {
            a.iter_mut().zip(&b).for_each(|(a, &b)| *a = a.add(b));
            a
        });
        w.copy_from_slice(&sum);
    }
}

/// How the work is split.
struct Tasks {
    /// images of a part: several whole ones, or one
    images: usize,
    /// columns of a part
    cols: usize,
    /// parts of the batch that are summed together
    parts: usize,
    /// channels of images of a task
    channels: usize,
}

impl Tasks {
    /// For sums that take `size` elements for each channel of images.
    fn new(plan: &Plan, size: usize) -> Self {
        let [depth, height, width] = &plan.axes;
        let plane = height.out * width.out;
        let most = (BLOCK / (plan.ins * plan.planes() + plan.outs).max(1)).clamp(128, 1024);
        let images = if depth.out == 1 { (most / plane.max(1)).clamp(1, plan.batch) } else { 1 };
        let blocks = plane.div_ceil(most);
        let cols = match height.out {
            1 => width.out.div_ceil(blocks),
            lines => lines.div_ceil(blocks) * width.out,
        };
        let count = plan.batch.div_ceil(images) * depth.out * plane.div_ceil(cols);
        let work = plan.batch * depth.out * plane * plan.outs * plan.ins * plan.taps();
        let wanted = (work / WORTH).clamp(1, PARTS);
        // Each share of the batch has sums of its own, and each range of channels turns the results again.
        let (turned, summed) = (2 * plan.batch * depth.out * plane, plan.ins * plan.taps());
        let shares = (wanted * turned / summed.max(1)).isqrt().clamp(1, wanted);
        let shares = shares.min(count).min(SUMS / (plan.groups * plan.ins * size).max(1)).max(1);
        let ranges = wanted.div_ceil(shares * plan.groups).min(plan.ins.div_ceil(8)).max(1);
        Self { images, cols, parts: count.div_ceil(shares), channels: plan.ins.div_ceil(ranges) }
    }

    /// How many parts the batch has.
    fn count(&self, plan: &Plan) -> usize {
        plan.batch.div_ceil(self.images) * self.planes(plan)
    }

    /// How many parts an image has.
    fn planes(&self, plan: &Plan) -> usize {
        let plane = plan.axes[1].out * plan.axes[2].out;
        plan.axes[0].out * plane.div_ceil(self.cols)
    }

    /// Part `i`: its first image and what it is.
    fn part(&self, plan: &Plan, i: usize) -> (usize, Part) {
        let plane = plan.axes[1].out * plan.axes[2].out;
        let (image, i) = (i / self.planes(plan) * self.images, i % self.planes(plan));
        let blocks = plane.div_ceil(self.cols);
        let (depth, first) = (i / blocks, i % blocks * self.cols);
        let range = depth * plane + first..depth * plane + plane.min(first + self.cols);
        (image, plan.part(self.images.min(plan.batch - image), depth, range))
    }
}

/// Over (N, C, D, H, W): each task sums some parts of the batch for some channels of the images of a group.
fn direct<I: Isa, T: Conv, const M: usize, const L: usize>(plan: &Plan, w: &mut [T], x: &[T], y: &[T]) {
    if w.is_empty() || plan.batch == 0 {
        return w.fill(T::ZERO);
    }
    // Channels of results, in whole vectors.
    let wide = plan.outs.next_multiple_of(L);
    let tasks = Tasks::new(plan, plan.taps() * wide);
    let (count, ranges) = (tasks.count(plan), plan.ins.div_ceil(tasks.channels));
    let shares = count.div_ceil(tasks.parts);
    let (all, size) = (plan.groups * ranges * shares, tasks.channels * plan.taps() * wide);
    scratch::with(all * size, |sums: &mut [T]| {
        par_rows::<I, T>(
            sums,
            all,
            WORTH,
            #[inline(always)]
            |i, sums| {
                let (place, share) = (i / shares, i % shares);
                let (group, first) = (place / ranges, place % ranges * tasks.channels);
                let channels = first..plan.ins.min(first + tasks.channels);
                sums.fill(T::ZERO);
                for i in share * tasks.parts..count.min((share + 1) * tasks.parts) {
                    let (image, part) = tasks.part(plan, i);
                    let [_, height, width] = &plan.axes;
                    let line = part.depth * height.out + part.lines.start;
                    let first = line * width.out + part.cols.start;
                    let from = Source { image, images: part.images, group, channels: channels.clone(), first };
                    add_part::<I, T, M, L>(plan, part, &from, x, y, sums);
                }
            },
        );
        for sums in sums.chunks_exact_mut(shares * size) {
            let (total, others) = sums.split_at_mut(size);
            par_chunks::<I, T>(
                total,
                GRAIN,
                #[inline(always)]
                |start, total| {
                    for i in 0..others.len() / size {
                        let other = &others[i * size + start..][..total.len()];
                        for j in 0..total.len() {
                            total[j] = total[j].add(other[j]);
                        }
                    }
                },
            );
        }
        let (sums, range, rows) = (&*sums, tasks.channels * plan.taps(), plan.ins * plan.taps());
        let Ok(w) = MatMut::row_major(w, plan.groups * plan.outs, rows) else { return };
        // Panels of channels, or groups.
        let block = if plan.groups == 1 { 2 * L } else { plan.outs };
        w.par_blocks(block, (GRAIN / block).next_multiple_of(TURNED), |row, col, mut w| {
            let (group, first) = (row / plan.outs, row % plan.outs);
            let mut at = 0;
            while at < w.cols() {
                let (place, row) = ((col + at) / range, (col + at) % range);
                let n = (range - row).min(w.cols() - at).min(TURNED);
                let depth = range.min(rows - place * range);
                let sums = &sums[(group * ranges + place) * shares * size..];
                for panel in (0..w.rows()).step_by(2 * L) {
                    let width = (2 * L).min(wide - first - panel);
                    let from = &sums[(first + panel) * depth + row * width..][..n * width];
                    for o in 0..width.min(w.rows() - panel) {
                        let out = &mut w.row_mut(panel + o)[at..at + n];
                        for r in 0..n {
                            out[r] = from[r * width + o];
                        }
                    }
                }
                at += n;
            }
        });
    });
}

/// What a task sees of images and results.
struct Source {
    image: usize,
    images: usize,
    group: usize,
    /// of the group's images
    channels: std::ops::Range<usize>,
    /// the first result of a channel
    first: usize,
}

/// Adds the sums over a part of the batch: panels of two or one vectors of channels of results, (rows of the range, channels).
#[inline(always)]
fn add_part<I: Isa, T: Conv, const M: usize, const L: usize>(
    plan: &Plan,
    part: Part,
    from: &Source,
    x: &[T],
    y: &[T],
    sums: &mut [T],
) {
    let layout = Layout::new(plan, part);
    let Some(results) = layout.results().next() else { return };
    let rows = results.rows(0..from.channels.len());
    let (starts, length) = results.starts();
    let wide = plan.outs.next_multiple_of(L);
    let (size, positions) = (layout.len(from.channels.len(), 0), starts.len() * length);
    scratch::with(
        size + positions * wide.min(2 * L),
        #[inline(always)]
        |buffer: &mut [T]| {
            let (laid, turned) = buffer.split_at_mut(size);
            let first = from.group * plan.ins;
            layout.gather(x, from.image, first + from.channels.start..first + from.channels.end, T::ZERO, laid);
            let depth = from.channels.len() * plan.taps();
            for panel in (0..wide).step_by(2 * L) {
                let width = (2 * L).min(wide - panel);
                let turned = &mut turned[..width * positions];
                let sums = &mut sums[panel * depth..][..width * depth];
                if width == L {
                    turn::<T, 1, L>(plan, from, panel, y, turned);
                    add_panel::<I, T, M, 1, L>(laid, &rows, turned, (&starts, length), sums);
                } else {
                    turn::<T, 2, L>(plan, from, panel, y, turned);
                    add_panel::<I, T, M, 2, L>(laid, &rows, turned, (&starts, length), sums);
                }
            }
        },
    );
}

/// Columns of weights that are turned at once: as many elements as a line of a cache holds.
const TURNED: usize = 16;

/// Positions of results that are turned at once: a few lines of a cache in each channel, which memory hands over sooner than
/// single ones.
const RUN: usize = 64;

/// The results of `N` vectors of channels, from `panel` on, as (positions, channels); channels that there are not are zero.
#[inline(always)]
fn turn<T: Conv, const N: usize, const L: usize>(plan: &Plan, from: &Source, panel: usize, y: &[T], out: &mut [T]) {
    let (channels, row) = (plan.groups * plan.outs, plan.out_plane());
    let valid = (N * L).min(plan.outs - panel);
    let out = out.as_chunks_mut::<L>().0.as_chunks_mut::<N>().0;
    // The results of a part lie side by side in each image.
    let run = out.len() / from.images.max(1);
    for image in 0..from.images {
        let first = (from.image + image) * channels + from.group * plan.outs + panel;
        let y = &y[first * row + from.first..];
        let out = &mut out[image * run..][..run];
        let mut at = 0;
        while at < run {
            let out = &mut out[at..run.min(at + RUN)];
            let mut c = 0;
            while c + 4 <= valid {
                let rows =
                    [&y[c * row + at..], &y[(c + 1) * row + at..], &y[(c + 2) * row + at..], &y[(c + 3) * row + at..]];
                turn_four(
                    rows,
                    out.len(),
                    #[inline(always)]
                    |p, four| put(&mut out[p], c, four),
                );
                c += 4;
            }
            for c in c..N * L {
                for p in 0..out.len() {
                    out[p][c / L][c % L] = if c < valid { y[c * row + at + p] } else { T::ZERO };
                }
            }
            at += RUN;
        }
    }
}

/// Four elements from `c` on, a multiple of four. (Vectors of two elements take two.)
#[inline(always)]
fn put<T: Copy, const N: usize, const L: usize>(out: &mut [[T; L]; N], c: usize, four: [T; 4]) {
    if L >= 4 {
        if let Some(out) = out[c / L].get_mut(c % L..c % L + 4) {
            each!(i < 4 => out[i] = four[i]);
        }
    } else {
        each!(i < 4 => out[(c + i) / L][(c + i) % L] = four[i]);
    }
}

/// As many rows as are often left over have tiles of their own.
const FEW: usize = 4;

#[inline(always)]
fn add_panel<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize>(
    x: &[T],
    rows: &[Row],
    y: &[T],
    lines: (&[u32], usize),
    sums: &mut [T],
) {
    let y = y.as_chunks::<L>().0.as_chunks::<N>().0;
    let sums = sums.as_chunks_mut::<L>().0.as_chunks_mut::<N>().0;
    for rows in rows.chunks(M) {
        match rows.len() {
            ..=FEW if FEW < M => channels_tile::<I, T, FEW, N, L>(x, rows, y, lines, sums),
            _ => channels_tile::<I, T, M, N, L>(x, rows, y, lines, sums),
        }
    }
}
