//! Images and results with channels last as such with channels first and back: a copy of each costs less than columns do,
//! wherever [`direct`](super::direct) is the faster way.

use tensor_aten::kernels::ConvShape;

use super::columns::{group_channels, taps};
use super::lanes::{each, turn_four};
use super::{Conv, MatMut};
use crate::isa::{Baseline, Isa};
use crate::loops::scratch;
use crate::parallel::GRAIN;

/// Elements of images and results that are copied at once, about, so that their scratch is kept.
const COPIED: usize = 4 << 20;

/// The matrices that tensors with channels last consist of: how many, their rows, and their columns, which come first otherwise.
#[derive(Clone, Copy)]
pub struct Matrices([usize; 3]);

impl Matrices {
    /// Those of images.
    pub fn images(s: &ConvShape) -> Self {
        Self([s.batch, s.image.iter().product(), s.in_channels])
    }

    /// Those of results.
    pub fn results(s: &ConvShape) -> Self {
        Self([s.batch, s.result.iter().product(), s.out_channels])
    }

    /// Those of weights.
    pub fn weights(s: &ConvShape) -> Self {
        Self([s.out_channels, taps(s), group_channels(s).0])
    }

    fn len(self) -> usize {
        self.0.iter().product()
    }

    /// Where matrix `i` begins.
    fn at(self, i: usize) -> usize {
        i * self.0[1] * self.0[2]
    }

    /// With channels first.
    fn first(self) -> Self {
        let [n, rows, cols] = self.0;
        Self([n, cols, rows])
    }

    /// Turns each matrix, as fast as memory is at any level.
    fn turn<T: Conv>(self, from: &[T], out: &mut [T]) {
        let [n, rows, cols] = self.0;
        let Ok(out) = MatMut::row_major(out, n * cols, rows) else { return };
        let width = rows.clamp(1, 256);
        out.par_blocks((GRAIN / width).next_multiple_of(TILE), width, |row, col, mut out| {
            Baseline::run(
                #[inline(always)]
                || {
                    let mut at = 0;
                    while at < out.rows() {
                        let (i, first) = ((row + at) / cols, (row + at) % cols);
                        let count = (cols - first).min(out.rows() - at).min(TILE);
                        turn_lines(&from[(i * rows + col) * cols + first..], cols, at, count, &mut out);
                        at += count;
                    }
                },
            );
        });
    }
}

/// Rows and columns that are turned at once: those of a line of a cache.
const TILE: usize = 16;

/// Rows `at..at + count` of a matrix from the columns of one whose rows are `step` apart.
#[inline(always)]
fn turn_lines<T: Conv>(from: &[T], step: usize, at: usize, count: usize, out: &mut MatMut<'_, T>) {
    let n = out.cols();
    let mut p = 0;
    while p + TILE <= n && count == TILE {
        let mut tile = [[[T::ZERO; 4]; TILE / 4]; TILE];
        each!(j < 4 => {
            let mut rows = [from; 4];
            each!(k < 4 => rows[k] = &from[(p + 4 * j + k) * step..][..TILE]);
            turn_four(
                rows,
                TILE,
                #[inline(always)]
                |i, four| tile[i][j] = four,
            );
        });
        for (i, tile) in tile.iter().enumerate() {
            if let Some(out) = out.row_mut(at + i).get_mut(p..p + TILE) {
                each!(j < 4 => each!(k < 4 => out[4 * j + k] = tile[j][k]));
            }
        }
        p += TILE;
    }
    for i in 0..count {
        let out = &mut out.row_mut(at + i)[p..];
        for j in 0..out.len() {
            out[j] = from[(p + j) * step + i];
        }
    }
}

/// The batch, a few images at a time: the first one, and the shape of such a part with channels first.
fn parts(s: &ConvShape) -> impl Iterator<Item = (usize, ConvShape)> {
    let one = ConvShape { batch: 1, ..s.clone() };
    let size = Matrices::images(&one).len() + Matrices::results(&one).len();
    let most = (COPIED / size.max(1)).max(1);
    (0..s.batch).step_by(most).map(move |first| {
        let batch = most.min(s.batch - first);
        (first, ConvShape { batch, channels_last: false, ..s.clone() })
    })
}

/// `out = run(from)` for images and results: `of` says which of them they are.
pub fn sides<T: Conv>(
    s: &ConvShape,
    (out, from): (&mut [T], &[T]),
    of: [fn(&ConvShape) -> Matrices; 2],
    w: &[T],
    run: impl Fn(&ConvShape, &mut [T], &[T], &[T]),
) {
    scratch::with(w.len(), |weights| {
        Matrices::weights(s).turn(w, weights);
        for (first, part) in parts(s) {
            let [to, source] = of.map(|of| of(&part));
            scratch::with(to.len() + source.len(), |buffer: &mut [T]| {
                let (made, seen) = buffer.split_at_mut(to.len());
                source.turn(&from[source.at(first)..][..source.len()], seen);
                run(&part, made, seen, weights);
                to.first().turn(made, &mut out[to.at(first)..][..to.len()]);
            });
        }
    });
}

/// `w = sum of run(x, y)` over parts of the batch.
pub fn weight<T: Conv>(s: &ConvShape, w: &mut [T], x: &[T], y: &[T], run: impl Fn(&ConvShape, &mut [T], &[T], &[T])) {
    scratch::with(2 * w.len(), |buffer: &mut [T]| {
        let (sum, own) = buffer.split_at_mut(w.len());
        sum.fill(T::ZERO);
        for (first, part) in parts(s) {
            let (images, results) = (Matrices::images(&part), Matrices::results(&part));
            scratch::with(images.len() + results.len(), |buffer: &mut [T]| {
                let (seen, made) = buffer.split_at_mut(images.len());
                images.turn(&x[images.at(first)..][..images.len()], seen);
                results.turn(&y[results.at(first)..][..results.len()], made);
                run(&part, own, seen, made);
            });
            for i in 0..sum.len() {
                sum[i] = sum[i].add(own[i]);
            }
        }
        Matrices::weights(s).first().turn(sum, w);
    });
}
