//! Rows of an output over the pool, for kernels that go over a row several times.

use tensor_core::Element;

use super::piece_mut;
use crate::isa::Isa;
use crate::loops::beyond::{Beyond, STREAM};
use crate::loops::scratch;
use crate::loops::views::par_chunks;
use crate::parallel::{GRAIN, get_num_threads};

/// Bytes of a row that stays in the nearest cache beside its inputs.
const NEAR: usize = 16 << 10;
/// The most chunks that rows are shared out in, beyond which chunks grow.
const CHUNKS: usize = 256;

/// Calls `f(row, out_row)` for the `rows` equal rows of `out`, in parallel, compiled for the level `I`; `work` is about how many
/// element steps a row costs. `f` writes the whole row, and may go over it again: where the output is large, that row is a buffer in
/// the nearest cache, which is written from there past the others. (A thread alone is not held up by its memory.)
#[inline]
pub fn par_out_rows<I: Isa, T: Element>(out: &mut [T], rows: usize, work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let cols = out.len().checked_div(rows).unwrap_or(0);
    if cols == 0 {
        return;
    }
    let size = cols * size_of::<T>();
    let beyond = size <= NEAR && rows * size >= STREAM && get_num_threads() > 1;
    let chunk = (GRAIN / work.max(1)).max(1).max(rows.div_ceil(CHUNKS));
    par_chunks::<I, T>(
        out,
        chunk * cols,
        #[inline(always)]
        |start, part| {
            scratch::with(
                if beyond { cols } else { 0 },
                #[inline(always)]
                |buffer: &mut [T]| {
                    Beyond::time(
                        #[inline(always)]
                        |caches| {
                            for i in 0..part.len() / cols {
                                let own = piece_mut(part, i, cols);
                                f(start / cols + i, if beyond { &mut *buffer } else { &mut *own });
                                if beyond {
                                    caches.write(own, buffer);
                                }
                            }
                        },
                    )
                },
            )
        },
    );
}
