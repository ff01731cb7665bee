//! Convolutions of one channel a group: sums along lines of the image, without columns and products of matrices.

use tensor_aten::kernels::ConvShape;

use super::Conv;
use super::columns::{Segment, group_channels, segments, taps};
use crate::isa::Isa;
use crate::loops::views::par_rows;

/// True for convolutions of one channel a group. Where channels come last, for those with one result a group.
pub fn applies(s: &ConvShape) -> bool {
    let (ins, outs) = group_channels(s);
    s.groups > 1 && ins == 1 && (!s.channels_last || outs == 1)
}

fn plane(sizes: [usize; 3]) -> usize {
    sizes.iter().product()
}

/// `out[j] += v * line[j * step]`
#[inline(always)]
fn add_line<I: Isa, T: Conv>(out: &mut [T], line: &[T], step: usize, v: T) {
    if step == 1 {
        for (o, &x) in out.iter_mut().zip(line) {
            *o = o.mul_accumulate::<I>(x, v);
        }
    } else {
        for (o, &x) in out.iter_mut().zip(line.iter().step_by(step)) {
            *o = o.mul_accumulate::<I>(x, v);
        }
    }
}

/// `y[n, o, p] = bias[o] + sum_k w[o, k] * x[n, o / m, p * stride + k * dilation - padding]`
pub fn forward<I: Isa, T: Conv>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
    if s.channels_last {
        return forward_last::<I, T>(s, y, x, w, bias);
    }
    let (taps, image, result) = (taps(s), plane(s.image), plane(s.result));
    let many = group_channels(s).1;
    par_rows::<I, T>(
        y,
        s.batch * s.out_channels,
        result * taps,
        #[inline(always)]
        |row, y| {
            let o = row % s.out_channels;
            let x = &x[(row / s.out_channels * s.in_channels + o / many) * image..][..image];
            y.fill(bias.map_or(T::ZERO, |bias| bias[o]));
            for (tap, &w) in w[o * taps..][..taps].iter().enumerate() {
                segments(s, 0..result, tap, |Segment { inside, at, .. }| {
                    add_line::<I, T>(&mut y[inside], x.get(at..).unwrap_or_default(), s.stride[2], w);
                });
            }
        },
    );
}

/// The same over (N, D, H, W, C): a line of channels at a time.
fn forward_last<I: Isa, T: Conv>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
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

/// `x[n, c, q] = bias[c] + sum_{k, p: p * stride + k * dilation - padding = q} w[c, k] * y[n, c, p]`
pub fn adjoint<I: Isa, T: Conv>(s: &ConvShape, x: &mut [T], y: &[T], w: &[T], bias: Option<&[T]>) {
    let (taps, result) = (taps(s), plane(s.result));
    par_rows::<I, T>(
        x,
        s.batch * s.in_channels,
        result * taps,
        #[inline(always)]
        |row, x| {
            let c = row % s.in_channels;
            let y = &y[row * result..][..result];
            x.fill(bias.map_or(T::ZERO, |bias| bias[c]));
            for (tap, &w) in w[c * taps..][..taps].iter().enumerate() {
                segments(s, 0..result, tap, |Segment { inside, at, .. }| {
                    let x = x.get_mut(at..).unwrap_or_default();
                    for (x, &y) in x.iter_mut().step_by(s.stride[2]).zip(&y[inside]) {
                        *x = x.mul_accumulate::<I>(y, w);
                    }
                });
            }
        },
    );
}

/// `w[o, k] = sum_{n, p} y[n, o, p] * x[n, o / m, p * stride + k * dilation - padding]`
pub fn weight<I: Isa, T: Conv>(s: &ConvShape, w: &mut [T], x: &[T], y: &[T]) {
    let (taps, image, result) = (taps(s), plane(s.image), plane(s.result));
    let many = group_channels(s).1;
    par_rows::<I, T>(
        w,
        s.out_channels,
        s.batch * result * taps,
        #[inline(always)]
        |o, w| {
            for (tap, w) in w.iter_mut().enumerate() {
                let mut sum = T::ZERO;
                for n in 0..s.batch {
                    let x = &x[(n * s.in_channels + o / many) * image..][..image];
                    let y = &y[(n * s.out_channels + o) * result..][..result];
                    segments(s, 0..result, tap, |Segment { inside, at, .. }| {
                        let line = x.get(at..).unwrap_or_default();
                        sum = sum.add(dot_line::<I, T>(&y[inside], line, s.stride[2]));
                    });
                }
                *w = sum;
            }
        },
    );
}

/// `sum_j y[j] * line[j * step]`, in sixteen running sums.
#[inline(always)]
fn dot_line<I: Isa, T: Conv>(y: &[T], line: &[T], step: usize) -> T {
    let mut sums = [T::ZERO; 16];
    if step == 1 {
        for (y, x) in y.chunks(16).zip(line.chunks(16)) {
            for ((sum, &y), &x) in sums.iter_mut().zip(y).zip(x) {
                *sum = sum.mul_accumulate::<I>(y, x);
            }
        }
    } else {
        for (i, (&y, &x)) in y.iter().zip(line.iter().step_by(step)).enumerate() {
            sums[i % 16] = sums[i % 16].mul_accumulate::<I>(y, x);
        }
    }
    sums.into_iter().fold(T::ZERO, T::add)
}
