//! Rows of an output over the pool, for kernels that go over a row several times.

use tensor_core::Element;

use super::piece_mut;
use crate::loops::beyond::{Beyond, STREAM};
use crate::loops::partition::par_row_chunks3;
use crate::loops::scratch;
use crate::parallel::{GRAIN, get_num_threads};

/// Bytes of a row that stays in the nearest cache beside its inputs.
const NEAR: usize = 16 << 10;
/// Bytes of an output whose rows go past the caches: more than for one pass, as a row is read again while it is near.
const LARGE: usize = 4 * STREAM;
/// Bytes of a block of a longer one: reading and writing take turns, so blocks are short.
const STAGE: usize = 4 << 10;
/// The most chunks that rows are shared out in, beyond which chunks grow.
const CHUNKS: usize = 256;

/// A row of an output that is to be written: in place, or, where the output is large, in a buffer in the nearest cache, which is
/// written from there past the others.
pub struct Sink<'a, T> {
    out: &'a mut [T],
    near: &'a mut [T],
    caches: Option<&'a Beyond>,
}

impl<T: Element> Sink<'_, T> {
    /// Writes the row by `f(row)`, which may go over it again.
    #[inline(always)]
    pub fn whole(self, f: impl FnOnce(&mut [T])) {
        match self.caches {
            Some(caches) if self.near.len() >= self.out.len() => {
                let near = &mut self.near[..self.out.len()];
                f(near);
                caches.write(self.out, near);
            }
            _ => f(self.out),
        }
    }

    /// Writes the row by `f(at, block)`, block after block, the first element of which is number `at`.
    #[inline(always)]
    pub fn blocks(self, f: impl Fn(usize, &mut [T])) {
        let Some(caches) = self.caches else { return f(0, self.out) };
        let size = STAGE / size_of::<T>();
        for k in 0..self.out.len().div_ceil(size) {
            let out = piece_mut(self.out, k, size);
            let near = &mut self.near[..out.len()];
            f(k * size, near);
            caches.write(out, near);
        }
    }
}

/// Calls `f(row, sink)` for the `rows` equal rows of `out`, in parallel; `work` is about how many element steps a row costs. `f` is
/// compiled for its level by itself, and writes the whole row.
pub fn par_out_rows<T: Element>(out: &mut [T], rows: usize, work: usize, f: impl Fn(usize, Sink<'_, T>) + Sync) {
    par_out_rows_with(out, &mut [(); 0], &mut [(); 0], rows, work, |i, sink, _, _| f(i, sink));
}

/// [`par_out_rows`] with rows of two more outputs, of which a row has few elements. (A thread alone is not held up by its memory.)
pub fn par_out_rows_with<T: Element, A: Send, B: Send>(
    out: &mut [T],
    a: &mut [A],
    b: &mut [B],
    rows: usize,
    work: usize,
    f: impl Fn(usize, Sink<'_, T>, &mut [A], &mut [B]) + Sync,
) {
    let cols = out.len().checked_div(rows).unwrap_or(0);
    let (na, nb) = (a.len().checked_div(rows).unwrap_or(0), b.len().checked_div(rows).unwrap_or(0));
    let beyond = size_of_val(out) >= LARGE && get_num_threads() > 1;
    let chunk = (GRAIN / work.max(1)).max(1).max(rows.div_ceil(CHUNKS));
    par_row_chunks3(out, a, b, rows, chunk, |first, out, a, b| {
        let mut each = |near: &mut [T], caches: Option<&Beyond>| {
            for i in 0..rows.min(first + chunk) - first {
                let (a, b) = (&mut a[i * na..(i + 1) * na], &mut b[i * nb..(i + 1) * nb]);
                f(first + i, Sink { out: &mut out[i * cols..(i + 1) * cols], near, caches }, a, b);
            }
        };
        if !beyond {
            return each(&mut [], None);
        }
        scratch::with(cols.clamp(STAGE / size_of::<T>(), NEAR / size_of::<T>()), |near: &mut [T]| {
            Beyond::time(|caches| each(near, Some(caches)))
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::{SERIAL, set_num_threads};

    #[test]
    fn rows_of_small_and_large_outputs_are_written_whole() {
        let _serial = SERIAL.lock();
        set_num_threads(2);
        for (rows, cols) in [(0, 0), (3, 5), (1, NEAR), (LARGE / 4000 + 1, 1000), (5, LARGE / 16 + 7)] {
            let mut out = vec![-1i32; rows * cols];
            let check = |out: &[i32]| {
                assert!(out.iter().enumerate().all(|(at, &x)| x == (at / cols + at % cols) as i32));
            };
            par_out_rows(&mut out, rows, cols, |i, sink| {
                sink.whole(|row| {
                    row.fill(0);
                    row.iter_mut().enumerate().for_each(|(j, x)| *x += (i + j) as i32);
                })
            });
            check(&out);
            out.fill(-1);
            par_out_rows(&mut out, rows, cols, |i, sink| {
                sink.blocks(|at, block| block.iter_mut().enumerate().for_each(|(j, x)| *x = (i + at + j) as i32))
            });
            check(&out);
        }
    }
}
