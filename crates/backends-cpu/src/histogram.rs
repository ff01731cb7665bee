//! Counts of elements by value: even and uneven bins, and a bin an integer.

use tensor_aten::Tensor;
use tensor_aten::kernels::Bins;
use tensor_core::Result;

use crate::loops::views::lock;
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Math, Number, Real, RealFloating};

/// Adds two lists, of which an empty one stands for zeros.
fn add(mut a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    if a.is_empty() {
        return b;
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// The last edge that is not larger than `x`, of those from `begin` to `end`.
fn last_below<T: RealFloating>(edges: &[T], x: T::Op, begin: usize, end: usize) -> usize {
    let end = end.min(edges.len());
    (begin + edges[begin..end].partition_point(|edge| edge.up() <= x)).saturating_sub(1)
}

/// `out[i]` is how many elements of `x`, by their weights, lie in bin i; the last bin includes its upper edge. Contiguous
/// tensors of one dtype.
pub fn histogram<T: RealFloating>(out: &Tensor, x: &Tensor, weight: Option<&Tensor>, bins: Bins<'_>) -> Result<()> {
    let mut reads = vec![&**x.as_impl()];
    reads.extend([weight, bins.edges].into_iter().flatten().map(|tensor| &**tensor.as_impl()));
    let locked = lock(&reads, &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let weight = weight.map(|_| locked.read::<T>(1)).transpose()?.map(|view| view.dense());
    let edges = match bins.edges {
        Some(_) => Some(locked.read::<T>(locked.inputs() - 1)?.dense()),
        None => None,
    };
    let [low, high] = bins.range.map(<T::Op as Math>::from_f64);
    locked.write::<T>(0)?.with_dense(|out| {
        let n = out.len();
        let scale = T::Op::from_f64(n as f64);
        let place = |x: T::Op| {
            let even = || Real::to_f64(x.sub(low).mul(scale).div(high.sub(low))) as usize;
            match &edges {
                None => even(),
                Some(edges) if bins.even => {
                    let near = even();
                    last_below(edges, x, near.saturating_sub(1).min(n), near + 2)
                }
                Some(edges) => last_below(edges, x, 0, edges.len()),
            }
        };
        let sums = parallel_reduce(
            x.len(),
            GRAIN.max(4 * n),
            Vec::new(),
            |begin, end| {
                let mut sums = vec![0.0; n];
                for i in begin..end {
                    let x = x[i].up();
                    if x >= low && x <= high {
                        sums[place(x).min(n - 1)] += weight.as_ref().map_or(1.0, |weight| Real::to_f64(weight[i].up()));
                    }
                }
                sums
            },
            add,
        );
        out.fill(T::down(T::Op::ZERO));
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = T::down(<T::Op as Math>::from_f64(sum)));
    });
    Ok(())
}

/// `out[x[i]] += weights[i]` (1 without weights), from zeros. `x` is i64, and checked to fit.
pub fn bincount<T: Number>(out: &Tensor, x: &Tensor, weights: Option<&Tensor>) -> Result<()> {
    let mut reads = vec![&**x.as_impl()];
    reads.extend(weights.map(|weights| &**weights.as_impl()));
    let locked = lock(&reads, &[out.as_impl()])?;
    let x = locked.read::<i64>(0)?.dense();
    let weights = weights.map(|_| locked.read::<T>(1)).transpose()?.map(|view| view.dense());
    locked.write::<T>(0)?.with_dense(|out| {
        out.fill(T::down(T::Op::ZERO));
        for (i, &x) in x.iter().enumerate() {
            let weight = weights.as_ref().map_or(T::Op::ONE, |weights| weights[i].up());
            if let Some(out) = out.get_mut(x as usize) {
                *out = T::down(out.up().add(weight));
            }
        }
    });
    Ok(())
}
