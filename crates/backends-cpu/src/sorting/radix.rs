//! Sorting pairs: by comparisons where there are few, by the digits of their keys where there are more; where there are many,
//! by the highest digit first, whose buckets are sorted each in the nearest cache. Pairs are distinct, so all ways give one
//! order.

use tensor_aten::Tensor;
use tensor_core::{DType, Device, Result};

use super::keys::{Key, Pair, Ranks};
use crate::loops::partition::{par_partition, par_ranges3};
use crate::loops::scratch;
use crate::loops::views::lock;
use crate::parallel::{GRAIN, get_num_threads, in_parallel_region, parallel_reduce};

/// Pairs beyond which buckets of the highest digit are made: where threads share them, and where one has them all.
const MANY: [usize; 2] = [1 << 15, 1 << 17];
/// Pairs from which on digits are wide: tables pay that leave less room in the nearest cache.
const WIDE: usize = 4096;
/// Pairs that are worth a pass over a table of digits.
const PASS: usize = 32;
/// The bits of a wide digit.
const DIGIT: u32 = 11;
/// Pairs of buckets that make a thread's task.
const TASK: usize = 8192;

/// Calls `f` with `n` pairs of no particular value, from the allocator that keeps large blocks.
///
/// # Errors
/// When they cannot be allocated.
pub fn with_pairs<P: Pair, R>(n: usize, f: impl FnOnce(&mut [P]) -> R) -> Result<R> {
    let words = n * size_of::<P>() / size_of::<i64>();
    let memory = Tensor::new_dense(&[words as i64], DType::I64, Device::CPU)?;
    let locked = lock(&[], &[memory.as_impl()])?;
    let mut words = locked.write::<i64>(0)?;
    Ok(words.with_dense(|words| f(bytemuck::cast_slice_mut(words))))
}

/// `values` and `indices` of the sorted elements of a row; equal elements keep their order.
///
/// # Errors
/// When memory for a long row cannot be allocated.
pub fn sort_row<T: Key>(values: &mut [T], indices: &mut [i64], x: &[T], descending: bool) -> Result<()> {
    let ranks = Ranks::of(x, descending);
    if ranks.are_short(x.len()) {
        sort_by::<T, u64>(values, indices, x, &ranks)
    } else {
        sort_by::<T, T::Pair>(values, indices, x, &ranks)
    }
}

fn sort_by<T: Key, P: Pair>(values: &mut [T], indices: &mut [i64], x: &[T], ranks: &Ranks<T>) -> Result<()> {
    let n = x.len();
    let alone = in_parallel_region() || get_num_threads() == 1;
    if n > MANY[usize::from(alone)] && n <= u32::MAX as usize {
        return with_pairs(n, |pairs: &mut [P]| {
            let shift = ranks.bits.saturating_sub(DIGIT);
            let starts = par_partition(pairs, 1 << DIGIT, |i| ranks.pair(x[i], i), |pair| digit(pair, shift, DIGIT));
            sort_buckets(values, indices, pairs, &starts, shift, x, ranks)
        })?;
    }
    scratch::with(2 * n, |memory: &mut [P]| {
        let (pairs, scratch) = memory.split_at_mut(n);
        for i in 0..n {
            pairs[i] = ranks.pair(x[i], i);
        }
        store(values, indices, sort_near(pairs, scratch, ranks.bits), x, ranks);
    });
    Ok(())
}

/// Writes what sorted pairs stand for.
#[inline]
pub fn store<T: Key, P: Pair>(values: &mut [T], indices: &mut [i64], pairs: &[P], x: &[T], ranks: &Ranks<T>) {
    let (values, indices) = (&mut values[..pairs.len()], &mut indices[..pairs.len()]);
    for i in 0..pairs.len() {
        values[i] = ranks.element(pairs[i], x);
        indices[i] = pairs[i].index() as i64;
    }
}

/// `width` bits of a key from bit `shift` on.
#[inline(always)]
fn digit<P: Pair>(pair: P, shift: u32, width: u32) -> usize {
    (pair.key() >> shift) as usize & ((1 << width) - 1)
}

/// Sorts buckets of pairs, in which keys differ in `bits` bits at most, and stores them. Those that hold much of the row are
/// divided once more, by all threads.
fn sort_buckets<T: Key, P: Pair>(
    values: &mut [T],
    indices: &mut [i64],
    pairs: &mut [P],
    starts: &[usize],
    bits: u32,
    x: &[T],
    ranks: &Ranks<T>,
) -> Result<()> {
    let large = |range: &[usize]| bits > 0 && range[1] - range[0] > MANY[1].max(x.len() / 8);
    // Bounds of tasks, and the number of the bucket that each begins with.
    let (mut bounds, mut firsts) = (vec![0], vec![0]);
    for (b, range) in starts.windows(2).enumerate() {
        if large(range) {
            let own = range[0]..range[1];
            divide(&mut values[own.clone()], &mut indices[own.clone()], &pairs[own], x, ranks)?;
        }
        if range[1] - bounds[bounds.len() - 1] >= TASK || b + 2 == starts.len() {
            bounds.push(range[1]);
            firsts.push(b + 1);
        }
    }
    par_ranges3(values, indices, pairs, &bounds, |task, values, indices, pairs| {
        for range in starts[firsts[task]..=firsts[task + 1]].windows(2).filter(|range| !large(range)) {
            let own = range[0] - bounds[task]..range[1] - bounds[task];
            scratch::with(own.len(), |scratch: &mut [P]| {
                let sorted = sort_near(&mut pairs[own.clone()], scratch, bits);
                store(&mut values[own.clone()], &mut indices[own], sorted, x, ranks);
            });
        }
    });
    Ok(())
}

/// Sorts a large bucket.
fn divide<T: Key, P: Pair>(
    values: &mut [T],
    indices: &mut [i64],
    pairs: &[P],
    x: &[T],
    ranks: &Ranks<T>,
) -> Result<()> {
    let first = pairs[0].key();
    let apart = |begin: usize, end: usize| pairs[begin..end].iter().fold(0, |all, pair| all | (pair.key() ^ first));
    let bits = u64::BITS - parallel_reduce(pairs.len(), GRAIN, 0, apart, |a, b| a | b).leading_zeros();
    with_pairs(pairs.len(), |parted: &mut [P]| {
        let shift = bits.saturating_sub(DIGIT);
        let starts = par_partition(parted, 1 << DIGIT, |i| pairs[i], |pair| digit(pair, shift, DIGIT));
        sort_buckets(values, indices, parted, &starts, shift, x, ranks)
    })?
}

/// Sorts pairs that come in the order of their indices, and whose keys differ in the lowest `bits` bits at most.
pub fn sort_near<'a, P: Pair>(pairs: &'a mut [P], scratch: &'a mut [P], bits: u32) -> &'a [P] {
    let n = pairs.len();
    if n < PASS * bits.div_ceil(u8::BITS) as usize || n > u32::MAX as usize {
        pairs.sort_unstable();
        return pairs;
    }
    if n < WIDE { by_digits::<P, 256>(pairs, scratch, bits) } else { by_digits::<P, 2048>(pairs, scratch, bits) }
}

/// Sorts by digits that have up to `D` values, the lowest first.
fn by_digits<'a, P: Pair, const D: usize>(mut from: &'a mut [P], mut to: &'a mut [P], bits: u32) -> &'a [P] {
    let n = from.len();
    let passes = bits.div_ceil(const { D.ilog2() });
    for pass in 0..passes {
        let (begin, end) = (pass * bits / passes, (pass + 1) * bits / passes);
        let digit = |pair: P| digit(pair, begin, end - begin) & (D - 1);
        let mut next = [0u32; D];
        for &pair in &*from {
            next[digit(pair)] += 1;
        }
        if next[digit(from[0])] as usize == n {
            continue;
        }
        let mut before = 0;
        for next in &mut next[..1 << (end - begin)] {
            before += std::mem::replace(next, before);
        }
        for &pair in &*from {
            let next = &mut next[digit(pair)];
            to[*next as usize] = pair;
            *next += 1;
        }
        (from, to) = (to, from);
    }
    from
}
