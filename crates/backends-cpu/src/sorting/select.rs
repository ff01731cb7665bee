//! Elements by their place in the order of a row, without sorting it: the k largest, the k-th, the median; and the most
//! frequent one.

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::keys::{Key, Pair, Ranks};
use super::radix::{sort_row, store};
use super::{check_length, rows_per_chunk};
use crate::isa::{Baseline, Isa};
use crate::loops::scratch;
use crate::loops::views::{lock, par_chunks2};
use crate::simd::compress::{WORD, word};

/// Leaves the `k` least of some pairs, in no particular order.
#[inline(never)]
fn least<P: Pair>(pairs: &mut Vec<P>, k: usize) {
    if k < pairs.len() {
        pairs.select_nth_unstable(k);
        pairs.truncate(k);
    }
}

/// Adds the pairs of the `marked` ones of some elements.
#[inline(never)]
fn gather<T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], first: usize, ranks: &Ranks<T>, mut marked: u64) {
    while marked != 0 {
        let i = marked.trailing_zeros() as usize;
        pairs.push(ranks.pair(x[i], first + i));
        marked &= marked - 1;
    }
}

/// The last element in the order of some pairs.
#[inline(never)]
fn bound<T: Key>(pairs: &[T::Pair], x: &[T]) -> Option<T> {
    pairs.iter().max().map(|pair| x[pair.index()])
}

/// True if an element comes before a limit in the turned order.
#[inline(always)]
fn before<T: Key>(x: T, limit: T, descending: bool) -> bool {
    if descending { x.above(limit) } else { x.below(limit) }
}

/// The first block from number `k` on with elements before a limit, and which ones these are. None is in the block past the end.
#[inline(never)]
fn search<I: Isa, T: Key>(blocks: &[[T; WORD]], mut k: usize, limit: T, descending: bool) -> (usize, u64) {
    I::run(
        #[inline(always)]
        || {
            while k < blocks.len() {
                let (block, mut any) = (&blocks[k], false);
                for &x in block {
                    any |= before(x, limit, descending);
                }
                if any {
                    let mut marks = [0; WORD];
                    for i in 0..WORD {
                        marks[i] = u8::from(before(block[i], limit, descending));
                    }
                    return (k, word::<I>(&marks));
                }
                k += 1;
            }
            (k, 0)
        },
    )
}

/// The pairs of the `k` first elements of a row's order, in no particular order.
fn first<I: Isa, T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], k: usize, descending: bool) {
    let ranks = &Ranks::any(descending);
    pairs.clear();
    // Candidates beyond the k best are few, so that the bound falls soon.
    let (start, room) = (4 * k + 64, k + k / 2 + 32);
    let taken = if 2 * start > x.len() { x.len() } else { start };
    gather_all(pairs, &x[..taken], 0, ranks);
    least(pairs, k);
    let Some(mut limit) = bound(pairs, x) else { return };
    // From here on only what is less than all that was found can belong to it: of equal ones the earlier come first.
    let (blocks, rest) = x[taken..].as_chunks::<WORD>();
    let mut next = 0;
    while next < blocks.len() {
        let (at, marked) = search::<I, T>(blocks, next, limit, descending);
        next = at + 1;
        if marked != 0 {
            gather(pairs, &blocks[at], taken + at * WORD, ranks, marked);
        }
        if pairs.len() > room {
            least(pairs, k);
            limit = bound(pairs, x).unwrap_or(limit);
        }
    }
    gather_all(pairs, rest, x.len() - rest.len(), ranks);
    least(pairs, k);
}

#[inline(never)]
fn gather_all<T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], first: usize, ranks: &Ranks<T>) {
    pairs.extend(x.iter().enumerate().map(|(i, &x)| -> T::Pair { ranks.pair(x, first + i) }));
}

/// Sorts pairs in no particular order.
#[inline(never)]
fn arrange<P: Pair>(pairs: &mut [P]) {
    pairs.sort_unstable();
}

/// `values` and `indices` (rows, k) of the largest (or smallest) elements of each row, in their order; of equal ones the
/// earlier.
pub fn topk<I: Isa, T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor, largest: bool) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let n = view.size(1);
    check_length::<T>(n)?;
    let x = view.dense();
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let k = values.size(1);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            par_chunks2::<Baseline, T, i64>(values, indices, rows_per_chunk(n, 2) * k, |start, values, indices| {
                let mut pairs: Vec<T::Pair> = Vec::new();
                let begin = start / k;
                for row in 0..values.len() / k {
                    let x = &x[(begin + row) * n..(begin + row + 1) * n];
                    first::<I, T>(&mut pairs, x, k, largest);
                    arrange(&mut pairs);
                    store(
                        &mut values[row * k..(row + 1) * k],
                        &mut indices[row * k..(row + 1) * k],
                        &pairs,
                        x,
                        &Ranks::any(largest),
                    );
                }
            });
        });
    });
    Ok(())
}

/// Fills `values` and `indices` (rows) by `pick(row, pairs)`: the index of one of its elements. The pairs are scratch.
fn choose<T: Key>(
    values: &Tensor,
    indices: &Tensor,
    x: &Tensor,
    pick: impl Fn(&[T], &mut Vec<T::Pair>) -> usize + Sync,
) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let n = view.size(1);
    check_length::<T>(n)?;
    let x = view.dense();
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            par_chunks2::<Baseline, T, i64>(values, indices, rows_per_chunk(n, 8), |start, values, indices| {
                let mut pairs = Vec::with_capacity(n);
                for (i, (value, index)) in values.iter_mut().zip(indices).enumerate() {
                    let x = &x[(start + i) * n..(start + i + 1) * n];
                    pairs.clear();
                    let at = pick(x, &mut pairs);
                    (*value, *index) = (x[at], at as i64);
                }
            });
        });
    });
    Ok(())
}

/// The element at place `k` of the order of pairs.
fn nth<P: Pair>(pairs: &mut [P], k: usize) -> usize {
    pairs.select_nth_unstable(k).1.index()
}

/// The `k`-th smallest element of each row (the first for k = 1) and its index.
pub fn kthvalue<T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor, k: usize) -> Result<()> {
    choose::<T>(values, indices, x, |x, pairs| {
        gather_all(pairs, x, 0, &Ranks::any(false));
        nth(pairs, k - 1)
    })
}

/// The median of each row (the lower of two) and its index: the first no-number, or, if they are `skipped`, the median of
/// the others.
pub fn median<T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor, skipped: bool) -> Result<()> {
    choose::<T>(values, indices, x, |x, pairs| {
        gather_all(pairs, x, 0, &Ranks::any(false));
        // No-numbers are the last in the order.
        let numbers = x.len() - x.iter().filter(|x| x.is_nan()).count();
        if numbers == x.len() || skipped && numbers > 0 {
            nth(pairs, (numbers - 1) / 2)
        } else {
            x.iter().position(|x| x.is_nan()).unwrap_or(0)
        }
    })
}

/// The most frequent element of each row, the smallest of several, and the last index that it has.
pub fn mode<T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    let failed = Mutex::new(Ok(()));
    choose::<T>(values, indices, x, |x, _| {
        scratch::with(x.len(), |values: &mut [T]| {
            scratch::with(x.len(), |order: &mut [i64]| {
                if let Err(error) = sort_row(values, order, x, false) {
                    *failed.lock() = Err(error);
                }
                let (mut best, mut most, mut begin) = (0, 0, 0);
                for i in 0..values.len() {
                    // No-numbers equal nothing.
                    let (value, next) = (values[i], values.get(i + 1));
                    if value.is_nan() || next.is_none_or(|next| next.bits() != value.bits()) {
                        if i + 1 - begin > most {
                            (best, most) = (order[i] as usize, i + 1 - begin);
                        }
                        begin = i + 1;
                    }
                }
                best
            })
        })
    })?;
    failed.into_inner()
}
