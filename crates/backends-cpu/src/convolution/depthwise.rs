//! Convolutions of one channel a group, or few, where they need loops of their own: the weights' gradient, in sums along the
//! lines, and the forward pass of one channel where channels come last. The others are [`direct`](super::direct).

use std::ops::Range;

use tensor_aten::kernels::ConvShape;

use super::columns::{group_channels, start, taps, within};
use super::geometry::{Layout, Plan};
use super::lanes::{copy_line, dots, weigh, with_tile};
use super::{Conv, divisor};
use crate::isa::Isa;
use crate::loops::fold;
use crate::loops::scratch;
use crate::loops::views::par_rows;

/// True for convolutions of one channel a group.
pub fn applies(s: &ConvShape) -> bool {
    s.groups > 1 && group_channels(s).0 == 1
}

/// `y[n, o, p] = bias[o] + sum_k w[o, k] * x[n, o, p * stride + k * dilation - padding]` over (N, D, H, W, C): some channels of a
/// result at a time.
pub fn forward_last<I: Isa, T: Conv>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
    with_tile!(I, T, (L, _M, _N, _K) => forward_lanes::<I, T, L>(s, y, x, w, bias));
}

fn forward_lanes<I: Isa, T: Conv, const L: usize>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
    let (taps, channels) = (taps(s), s.out_channels);
    // (taps, channels)
    let turned: Vec<T> = (0..taps * channels).map(|i| w[i % channels * taps + i / channels]).collect();
    let [depth, lines, width] = s.result;
    let [_, kh, kw] = s.kernel;
    par_rows::<I, T>(
        y,
        s.batch * depth * lines,
        width * channels * taps,
        #[inline(always)]
        |line, y| {
            let at = [line / lines % depth, line % lines];
            // The lines of the image that elements of the kernel see, the first columns, and those elements.
            let mut seen = Vec::with_capacity(taps);
            for tap in 0..taps {
                let kernel = [tap / (kh * kw), tap / kw % kh, tap % kw];
                let mut row = Some(line / (depth * lines));
                for d in 0..2 {
                    let i = within(s, d, start(s, d, at[d], kernel[d]));
                    row = row.zip(i).map(|(row, i)| row * s.image[d] + i);
                }
                seen.extend(row.map(|row| (row * s.image[2], start(s, 2, 0, kernel[2]), tap)));
            }
            let mut pixels = Vec::with_capacity(taps);
            for column in 0..width {
                pixels.clear();
                for &(row, first, tap) in &seen {
                    let i = within(s, 2, first + (column * s.stride[2]) as isize);
                    pixels.extend(i.map(|i| ((row + i) * channels, tap * channels)));
                }
                let y = &mut y[column * channels..][..channels];
                let mut c = 0;
                while c + 2 * L <= channels {
                    weigh::<I, T, 2, L>(&pixels, x, &turned, bias, c, &mut y[c..]);
                    c += 2 * L;
                }
                for c in c..channels {
                    let mut sum = bias.map_or(T::ZERO, |bias| bias[c]);
                    for &(x_at, w_at) in &pixels {
                        sum = sum.mul_accumulate::<I>(x[x_at + c], turned[w_at + c]);
                    }
                    y[c] = sum;
                }
            }
        },
    );
}

/// True where [`weight`] is the fastest way: one channel a group, or many groups whose results would leave vectors of channels
/// half empty.
pub fn weighs(plan: &Plan, lanes: usize) -> bool {
    plan.groups > 1 && (plan.ins == 1 || plan.groups >= 8 && 2 * plan.outs <= lanes)
}

/// Channels of results that share a layout, at most.
const SHARED: usize = 8;

/// `w[o, i, k] = sum_{n, p} y[n, o, p] * x[n, g + i, p * stride + k * dilation - padding]` over (N, C, D, H, W), where `g` is the
/// first channel of the group of `o`.
pub fn weight<I: Isa, T: Conv, const L: usize>(plan: &Plan, w: &mut [T], x: &[T], y: &[T]) {
    let (shared, size) = (divisor(plan.outs, SHARED), plan.ins * plan.taps());
    par_rows::<I, T>(
        w,
        plan.groups * plan.outs / shared,
        plan.batch * plan.out_plane() * shared * (size / L + 4),
        #[inline(always)]
        |i, w| {
            let mut sums = vec![[T::ZERO; L]; w.len()];
            for exact in [false, true] {
                sums.fill([T::ZERO; L]);
                for depth in 0..plan.axes[0].out {
                    add_plane::<I, T, L>(plan, depth, i * shared..(i + 1) * shared, exact, &mut sums, x, y);
                }
                let mut number = true;
                for (w, sums) in w.iter_mut().zip(&sums) {
                    *w = fold(sums, T::ZERO, T::add, T::add);
                    number &= !w.is_nan();
                }
                // What no element of the kernel sees may have been an infinity, multiplied by zero.
                if number {
                    break;
                }
            }
        },
    );
}

/// Rows that are multiplied with one line of results at once: those of most kernels.
const ROWS: usize = 9;

/// Adds what one plane of results of all images gives to the weights of some channels of a group; unless `exact`, with products
/// of what lies between the lines and zeros.
#[inline(always)]
fn add_plane<I: Isa, T: Conv, const L: usize>(
    plan: &Plan,
    depth: usize,
    channels: Range<usize>,
    exact: bool,
    sums: &mut [[T; L]],
    x: &[T],
    y: &[T],
) {
    let plane = plan.axes[1].out * plan.axes[2].out;
    let (ins, first) = (plan.ins, channels.start / plan.outs * plan.ins);
    let images = (8192 / (plane * ins.max(4)).max(1)).clamp(1, plan.batch.max(1));
    for image in (0..plan.batch).step_by(images) {
        let images = images.min(plan.batch - image);
        let layout = Layout::new(plan, plan.part(images, depth, depth * plane..(depth + 1) * plane));
        let Some(results) = layout.results().next() else { return };
        let rows = results.rows(0..ins);
        let (size, positions) = (layout.len(ins, L), layout.positions().next_multiple_of(L));
        scratch::with(
            size + positions,
            #[inline(always)]
            |buffer: &mut [T]| {
                let (laid, spread) = buffer.split_at_mut(size);
                layout.gather(x, image, first..first + ins, T::ZERO, laid);
                spread.fill(T::ZERO);
                for (o, sums) in channels.clone().zip(sums.chunks_exact_mut(ins * plan.taps())) {
                    results.lines(
                        #[inline(always)]
                        |i, first, _, n, position| {
                            let row = (image + i) * plan.groups * plan.outs + o;
                            let line = &y[row * plan.out_plane() + depth * plane + first..][..n];
                            copy_line(&mut spread[position..][..n], line);
                        },
                    );
                    if exact {
                        results.lines(
                            #[inline(always)]
                            |_, _, _, n, position| {
                                for row in &rows {
                                    let (x, sums) = (&laid[row.at as usize..], &mut sums[row.weight as usize]);
                                    for i in position..position + n {
                                        sums[i % L] = sums[i % L].mul_accumulate::<I>(x[i], spread[i]);
                                    }
                                }
                            },
                        );
                        continue;
                    }
                    for rows in rows.chunks(ROWS) {
                        dots::<I, T, ROWS, L>(laid, rows, spread, sums);
                    }
                }
            },
        );
    }
}
