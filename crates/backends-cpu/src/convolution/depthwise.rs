//! Convolutions of one channel a group where they need loops of their own: the weights' gradient, in sums along the lines, and
//! the forward pass where channels come last. The others are [`direct`](super::direct).

use tensor_aten::kernels::ConvShape;

use super::Conv;
use super::columns::{group_channels, taps};
use super::geometry::{Layout, Plan};
use super::lanes::{copy_line, dots};
use crate::isa::Isa;
use crate::loops::fold;
use crate::loops::scratch;
use crate::loops::views::par_rows;

/// True for convolutions of one channel a group. Where channels come last, for those with one result a group.
pub fn applies(s: &ConvShape) -> bool {
    let (ins, outs) = group_channels(s);
    s.groups > 1 && ins == 1 && (!s.channels_last || outs == 1)
}

fn plane(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}

/// `y[n, o, p] = bias[o] + sum_k w[o, k] * x[n, o, p * stride + k * dilation - padding]` over (N, D, H, W, C): a line of channels
/// at a time.
pub fn forward_last<I: Isa, T: Conv>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
    let (taps, result, channels) = (taps(s), plane(s.result), s.out_channels);
    // (taps, channels)
    let turned: Vec<T> = (0..taps * channels).map(|i| w[i % channels * taps + i / channels]).collect();
    let [_, lines, width] = s.result;
    let [_, kh, kw] = s.kernel;
    par_rows::<I, T>(
        y,
        s.batch * result,
        channels * taps,
        #[inline(always)]
        |row, y| {
            match bias {
                Some(bias) => y.copy_from_slice(bias),
                None => y.fill(T::ZERO),
            }
            let p = row % result;
            let at = [p / (lines * width), p / width % lines, p % width];
            for (tap, w) in turned.chunks_exact(channels).enumerate() {
                let tap = [tap / (kh * kw), tap / kw % kh, tap % kw];
                let mut pixel = Some(row / result);
                for d in 0..3 {
                    let i = (at[d] * s.stride[d] + tap[d] * s.dilation[d]) as isize - s.padding[d];
                    let inside = i >= 0 && (i as usize) < s.image[d];
                    pixel = pixel.filter(|_| inside).map(|pixel| pixel * s.image[d] + i as usize);
                }
                let Some(pixel) = pixel else { continue };
                for ((y, &x), &w) in y.iter_mut().zip(&x[pixel * channels..][..channels]).zip(w) {
                    *y = y.mul_accumulate::<I>(x, w);
                }
            }
        },
    );
}

/// `w[o, k] = sum_{n, p} y[n, o, p] * x[n, o / m, p * stride + k * dilation - padding]` over (N, C, D, H, W).
pub fn weight<I: Isa, T: Conv, const L: usize>(plan: &Plan, w: &mut [T], x: &[T], y: &[T]) {
    let taps = plan.taps();
    par_rows::<I, T>(
        w,
        plan.groups * plan.outs,
        plan.batch * plan.out_plane() * (taps / L + 4),
        #[inline(always)]
        |o, w| {
            let mut sums = vec![[T::ZERO; L]; taps.next_multiple_of(ROWS)];
            for depth in 0..plan.axes[0].out {
                add_plane::<I, T, L>(plan, depth, o, &mut sums, x, y);
            }
            for (w, sums) in w.iter_mut().zip(&sums) {
                *w = fold(sums, T::ZERO, T::add, T::add);
            }
        },
    );
}

/// Rows that are multiplied with one line of results at once: those of most kernels.
const ROWS: usize = 9;

/// Adds what one plane of results of all images gives to the weights of a channel.
#[inline(always)]
fn add_plane<I: Isa, T: Conv, const L: usize>(
    plan: &Plan,
    depth: usize,
    o: usize,
    sums: &mut [[T; L]],
    x: &[T],
    y: &[T],
) {
    let plane = plan.axes[1].out * plan.axes[2].out;
    let images = (2048 / plane.max(1)).clamp(1, plan.batch.max(1));
    for image in (0..plan.batch).step_by(images) {
        let images = images.min(plan.batch - image);
        let layout = Layout::new(plan, plan.part(images, depth, depth * plane..(depth + 1) * plane));
        let Some(results) = layout.results().next() else { return };
        let rows = results.rows(0..1);
        let (size, positions) = (layout.len(1, L), layout.positions().next_multiple_of(L));
        scratch::with(
            size + positions,
            #[inline(always)]
            |buffer: &mut [T]| {
                let (laid, spread) = buffer.split_at_mut(size);
                layout.gather(x, image, o / plan.outs..o / plan.outs + 1, T::ZERO, laid);
                spread.fill(T::ZERO);
                results.lines(
                    #[inline(always)]
                    |i, first, _, n, position| {
                        let row = (image + i) * plan.groups * plan.outs + o;
                        let line = &y[row * plan.out_plane() + depth * plane + first..][..n];
                        copy_line(&mut spread[position..][..n], line);
                    },
                );
                for rows in rows.chunks(ROWS) {
                    dots::<I, T, ROWS, L>(laid, rows, spread, sums);
                }
            },
        );
    }
}
