//! Fused attention: `softmax(scale * q @ k.t() + mask) @ v` and its gradients, without all products in memory at once.
//!
//! Both go through [`panels`]: [`LANES`] queries side by side against blocks of keys, with a softmax that is corrected as
//! larger products turn up ([`forward`]); the way back makes the weights again from the logarithms of the divisors
//! ([`backward`]). Blocks of keys that no query may see are skipped. A few queries, as in decoding, would leave lanes idle:
//! those read keys and values once, along the vector units ([`few`]). Halves come widened to f32.

mod backward;
mod few;
mod forward;
mod panels;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_aten::kernels::Attention;
use tensor_core::{DType, Result, bf16, check, f16};

use crate::gemm::fetch;
use crate::isa::Isa;
use crate::loops::MatMut;
use crate::loops::views::{View, lock};
use crate::parallel::{GRAIN, get_num_threads, parallel_for};
use crate::rows::{vector_width, with_vectors, zip};
use crate::simd::{Cast, RealFloating, RealMath, Value};
use panels::{LANES, Lanes, ROWS, rows_by_panel, transpose};

/// Keys of a block.
const KEYS: usize = 64;

/// Tasks from which on heads alone keep all threads busy.
const TASKS: usize = 16;

/// Bytes of queries and keys of a head that is fetched while another one is worked on.
const SMALL: usize = 64 * 1024;

/// Element steps that the softmax costs a pair of a query and a key.
const SOFTMAX: usize = 20;

/// The most pairs of vectors of a panel.
const GROUPS: usize = LANES / 4;

/// An element type that attends in itself.
pub trait Attend: RealFloating + Value<Op = Self> + RealMath + Cast {}
impl<T: RealFloating + Value<Op = T> + RealMath + Cast> Attend for T {}

/// The inputs of a call.
struct Problem<'a, T> {
    q: View<'a, T>,
    k: View<'a, T>,
    v: View<'a, T>,
    mask: Option<View<'a, T>>,
    causal: bool,
    scale: T,
    weights: DType,
}

/// Rows of `cols` elements side by side, `stride` apart.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    elements: &'a [T],
    stride: usize,
    rows: usize,
    cols: usize,
}

impl<'a, T: Attend> Rows<'a, T> {
    /// Matrix `i` of a batch (b, h, rows, cols).
    fn new(view: &View<'a, T>, i: usize) -> Self {
        let stride = |d: usize| view.strides()[d] as usize;
        let at = i / view.size(1) * stride(0) + i % view.size(1) * stride(1);
        Self { elements: &view.span()[at..], stride: stride(2), rows: view.size(2), cols: view.size(3) }
    }

    #[inline(always)]
    fn row(&self, i: usize) -> &'a [T] {
        &self.elements[i * self.stride..][..self.cols]
    }

    /// Asks for the elements, which are read soon.
    #[inline(always)]
    fn fetch(&self) {
        for i in 0..self.rows {
            fetch(self.row(i));
        }
    }

    #[inline(always)]
    fn from(self, begin: usize) -> Self {
        Self { elements: &self.elements[begin * self.stride..], rows: self.rows - begin, ..self }
    }
}

/// What is added to the scores of a head: rows of queries, the keys' elements `step` apart.
#[derive(Clone, Copy)]
struct Mask<'a, T> {
    rows: Rows<'a, T>,
    step: usize,
}

impl<T: Attend> Mask<'_, T> {
    #[inline(always)]
    fn at(&self, query: usize, key: usize) -> T {
        self.rows.elements[query * self.rows.stride + key * self.step]
    }
}

/// The inputs of one head of one element of the batch.
#[derive(Clone, Copy)]
struct Head<'a, T> {
    q: Rows<'a, T>,
    k: Rows<'a, T>,
    v: Rows<'a, T>,
    mask: Option<Mask<'a, T>>,
    causal: bool,
    scale: T,
    weights: DType,
}

/// Queries from `first` on, `rows` of them, in a panel's first `lanes` lanes.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    rows: usize,
    lanes: usize,
}

/// How many of a block's keys each pair of vectors looks at.
struct Limits {
    groups: usize,
    keys: [usize; GROUPS],
}

impl Limits {
    fn get(&self) -> &[usize] {
        &self.keys[..self.groups]
    }
}

impl<'a, T: Attend> Problem<'a, T> {
    fn new(inputs: [View<'a, T>; 3], mask: Option<View<'a, T>>, attention: &Attention<'_>) -> Result<Self> {
        let [q, k, v] = inputs;
        let dense = |x: &View<'a, T>| x.dim() == 4 && (x.size(3) <= 1 || x.strides()[3] == 1);
        check!(dense(&q) && dense(&k) && dense(&v), "attention: the elements of a head do not lie side by side");
        let heads = |x: &View<'a, T>| x.sizes()[..2] == q.sizes()[..2];
        let pairs = |x: &View<'a, T>| x.dim() == 4 && heads(x) && x.size(2) == q.size(2) && x.size(3) == k.size(2);
        let fits = heads(&k) && heads(&v) && k.size(3) == q.size(3) && v.size(2) == k.size(2);
        check!(fits && mask.as_ref().is_none_or(pairs), "attention: the shapes do not fit");
        let (scale, weights) = (T::from_scalar(attention.scale.into()), attention.weights);
        Ok(Self { q, k, v, mask, causal: attention.causal, scale, weights })
    }

    /// How many heads there are in all.
    fn heads(&self) -> usize {
        self.q.size(0) * self.q.size(1)
    }

    /// The head that a thread is likely to work on after head `i`, if it is worth fetching in advance: small ones are, whose rows lie
    /// apart in memory.
    fn after(&self, i: usize) -> Option<Head<'a, T>> {
        let (next, elements) = (i + get_num_threads(), (self.q.size(2) + self.k.size(2)) * self.q.size(3));
        (next < self.heads() && elements * size_of::<T>() <= SMALL).then(|| self.head(next))
    }

    fn head(&self, i: usize) -> Head<'a, T> {
        let mask = self.mask.as_ref().map(|mask| Mask { rows: Rows::new(mask, i), step: mask.strides()[3] as usize });
        let (q, k, v) = (Rows::new(&self.q, i), Rows::new(&self.k, i), Rows::new(&self.v, i));
        Head { q, k, v, mask, causal: self.causal, scale: self.scale, weights: self.weights }
    }
}

impl<T: Attend> Head<'_, T> {
    /// The block of queries from `first` on.
    #[inline(always)]
    fn block<const L: usize>(&self, first: usize) -> Block {
        let rows = LANES.min(self.q.rows - first);
        Block { first, rows, lanes: rows.next_multiple_of(2 * L) }
    }

    /// How many keys the queries before `end` may see.
    #[inline(always)]
    fn seen(&self, end: usize) -> usize {
        if self.causal { end.min(self.k.rows) } else { self.k.rows }
    }

    /// What the pairs of a block see of the keys `start..end`, in whole tiles.
    #[inline(always)]
    fn limits<const L: usize>(&self, block: Block, start: usize, end: usize) -> Limits {
        let mut limits = Limits { groups: block.lanes / (2 * L), keys: [end - start; GROUPS] };
        if self.causal {
            for (g, limit) in limits.keys.iter_mut().enumerate() {
                let seen = (block.first + (g + 1) * 2 * L).saturating_sub(start);
                *limit = seen.next_multiple_of(ROWS).min(*limit);
            }
        }
        limits
    }

    /// `scores[k][lane] = k[start + k] . queries[lane] + mask` of the keys within the limits, minus infinity for hidden ones.
    #[inline(always)]
    fn scores<I: Isa, const L: usize>(
        &self,
        queries: &[Lanes<T>],
        block: Block,
        start: usize,
        limits: &Limits,
        scores: &mut [Lanes<T>],
    ) {
        rows_by_panel::<I, T, L>(self.k.from(start), queries, scores, limits.get());
        if let Some(mask) = self.mask {
            add_mask(mask, block, start, scores);
        }
        if !self.causal {
            return;
        }
        for (g, &limit) in limits.get().iter().enumerate() {
            let query = block.first + g * 2 * L;
            let begin = (query + 1).saturating_sub(start).min(limit);
            for (k, row) in (begin..limit).zip(&mut scores[begin..limit]) {
                let hidden = (start + k - query).min(2 * L);
                row[g * 2 * L..][..hidden].fill(T::LOWEST);
            }
        }
    }
}

/// `scores[k][lane] += mask[first + lane][start + k]`
#[inline(always)]
fn add_mask<T: Attend>(mask: Mask<'_, T>, block: Block, start: usize, scores: &mut [Lanes<T>]) {
    let rows = mask.rows.from(block.first);
    if rows.stride == 0 {
        for (k, scores) in scores.iter_mut().enumerate() {
            let hidden = mask.at(0, start + k);
            scores.iter_mut().for_each(|score| *score = score.add(hidden));
        }
    } else if mask.step == 1 {
        transpose(
            scores,
            (block.rows, block.lanes),
            #[inline(always)]
            |r| &rows.row(r)[start..],
            #[inline(always)]
            |scores, hidden| *scores = zip(*scores, hidden, T::add),
        );
    } else {
        for (k, scores) in scores.iter_mut().enumerate() {
            for (r, score) in scores[..block.rows].iter_mut().enumerate() {
                *score = score.add(mask.at(block.first + r, start + k));
            }
        }
    }
}

/// Asks for the rows of a small result, which is written soon.
#[inline(always)]
fn fetch_result<T: Attend>(result: &mut MatMut<'_, T>) {
    if result.col_stride() == 1 && result.rows() * result.cols() * size_of::<T>() <= SMALL {
        for i in 0..result.rows() {
            fetch(result.row_mut(i));
        }
    }
}

/// Rounds the elements to those of a half, as weights that were given as such are.
#[inline(always)]
fn round<T: Attend>(weights: &mut [T], dtype: DType) {
    #[inline(always)]
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

/// Calls `f` with each item, in parallel, compiled for the level `I`. `work` is about how many element steps one costs.
#[inline]
fn par_each<I: Isa, W: Send>(items: Vec<W>, work: usize, f: impl Fn(W) + Sync) {
    let items: Vec<Mutex<Option<W>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    parallel_for(items.len(), (GRAIN / work.max(1)).max(1), |begin, end| {
        I::run(
            #[inline(always)]
            || {
                for item in &items[begin..end] {
                    let item = item.lock().take();
                    if let Some(item) = item {
                        f(item);
                    }
                }
            },
        )
    });
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
    let read = |i: usize| locked.read::<T>(i);
    let mask = attention.mask.map(|_| read(3)).transpose()?;
    let problem = Problem::new([read(0)?, read(1)?, read(2)?], mask, &attention)?;
    let (mut out, mut logsumexp) = (locked.write::<T>(0)?, locked.write::<T>(1)?);
    let queries = problem.q.size(2);
    let mut logarithms = vec![T::ZERO; problem.heads() * queries];
    if queries * 2 <= vector_width::<I, T>() {
        few::forward::<I, T>(&problem, &mut out, &mut logarithms)?;
    } else {
        with_vectors!(I, T, forward::forward < I, T > (&problem, &mut out, &mut logarithms))?;
    }
    logsumexp.copy_from(&logarithms);
    Ok(())
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
    let mask = attention.mask.map(|_| read(6)).transpose()?;
    let problem = Problem::new([read(1)?, read(2)?, read(3)?], mask, &attention)?;
    let given = backward::Given::new(read(0)?, read(4)?, read(5)?, &problem)?;
    let mut grads = [locked.write::<T>(0)?, locked.write::<T>(1)?, locked.write::<T>(2)?];
    with_vectors!(I, T, backward::backward < I, T > (&problem, &given, &mut grads))
}
