//! Fused attention: blocks of queries against blocks of keys, with a softmax that is corrected as larger products turn up,
//! so that the products of all pairs are never in memory at once. The way back makes them again, block by block.

use tensor_aten::Tensor;
use tensor_aten::kernels::Attention;
use tensor_core::{DType, Result, bf16, check, f16};

use crate::gemm::{Gemm, gemm};
use crate::isa::Isa;
use crate::loops::views::{View, lock, par_rows, par_rows3};
use crate::loops::{MatMut, MatRef};
use crate::simd::{Cast, Math, Real, RealFloating, Value};

/// Queries of a block.
const QUERIES: usize = 64;

/// Keys of a block.
const KEYS: usize = 512;

/// An element type that attends in itself.
pub trait Attend: Gemm<Op = Self> + RealFloating + Math + Real + Cast {}
impl<T: Gemm<Op = T> + RealFloating + Math + Real + Cast> Attend for T {}

/// `c = beta * c + alpha * a @ b` of matrices that fit.
fn multiply<I: Isa, T: Attend>(alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T, c: Result<MatMut<'_, T>>) {
    let done = c.and_then(|c| gemm::<I, T>(alpha, a, b, beta, c));
    debug_assert!(done.is_ok(), "the matrices of attention do not fit");
}

/// What each query of a block sees of a block of keys.
struct Scores<'a, T> {
    mask: Option<View<'a, T>>,
    causal: bool,
    scale: T,
    weights: DType,
}

/// Rounds the elements to those of a half.
fn round<T: Attend>(weights: &mut [T], dtype: DType) {
    fn through<T: Attend, H: Value<Op = f32>>(weights: &mut [T]) {
        for w in weights {
            *w = H::down(w.cast::<f32>()).up().cast::<T>();
        }
    }
    match dtype {
        DType::F16 => through::<T, f16>(weights),
        DType::BF16 => through::<T, bf16>(weights),
        _ => {}
    }
}

impl<T: Attend> Scores<'_, T> {
    /// `scores = scale * q @ k.t() + mask` for queries from `first` on and keys from `start` on, of head `i` of the batch.
    #[allow(clippy::too_many_arguments)]
    fn fill<I: Isa>(
        &self,
        i: usize,
        (q, first): (MatRef<'_, T>, usize),
        (k, start): (MatRef<'_, T>, usize),
        scores: &mut [T],
    ) {
        let (rows, cols) = (q.rows(), k.rows());
        multiply::<I, T>(self.scale, q, k.t(), T::ZERO, MatMut::row_major(scores, rows, cols));
        for (r, scores) in scores.chunks_exact_mut(cols).take(rows).enumerate() {
            if let Some(mask) = &self.mask {
                let lane = mask.lane(3, i * mask.size(2) + first + r);
                for (score, hidden) in scores.iter_mut().zip(lane.iter().skip(start)) {
                    *score = score.add(hidden);
                }
            }
            if self.causal {
                let seen = (first + r + 1).saturating_sub(start).min(cols);
                scores[seen..].fill(T::LOWEST);
            }
        }
    }

    /// How many keys the queries before `end` may see.
    fn seen(&self, end: usize, keys: usize) -> usize {
        if self.causal { end.min(keys) } else { keys }
    }
}

/// `softmax(scale * q @ k.t() + mask) @ v`, and the logarithm of each softmax's divisor. A query that sees nothing gets 0.
///
/// # Errors
/// When the shapes do not fit.
pub fn attention<I: Isa, T: Attend>(
    out: &Tensor,
    logsumexp: &Tensor,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    attention: Attention<'_>,
) -> Result<()> {
    let mut reads = vec![&**q.as_impl(), &**k.as_impl(), &**v.as_impl()];
    reads.extend(attention.mask.map(|mask| &**mask.as_impl()));
    let locked = lock(&reads, &[out.as_impl(), logsumexp.as_impl()])?;
    let (q, k, v) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.read::<T>(2)?);
    let mask = attention.mask.map(|_| locked.read::<T>(3)).transpose()?;
    let [heads, queries, keys, width] = [q.size(1), q.size(2), k.size(2), v.size(3)];
    check!(k.size(3) == q.size(3) && v.size(2) == keys, "attention: the shapes do not fit");
    let scores = Scores {
        mask,
        causal: attention.causal,
        scale: T::from_scalar(attention.scale.into()),
        weights: attention.weights,
    };
    let (count, blocks) = (q.size(0) * heads, queries.div_ceil(QUERIES));
    // A row a block: its results, then the logarithms.
    let mut results = vec![T::ZERO; count * blocks * QUERIES * (width + 1)];
    let work = QUERIES * keys * (q.size(3) + width + 20);
    par_rows::<I, T>(
        &mut results,
        count * blocks,
        work,
        #[inline(always)]
        |row, results| {
            let (i, first) = (row / blocks, row % blocks * QUERIES);
            let (Ok(q), Ok(k), Ok(v)) = (q.matrix(i), k.matrix(i), v.matrix(i)) else { return };
            let (results, logarithms) = results.split_at_mut(QUERIES * width);
            let q = q.rows_range(first, queries.min(first + QUERIES));
            block::<I, T>(&scores, i, (q, first), k, v, results, logarithms);
        },
    );
    let (mut out, mut logsumexp) = (locked.write::<T>(0)?, locked.write::<T>(1)?);
    let block_of =
        |query: usize| &results[(query / queries * blocks + query % queries / QUERIES) * QUERIES * (width + 1)..];
    out.par_lanes::<I>(
        3,
        width,
        #[inline(always)]
        |query, mut lane| {
            lane.copy_from(&block_of(query)[query % queries % QUERIES * width..][..width]);
        },
    );
    logsumexp.par_lanes::<I>(
        2,
        queries,
        #[inline(always)]
        |head, mut lane| {
            for query in 0..queries {
                lane.set(query, block_of(head * queries + query)[QUERIES * width + query % QUERIES]);
            }
        },
    );
    Ok(())
}

/// One block of queries.
fn block<I: Isa, T: Attend>(
    scores: &Scores<'_, T>,
    i: usize,
    (q, first): (MatRef<'_, T>, usize),
    k: MatRef<'_, T>,
    v: MatRef<'_, T>,
    results: &mut [T],
    logarithms: &mut [T],
) {
    let (rows, width) = (q.rows(), v.cols());
    let mut largest = [T::LOWEST; QUERIES];
    let mut sums = [T::ZERO; QUERIES];
    let mut buffer = vec![T::ZERO; QUERIES * KEYS.min(k.rows())];
    for start in (0..scores.seen(first + rows, k.rows())).step_by(KEYS) {
        let end = k.rows().min(start + KEYS);
        let cols = end - start;
        scores.fill::<I>(i, (q, first), (k.rows_range(start, end), start), &mut buffer);
        for r in 0..rows {
            let row = &mut buffer[r * cols..][..cols];
            let most = row.iter().fold(largest[r], |most, &score| most.maximum(score));
            // Where nothing is seen yet there is nothing to correct.
            let base = if most == T::LOWEST { T::ZERO } else { most };
            let correction = largest[r].sub(base).exp::<I>();
            for score in row.iter_mut() {
                *score = score.sub(base).exp::<I>();
            }
            sums[r] = sums[r].mul(correction).add(sum(row));
            round(row, scores.weights);
            largest[r] = most;
            if start > 0 {
                results[r * width..][..width].iter_mut().for_each(|x| *x = x.mul(correction));
            }
        }
        let weights = MatRef::row_major(&buffer, rows, cols);
        let beta = if start == 0 { T::ZERO } else { T::ONE };
        if let Ok(weights) = weights {
            multiply::<I, T>(T::ONE, weights, v.rows_range(start, end), beta, MatMut::row_major(results, rows, width));
        }
    }
    for r in 0..rows {
        let nothing = sums[r] == T::ZERO;
        for x in &mut results[r * width..][..width] {
            *x = if nothing { T::ZERO } else { x.div(sums[r]) };
        }
        logarithms[r] = largest[r].add(sums[r].log::<I>());
    }
}

/// The sum of a row, in sixteen running sums.
#[inline(always)]
fn sum<T: Attend>(row: &[T]) -> T {
    let mut sums = [T::ZERO; 16];
    for row in row.chunks(16) {
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum = sum.add(x);
        }
    }
    sums.into_iter().fold(T::ZERO, T::add)
}

/// Gradients of [`attention`] with respect to q, k and v:
/// `p = exp(scale * q @ k.t() + mask - logsumexp)`, `dv = p.t() @ g`, `ds = p * (g @ v.t() - sum(g * out))`,
/// `dq = scale * ds @ k`, `dk = scale * ds.t() @ q`.
///
/// # Errors
/// When the shapes do not fit.
pub fn attention_backward<I: Isa, T: Attend>(
    grads: [&Tensor; 3],
    inputs: [&Tensor; 6],
    attention: Attention<'_>,
) -> Result<()> {
    let mut reads = inputs.map(|x| &**x.as_impl()).to_vec();
    reads.extend(attention.mask.map(|mask| &**mask.as_impl()));
    let locked = lock(&reads, &grads.map(|x| &**x.as_impl()))?;
    let read = |i: usize| locked.read::<T>(i);
    let (g, q, k, v, out, logsumexp) = (read(0)?, read(1)?, read(2)?, read(3)?, read(4)?, read(5)?);
    let mask = attention.mask.map(|_| read(6)).transpose()?;
    let [heads, queries, keys, depth] = [q.size(1), q.size(2), k.size(2), q.size(3)];
    check!(k.size(3) == depth && v.size(3) == depth && v.size(2) == keys, "attention: the shapes do not fit");
    let scores = Scores {
        mask,
        causal: attention.causal,
        scale: T::from_scalar(attention.scale.into()),
        weights: attention.weights,
    };
    let (mut dq, mut dk, mut dv) = (locked.write::<T>(0)?, locked.write::<T>(1)?, locked.write::<T>(2)?);
    let slices = (dq.slice_mut(), dk.slice_mut(), dv.slice_mut());
    let (Some(dq), Some(dk), Some(dv)) = slices else {
        tensor_core::bail!(Runtime, "attention: gradients are not contiguous");
    };
    let count = q.size(0) * heads;
    let work = queries * keys * (depth * 5 + 40);
    par_rows3::<I, T, T, T>(
        dq,
        dk,
        dv,
        count,
        work,
        #[inline(always)]
        |i, dq, dk, dv| {
            dq.fill(T::ZERO);
            dk.fill(T::ZERO);
            dv.fill(T::ZERO);
            let matrices = [g.matrix(i), q.matrix(i), k.matrix(i), v.matrix(i), out.matrix(i)];
            let [Ok(g), Ok(q), Ok(k), Ok(v), Ok(out)] = matrices else { return };
            let logarithms = logsumexp.lane(2, i);
            let mut p = vec![T::ZERO; QUERIES * KEYS.min(keys)];
            let mut ds = p.clone();
            for first in (0..queries).step_by(QUERIES) {
                let last = queries.min(first + QUERIES);
                let (g, q, out) = (g.rows_range(first, last), q.rows_range(first, last), out.rows_range(first, last));
                let dots: Vec<T> = (0..last - first)
                    .map(|r| (0..depth).fold(T::ZERO, |sum, c| sum.mul_accumulate::<I>(g.at(r, c), out.at(r, c))))
                    .collect();
                for start in (0..scores.seen(last, keys)).step_by(KEYS) {
                    let end = keys.min(start + KEYS);
                    let (rows, cols) = (last - first, end - start);
                    let (k, v) = (k.rows_range(start, end), v.rows_range(start, end));
                    scores.fill::<I>(i, (q, first), (k, start), &mut p);
                    multiply::<I, T>(T::ONE, g, v.t(), T::ZERO, MatMut::row_major(&mut ds, rows, cols));
                    for r in 0..rows {
                        let logarithm = logarithms.get(first + r);
                        let (p, ds) = (&mut p[r * cols..][..cols], &mut ds[r * cols..][..cols]);
                        let nothing = logarithm == T::LOWEST;
                        for (p, ds) in p.iter_mut().zip(ds) {
                            *p = if nothing { T::ZERO } else { p.sub(logarithm).exp::<I>() };
                            *ds = p.mul(ds.sub(dots[r]));
                        }
                    }
                    let (Ok(p), Ok(ds)) = (MatRef::row_major(&p, rows, cols), MatRef::row_major(&ds, rows, cols))
                    else {
                        return;
                    };
                    let dk = &mut dk[start * depth..end * depth];
                    let dv = &mut dv[start * depth..end * depth];
                    let dq = &mut dq[first * depth..last * depth];
                    multiply::<I, T>(T::ONE, p.t(), g, T::ONE, MatMut::row_major(dv, cols, depth));
                    multiply::<I, T>(scores.scale, ds, k, T::ONE, MatMut::row_major(dq, rows, depth));
                    multiply::<I, T>(scores.scale, ds.t(), q, T::ONE, MatMut::row_major(dk, cols, depth));
                }
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_level;

    fn values(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| (((i + seed) * 7919) % 101) as f64 / 50.0 - 1.0).collect()
    }

    fn tensor(values: &[f64], sizes: &[i64]) -> Tensor {
        Tensor::from_slice(values, sizes).unwrap()
    }

    /// More queries and keys than a block has, against the definition; the gradients against differences.
    #[test]
    fn blocks_agree_with_the_definition() {
        let (l, s, d) = (70, 600, 3);
        for causal in [false, true] {
            let (q, k, v, g) = (values(l * d, 1), values(s * d, 2), values(s * d, 3), values(l * d, 4));
            let naive = |q: &[f64], k: &[f64], v: &[f64]| -> Vec<f64> {
                let mut out = vec![0.0; l * d];
                for i in 0..l {
                    let seen = if causal { (i + 1).min(s) } else { s };
                    let score = |j: usize| (0..d).map(|c| q[i * d + c] * k[j * d + c]).sum::<f64>() * 0.7;
                    let total: f64 = (0..seen).map(|j| score(j).exp()).sum();
                    for j in 0..seen {
                        for c in 0..d {
                            out[i * d + c] += score(j).exp() / total * v[j * d + c];
                        }
                    }
                }
                out
            };
            let (ql, kl) = ([1, 1, l as i64, d as i64], [1, 1, s as i64, d as i64]);
            let zeros = |sizes: &[i64]| tensor(&vec![0.0; sizes.iter().product::<i64>() as usize], sizes);
            let (tq, tk, tv, tg) = (tensor(&q, &ql), tensor(&k, &kl), tensor(&v, &kl), tensor(&g, &ql));
            let (out, lse) = (zeros(&ql), zeros(&ql[..3]));
            let how = Attention { mask: None, causal, scale: 0.7, weights: DType::F64 };
            with_level!(I => attention::<I, f64>(&out, &lse, &tq, &tk, &tv, how)).unwrap();
            let expected = naive(&q, &k, &v);
            for (got, want) in out.to_vec::<f64>().unwrap().iter().zip(&expected) {
                assert!((got - want).abs() < 1e-12, "{got} {want}");
            }
            let grads = [zeros(&ql), zeros(&kl), zeros(&kl)];
            let inputs = [&tg, &tq, &tk, &tv, &out, &lse];
            with_level!(I => attention_backward::<I, f64>(grads.each_ref(), inputs, how)).unwrap();
            let loss =
                |q: &[f64], k: &[f64], v: &[f64]| -> f64 { naive(q, k, v).iter().zip(&g).map(|(o, g)| o * g).sum() };
            let step = 1e-5;
            for (which, grad) in grads.iter().enumerate() {
                let grad = grad.to_vec::<f64>().unwrap();
                for at in [0, grad.len() / 2, grad.len() - 1] {
                    let moved = |by: f64| {
                        let mut all = [q.clone(), k.clone(), v.clone()];
                        all[which][at] += by;
                        loss(&all[0], &all[1], &all[2])
                    };
                    let slope = (moved(step) - moved(-step)) / (2.0 * step);
                    assert!((grad[at] - slope).abs() < 1e-6, "gradient {which} at {at}: {} {slope}", grad[at]);
                }
            }
        }
    }
}
