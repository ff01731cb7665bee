//! Products in registers: tiles of sums whose vectors lie along the positions ([`positions_tile`]), along the channels of results
//! ([`channels_tile`]), or are added up at the end ([`dots`]).
//!
//! A vector is an array as long as a register, handled as a whole: so LLVM keeps it in one. (Loops over longer arrays are
//! vectorised after the sums have been given a place in memory, which is ten times slower. Calls have the same effect, and what
//! lies below `array::from_fn` is called where units are compiled apart: tiles are written with `each!` alone.)

use tensor_core::{DType, Element};

use super::Conv;
use crate::isa::{Isa, Level};

/// As many elements as a register holds.
#[derive(Clone, Copy)]
struct Lanes<T, const L: usize>([T; L]);

impl<T: Conv, const L: usize> Lanes<T, L> {
    const ZERO: Self = Self([T::ZERO; L]);

    /// `self + a * b`
    #[inline(always)]
    fn mul_accumulate<I: Isa>(mut self, a: T, b: Self) -> Self {
        for l in 0..L {
            self.0[l] = self.0[l].mul_accumulate::<I>(a, b.0[l]);
        }
        self
    }

    /// `self + a * b`, lane by lane.
    #[inline(always)]
    fn mul_accumulate_lanes<I: Isa>(mut self, a: Self, b: Self) -> Self {
        for l in 0..L {
            self.0[l] = self.0[l].mul_accumulate::<I>(a.0[l], b.0[l]);
        }
        self
    }
}

/// The shapes of tiles: the elements of a vector, the rows and vectors of a tile whose vectors lie along positions, and the rows of
/// one of two vectors: 24 sums of 32 registers, or 12 of 16. Integers, which few convolve, have the last one, whose code is
/// short.
pub const TILES: [[usize; 4]; 6] =
    [[16, 8, 3, 12], [8, 8, 3, 12], [8, 6, 2, 6], [4, 6, 2, 6], [2, 6, 2, 6], [4, 4, 1, 4]];

/// Which of the [`TILES`] a level and type have. A number, because code is generated for one arm of a match on it, but for every
/// arm of a match on a tuple.
pub const fn tile_of<I: Isa, T: Element>() -> usize {
    match (I::LEVEL, T::DTYPE) {
        (Level::V4, DType::F32) => 0,
        (Level::V4, DType::F64) => 1,
        (Level::V3, DType::F32) => 2,
        (Level::V3, DType::F64) | (Level::Baseline, DType::F32) => 3,
        (Level::Baseline, DType::F64) => 4,
        _ => 5,
    }
}

/// Evaluates an expression with consts for the numbers of the tile of level `$i` and type `$t`.
macro_rules! with_tile {
    ($i:ty, $t:ty, $consts:tt => $body:expr) => {
        match const { $crate::convolution::lanes::tile_of::<$i, $t>() } {
            0 => $crate::convolution::lanes::with_tile!(@ 0, $consts, $body),
            1 => $crate::convolution::lanes::with_tile!(@ 1, $consts, $body),
            2 => $crate::convolution::lanes::with_tile!(@ 2, $consts, $body),
            3 => $crate::convolution::lanes::with_tile!(@ 3, $consts, $body),
            4 => $crate::convolution::lanes::with_tile!(@ 4, $consts, $body),
            _ => $crate::convolution::lanes::with_tile!(@ 5, $consts, $body),
        }
    };
    (@ $tile:literal, ($l:ident, $m:ident, $n:ident, $k:ident), $body:expr) => {{
        use $crate::convolution::lanes::TILES;
        const $l: usize = TILES[$tile][0];
        #[allow(dead_code)]
        const $m: usize = TILES[$tile][1];
        #[allow(dead_code)]
        const $n: usize = TILES[$tile][2];
        #[allow(dead_code)]
        const $k: usize = TILES[$tile][3];
        $body
    }};
}
pub(super) use with_tile;

/// Evaluates an expression for each `$i` below the const `$n`, at most 12, without a loop. LLVM vectorises loops over the vectors
/// of a tile before it unrolls them, and vectors that a loop has met are in memory.
macro_rules! each {
    ($i:ident < $n:expr => $body:expr) => {
        $crate::convolution::lanes::each!(@ $i, $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $i:ident, $n:expr, $body:expr, $($at:literal)*) => {{
        $(if $at < $n {
            let $i: usize = $at;
            $body;
        })*
    }};
}
pub(super) use each;

/// Which row of weights meets which elements: those from `at` on.
#[derive(Clone, Copy)]
pub struct Row {
    /// the row
    pub weight: u32,
    /// the first element
    pub at: u32,
}

/// `out[m * pitch + n * to + j] = bias[m] + sum_i w[i][m] * x[rows[i].at + n * from + j]` for `M` rows and `N` vectors of `L`,
/// which are `[from, to]` apart.
#[inline(always)]
pub fn positions_tile<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize>(
    bias: [T; M],
    w: &[[T; M]],
    rows: &[Row],
    x: &[T],
    (out, pitch): (&mut [T], usize),
    [from, to]: [usize; 2],
) {
    let mut sums = [[Lanes::<T, L>::ZERO; N]; M];
    // Positions are `u32`, and so is their distance. Said here, it leaves one comparison a row.
    let span = ((N - 1) * from + L).min(u32::MAX as usize);
    for (w, row) in w.iter().zip(rows) {
        let at = row.at as usize;
        let x = &x[at..at + span];
        let mut vectors = [Lanes::ZERO; N];
        each!(n < N => vectors[n] = Lanes(x[n * from..].as_chunks::<L>().0[0]));
        each!(m < M => each!(n < N => sums[m][n] = sums[m][n].mul_accumulate::<I>(w[m], vectors[n])));
    }
    each!(m < M => each!(n < N => if let Some(out) = out.get_mut(m * pitch + n * to..).and_then(|out| out.first_chunk_mut()) {
        *out = sums[m][n].mul_accumulate::<I>(T::ONE, Lanes([bias[m]; L])).0;
    }));
}

/// `sums[r.weight][j] += sum_p x[r.at + p] * y[p][j]` for up to `M` rows and `N` vectors of `L`, over the positions `p` of the
/// lines, which `y` has side by side.
#[inline(always)]
pub fn channels_tile<I: Isa, T: Conv, const M: usize, const N: usize, const L: usize>(
    x: &[T],
    rows: &[Row],
    y: &[[[T; L]; N]],
    (starts, length): (&[u32], usize),
    sums: &mut [[[T; L]; N]],
) {
    let mut own = [[Lanes::<T, L>::ZERO; N]; M];
    let (mut at, mut last) = ([0; M], 0);
    // Rows beyond the last one repeat it; their sums are dropped.
    each!(m < M => at[m] = rows[m.min(rows.len() - 1)].at as usize);
    each!(m < M => last = last.max(at[m]));
    for (i, &start) in starts.iter().enumerate() {
        let start = start as usize;
        if last + start + length > x.len() {
            break;
        }
        let y = &y[i * length..][..length];
        let mut lines = [x; M];
        each!(m < M => lines[m] = &x[at[m] + start..][..length]);
        for p in 0..length {
            let mut vectors = [Lanes::ZERO; N];
            each!(n < N => vectors[n] = Lanes(y[p][n]));
            each!(m < M => each!(n < N => own[m][n] = own[m][n].mul_accumulate::<I>(lines[m][p], vectors[n])));
        }
    }
    each!(m < M => if let Some(row) = rows.get(m) {
        let sums = &mut sums[row.weight as usize];
        each!(n < N => sums[n] = own[m][n].mul_accumulate::<I>(T::ONE, Lanes(sums[n])).0);
    });
}

/// `sums[r.weight] += x[r.at..] * y`, lane by lane, for up to `M` rows as long as `y`, whose length is a multiple of `L`.
#[inline(always)]
pub fn dots<I: Isa, T: Conv, const M: usize, const L: usize>(x: &[T], rows: &[Row], y: &[T], sums: &mut [[T; L]]) {
    let y = y.as_chunks::<L>().0;
    let (mut lines, mut own) = ([y; M], [Lanes::<T, L>::ZERO; M]);
    // Rows beyond the last one repeat it; their sums are dropped.
    each!(m < M => {
        let row = rows[m.min(rows.len() - 1)];
        lines[m] = &x[row.at as usize..].as_chunks::<L>().0[..y.len()];
        own[m] = Lanes(sums[row.weight as usize]);
    });
    for p in 0..y.len() {
        let y = Lanes(y[p]);
        each!(m < M => own[m] = own[m].mul_accumulate_lanes::<I>(Lanes(lines[m][p]), y));
    }
    each!(m < M => if let Some(row) = rows.get(m) {
        sums[row.weight as usize] = own[m].0;
    });
}

/// `out[j] = bias[c + j] + sum_i x[at[i].0 + c + j] * w[at[i].1 + c + j]` for `N` vectors of `L`.
#[inline(always)]
pub fn weigh<I: Isa, T: Conv, const N: usize, const L: usize>(
    at: &[(usize, usize)],
    x: &[T],
    w: &[T],
    bias: Option<&[T]>,
    c: usize,
    out: &mut [T],
) {
    let mut sums = [Lanes::<T, L>::ZERO; N];
    if let Some(bias) = bias {
        let bias = bias[c..][..N * L].as_chunks::<L>().0;
        each!(n < N => sums[n] = Lanes(bias[n]));
    }
    for &(x_at, w_at) in at {
        let (x, w) = (&x[x_at + c..][..N * L], &w[w_at + c..][..N * L]);
        let (x, w) = (x.as_chunks::<L>().0, w.as_chunks::<L>().0);
        each!(n < N => sums[n] = sums[n].mul_accumulate_lanes::<I>(Lanes(x[n]), Lanes(w[n])));
    }
    let out = out[..N * L].as_chunks_mut::<L>().0;
    each!(n < N => out[n] = sums[n].0);
}

/// Calls `put(i, four)` for elements `i < n` of four rows, four by four, which are shuffled in registers.
#[inline(always)]
pub fn turn_four<T: Conv>(rows: [&[T]; 4], n: usize, mut put: impl FnMut(usize, [T; 4])) {
    let [a, b, c, d] = [&rows[0][..n], &rows[1][..n], &rows[2][..n], &rows[3][..n]];
    // Whole vectors are read before any is taken apart.
    let whole = n / 4;
    let (p, q) = (&a.as_chunks::<4>().0[..whole], &b.as_chunks::<4>().0[..whole]);
    let (r, s) = (&c.as_chunks::<4>().0[..whole], &d.as_chunks::<4>().0[..whole]);
    for j in 0..whole {
        let [p, q, r, s] = [p[j], q[j], r[j], s[j]];
        each!(i < 4 => put(4 * j + i, [p[i], q[i], r[i], s[i]]));
    }
    for i in 4 * whole..n {
        put(i, [a[i], b[i], c[i], d[i]]);
    }
}

/// Copies a line, in registers that overlap at the end rather than element by element. (Loops, which are not a call of `memcpy`.)
#[inline(always)]
#[allow(clippy::manual_memcpy)]
pub fn copy_line<T: Copy>(out: &mut [T], from: &[T]) {
    let n = out.len();
    if from.len() != n
        || copy_whole::<T, 16>(out, from)
        || copy_whole::<T, 8>(out, from)
        || copy_whole::<T, 4>(out, from)
    {
        return;
    }
    for i in 0..n {
        out[i] = from[i];
    }
}

/// Copies `count` lines of `n` elements, from those that are `from_step` apart to those that are `to_step` apart. The length
/// decides once how.
#[inline(always)]
pub fn copy_lines<T: Copy>(
    (out, to_step): (&mut [T], usize),
    (from, from_step): (&[T], usize),
    count: usize,
    n: usize,
) {
    match n {
        16.. => lines_of::<T, 16>((out, to_step), (from, from_step), count, n),
        8.. => lines_of::<T, 8>((out, to_step), (from, from_step), count, n),
        4.. => lines_of::<T, 4>((out, to_step), (from, from_step), count, n),
        _ => lines_of::<T, 1>((out, to_step), (from, from_step), count, n),
    }
}

/// [`copy_lines`] of at least `W` elements.
#[inline(always)]
fn lines_of<T: Copy, const W: usize>(
    (out, to_step): (&mut [T], usize),
    (from, from_step): (&[T], usize),
    count: usize,
    n: usize,
) {
    for i in 0..count {
        copy_whole::<T, W>(&mut out[i * to_step..][..n], &from[i * from_step..][..n]);
    }
}

/// Copies every `step`-th element of `from`.
#[inline(always)]
pub fn copy_stepped<T: Copy>(out: &mut [T], from: &[T], step: usize) {
    let n = out.len();
    if step == 2 && from.len() >= 2 * n {
        let from = &from.as_chunks::<2>().0[..n];
        for j in 0..n {
            out[j] = from[j][0];
        }
        return;
    }
    for j in 0..n {
        out[j] = from[j * step];
    }
}

/// [`copy_line`] of at least `W` elements, `W` at a time; false where there are fewer.
#[inline(always)]
#[allow(clippy::manual_memcpy)]
pub fn copy_whole<T: Copy, const W: usize>(out: &mut [T], from: &[T]) -> bool {
    let n = out.len();
    if n < W {
        return false;
    }
    let (to, chunks) = (out.as_chunks_mut::<W>().0, from.as_chunks::<W>().0);
    for i in 0..to.len().min(chunks.len()) {
        to[i] = chunks[i];
    }
    if let (Some(out), Some(from)) = (out.last_chunk_mut::<W>(), from.last_chunk::<W>()) {
        *out = *from;
    }
    true
}
