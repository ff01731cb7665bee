//! The forward pass: through [`direct`](super::direct), or as `y = w @ columns(x)`, a block of positions at a time.

use tensor_aten::kernels::ConvShape;

use super::columns::{self, Block, block_positions, depth, gather, group_channels, images, positions};
use super::direct::{self, Weights};
use super::geometry::Plan;
use super::last::{self, Matrices};
use super::{Conv, MatMut, MatRef, depthwise, multiply};
use crate::isa::Isa;
use crate::loops::scratch;
use crate::loops::views::par_rows;
use crate::parallel::get_num_threads;

/// One block of results: channels x positions.
fn block<I: Isa, T: Conv>(
    s: &ConvShape,
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    (n, g, p): (usize, usize, usize),
    mut y: MatMut<'_, T>,
) {
    let (_, channels) = group_channels(s);
    let block = Block { n, g, k: 0..depth(s), p: p..p + y.cols() };
    let beta = match bias {
        Some(bias) => {
            let ones = vec![T::ONE; y.cols()];
            let bias = &bias[g * channels..][..channels];
            if let (Ok(bias), Ok(ones)) = (MatRef::row_major(bias, channels, 1), MatRef::row_major(&ones, 1, y.cols()))
            {
                multiply::<I, T>(bias, ones, T::ZERO, y.reborrow());
            }
            T::ONE
        }
        None => T::ZERO,
    };
    let len = if columns::is_pointwise(s) { 0 } else { block.len() };
    scratch::with(len, |buffer| {
        let columns = gather(s, x, &block, buffer);
        multiply::<I, T>(columns::weights(s, w, g), columns, beta, y);
    });
}

/// As many parts keep threads busy; a constant, so that results do not depend on the threads.
const PARTS: usize = 16;

/// Positions of one of many blocks.
fn share(positions: usize) -> usize {
    positions.div_ceil(PARTS).next_multiple_of(16).max(64)
}

/// The results of a convolution.
pub fn run<I: Isa, T: Conv>(s: &ConvShape, y: &mut [T], x: &[T], w: &[T], bias: Option<&[T]>) {
    if s.channels_last && depthwise::applies(s) && s.out_channels == s.groups {
        return depthwise::forward_last::<I, T>(s, y, x, w, bias);
    }
    if !columns::suit(s) && s.channels_last {
        let of = [Matrices::results, Matrices::images];
        return last::sides(s, (y, x), of, w, |s, y, x, w| run::<I, T>(s, y, x, w, bias));
    }
    if !columns::suit(s) {
        let (depth, taps) = (depth(s), columns::taps(s));
        let w = Weights { elements: w, out_stride: depth, in_stride: taps };
        return direct::run::<I, T>(&Plan::forward(s), y, x, &w, bias);
    }
    let ((_, channels), positions) = (group_channels(s), positions(s));
    let at_once = block_positions(depth(s));
    if s.channels_last {
        let Ok(y) = MatMut::row_major(y, positions, s.out_channels) else { return };
        y.par_blocks(at_once.min(share(positions)), channels, |p, first, y| {
            block::<I, T>(s, x, w, bias, (0, first / channels, p), y.t());
        });
        return;
    }
    let parts = images(s) * s.groups;
    let work = channels * positions * depth(s);
    let one = |i: usize, y: &mut [T]| {
        let Ok(y) = MatMut::row_major(y, channels, positions) else { return };
        let at_once = if parts >= PARTS { at_once } else { at_once.min(share(positions)) };
        y.par_blocks(channels, at_once, |_, p, y| {
            block::<I, T>(s, x, w, bias, (i / s.groups, i % s.groups, p), y);
        });
    };
    if parts >= 2 * get_num_threads() {
        par_rows::<I, T>(y, parts, work, one);
    } else {
        y.chunks_exact_mut((channels * positions).max(1)).enumerate().for_each(|(i, y)| one(i, y));
    }
}
