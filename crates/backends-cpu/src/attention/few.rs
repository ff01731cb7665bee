//! A few queries against many keys, as in decoding: keys and values are read once, along the vector units.

use tensor_core::Result;

use super::panels::{ROWS, dots};
use super::{Attend, Head, Problem, SOFTMAX, TASKS, par_each, round};
use crate::arrays::each;
use crate::isa::Isa;
use crate::loops::views::ViewMut;
use crate::rows;

/// Keys of a run.
const RUN: usize = 256;

/// Keys that are worth a task of their own, where heads alone are too few.
const SHARE: usize = 1024;

/// What the queries of a head found in a share of its keys: results, then the largest score and the sum of each.
struct Share<'a, T> {
    head: usize,
    part: usize,
    found: &'a mut [T],
}

/// Fills `out` and the logarithms (heads x queries).
pub fn forward<I: Isa, T: Attend>(
    problem: &Problem<'_, T>,
    out: &mut ViewMut<'_, T>,
    logarithms: &mut [T],
) -> Result<()> {
    let (queries, keys, width) = (problem.q.size(2), problem.k.size(2), problem.v.size(3));
    let heads = problem.heads();
    let parts = if heads >= TASKS { 1 } else { keys.div_ceil(SHARE).clamp(1, TASKS) };
    let (share, pitch) = (keys.div_ceil(parts), width + 2);
    let mut found = vec![T::ZERO; heads * parts * queries * pitch];
    let shares = found.chunks_mut(queries * pitch).enumerate();
    let shares = shares.map(|(i, found)| Share { head: i / parts, part: i % parts, found }).collect();
    let work = queries * share * (problem.q.size(3) + width + SOFTMAX);
    par_each::<I, _>(
        shares,
        work,
        #[inline(always)]
        |Share { head, part, found }| {
            let begin = part * share;
            attend::<I, T>(&problem.head(head), (begin, keys.min(begin + share)), found, pitch);
        },
    );
    let mut result = vec![T::ZERO; width];
    I::run(
        #[inline(always)]
        || {
            for (i, logarithm) in logarithms.iter_mut().enumerate() {
                let (head, query) = (i / queries, i % queries);
                let found = &found[head * parts * queries * pitch..][..parts * queries * pitch];
                *logarithm = combine::<I, T>(&found[query * pitch..], queries * pitch, &mut result);
                out.matrix_mut(head)?.set_row(query, &result);
            }
            Ok(())
        },
    )
}

/// The queries of a head against the keys `begin..end`.
#[inline(always)]
fn attend<I: Isa, T: Attend>(head: &Head<'_, T>, (begin, end): (usize, usize), found: &mut [T], pitch: usize) {
    let width = pitch - 2;
    let mut buffer = vec![T::ZERO; head.q.cols + RUN.min(end - begin)];
    let (query, scores) = buffer.split_at_mut(head.q.cols);
    for (r, found) in found.chunks_exact_mut(pitch).enumerate() {
        let (sums, state) = found.split_at_mut(width);
        let (mut largest, mut total) = (T::LOWEST, T::ZERO);
        for (to, x) in query.iter_mut().zip(head.q.row(r)) {
            *to = x.mul(head.scale);
        }
        let end = end.min(head.seen(r + 1));
        for start in (begin..end).step_by(RUN) {
            let scores = &mut scores[..RUN.min(end - start)];
            let query = &*query;
            for (quad, scores) in scores.chunks_mut(ROWS).enumerate() {
                // Keys beyond the last one repeat it.
                let keys = each(
                    #[inline(always)]
                    |i| head.k.row(start + quad * ROWS + i.min(scores.len() - 1)),
                );
                let products = dots::<I, T>([query; ROWS], keys);
                scores.copy_from_slice(&products[..scores.len()]);
            }
            if let Some(mask) = head.mask {
                for (k, score) in scores.iter_mut().enumerate() {
                    *score = score.add(mask.at(r, start + k));
                }
            }
            let most = rows::max(scores).maximum(largest);
            let base = if most == T::LOWEST { T::ZERO } else { most };
            let correction = largest.sub(base).exp::<I>();
            for score in scores.iter_mut() {
                *score = score.sub(base).exp::<I>();
            }
            let added = rows::sum(
                scores,
                #[inline(always)]
                |x| x,
            );
            total = total.mul(correction).add(T::from_f64(added));
            largest = most;
            round(scores, head.weights);
            for x in sums.iter_mut() {
                *x = x.mul(correction);
            }
            accumulate::<I, T>(head, start, scores, sums);
        }
        (state[0], state[1]) = (largest, total);
    }
}

/// `sums += weights @ v[start..]`, four rows at a time, so that the sums are read and written once for each four.
#[inline(always)]
fn accumulate<I: Isa, T: Attend>(head: &Head<'_, T>, start: usize, weights: &[T], sums: &mut [T]) {
    let (fours, rest) = weights.as_chunks::<4>();
    let n = sums.len();
    for (i, &[w, x, y, z]) in fours.iter().enumerate() {
        let at = start + 4 * i;
        let [a, b, c, d]: [&[T]; 4] = each(
            #[inline(always)]
            |r| &head.v.row(at + r)[..n],
        );
        let sums = &mut sums[..n];
        for j in 0..n {
            let near = sums[j].mul_accumulate::<I>(w, a[j]).mul_accumulate::<I>(x, b[j]);
            sums[j] = near.mul_accumulate::<I>(y, c[j]).mul_accumulate::<I>(z, d[j]);
        }
    }
    for (&w, at) in rest.iter().zip(start + 4 * fours.len()..) {
        for (sum, &a) in sums.iter_mut().zip(head.v.row(at)) {
            *sum = sum.mul_accumulate::<I>(w, a);
        }
    }
}

/// The result of a query from its shares, `stride` apart, and the logarithm of its divisor.
#[inline(always)]
fn combine<I: Isa, T: Attend>(found: &[T], stride: usize, result: &mut [T]) -> T {
    let width = result.len();
    let (mut most, mut total) = (T::LOWEST, T::ZERO);
    for share in found.chunks(stride) {
        most = share[width].maximum(most);
    }
    let base = if most == T::LOWEST { T::ZERO } else { most };
    result.fill(T::ZERO);
    for share in found.chunks(stride) {
        let factor = share[width].sub(base).exp::<I>();
        total = total.add(share[width + 1].mul(factor));
        for (x, y) in result.iter_mut().zip(share) {
            *x = x.add(y.mul(factor));
        }
    }
    let part = if total == T::ZERO { T::ZERO } else { total.reciprocal() };
    result.iter_mut().for_each(|x| *x = x.mul(part));
    most.add(total.log::<I>())
}
