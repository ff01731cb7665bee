//! Rows of an output over the pool, for kernels that go over a row several times.

use tensor_core::Element;

use crate::isa::Baseline;
use crate::loops::beyond::{Beyond, STREAM};
use crate::loops::scratch;
use crate::loops::views::par_chunks;
use crate::parallel::{GRAIN, get_num_threads};

/// Bytes of a row that stays in the nearest cache beside its inputs.
const NEAR: usize = 16 << 10;
/// The most chunks that rows are shared out in, beyond which chunks grow.
const CHUNKS: usize = 256;

/// Calls `f(row, out_row)` for the `rows` equal rows of `out`, in parallel; `work` is about how many element steps a row costs. `f` is
/// compiled for its level by itself. It writes the whole row, and may go over it again: where the output is large, that row is a
/// buffer in the nearest cache, which is written from there past the others. (A thread alone is not held up by its memory.)
pub fn par_out_rows<T: Element>(out: &mut [T], rows: usize, work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let cols = out.len().checked_div(rows).unwrap_or(0);
    if cols == 0 {
        return;
    }
    let size = cols * size_of::<T>();
    let beyond = size <= NEAR && rows * size >= STREAM && get_num_threads() > 1;
    let chunk = (GRAIN / work.max(1)).max(1).max(rows.div_ceil(CHUNKS));
    par_chunks::<Baseline, T>(out, chunk * cols, |start, part| {
        let first = start / cols;
        if !beyond {
            part.chunks_exact_mut(cols).enumerate().for_each(|(i, own)| f(first + i, own));
            return;
        }
        scratch::with(cols, |buffer: &mut [T]| {
            Beyond::time(|caches| {
                for (i, own) in part.chunks_exact_mut(cols).enumerate() {
                    f(first + i, buffer);
                    caches.write(own, buffer);
                }
            })
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_small_and_large_outputs_are_written_whole() {
        for (rows, cols) in [(0, 0), (3, 5), (1, NEAR), (STREAM / 4000 + 1, 1000)] {
            let mut out = vec![-1i32; rows * cols];
            par_out_rows(&mut out, rows, cols, |i, row| {
                row.fill(0);
                row.iter_mut().enumerate().for_each(|(j, x)| *x += (i + j) as i32);
            });
            assert!(out.iter().enumerate().all(|(at, &x)| x == (at / cols + at % cols) as i32));
        }
    }
}
