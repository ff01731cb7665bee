//! The adjoint: through [`direct`](super::direct), or as `columns(x) = w.t() @ y`, added up where windows overlap. With steps of 1
//! that is a convolution of `y` with the weights turned around, which needs no adding up.

use tensor_aten::kernels::ConvShape;

use super::columns::{self, Block, block_positions, depth, group_channels, images, positions, scatter, taps};
use super::direct::{self, Weights};
use super::geometry::Plan;
use super::last::{self, Matrices};
use super::{Conv, MatMut, depthwise, divisor, forward, multiply};
use crate::isa::Isa;
use crate::loops::scratch;
use crate::loops::views::par_rows;

/// The geometry with images and results exchanged, for steps of 1.
fn turned_shape(s: &ConvShape) -> ConvShape {
    ConvShape {
        in_channels: s.out_channels,
        out_channels: s.in_channels,
        image: s.result,
        result: s.image,
        padding: std::array::from_fn(|d| (s.dilation[d] * (s.kernel[d] - 1)) as isize - s.padding[d]),
        ..s.clone()
    }
}

/// The weights (out, in / groups, taps) of a convolution as those of its adjoint, (in, out / groups, taps turned around).
fn turned_weights<T: Conv>(s: &ConvShape, w: &[T], out: &mut [T]) {
    let ((ins, outs), taps) = (group_channels(s), taps(s));
    // Steps in the weights from one output channel, input channel and tap to the next.
    let (o_step, i_step, t_step) = if s.channels_last { (ins * taps, 1, ins) } else { (ins * taps, taps, 1) };
    let (i_out, o_out, t_out) = if s.channels_last { (outs * taps, 1, outs) } else { (outs * taps, taps, 1) };
    for g in 0..s.groups {
        let size = outs * ins * taps;
        let (w, out) = (&w[g * size..][..size], &mut out[g * size..][..size]);
        for o in 0..outs {
            for i in 0..ins {
                for t in 0..taps {
                    out[i * i_out + o * o_out + (taps - 1 - t) * t_out] = w[o * o_step + i * i_step + t * t_step];
                }
            }
        }
    }
}

/// The images whose windows made the results.
pub fn run<I: Isa, T: Conv>(s: &ConvShape, x: &mut [T], y: &[T], w: &[T], bias: Option<&[T]>) {
    let turns = s.stride == [1; 3] && depthwise::applies(s) && s.out_channels == s.groups;
    if !columns::suit(s) && s.channels_last && !turns {
        let of = [Matrices::images, Matrices::results];
        return last::sides(s, (x, y), of, w, |s, x, y, w| run::<I, T>(s, x, y, w, bias));
    }
    if !columns::suit(s) && !s.channels_last {
        let (ins, taps) = (group_channels(s).0, taps(s));
        let w = Weights { elements: w, out_stride: taps, in_stride: ins * taps };
        return direct::run::<I, T>(&Plan::adjoint(s), x, y, &w, bias);
    }
    // To add columns up is cheaper than to turn weights around where these are the longer ones.
    let few = !s.channels_last && positions(s) < group_channels(s).1;
    if s.stride == [1; 3] && !few {
        let turned = turned_shape(s);
        scratch::with(w.len(), |weights| {
            turned_weights(s, w, weights);
            forward::run::<I, T>(&turned, x, y, weights, bias);
        });
        return;
    }
    let ((ins, outs), plane) = (group_channels(s), s.image.iter().product::<usize>());
    let work = plane * outs * depth(s);
    if s.channels_last {
        par_rows::<I, T>(
            x,
            s.batch,
            work * s.groups,
            #[inline(always)]
            |n, x| {
                start_last(x, bias, s.in_channels);
                let results = positions(s) / s.batch;
                for g in 0..s.groups {
                    add::<I, T>(s, x, y, w, &Block { n, g, k: 0..depth(s), p: n * results..(n + 1) * results });
                }
            },
        );
        return;
    }
    // Channels are split so that few images occupy all threads.
    let channels = divisor(ins, (256 / taps(s)).max(1));
    let parts = ins / channels;
    par_rows::<I, T>(
        x,
        images(s) * s.groups * parts,
        work / parts,
        #[inline(always)]
        |i, x| {
            let (n, g, part) = (i / (s.groups * parts), i / parts % s.groups, i % parts);
            let first = part * channels;
            for (c, x) in x.chunks_exact_mut(plane.max(1)).enumerate() {
                x.fill(bias.map_or(T::ZERO, |bias| bias[g * ins + first + c]));
            }
            let k = first * taps(s)..(first + channels) * taps(s);
            add::<I, T>(s, x, y, w, &Block { n, g, k, p: 0..positions(s) });
        },
    );
}

fn start_last<T: Conv>(x: &mut [T], bias: Option<&[T]>, channels: usize) {
    match bias {
        Some(bias) => x.chunks_exact_mut(channels).for_each(|x| x.copy_from_slice(bias)),
        None => x.fill(T::ZERO),
    }
}

/// Adds what the results at the positions of `whole` owe to the image, block by block.
fn add<I: Isa, T: Conv>(s: &ConvShape, x: &mut [T], y: &[T], w: &[T], whole: &Block) {
    let k = whole.k.clone();
    let weights = columns::weights(s, w, whole.g).cols_range(k.start, k.end);
    let at_once = block_positions(k.len());
    for p in whole.p.clone().step_by(at_once) {
        let block = Block { p: p..whole.p.end.min(p + at_once), ..whole.clone() };
        let y = columns::results(s, y, block.n, block.g, block.p.clone());
        scratch::with(block.len(), |buffer: &mut [T]| {
            let (rows, cols) = (k.len(), block.p.len());
            let columns = if s.channels_last {
                MatMut::row_major(buffer, cols, rows).map(MatMut::t)
            } else {
                MatMut::row_major(buffer, rows, cols)
            };
            if let Ok(columns) = columns {
                multiply::<I, T>(weights.t(), y, T::ZERO, columns);
            }
            scatter(s, x, &block, buffer);
        });
    }
}
