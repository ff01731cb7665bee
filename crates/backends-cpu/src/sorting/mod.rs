//! Order: sorts, the largest elements, order statistics, and what follows from sorted rows.
//!
//! Kernels see contiguous (rows, n) inputs and outputs; the rows' elements are ordered through the integers of [`keys`].

pub(crate) mod keys;
pub(crate) mod radix;
mod select;
#[cfg(test)]
mod tests;

use tensor_aten::Tensor;
use tensor_core::{Result, check};

use self::keys::{Key, Pair, element, pair};
use self::radix::with_pairs;
use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks, par_chunks2};
use crate::parallel::{GRAIN, get_num_threads};

pub use select::{kthvalue, median, mode, topk};

/// How many rows of `n` elements make a chunk that is worth a thread, when an element costs `steps` steps.
fn rows_per_chunk(n: usize, steps: usize) -> usize {
    (GRAIN / (n * steps).max(1)).max(1)
}

/// Refuses rows whose indices do not fit into a pair.
pub(crate) fn check_length<T: Key>(n: usize) -> Result<()> {
    check!(
        size_of::<T::Pair>() > 8 || n <= u32::MAX as usize,
        "rows of more than {} elements of {} cannot be ordered",
        u32::MAX,
        T::DTYPE
    );
    Ok(())
}

/// `values` and `indices` (rows, n) of the sorted rows of `x`; equal elements keep their order.
pub fn sort<T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor, descending: bool) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let (rows, n) = (view.size(0), view.size(1));
    check_length::<T>(n)?;
    let x = view.dense();
    let turn = T::turn(descending);
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            if rows < get_num_threads() && n > GRAIN {
                // Few long rows: each in parallel.
                for row in 0..rows {
                    let range = row * n..(row + 1) * n;
                    sort_row(&mut values[range.clone()], &mut indices[range.clone()], &x[range], turn)?;
                }
                return Ok(());
            }
            let grain = rows_per_chunk(n, 32) * n;
            let scratch = n.max(1);
            par_chunks2::<Baseline, T, i64>(values, indices, grain, |start, values, indices| {
                let mut pairs: Vec<T::Pair> = Vec::with_capacity(2 * scratch);
                let rows = values.chunks_mut(n).zip(indices.chunks_mut(n)).zip(x[start..].chunks(n));
                for ((values, indices), x) in rows {
                    pairs.clear();
                    pairs.extend(x.iter().enumerate().map(|(i, &x)| pair(x, turn, i)));
                    pairs.resize(2 * n, T::Pair::new(0, 0));
                    let (sorted, scratch) = pairs.split_at_mut(n);
                    radix::sort(sorted, scratch, T::WIDTH);
                    store(values, indices, sorted, x, turn);
                }
            });
            Ok(())
        })
    })
}

/// Writes what sorted pairs stand for.
#[inline]
fn store<T: Key>(values: &mut [T], indices: &mut [i64], pairs: &[T::Pair], x: &[T], turn: T::Bits) {
    for ((value, index), &pair) in values.iter_mut().zip(indices).zip(pairs) {
        *value = element(pair, turn, x);
        *index = pair.index() as i64;
    }
}

/// Sorts a long row.
fn sort_row<T: Key>(values: &mut [T], indices: &mut [i64], x: &[T], turn: T::Bits) -> Result<()> {
    let n = x.len();
    with_pairs(2 * n, |memory: &mut [T::Pair]| {
        let (pairs, scratch) = memory.split_at_mut(n);
        par_chunks::<Baseline, T::Pair>(pairs, GRAIN, |start, pairs| {
            for (i, to) in pairs.iter_mut().enumerate() {
                *to = pair(x[start + i], turn, start + i);
            }
        });
        radix::sort(pairs, scratch, T::WIDTH);
        let pairs = &*pairs;
        par_chunks2::<Baseline, T, i64>(values, indices, GRAIN, |start, values, indices| {
            store(values, indices, &pairs[start..], x, turn);
        });
    })
}
