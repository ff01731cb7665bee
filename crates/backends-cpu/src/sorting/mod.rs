//! Order: sorts, the largest elements, order statistics, and what follows from sorted rows.
//!
//! Kernels see contiguous (rows, n) inputs and outputs; the rows' elements are ordered through the integers of [`keys`].

pub(crate) mod keys;
pub(crate) mod radix;
mod select;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_core::{Result, check};

use self::keys::Key;
use self::radix::sort_row;
use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks2};
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
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            if rows < get_num_threads() && n > GRAIN {
                // Few long rows: each in parallel.
                for row in 0..rows {
                    let range = row * n..(row + 1) * n;
                    sort_row(&mut values[range.clone()], &mut indices[range.clone()], &x[range], descending)?;
                }
                return Ok(());
            }
            let failed = Mutex::new(Ok(()));
            par_chunks2::<Baseline, T, i64>(values, indices, rows_per_chunk(n, 16) * n, |start, values, indices| {
                let rows = values.chunks_mut(n).zip(indices.chunks_mut(n)).zip(x[start..].chunks(n));
                for ((values, indices), x) in rows {
                    if let Err(error) = sort_row(values, indices, x, descending) {
                        *failed.lock() = Err(error);
                    }
                }
            });
            failed.into_inner()
        })
    })
}
