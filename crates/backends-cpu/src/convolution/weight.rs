//! `w = y @ columns(x).t()`, summed over the batch: columns of `w` go to the threads, or, where there are few, parts of the
//! batch whose sums are added after.

use tensor_aten::kernels::ConvShape;

use super::columns::{self, Block, block_positions, depth, gather, group_channels, images, positions};
use super::{Conv, MatMut, depthwise, multiply, scratch};
use crate::isa::Isa;
use crate::parallel::parallel_reduce;

/// Columns of the weights that one task makes.
const COLUMNS: usize = 192;

/// Parts of the batch that are summed apart.
const PARTS: usize = 16;

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
    if depthwise::applies(s) && !s.channels_last {
        return depthwise::weight::<I, T>(s, w, x, y);
    }
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
