//! Convolutions and their adjoints over (N, C, D, H, W) without matrices of columns: the sources of a part of the results are laid
//! out in scratch ([`Layout`]), so that a vector of results meets a vector of elements for each element of the kernel, and
//! tiles of results stay in registers until they are done.
//!
//! A part is some images, or some lines of one, whose source fits a second-level cache; threads take parts, and channels of
//! what comes out where parts are few. Layouts cost one copy of the source where columns cost one for each element of the
//! kernel.

use std::ops::Range;

use super::geometry::{Grid, Layout, Plan, Results};
use super::lanes::{Row, copy_lines, positions_tile, with_tile};
use super::{BLOCK, Conv, MatMut, divisor};
use crate::isa::Isa;
use crate::loops::scratch;
use crate::loops::views::par_rows;

/// Multiplications that are worth a task.
const WORTH: usize = 192 * 1024;

/// Tasks that keep threads busy; a constant, so that results do not depend on the threads.
const TASKS: usize = 16;

/// The weights as rows for each channel of what comes out: the channels of the source side by side, or those of what comes out.
pub struct Weights<'a, T> {
    /// all of them
    pub elements: &'a [T],
    /// from a channel of what comes out to the next
    pub out_stride: usize,
    /// from a channel of the source to the next
    pub in_stride: usize,
}

/// Weights, for each group and panel of `panel` channels: (rows, channels), so that a tile reads on.
struct Packed<'a, T> {
    elements: &'a [T],
    rows: usize,
    outs: usize,
    panel: usize,
}

/// How many channels of the `left` ones the next panel takes.
fn panel_width(left: usize, most: usize) -> usize {
    match left {
        1 => 1,
        2..=4 => 4,
        _ => most,
    }
}

impl<'a, T: Conv> Packed<'a, T> {
    /// How many elements they take.
    fn len(plan: &Plan, panel: usize) -> usize {
        plan.groups * plan.outs.next_multiple_of(panel) * plan.ins * plan.taps()
    }

    fn new<I: Isa>(plan: &Plan, w: &Weights<'_, T>, panel: usize, elements: &'a mut [T]) -> Self {
        let (taps, outs) = (plan.taps(), plan.outs);
        let rows = plan.ins * taps;
        let panels = outs.div_ceil(panel);
        par_rows::<I, T>(
            elements,
            plan.groups * panels,
            rows * panel,
            #[inline(always)]
            |i, out| {
                let (group, first) = (i / panels, i % panels * panel);
                let width = panel_width(outs - first, panel);
                let valid = width.min(outs - first);
                for (c, out) in out.chunks_exact_mut((taps * width).max(1)).take(plan.ins).enumerate() {
                    let start = group * outs * rows + first * w.out_stride + c * w.in_stride;
                    let from = &w.elements[start..start + (valid - 1) * w.out_stride + taps];
                    for (tap, out) in out.chunks_exact_mut(width).enumerate() {
                        for (channel, out) in out[..valid].iter_mut().enumerate() {
                            *out = from[channel * w.out_stride + tap];
                        }
                    }
                }
            },
        );
        Self { elements, rows, outs, panel }
    }

    /// The rows of a panel: elements, and how many channels they have.
    fn panel(&self, group: usize, first: usize) -> (&[T], usize) {
        let len = self.rows * self.panel;
        let at = group * self.outs.div_ceil(self.panel) + first / self.panel;
        (&self.elements[at * len..][..len], panel_width(self.outs - first, self.panel))
    }
}

/// What a task makes.
#[derive(Clone, Copy)]
struct Task {
    /// images: one, unless all columns are made
    images: usize,
    /// channels of what comes out: whole groups, or whole panels of one
    channels: usize,
    /// elements of a channel: whole planes, whole lines, or a part of the only line
    cols: usize,
}

impl Task {
    fn new(plan: &Plan, panel: usize) -> Self {
        let [depth, height, width] = &plan.axes;
        let phases = height.step * width.step;
        let (plane, channels) = (height.out * width.out, plan.groups * plan.outs);
        let each = plan.batch * channels * depth.out * plane;
        let tasks = (each * (plan.ins * plan.taps() / phases + 8) / WORTH).clamp(1, TASKS);
        let most = (BLOCK / (plan.ins * plan.planes()).max(1)).clamp(256, 2048) * phases;
        // As few images as keep vectors busy: the fewer, the more parts.
        let fits = (most / plane.max(1)).max(1);
        let images = if depth.out == 1 { plan.batch.div_ceil(tasks).max(256 / plane.max(1)).min(fits) } else { 1 };
        let images = images.clamp(1, plan.batch);
        let parts = plane.div_ceil(most);
        let cols = match height.out {
            1 => width.out.div_ceil(parts).next_multiple_of(width.step),
            lines => lines.div_ceil(parts).next_multiple_of(height.step).min(lines) * width.out,
        };
        // Channels are split where there are few parts, images where channels cannot be.
        let parts = plan.batch.div_ceil(images) * depth.out * plane.div_ceil(cols);
        let channels = if parts * plan.groups >= tasks {
            plan.outs * divisor(plan.groups, parts * plan.groups / tasks)
        } else if plan.outs.is_multiple_of(panel) {
            let panels = plan.outs / panel;
            // Each of them lays the source out again: not for a few products.
            let least = 144usize.div_ceil(plan.taps() * panel).max(2);
            panel * divisor(panels, (panels * parts * plan.groups / tasks).max(least))
        } else {
            plan.outs
        };
        let parts = parts * plan.groups * plan.outs / channels;
        let images = if parts < tasks {
            plan.batch.div_ceil(tasks.div_ceil(parts) * plan.batch.div_ceil(images))
        } else {
            images
        };
        Self { images, channels, cols }
    }
}

/// `out = bias + sum over the kernel`, for every element of `out`.
pub fn run<I: Isa, T: Conv>(plan: &Plan, out: &mut [T], source: &[T], w: &Weights<'_, T>, bias: Option<&[T]>) {
    with_tile!(I, T, (L, M, N, _K) => run_tiles::<I, T, M, N, L>(plan, out, source, w, bias))
}

fn run_tiles<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize>(
    plan: &Plan,
    out: &mut [T],
    source: &[T],
    w: &Weights<'_, T>,
    bias: Option<&[T]>,
) {
    if plan.batch == 0 {
        return;
    }
    let task = Task::new(plan, M);
    let (channels, size) = (plan.groups * plan.outs, plan.out_plane());
    // Images as rows where a task makes several, else channels of images.
    let wide = task.images > 1;
    let (rows, cols) = if wide { (plan.batch, channels * size) } else { (plan.batch * channels, size) };
    let (block_rows, block_cols) = if wide { (task.images, task.channels * size) } else { (task.channels, task.cols) };
    let Ok(out) = MatMut::row_major(out, rows, cols) else { return };
    scratch::with(Packed::<T>::len(plan, M), |packed| {
        let packed = Packed::new::<I>(plan, w, M, packed);
        out.par_blocks(block_rows, block_cols, |row, col, out| {
            let (rows, cols) = (out.rows(), out.cols());
            let place = if wide {
                let (first, channels) = (col / size, cols / size);
                Place { image: row, images: rows, first, channels, cols: 0..size, wide }
            } else {
                let (image, first) = (row / channels, row % channels);
                Place { image, images: 1, first, channels: rows, cols: col..col + cols, wide }
            };
            I::run(
                #[inline(always)]
                || make::<I, T, M, N, L>(plan, &place, out, source, &packed, bias),
            );
        });
    });
}

/// What of the whole a task makes.
struct Place {
    image: usize,
    images: usize,
    /// the first channel
    first: usize,
    channels: usize,
    /// elements of each channel
    cols: Range<usize>,
    /// True if rows are images, not channels.
    wide: bool,
}

impl Place {
    /// The elements of a channel of an image (counted from the first ones) from element `i` on.
    #[inline(always)]
    fn at<'a, T>(&self, out: &'a mut MatMut<'_, T>, image: usize, channel: usize, i: usize) -> &'a mut [T] {
        if self.wide {
            &mut out.row_mut(image)[channel * self.cols.len() + i..]
        } else {
            &mut out.row_mut(channel)[i - self.cols.start..]
        }
    }
}

/// A task: its channels of some images, a plane of the depth at a time.
#[inline(always)]
fn make<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize>(
    plan: &Plan,
    place: &Place,
    mut out: MatMut<'_, T>,
    source: &[T],
    packed: &Packed<'_, T>,
    bias: Option<&[T]>,
) {
    let own = place.first..place.first + place.channels;
    let plane = plan.axes[1].out * plan.axes[2].out;
    let (col, end) = (place.cols.start, place.cols.end);
    for depth in col / plane..end.div_ceil(plane) {
        let part = plan.part(place.images, depth, col.max(depth * plane)..end.min((depth + 1) * plane));
        let layout = Layout::new(plan, part);
        // Each with its rows, and whether these meet the weights one after the other.
        let passes: Vec<(Results<'_>, Vec<Row>, bool)> = layout
            .results()
            .map(|results| {
                let rows = results.rows(0..plan.ins);
                let in_order = rows.iter().enumerate().all(|(i, row)| row.weight as usize == i);
                (results, rows, in_order)
            })
            .collect();
        // Sums of one channel alone wait for their elements, and these come sooner side by side.
        let lines = if plan.outs > 1 { layout.by_lines(L) } else { None };
        let all = layout.positions().next_multiple_of(L);
        let pitch = lines.map_or(all, |lines| lines.closely().len());
        // All positions are lines of one vector each.
        let grid = lines.unwrap_or(Grid { images: 1, lines: all / L, n: L, image: all, pitch: L });
        let most = passes.iter().map(|(_, rows, in_order)| if *in_order { 0 } else { rows.len() }).max().unwrap_or(0);
        scratch::with(
            layout.len(plan.ins, L) + M * (pitch + most),
            #[inline(always)]
            |buffer: &mut [T]| {
                let (x, sums) = buffer.split_at_mut(layout.len(plan.ins, L));
                let (sums, ordered) = sums.split_at_mut(M * pitch);
                for group in own.start / plan.outs..own.end.div_ceil(plan.outs) {
                    layout.gather(source, place.image, group * plan.ins..(group + 1) * plan.ins, T::ZERO, x);
                    let begin = group * plan.outs;
                    let mut at = own.start.max(begin);
                    while at < own.end.min(begin + plan.outs) {
                        let (w, width) = packed.panel(group, at - begin);
                        let valid = width.min(begin + plan.outs - at);
                        let bias = bias.map_or(&[][..], |bias| &bias[at..at + valid]);
                        for (results, rows, in_order) in &passes {
                            let made = (&mut *sums, pitch);
                            let w = if *in_order { w } else { put_in_order(w, width, rows, ordered) };
                            match width {
                                1 if lines.is_none() => panel::<I, T, 1, 8, L, true>(bias, w, rows, x, grid, made),
                                1 => panel::<I, T, 1, 8, L, false>(bias, w, rows, x, grid, made),
                                4 => panel::<I, T, 4, N, L, false>(bias, w, rows, x, grid, made),
                                _ => panel::<I, T, M, N, L, false>(bias, w, rows, x, grid, made),
                            }
                            for m in 0..valid {
                                let to = (at + m - own.start, depth * plane);
                                emit(results, lines, &sums[m * pitch..], place, to, &mut out);
                            }
                        }
                        at += valid;
                    }
                }
            },
        );
    }
}

/// The weights of a panel of `width` channels in the order in which rows meet them.
fn put_in_order<'a, T: Copy>(w: &[T], width: usize, rows: &[Row], ordered: &'a mut [T]) -> &'a [T] {
    for (to, row) in ordered.chunks_exact_mut(width).zip(rows) {
        to.copy_from_slice(&w[row.weight as usize * width..][..width]);
    }
    ordered
}

/// The sums of a panel of channels at the positions of a grid. Weights are in the order of the rows; channels without a bias have
/// none. `CLOSE` where vectors are known to follow each other: a panel of few channels loses a quarter of its time to distances
/// that are not.
#[inline(always)]
fn panel<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize, const CLOSE: bool>(
    bias: &[T],
    w: &[T],
    rows: &[Row],
    x: &[T],
    grid: Grid,
    (out, pitch): (&mut [T], usize),
) {
    let w = w.as_chunks::<M>().0;
    let mut start = [T::ZERO; M];
    start[..bias.len()].copy_from_slice(bias);
    // Where no plane of the depth is met there are neither rows nor elements.
    let x = |at: usize| x.get(at..).unwrap_or_default();
    // Vectors below each other.
    let apart = if CLOSE { [L, L] } else { [grid.pitch, grid.n] };
    for image in 0..grid.images {
        for col in (0..grid.n).step_by(L) {
            let mut i = 0;
            while i < grid.lines {
                let (x, out) =
                    (x(image * grid.image + i * grid.pitch + col), &mut out[(image * grid.lines + i) * grid.n + col..]);
                if i + N <= grid.lines {
                    positions_tile::<I, T, M, N, L>(start, w, rows, x, (out, pitch), apart);
                    i += N;
                } else {
                    positions_tile::<I, T, M, 1, L>(start, w, rows, x, (out, pitch), apart);
                    i += 1;
                }
            }
        }
    }
}

/// Brings the sums of a channel to their places in the plane that begins at element `plane`.
#[inline(always)]
fn emit<T: Conv>(
    results: &Results<'_>,
    lines: Option<Grid>,
    sums: &[T],
    place: &Place,
    (channel, plane): (usize, usize),
    out: &mut MatMut<'_, T>,
) {
    let (grid, [first, down, step]) = (results.grid(), results.places());
    let from = lines.map_or(grid, Grid::closely);
    for image in 0..grid.images {
        let (out, sums) = (place.at(out, image, channel, plane + first), &sums[image * from.image..]);
        if step == 1 {
            copy_lines((out, down), (sums, from.pitch), grid.lines, grid.n);
            continue;
        }
        for i in 0..grid.lines {
            let (out, sums) = (&mut out[i * down..], &sums[i * from.pitch..][..grid.n]);
            for j in 0..sums.len() {
                out[j * step] = sums[j];
            }
        }
    }
}
