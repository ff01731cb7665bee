//! Slices of outputs over the pool: rows and runs of elements, each part given to one thread. [`views`](super::views) hands
//! these functions out beside the views that they serve.

use super::split::Split;
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};

/// How many rows of `work` element steps make a chunk that is worth a thread.
pub(super) fn rows_per_chunk(work: usize) -> usize {
    (GRAIN / work.max(1)).max(1)
}

/// Calls `f(row, out_row)` for the `rows` equal rows of `out`, in parallel, compiled for the level `I`. `work` is about how
/// many element steps a row costs (its inputs, times ten for transcendentals). What `out` has beyond `rows` equal rows
/// stays as it is.
#[inline]
pub fn par_rows<I: Isa, T: Send>(out: &mut [T], rows: usize, work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let cols = out.len().checked_div(rows).unwrap_or(0);
    let out = Split::new(out);
    parallel_for(rows, rows_per_chunk(work), |begin, end| {
        let mut rest = out.part(begin * cols, end * cols);
        I::run(
            #[inline(always)]
            || {
                for r in begin..end {
                    f(r, take(&mut rest, cols));
                }
            },
        )
    });
}

/// [`par_rows`] over two outputs with rows of their own lengths.
#[inline]
pub fn par_rows2<I: Isa, A: Send, B: Send>(
    a: &mut [A],
    b: &mut [B],
    rows: usize,
    work: usize,
    f: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    let (na, nb) = (a.len().checked_div(rows).unwrap_or(0), b.len().checked_div(rows).unwrap_or(0));
    let (a, b) = (Split::new(a), Split::new(b));
    parallel_for(rows, rows_per_chunk(work), |begin, end| {
        let (mut a, mut b) = (a.part(begin * na, end * na), b.part(begin * nb, end * nb));
        I::run(
            #[inline(always)]
            || {
                for r in begin..end {
                    f(r, take(&mut a, na), take(&mut b, nb));
                }
            },
        )
    });
}

/// [`par_rows`] over three outputs with rows of their own lengths.
#[inline]
pub fn par_rows3<I: Isa, A: Send, B: Send, C: Send>(
    a: &mut [A],
    b: &mut [B],
    c: &mut [C],
    rows: usize,
    work: usize,
    f: impl Fn(usize, &mut [A], &mut [B], &mut [C]) + Sync,
) {
    let length = |n: usize| n.checked_div(rows).unwrap_or(0);
    let (na, nb, nc) = (length(a.len()), length(b.len()), length(c.len()));
    let (a, b, c) = (Split::new(a), Split::new(b), Split::new(c));
    parallel_for(rows, rows_per_chunk(work), |begin, end| {
        let (mut a, mut b, mut c) =
            (a.part(begin * na, end * na), b.part(begin * nb, end * nb), c.part(begin * nc, end * nc));
        I::run(
            #[inline(always)]
            || {
                for r in begin..end {
                    f(r, take(&mut a, na), take(&mut b, nb), take(&mut c, nc));
                }
            },
        )
    });
}

/// Takes the first `n` elements off a slice.
#[inline(always)]
fn take<'a, T>(rest: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    let (head, tail) = std::mem::take(rest).split_at_mut(n);
    *rest = tail;
    head
}

/// Calls `f(start, run)` for runs of `grain` elements of `out`, in parallel, compiled for the level `I`.
#[inline]
pub fn par_chunks<I: Isa, T: Send>(out: &mut [T], grain: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let n = out.len();
    let out = Split::new(out);
    parallel_for(n, grain, |begin, end| {
        let part = out.part(begin, end);
        I::run(
            #[inline(always)]
            || f(begin, part),
        )
    });
}

/// [`par_chunks`] over two outputs of one length (the shorter one counts).
#[inline]
pub fn par_chunks2<I: Isa, A: Send, B: Send>(
    a: &mut [A],
    b: &mut [B],
    grain: usize,
    f: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    let n = a.len().min(b.len());
    let (a, b) = (Split::new(a), Split::new(b));
    parallel_for(n, grain, |begin, end| {
        let (a, b) = (a.part(begin, end), b.part(begin, end));
        I::run(
            #[inline(always)]
            || f(begin, a, b),
        )
    });
}

/// Calls `f(first_row, rows)` for runs of whole rows of `cols` elements, in parallel.
#[inline]
pub(super) fn par_chunks_by<T: Send>(out: &mut [T], cols: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let n = out.len();
    let out = Split::new(out);
    parallel_for(n.div_ceil(cols), rows_per_chunk(cols), |begin, end| {
        f(begin, out.part(begin * cols, n.min(end * cols)));
    });
}

/// Calls `f(done, plane, column, width)` for runs of neighbouring columns, at most `most` of them and each within one plane,
/// of the `n` results from `start` on of planes with `b` columns. `done` counts the results before the run.
#[inline(always)]
pub fn column_runs(start: usize, n: usize, b: usize, most: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
    let mut done = 0;
    while done < n {
        let (plane, column) = ((start + done) / b, (start + done) % b);
        let width = most.min(b - column).min(n - done);
        f(done, plane, column, width);
        done += width;
    }
}
