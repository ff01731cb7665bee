//! Elements that several threads deal out into buckets, and slices that they share out at any bounds.

use super::beyond::prefetch_from;
use super::split::Split;
use crate::isa::Baseline;
use crate::loops::views::par_chunks;
use crate::parallel::{GRAIN, parallel_for};

/// Bytes from a place that is written to the one in its bucket whose memory is asked for.
const AHEAD: usize = 64;
/// Chunks whose elements are counted apart, at most.
const CHUNKS: usize = 8;

/// The address of elements that threads write disjoint ones of.
struct Base<T>(*mut T);

// SAFETY: an address; `par_partition` hands disjoint places of what lies there to its threads.
unsafe impl<T: Send> Sync for Base<T> {}

/// Fills `out` with `element(i)` for each of its places `i`, those of one bucket side by side and in the order of `i`; gives where each of the
/// `buckets` begins, and the end. Both functions are called twice an element, and depend on nothing else.
///
/// # Panics
/// When there is no such bucket, when a second call gives another one, or for more than `u32::MAX` elements.
pub fn par_partition<T: Copy + Send>(
    out: &mut [T],
    buckets: usize,
    element: impl Fn(usize) -> T + Sync,
    bucket: impl Fn(T) -> usize + Sync,
) -> Vec<usize> {
    let n = out.len();
    assert!(n <= u32::MAX as usize, "{n} elements to be partitioned");
    let chunk = GRAIN.max(n.div_ceil(CHUNKS));
    let chunks = n.div_ceil(chunk);
    // How many of a chunk belong to a bucket; then where the chunk's first one goes. In the row behind the last chunk, where the bucket ends.
    let mut places = vec![0u32; (chunks + 1) * buckets];
    par_chunks::<Baseline, u32>(&mut places[..chunks * buckets], buckets, |start, counts| {
        let begin = start / buckets * chunk;
        for i in begin..n.min(begin + chunk) {
            counts[bucket(element(i))] += 1;
        }
    });
    let mut starts = Vec::with_capacity(buckets + 1);
    let mut next = 0;
    for b in 0..buckets {
        starts.push(next as usize);
        for c in 0..chunks {
            next += std::mem::replace(&mut places[c * buckets + b], next);
        }
        places[chunks * buckets + b] = next;
    }
    starts.push(next as usize);
    assert_eq!(next as usize, n, "elements of all buckets");
    let base = Base(out.as_mut_ptr());
    parallel_for(chunks, 1, |first, last| {
        let base = &base;
        for c in first..last {
            let mut next = places[c * buckets..(c + 1) * buckets].to_vec();
            let ends = &places[(c + 1) * buckets..(c + 2) * buckets];
            for i in c * chunk..n.min((c + 1) * chunk) {
                let x = element(i);
                let b = bucket(x);
                let at = next[b];
                assert!(at < ends[b], "another bucket than before");
                next[b] = at + 1;
                prefetch_from(base.0, at as usize + AHEAD / size_of::<T>());
                // SAFETY: the chunk's own place, written by it alone: places from its first one of the bucket up to the next chunk's. All
                // these ranges are disjoint and within `out`, since they are running sums of counts that add up to its length.
                unsafe { *base.0.add(at as usize) = x };
            }
        }
    });
    starts
}

/// Calls `f(k, a, b, c)` in parallel for the elements `bounds[k]..bounds[k + 1]` of three slices.
///
/// # Panics
/// When the bounds do not ascend, or exceed a slice.
pub fn par_ranges3<A: Send, B: Send, C: Send>(
    a: &mut [A],
    b: &mut [B],
    c: &mut [C],
    bounds: &[usize],
    f: impl Fn(usize, &mut [A], &mut [B], &mut [C]) + Sync,
) {
    let (a, b, c) = (Split::new(a), Split::new(b), Split::new(c));
    parallel_for(bounds.len().saturating_sub(1), 1, |begin, end| {
        for k in begin..end {
            let (from, to) = (bounds[k], bounds[k + 1]);
            f(k, a.part(from, to), b.part(from, to), c.part(from, to));
        }
    });
}

/// Calls `f(first, a, b, c)` in parallel for runs of `chunk` of the `rows` equal rows of three slices, from row `first` on. A slice
/// without elements has rows without any.
pub fn par_row_chunks3<A: Send, B: Send, C: Send>(
    a: &mut [A],
    b: &mut [B],
    c: &mut [C],
    rows: usize,
    chunk: usize,
    f: impl Fn(usize, &mut [A], &mut [B], &mut [C]) + Sync,
) {
    let length = |n: usize| n.checked_div(rows).unwrap_or(0);
    let (na, nb, nc) = (length(a.len()), length(b.len()), length(c.len()));
    let (a, b, c) = (Split::new(a), Split::new(b), Split::new(c));
    parallel_for(rows, chunk, |begin, end| {
        let (a, b) = (a.part(begin * na, end * na), b.part(begin * nb, end * nb));
        f(begin, a, b, c.part(begin * nc, end * nc));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_keep_the_order_of_their_elements() {
        for n in [0, 1, 1000, 3 * GRAIN + 17] {
            let element = |i: usize| (i * 7919 % 1013, i);
            let mut out = vec![(0, 0); n];
            let starts = par_partition(&mut out, 11, element, |x| x.0 % 11);
            let mut wanted: Vec<_> = (0..n).map(element).collect();
            wanted.sort_by_key(|x| x.0 % 11);
            assert_eq!(out, wanted);
            assert_eq!(starts.len(), 12);
            for b in 0..11 {
                assert!(out[starts[b]..starts[b + 1]].iter().all(|x| x.0 % 11 == b));
            }
        }
    }

    #[test]
    fn ranges_are_those_between_the_bounds() {
        let (mut a, mut b, mut c) = ([0; 9], [0u8; 9], [0i64; 10]);
        par_ranges3(&mut a, &mut b, &mut c, &[1, 1, 4, 9], |k, a, b, c| {
            a.fill(k);
            b.fill(k as u8);
            c.fill(k as i64);
        });
        assert_eq!(a, [0, 1, 1, 1, 2, 2, 2, 2, 2]);
        assert_eq!((b[1], b[8], c[3], c[9]), (1, 2, 1, 0));
        par_row_chunks3(&mut a, &mut b[..3], &mut [0u8; 0], 3, 2, |first, a, b, c| {
            a.fill(first);
            b.fill(first as u8);
            assert!(c.is_empty());
        });
        assert_eq!((a, &b[..3]), ([0, 0, 0, 0, 0, 0, 2, 2, 2], &[0, 0, 2][..]));
    }
}
