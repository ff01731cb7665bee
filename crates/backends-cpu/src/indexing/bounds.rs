//! The check that comes before indices are used: are all within their dimension?

use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_reduce};
use crate::with_level;

/// Whether all indices are in `lowest..size`. Without an early exit, so that it vectorises.
#[inline(always)]
pub(super) fn all_within(index: &[i64], lowest: i64, size: i64) -> bool {
    let span = size.wrapping_sub(lowest) as u64;
    index.iter().fold(true, |all, &i| all & ((i.wrapping_sub(lowest) as u64) < span))
}

/// The first index that is not in `lowest..size` is the error.
pub(super) fn check_bounds(index: &[i64], lowest: i64, size: i64) -> Result<(), i64> {
    let all = parallel_reduce(
        index.len(),
        GRAIN,
        true,
        |begin, end| {
            with_level!(I => I::run(
                #[inline(always)]
                || all_within(&index[begin..end], lowest, size)
            ))
        },
        |a, b| a && b,
    );
    let outside = |&&i: &&i64| i < lowest || i >= size;
    if all { Ok(()) } else { index.iter().find(outside).map_or(Ok(()), |&i| Err(i)) }
}
