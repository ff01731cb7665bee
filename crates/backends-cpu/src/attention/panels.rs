//! Panels: matrices with [`LANES`] queries side by side, and their products with rows of keys and values.
//!
//! With the queries along the vector units, keys and values are read as they lie, one number for a vector of queries, and a
//! softmax over keys is a fold down the rows. A tile of [`ROWS`] rows by a pair of vectors stays in registers; a pair's lanes are
//! what causal attention skips by.
//!
//! Vectors are those of [`crate::rows`]: arrays as long as a register.

use std::ops::Range;

use super::{Attend, Rows};
use crate::arrays::{each, map};
use crate::gemm::transposed;
use crate::isa::Isa;
use crate::loops::scratch::split_off;
use crate::rows::{combine, zip};

/// Queries of a panel. A multiple of every pair's width.
pub const LANES: usize = 64;

/// Rows of a tile.
pub const ROWS: usize = 4;

/// A row of a panel.
pub type Lanes<T> = [T; LANES];

/// Two vectors of `L` elements.
pub type Pair<T, const L: usize> = [[T; L]; 2];

/// Takes a panel of some rows off a slice.
#[inline(always)]
pub fn take_panel<'a, T>(rest: &mut &'a mut [T], rows: usize) -> &'a mut [Lanes<T>] {
    split_off(rest, rows * LANES).as_chunks_mut().0
}

/// Pair `g` of a row.
#[inline(always)]
pub fn pair<T: Copy, const L: usize>(row: &[T], g: usize) -> Pair<T, L> {
    let vectors = row.as_chunks::<L>().0;
    [vectors[2 * g], vectors[2 * g + 1]]
}

/// Sets pair `g` of a row.
#[inline(always)]
pub fn set_pair<T: Copy, const L: usize>(row: &mut [T], g: usize, [near, far]: Pair<T, L>) {
    let vectors = row.as_chunks_mut::<L>().0;
    vectors[2 * g] = near;
    vectors[2 * g + 1] = far;
}

/// [`zip`] of pairs.
#[inline(always)]
#[allow(clippy::redundant_closure, reason = "references to closures are called, not inlined")]
pub fn zip_pairs<T: Attend, const L: usize>(x: Pair<T, L>, y: Pair<T, L>, f: impl Fn(T, T) -> T) -> Pair<T, L> {
    let near = zip(
        x[0],
        y[0],
        #[inline(always)]
        |x, y| f(x, y),
    );
    let far = zip(
        x[1],
        y[1],
        #[inline(always)]
        |x, y| f(x, y),
    );
    [near, far]
}

/// `sum + a * b`
#[inline(always)]
fn multiply<I: Isa, T: Attend, const L: usize>(sum: Pair<T, L>, a: T, b: Pair<T, L>) -> Pair<T, L> {
    zip_pairs(
        sum,
        b,
        #[inline(always)]
        |sum, b| sum.mul_accumulate::<I>(a, b),
    )
}

/// `[x[0] . y[0], .., x[3] . y[3]]`, of vectors of one length.
#[inline(always)]
pub fn dots<I: Isa, T: Attend>(x: [&[T]; ROWS], y: [&[T]; ROWS]) -> [T; ROWS] {
    const L: usize = 16;
    #[inline(always)]
    fn step<I: Isa, T: Attend>(mut sums: [T; L], x: &[T; L], y: &[T; L]) -> [T; L] {
        for l in 0..L {
            sums[l] = sums[l].mul_accumulate::<I>(x[l], y[l]);
        }
        sums
    }
    let n = x[0].len();
    let (xs, ys) = (
        map(
            x,
            #[inline(always)]
            |x| &x.as_chunks::<L>().0[..n / L],
        ),
        map(
            y,
            #[inline(always)]
            |y| &y.as_chunks::<L>().0[..n / L],
        ),
    );
    let mut sums = [[T::ZERO; L]; ROWS];
    for p in 0..n / L {
        // No loop: see above.
        sums[0] = step::<I, T>(sums[0], &xs[0][p], &ys[0][p]);
        sums[1] = step::<I, T>(sums[1], &xs[1][p], &ys[1][p]);
        sums[2] = step::<I, T>(sums[2], &xs[2][p], &ys[2][p]);
        sums[3] = step::<I, T>(sums[3], &xs[3][p], &ys[3][p]);
    }
    each(
        #[inline(always)]
        |r| {
            let mut sum = combine(&sums[r], T::add);
            for i in n / L * L..n {
                sum = sum.mul_accumulate::<I>(x[r][i], y[r][i]);
            }
            sum
        },
    )
}

/// Calls `put(i, sums)` with `sums = sum_p a(p)[i] * b(p)` for each row `i` of a tile.
#[inline(always)]
fn tile<I: Isa, T: Attend, const L: usize>(
    depth: Range<usize>,
    a: impl Fn(usize) -> [T; ROWS],
    b: impl Fn(usize) -> Pair<T, L>,
    mut put: impl FnMut(usize, Pair<T, L>),
) {
    let mut sums = [[[T::ZERO; L]; 2]; ROWS];
    for p in depth {
        let (a, b) = (a(p), b(p));
        // No loop: LLVM would vectorise it before it unrolls it.
        sums[0] = multiply::<I, T, L>(sums[0], a[0], b);
        sums[1] = multiply::<I, T, L>(sums[1], a[1], b);
        sums[2] = multiply::<I, T, L>(sums[2], a[2], b);
        sums[3] = multiply::<I, T, L>(sums[3], a[3], b);
    }
    put(0, sums[0]);
    put(1, sums[1]);
    put(2, sums[2]);
    put(3, sums[3]);
}

/// `out[m][lane] = sum_p a[m][p] * b[p][lane]`, of pair `g` of the lanes the first `limits[g]` rows (in whole tiles).
#[inline(always)]
pub fn rows_by_panel<I: Isa, T: Attend, const L: usize>(
    a: Rows<'_, T>,
    b: &[Lanes<T>],
    out: &mut [Lanes<T>],
    limits: &[usize],
) {
    let (m, depth) = (out.len(), b.len());
    for (quad, out) in out.chunks_mut(ROWS).enumerate() {
        let first = quad * ROWS;
        // Rows beyond the last one repeat it; their sums are dropped.
        let rows: [&[T]; ROWS] = each(
            #[inline(always)]
            |r| &a.row((first + r).min(m - 1))[..depth],
        );
        for (g, &limit) in limits.iter().enumerate() {
            if first >= limit {
                continue;
            }
            tile::<I, T, L>(
                0..depth,
                #[inline(always)]
                |p| [rows[0][p], rows[1][p], rows[2][p], rows[3][p]],
                #[inline(always)]
                |p| pair(&b[p], g),
                #[inline(always)]
                |i, sums| {
                    if let Some(out) = out.get_mut(i) {
                        set_pair(out, g, sums);
                    }
                },
            );
        }
    }
}

/// `out[c][lane] = out[c][lane] * factors[lane] + sum_m a[m][c] * b[m][lane]`, of pair `g` of the lanes over the first
/// `limits[g]` rows.
#[inline(always)]
pub fn columns_by_panel<I: Isa, T: Attend, const L: usize>(
    a: Rows<'_, T>,
    b: &[Lanes<T>],
    out: &mut [Lanes<T>],
    limits: &[usize],
    factors: &Lanes<T>,
) {
    let cols = out.len();
    for (g, &limit) in limits.iter().enumerate() {
        let (b, factors) = (&b[..limit], pair::<T, L>(factors, g));
        for (quad, out) in out.chunks_mut(ROWS).enumerate() {
            let at: [usize; ROWS] = each(
                #[inline(always)]
                |c| (quad * ROWS + c).min(cols - 1),
            );
            tile::<I, T, L>(
                0..limit,
                #[inline(always)]
                |m| {
                    let row = a.row(m);
                    [row[at[0]], row[at[1]], row[at[2]], row[at[3]]]
                },
                #[inline(always)]
                |m| pair(&b[m], g),
                #[inline(always)]
                |i, sums| {
                    if let Some(out) = out.get_mut(i) {
                        let old = zip_pairs(pair(out, g), factors, T::mul);
                        set_pair(out, g, zip_pairs(old, sums, T::add));
                    }
                },
            );
        }
    }
}

/// `out[m][c] += sum_lane a[m][lane] * b[lane][c]` over the first `lanes`; `b` and `out` have rows of `pitch` elements, a
/// multiple of a pair. With a diagonal, the lanes before `m + diagonal` of row `m` are 0 or not set.
#[inline(always)]
pub fn panel_by_rows<I: Isa, T: Attend, const L: usize>(
    a: &[Lanes<T>],
    (lanes, diagonal): (usize, Option<isize>),
    (b, out): (&[T], &mut [T]),
    pitch: usize,
) {
    let m = a.len();
    for (quad, out) in out[..m * pitch].chunks_mut(ROWS * pitch).enumerate() {
        let first = quad * ROWS;
        let rows: [&Lanes<T>; ROWS] = each(
            #[inline(always)]
            |r| &a[(first + r).min(m - 1)],
        );
        let begin = diagonal.map_or(0, |diagonal| (first as isize + diagonal).max(0) as usize);
        for g in 0..pitch / (2 * L) {
            tile::<I, T, L>(
                begin.min(lanes)..lanes,
                #[inline(always)]
                |lane| [rows[0][lane], rows[1][lane], rows[2][lane], rows[3][lane]],
                #[inline(always)]
                |lane| pair(&b[lane * pitch..][..pitch], g),
                #[inline(always)]
                |i, sums| {
                    if let Some(out) = out.get_mut(i * pitch..(i + 1) * pitch) {
                        let old = pair(out, g);
                        set_pair(out, g, zip_pairs(old, sums, T::add));
                    }
                },
            );
        }
    }
}

/// Calls `put(lanes, [row(r)[c], .., row(r + 3)[c]])` with row `c` of a panel's lanes `r..r + 4`, for all of its rows and every
/// fourth lane. Lanes beyond the last of the `rows` repeat it.
#[inline(always)]
pub fn transpose<'a, T: Attend>(
    panel: &mut [Lanes<T>],
    (rows, lanes): (usize, usize),
    row: impl Fn(usize) -> &'a [T],
    put: impl Fn(&mut [T; ROWS], [T; ROWS]),
) {
    let cols = panel.len();
    for first in (0..lanes).step_by(ROWS) {
        let at = first / ROWS;
        let rows: [&[T]; ROWS] = each(
            #[inline(always)]
            |r| &row((first + r).min(rows - 1))[..cols],
        );
        let [r0, r1, r2, r3] = map(
            rows,
            #[inline(always)]
            |row| row.as_chunks::<ROWS>().0,
        );
        let (quads, rest) = panel.as_chunks_mut::<ROWS>();
        for (q, to) in quads.iter_mut().enumerate() {
            let block = transposed([r0[q], r1[q], r2[q], r3[q]]);
            for c in 0..ROWS {
                put(&mut to[c].as_chunks_mut().0[at], block[c]);
            }
        }
        for (to, c) in rest.iter_mut().zip(cols / ROWS * ROWS..) {
            put(&mut to.as_chunks_mut().0[at], [rows[0][c], rows[1][c], rows[2][c], rows[3][c]]);
        }
    }
}

/// `to[c][r] = row(r)[c] * factor`
#[inline(always)]
pub fn pack<'a, T: Attend>(to: &mut [Lanes<T>], at: (usize, usize), row: impl Fn(usize) -> &'a [T], factor: T) {
    transpose(
        to,
        at,
        row,
        #[inline(always)]
        |to, values| {
            *to = map(
                values,
                #[inline(always)]
                |x| x.mul(factor),
            );
        },
    );
}

/// `rows[r][c] = panel[c][first + r]`: the panel's queries `first..first + 4` as rows side by side.
#[inline(always)]
pub fn unpack<T: Attend>(panel: &[Lanes<T>], first: usize, rows: &mut [T]) {
    let (cols, at) = (panel.len(), first / ROWS);
    let (quads, rest) = panel.as_chunks::<ROWS>();
    for (c, lanes) in rest.iter().enumerate() {
        for r in 0..ROWS {
            rows[r * cols + cols / ROWS * ROWS + c] = lanes[first + r];
        }
    }
    let mut rows = rows;
    let mut row = || split_off(&mut rows, cols).as_chunks_mut::<ROWS>().0;
    let [r0, r1, r2, r3] = [row(), row(), row(), row()];
    for (q, from) in quads.iter().enumerate() {
        let block: [[T; ROWS]; ROWS] = each(
            #[inline(always)]
            |c| from[c].as_chunks().0[at],
        );
        [r0[q], r1[q], r2[q], r3[q]] = transposed(block);
    }
}
