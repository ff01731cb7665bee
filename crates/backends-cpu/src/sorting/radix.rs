//! Sorting pairs: by comparisons where there are few, by the digits of their keys where there are many, and in parallel
//! pieces that are merged where there are very many. Pairs are distinct, so all ways give one order.

use tensor_aten::Tensor;
use tensor_core::{DType, Device, Result};

use super::keys::Pair;
use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks, par_chunks2};
use crate::parallel::{GRAIN, get_num_threads, in_parallel_region};

/// Fewer pairs are sorted by comparisons.
const FEW: usize = 768;
/// Pairs that are worth a thread.
const PIECE: usize = 1 << 15;
/// The bits of a digit.
const DIGIT: u32 = 11;
/// How many digits there are.
const DIGITS: usize = 1 << DIGIT;

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

/// Sorts pairs with keys of `width` bits that come in the order of their indices. `scratch` is as long.
pub fn sort<P: Pair>(pairs: &mut [P], scratch: &mut [P], width: u32) {
    let n = pairs.len();
    if n < FEW {
        return pairs.sort_unstable();
    }
    let threads = if in_parallel_region() { 1 } else { get_num_threads().min(n / PIECE) };
    if threads <= 1 {
        return by_digits(pairs, scratch, width);
    }
    let mut run = n.div_ceil(threads.next_power_of_two());
    par_chunks2::<Baseline, P, P>(pairs, scratch, run, |_, pairs, scratch| by_digits(pairs, scratch, width));
    let (mut from, mut to) = (pairs, scratch);
    let mut swapped = false;
    while run < n {
        let source = &*from;
        par_chunks::<Baseline, P>(to, GRAIN, |start, out| merge_runs(source, run, start, out));
        (from, to) = (to, from);
        swapped = !swapped;
        run *= 2;
    }
    if swapped {
        par_chunks2::<Baseline, P, P>(to, from, GRAIN, |_, to, from| to.copy_from_slice(from));
    }
}

/// Sorts by one digit of the keys after the other, the lowest first.
fn by_digits<P: Pair>(pairs: &mut [P], scratch: &mut [P], width: u32) {
    let n = pairs.len();
    if n < FEW {
        return pairs.sort_unstable();
    }
    let passes = width.div_ceil(DIGIT) as usize;
    let digit = |pair: P, pass: usize| (pair.key() >> (pass as u32 * DIGIT)) as usize & (DIGITS - 1);
    let mut counts = vec![[0u32; DIGITS]; passes];
    for &pair in pairs.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[digit(pair, pass)] += 1;
        }
    }
    let (mut from, mut to) = (&mut *pairs, &mut *scratch);
    let mut swapped = false;
    for (pass, counts) in counts.iter_mut().enumerate() {
        if counts[digit(from[0], pass)] as usize == n {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            next += std::mem::replace(count, next);
        }
        for &pair in from.iter() {
            let at = &mut counts[digit(pair, pass)];
            to[*at as usize] = pair;
            *at += 1;
        }
        (from, to) = (to, from);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

/// The elements from `start` on of the sorted pairs of runs of `source`: runs 2i and 2i + 1 make one.
fn merge_runs<P: Pair>(source: &[P], run: usize, mut start: usize, mut out: &mut [P]) {
    while !out.is_empty() {
        let begin = start / (2 * run) * (2 * run);
        let middle = (begin + run).min(source.len());
        let end = (begin + 2 * run).min(source.len());
        let (head, tail) = out.split_at_mut(out.len().min(end - start));
        start += head.len();
        merge(&source[begin..middle], &source[middle..end], start - head.len() - begin, head);
        out = tail;
    }
}

/// The elements `first..` of the merged `a` and `b`, as many as `out` has.
fn merge<P: Pair>(a: &[P], b: &[P], first: usize, out: &mut [P]) {
    // How many of the first elements are of `a`.
    let (mut low, mut high) = (first.saturating_sub(b.len()), first.min(a.len()));
    while low < high {
        let middle = (low + high) / 2;
        if a[middle] < b[first - 1 - middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let (a, b) = (&a[low..], &b[first - low..]);
    let (mut i, mut j, mut k) = (0, 0, 0);
    while i < a.len() && j < b.len() && k < out.len() {
        let (x, y) = (a[i], b[j]);
        let other = y < x;
        out[k] = if other { y } else { x };
        j += usize::from(other);
        i += usize::from(!other);
        k += 1;
    }
    let rest = if i < a.len() { &a[i..] } else { &b[j..] };
    let n = out.len() - k;
    out[k..].copy_from_slice(&rest[..n]);
}
