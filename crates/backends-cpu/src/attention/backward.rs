//! The way back: panels of queries against blocks of keys, whose weights are made again from the logarithms.
//!
//! A task is a head, or, where heads are too few for many threads, a head and a share of its keys: it sums the gradients of
//! its keys and values in memory of its own, and those of the queries over its keys, which are summed over the shares after.
//! Shares depend on the shape alone.

use tensor_core::{Result, check};

use super::panels::{
    LANES, Lanes, ROWS, columns_by_panel, dots, pack, pair, panel_by_rows, rows_by_panel, set_pair, take_panel, unpack,
    zip_pairs,
};
use super::{Attend, Block, Head, KEYS, Limits, Problem, Rows, SOFTMAX, TASKS, fetch_result, par_each};
use crate::arrays::{each, map};
use crate::isa::Isa;
use crate::loops::scratch::split_off;
use crate::loops::views::{View, ViewMut};
use crate::loops::{MatMut, scratch};
use crate::parallel::get_num_threads;

/// What the way back gets beside the inputs of the way forth: the result's gradient, the result and the logarithms.
pub struct Given<'a, T> {
    grad: View<'a, T>,
    out: View<'a, T>,
    logarithms: View<'a, T>,
}

impl<'a, T: Attend> Given<'a, T> {
    pub fn new(grad: View<'a, T>, out: View<'a, T>, logarithms: View<'a, T>, problem: &Problem<'_, T>) -> Result<Self> {
        let dense = |x: &View<'a, T>| x.sizes() == problem.q.sizes() && (x.size(3) <= 1 || x.strides()[3] == 1);
        check!(dense(&grad) && dense(&out), "attention: the elements of a head do not lie side by side");
        check!(
            logarithms.sizes() == &problem.q.sizes()[..3] && problem.v.size(3) == problem.q.size(3),
            "attention: the shapes do not fit"
        );
        Ok(Self { grad, out, logarithms })
    }
}

/// The keys from `begin` on of a head, and where the gradients go: those of the queries, of the keys and of the values.
struct Task<'a, T> {
    head: usize,
    begin: usize,
    dq: MatMut<'a, T>,
    dk: MatMut<'a, T>,
    dv: MatMut<'a, T>,
}

/// Fills the gradients of q, k and v.
pub fn backward<I: Isa, T: Attend, const L: usize>(
    problem: &Problem<'_, T>,
    given: &Given<'_, T>,
    [dq, dk, dv]: &mut [ViewMut<'_, T>; 3],
) -> Result<()> {
    let (heads, queries, keys, depth) = (problem.heads(), problem.q.size(2), problem.k.size(2), problem.q.size(3));
    let parts = if heads >= TASKS { 1 } else { keys.div_ceil(KEYS).min(TASKS.div_ceil(heads)) };
    let share = keys.div_ceil(parts).next_multiple_of(KEYS);
    let parts = keys.div_ceil(share);
    // The queries' gradients of each share, where there are several.
    let mut partial = vec![T::ZERO; if parts > 1 { heads * parts * queries * depth } else { 0 }];
    let mut sums = partial.chunks_mut(queries * depth);
    let mut tasks = Vec::with_capacity(heads * parts);
    let mut finals = Vec::new();
    let outputs = dq.matrices_mut()?.into_iter().zip(dk.matrices_mut()?).zip(dv.matrices_mut()?);
    for (head, ((dq, dk), dv)) in outputs.enumerate() {
        let shares = dk.row_blocks(share).zip(dv.row_blocks(share));
        if parts == 1 {
            let mut dq = Some(dq);
            tasks.extend(shares.filter_map(|(dk, dv)| Some(Task { head, begin: 0, dq: dq.take()?, dk, dv })));
            continue;
        }
        for (part, (dk, dv)) in shares.enumerate() {
            let dq = MatMut::row_major(sums.next().unwrap_or_default(), queries, depth)?;
            tasks.push(Task { head, begin: part * share, dq, dk, dv });
        }
        finals.push((head, dq));
    }
    par_each::<I, _>(
        tasks,
        queries * share * (5 * depth + 2 * SOFTMAX),
        #[inline(always)]
        |task| {
            let head = problem.head(task.head);
            let next = problem.after(task.head).filter(|_| parts == 1).map(|next| {
                let i = task.head + get_num_threads();
                [next.q, Rows::new(&given.grad, i), Rows::new(&given.out, i), next.k, next.v]
            });
            differentiate::<I, T, L>(&head, given, task, next);
        },
    );
    let partial = partial.as_slice();
    par_each::<I, _>(
        finals,
        parts * queries * depth,
        #[inline(always)]
        |(head, mut dq)| {
            let mut sum = vec![T::ZERO; depth];
            for r in 0..queries {
                sum.fill(T::ZERO);
                for part in 0..parts {
                    let x = &partial[((head * parts + part) * queries + r) * depth..][..depth];
                    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = sum.add(*x));
                }
                dq.set_row(r, &sum);
            }
        },
    );
    Ok(())
}

/// A block of queries, packed: `queries` and `grads` as panels, the same as rows of `pitch` elements, and for each query the
/// logarithm of its divisor (infinity where it has no weights) and `sum(grad * out)`.
struct Packed<'a, T> {
    queries: &'a mut [Lanes<T>],
    grads: &'a mut [Lanes<T>],
    query_rows: &'a mut [T],
    grad_rows: &'a mut [T],
    logarithms: Lanes<T>,
    dots: Lanes<T>,
}

impl<T: Attend> Packed<'_, T> {
    #[inline(always)]
    fn fill<I: Isa>(
        &mut self,
        block: Block,
        (q, scale): (Rows<'_, T>, T),
        (grad, out): (Rows<'_, T>, Rows<'_, T>),
        logarithm: impl Fn(usize) -> T,
        pitch: usize,
    ) {
        let at = (block.rows, block.lanes);
        let (query, grad_row) = (
            #[inline(always)]
            |r| q.row(block.first + r),
            #[inline(always)]
            |r| grad.row(block.first + r),
        );
        pack(self.queries, at, query, scale);
        pack(self.grads, at, grad_row, T::ONE);
        let depth = q.cols;
        for (quad, dots_of) in self.dots[..block.lanes].as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
            let at: [usize; ROWS] = each(
                #[inline(always)]
                |i| (quad * ROWS + i).min(block.rows - 1),
            );
            let grads = map(at, grad_row);
            let results = map(
                at,
                #[inline(always)]
                |r| out.row(block.first + r),
            );
            *dots_of = dots::<I, T>(grads, results);
        }
        for lane in 0..block.lanes {
            let r = lane.min(block.rows - 1);
            self.query_rows[lane * pitch..][..depth].copy_from_slice(query(r));
            self.grad_rows[lane * pitch..][..depth].copy_from_slice(grad_row(r));
            // Lanes that repeat the last query count no second time.
            let logarithm = logarithm(block.first + r);
            let nothing = logarithm == T::LOWEST || lane >= block.rows;
            self.logarithms[lane] = if nothing { T::HIGHEST } else { logarithm };
        }
    }
}

/// A task's gradients. What the next task reads is fetched meanwhile, in parts: caches take so many requests at a time.
#[inline(always)]
fn differentiate<I: Isa, T: Attend, const L: usize>(
    head: &Head<'_, T>,
    given: &Given<'_, T>,
    task: Task<'_, T>,
    next: Option<[Rows<'_, T>; 5]>,
) {
    let mut next = next.iter().flatten();
    let mut fetch_next = || next.next().iter().for_each(|rows| rows.fetch());
    let Task { head: i, begin, mut dq, mut dk, mut dv } = task;
    [&mut dq, &mut dk, &mut dv].into_iter().for_each(fetch_result);
    let (grad, out) = (Rows::new(&given.grad, i), Rows::new(&given.out, i));
    let logarithms = given.logarithms.lane(2, i);
    let (depth, keys) = (head.q.cols, dk.rows());
    let pitch = depth.next_multiple_of(2 * L);
    let sizes = (3 * depth + 2 * KEYS) * LANES + (2 * LANES + 2 * keys) * pitch + ROWS * depth;
    scratch::with(
        sizes,
        #[inline(always)]
        |mut rest: &mut [T]| {
            let mut packed = Packed {
                queries: take_panel(&mut rest, depth),
                grads: take_panel(&mut rest, depth),
                query_rows: split_off(&mut rest, LANES * pitch),
                grad_rows: split_off(&mut rest, LANES * pitch),
                logarithms: [T::ZERO; LANES],
                dots: [T::ZERO; LANES],
            };
            let query_sums = take_panel(&mut rest, depth);
            let (weights, slopes) = (take_panel(&mut rest, KEYS), take_panel(&mut rest, KEYS));
            let (key_sums, value_sums) = (split_off(&mut rest, keys * pitch), split_off(&mut rest, keys * pitch));
            let rows = rest;
            key_sums.fill(T::ZERO);
            value_sums.fill(T::ZERO);
            // Queries before the first key see none of the keys, if attention is causal; a share of keys gives them nothing.
            let skipped = if head.causal { begin / LANES * LANES } else { 0 };
            for first in (skipped..head.q.rows).step_by(LANES) {
                let block = head.block::<L>(first);
                packed.fill::<I>(
                    block,
                    (head.q, head.scale),
                    (grad, out),
                    #[inline(always)]
                    |query| logarithms.get(query),
                    pitch,
                );
                query_sums.fill([T::ZERO; LANES]);
                let seen = head.seen(first + block.rows).min(begin + keys);
                for start in (begin..seen).step_by(KEYS) {
                    let end = seen.min(start + KEYS);
                    let (weights, slopes) = (&mut weights[..end - start], &mut slopes[..end - start]);
                    let limits = head.limits::<L>(block, start, end);
                    head.scores::<I, L>(packed.queries, block, start, &limits, weights);
                    fetch_next();
                    rows_by_panel::<I, T, L>(head.v.from(start), packed.grads, slopes, limits.get());
                    fetch_next();
                    slope::<I, T, L>(weights, slopes, &limits, &packed);
                    fetch_next();
                    let lanes = (block.lanes, head.causal.then(|| start as isize - first as isize));
                    let at = (start - begin) * pitch;
                    let sums = (&*packed.grad_rows, &mut value_sums[at..]);
                    panel_by_rows::<I, T, L>(weights, lanes, sums, pitch);
                    fetch_next();
                    let sums = (&*packed.query_rows, &mut key_sums[at..]);
                    panel_by_rows::<I, T, L>(slopes, lanes, sums, pitch);
                    fetch_next();
                    columns_by_panel::<I, T, L>(head.k.from(start), slopes, query_sums, limits.get(), &[T::ONE; LANES]);
                }
                for r in (0..block.rows).step_by(ROWS) {
                    unpack(query_sums, r, rows);
                    rows.iter_mut().for_each(|x| *x = x.mul(head.scale));
                    for (i, row) in rows.chunks_exact(depth).take(block.rows - r).enumerate() {
                        dq.set_row(first + r + i, row);
                    }
                }
            }
            key_sums.iter_mut().for_each(|x| *x = x.mul(head.scale));
            for k in 0..keys {
                dk.set_row(k, &key_sums[k * pitch..][..depth]);
                dv.set_row(k, &value_sums[k * pitch..][..depth]);
            }
        },
    );
}

/// Turns scores into weights `exp(score - logarithm)` and products with the values into slopes `weight * (product - dot)`.
#[inline(always)]
fn slope<I: Isa, T: Attend, const L: usize>(
    weights: &mut [Lanes<T>],
    slopes: &mut [Lanes<T>],
    limits: &Limits,
    packed: &Packed<'_, T>,
) {
    for (g, &limit) in limits.get().iter().enumerate() {
        let (logarithms, dots) = (pair::<T, L>(&packed.logarithms, g), pair(&packed.dots, g));
        for (weights, slopes) in weights[..limit].iter_mut().zip(&mut slopes[..limit]) {
            let values = zip_pairs(
                pair(weights, g),
                logarithms,
                #[inline(always)]
                |score, logarithm| score.sub(logarithm).exp::<I>(),
            );
            let differences = zip_pairs(pair(slopes, g), dots, T::sub);
            set_pair(slopes, g, zip_pairs(values, differences, T::mul));
            set_pair(weights, g, values);
        }
    }
}
