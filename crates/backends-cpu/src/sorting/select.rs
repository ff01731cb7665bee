//! Elements by their place in the order of a row, without sorting it: the k largest, the k-th, the median; and the most
//! frequent one.

use tensor_aten::Tensor;
use tensor_core::Result;

use super::keys::{Key, Pair, element, pair};
use super::{check_length, radix, rows_per_chunk, store};
use crate::isa::{Baseline, Isa};
use crate::loops::views::{lock, par_chunks2};

/// Elements that are looked at together.
const BLOCK: usize = 32;

/// Leaves the `k` least of some pairs, in no particular order.
#[inline(never)]
fn least<P: Pair>(pairs: &mut Vec<P>, k: usize) {
    if k < pairs.len() {
        pairs.select_nth_unstable(k);
        pairs.truncate(k);
    }
}

/// The pairs of the elements of a block that are `marked`.
#[inline(never)]
fn gather<T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], first: usize, turn: T::Bits, mut marked: u32) {
    while marked != 0 {
        let i = marked.trailing_zeros() as usize;
        pairs.push(pair(x[i], turn, first + i));
        marked &= marked - 1;
    }
}

/// The largest key of some pairs, turned.
#[inline(never)]
fn bound<T: Key>(pairs: &[T::Pair], x: &[T], turn: T::Bits) -> T::Bits {
    pairs.iter().max().map_or(!T::LEAST, |pair| x[pair.index()].bits() ^ turn)
}

/// The pairs of the `k` first elements of a row's order, in no particular order.
#[inline(always)]
fn first<T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], k: usize, turn: T::Bits) {
    pairs.clear();
    // Candidates beyond the k best are few, so that the bound falls soon.
    let (start, room) = (4 * k + 64, k + k / 2 + 32);
    let taken = if 2 * start > x.len() { x.len() } else { start };
    gather_all(pairs, &x[..taken], turn);
    least(pairs, k);
    if k == 0 || taken == x.len() {
        return;
    }
    // From here on only what is less than all that was found can belong to it: of equal ones the earlier come first.
    let mut limit = bound(pairs, x, turn);
    let mut at = taken;
    while at < x.len() {
        let n = BLOCK.min(x.len() - at);
        let mut marked = 0u32;
        for (i, x) in x[at..at + n].iter().enumerate() {
            marked |= u32::from(x.bits() ^ turn < limit) << i;
        }
        if marked != 0 {
            gather(pairs, &x[at..at + n], at, turn, marked);
            if pairs.len() > room {
                least(pairs, k);
                limit = bound(pairs, x, turn);
            }
        }
        at += n;
    }
    least(pairs, k);
}

#[inline(never)]
fn gather_all<T: Key>(pairs: &mut Vec<T::Pair>, x: &[T], turn: T::Bits) {
    pairs.extend(x.iter().enumerate().map(|(i, &x)| pair(x, turn, i)));
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
    let turn = T::turn(largest);
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let k = values.size(1);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            par_chunks2::<I, T, i64>(values, indices, rows_per_chunk(n, 2) * k, |start, values, indices| {
                let mut pairs: Vec<T::Pair> = Vec::new();
                let begin = start / k;
                for row in 0..values.len() / k {
                    let x = &x[(begin + row) * n..(begin + row + 1) * n];
                    first(&mut pairs, x, k, turn);
                    arrange(&mut pairs);
                    store(&mut values[row * k..(row + 1) * k], &mut indices[row * k..(row + 1) * k], &pairs, x, turn);
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
        gather_all(pairs, x, T::LEAST);
        nth(pairs, k - 1)
    })
}

/// The median of each row (the lower of two) and its index: the first no-number, or, if they are `skipped`, the median of
/// the others.
pub fn median<T: Key>(values: &Tensor, indices: &Tensor, x: &Tensor, skipped: bool) -> Result<()> {
    choose::<T>(values, indices, x, |x, pairs| {
        gather_all(pairs, x, T::LEAST);
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
    choose::<T>(values, indices, x, |x, pairs| {
        gather_all(pairs, x, T::LEAST);
        pairs.resize(2 * x.len(), T::Pair::new(0, 0));
        let (pairs, scratch) = pairs.split_at_mut(x.len());
        radix::sort(pairs, scratch, T::WIDTH);
        let (mut best, mut most, mut begin) = (0, 0, 0);
        for i in 0..pairs.len() {
            // No-numbers equal nothing.
            let last =
                i + 1 == pairs.len() || pairs[i].key() != pairs[i + 1].key() || element(pairs[i], T::LEAST, x).is_nan();
            if last {
                if i + 1 - begin > most {
                    (best, most) = (pairs[i].index(), i + 1 - begin);
                }
                begin = i + 1;
            }
        }
        best
    })
}
