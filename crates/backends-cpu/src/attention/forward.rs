//! The way forth: a panel of queries against blocks of keys, with the largest score and the sum of each query so far.

use tensor_core::Result;

use super::panels::{LANES, Lanes, ROWS, columns_by_panel, pack, pair, set_pair, take_panel, unpack, zip_pairs};
use super::{Attend, Block, Head, KEYS, Problem, Rows, SOFTMAX, fetch_result, par_each, round};
use crate::arrays::map;
use crate::isa::Isa;
use crate::loops::MatMut;
use crate::loops::scratch;
use crate::loops::views::ViewMut;

/// Queries from `first` on of head `head`, and where their results go.
struct Task<'a, T> {
    head: usize,
    first: usize,
    out: MatMut<'a, T>,
    logarithms: &'a mut [T],
}

/// Fills `out` and the logarithms (heads x queries), a task a block of queries.
pub fn forward<I: Isa, T: Attend, const L: usize>(
    problem: &Problem<'_, T>,
    out: &mut ViewMut<'_, T>,
    logarithms: &mut [T],
) -> Result<()> {
    let (queries, keys) = (problem.q.size(2), problem.k.size(2));
    let mut tasks = Vec::with_capacity(problem.heads() * queries.div_ceil(LANES));
    for (head, (out, logarithms)) in out.matrices_mut()?.into_iter().zip(logarithms.chunks_mut(queries)).enumerate() {
        let blocks = out.row_blocks(LANES).zip(logarithms.chunks_mut(LANES)).enumerate();
        tasks.extend(blocks.map(|(i, (out, logarithms))| Task { head, first: i * LANES, out, logarithms }));
    }
    let work = LANES.min(queries) * keys * (problem.q.size(3) + problem.v.size(3) + SOFTMAX);
    par_each::<I, _>(
        tasks,
        work,
        #[inline(always)]
        |mut task| {
            let head = problem.head(task.head);
            fetch_result(&mut task.out);
            if let Some(next) = problem.after(task.head) {
                [next.q, next.k, next.v].iter().for_each(Rows::fetch);
            }
            attend::<I, T, L>(&head, task);
        },
    );
    Ok(())
}

/// One block of queries.
#[inline(always)]
fn attend<I: Isa, T: Attend, const L: usize>(head: &Head<'_, T>, task: Task<'_, T>) {
    let (depth, width, keys) = (head.q.cols, head.v.cols, KEYS.min(head.k.rows));
    scratch::with(
        (depth + width + keys) * LANES + ROWS * width,
        #[inline(always)]
        |mut rest: &mut [T]| {
            let (queries, results) = (take_panel(&mut rest, depth), take_panel(&mut rest, width));
            let scores = take_panel(&mut rest, keys);
            let block = head.block::<L>(task.first);
            pack(
                queries,
                (block.rows, block.lanes),
                #[inline(always)]
                |r| head.q.row(block.first + r),
                head.scale,
            );
            let stats = absorb_keys::<I, T, L>(head, block, queries, results, scores);
            finish::<I, T>(results, block, &stats, rest, task);
        },
    );
}

/// The largest score and the sum of the weights of each query.
struct Stats<T> {
    largest: Lanes<T>,
    sums: Lanes<T>,
}

/// `results[c][lane] = sum_k exp(score[k][lane] - largest[lane]) * v[k][c]` over all keys.
#[inline(always)]
fn absorb_keys<I: Isa, T: Attend, const L: usize>(
    head: &Head<'_, T>,
    block: Block,
    queries: &[Lanes<T>],
    results: &mut [Lanes<T>],
    scores: &mut [Lanes<T>],
) -> Stats<T> {
    let mut stats = Stats { largest: [T::LOWEST; LANES], sums: [T::ZERO; LANES] };
    results.fill([T::ZERO; LANES]);
    let seen = head.seen(block.first + block.rows);
    for start in (0..seen).step_by(KEYS) {
        let end = seen.min(start + KEYS);
        let scores = &mut scores[..end - start];
        let limits = head.limits::<L>(block, start, end);
        head.scores::<I, L>(queries, block, start, &limits, scores);
        let mut corrections = [T::ONE; LANES];
        for (g, &limit) in limits.get().iter().enumerate() {
            absorb::<I, T, L>(&mut scores[..limit], g, &mut stats, &mut corrections);
        }
        scores.iter_mut().for_each(|weights| round(weights, head.weights));
        columns_by_panel::<I, T, L>(head.v.from(start), scores, results, limits.get(), &corrections);
    }
    stats
}

/// The second one if that is larger.
#[inline(always)]
fn larger<T: Attend>(x: T, y: T) -> T {
    if y > x { y } else { x }
}

/// `exp(score - base)`
#[inline(always)]
fn weight<I: Isa, T: Attend>(score: T, base: T) -> T {
    score.sub(base).exp_falling::<I>()
}

/// Turns the scores of pair `g` into weights `exp(score - largest)`, with the largest score and the sum of the weights of
/// each query so far. What was summed before is to be multiplied by the corrections.
#[inline(always)]
fn absorb<I: Isa, T: Attend, const L: usize>(
    scores: &mut [Lanes<T>],
    g: usize,
    stats: &mut Stats<T>,
    corrections: &mut Lanes<T>,
) {
    let before = pair::<T, L>(&stats.largest, g);
    // No number loses against every number here; its weight is none either, and so is the sum.
    let mut most = before;
    for scores in scores.iter() {
        most = zip_pairs(most, pair(scores, g), larger::<T>);
    }
    // Where nothing is seen yet there is nothing to correct.
    let base = zip_pairs(
        most,
        most,
        #[inline(always)]
        |most, _| if most == T::LOWEST { T::ZERO } else { most },
    );
    let mut added = [[T::ZERO; L]; 2];
    for scores in scores.iter_mut() {
        let weights = zip_pairs(pair::<T, L>(scores, g), base, weight::<I, T>);
        added = zip_pairs(added, weights, T::add);
        set_pair(scores, g, weights);
    }
    let correction = zip_pairs(before, base, weight::<I, T>);
    set_pair(corrections, g, correction);
    let before = zip_pairs(pair(&stats.sums, g), correction, T::mul);
    set_pair(&mut stats.sums, g, zip_pairs(before, added, T::add));
    set_pair(&mut stats.largest, g, most);
}

/// Divides by the sums, and writes the results and the logarithms. `rows` holds four results.
#[inline(always)]
fn finish<I: Isa, T: Attend>(
    results: &mut [Lanes<T>],
    block: Block,
    stats: &Stats<T>,
    rows: &mut [T],
    task: Task<'_, T>,
) {
    let Task { mut out, logarithms, .. } = task;
    let width = results.len();
    let shares = map(
        stats.sums,
        #[inline(always)]
        |sum| if sum == T::ZERO { T::ZERO } else { sum.reciprocal() },
    );
    for lanes in results.iter_mut() {
        for j in 0..LANES {
            lanes[j] = lanes[j].mul(shares[j]);
        }
    }
    for first in (0..block.rows).step_by(ROWS) {
        unpack(results, first, rows);
        for r in first..block.rows.min(first + ROWS) {
            out.set_row(r, &rows[(r - first) * width..][..width]);
        }
    }
    for ((logarithm, largest), sum) in logarithms.iter_mut().zip(&stats.largest).zip(&stats.sums) {
        *logarithm = largest.add(sum.log::<I>());
    }
}
