//! Running sums, products, extrema and logarithms of sums along the middle dimension of contiguous (A, R, B) tensors. Sums, which
//! programs wait for, are vector code in `sums`.

mod sums;

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks, par_chunks2};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Math, Number, Ordered, RealFloating};

pub use sums::cumsum;

/// How many (R, B) planes make a chunk that is worth a thread, in elements.
fn grain(plane: usize) -> usize {
    plane.max(1) * (GRAIN / plane.max(1)).max(1)
}

/// `out[a, i, b] = next(out[a, i - 1, b], x[a, i, b])`, computed in `Acc`; the first is `first(x)`.
#[inline]
fn running<T: Number, Acc: Copy>(
    out: &Tensor,
    x: &Tensor,
    first: impl Fn(T) -> Acc + Sync,
    next: impl Fn(Acc, T) -> Acc + Sync,
    finish: impl Fn(Acc) -> T + Sync,
) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let (r, b) = (view.size(1), view.size(2));
    let x = view.dense();
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<Baseline, T>(out, grain(r * b), |start, out| {
            for (out, x) in out.chunks_mut(r * b).zip(x[start..].chunks(r * b)) {
                for column in 0..b {
                    let mut acc = first(x[column]);
                    out[column] = finish(acc);
                    for at in (column..r * b).step_by(b).skip(1) {
                        acc = next(acc, x[at]);
                        out[at] = finish(acc);
                    }
                }
            }
        });
    });
    Ok(())
}

/// `out[a, i, b] = product of x[a, ..=i, b]`
pub fn cumprod<T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    running::<T, T::Op>(out, x, |x| x.up(), |acc, x| acc.mul(x.up()), T::down)
}

/// `out[a, i, b] = log(sum of exp(x[a, ..=i, b]))`
pub fn logcumsumexp<T: RealFloating>(out: &Tensor, x: &Tensor) -> Result<()> {
    let next = |acc: T::Op, x: T| {
        let x = x.up();
        let (low, high) = if acc < x { (acc, x) } else { (x, acc) };
        let sum = high.add(low.sub(high).exp::<Baseline>().log1p::<Baseline>());
        // Infinities that equal each other, and no-numbers.
        if acc.is_nan() {
            acc
        } else if x.is_nan() {
            x
        } else if low == high && !low.is_finite() {
            high
        } else {
            sum
        }
    };
    running::<T, T::Op>(out, x, |x| x.up(), next, T::down)
}

/// `values` and `indices` of the last best element up to each.
#[inline]
fn selecting<T: Ordered>(
    values: &Tensor,
    indices: &Tensor,
    x: &Tensor,
    wins: impl Fn(T::Op, T::Op) -> bool + Sync,
) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let (r, b) = (view.size(1), view.size(2));
    let x = view.dense();
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            par_chunks2::<Baseline, T, i64>(values, indices, grain(r * b), |start, values, indices| {
                let planes = values.chunks_mut(r * b).zip(indices.chunks_mut(r * b)).zip(x[start..].chunks(r * b));
                for ((values, indices), x) in planes {
                    for column in 0..b {
                        let (mut best, mut index) = (x[column], 0);
                        for (i, at) in (column..r * b).step_by(b).enumerate() {
                            let (held, new) = (best.up(), x[at].up());
                            if new.is_nan() || !held.is_nan() && wins(new, held) {
                                (best, index) = (x[at], i as i64);
                            }
                            (values[at], indices[at]) = (best, index);
                        }
                    }
                }
            });
        });
    });
    Ok(())
}

/// `values, indices = cummax(x)`
pub fn cummax<T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    selecting::<T>(values, indices, x, |new, held| new >= held)
}

/// `values, indices = cummin(x)`
pub fn cummin<T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    selecting::<T>(values, indices, x, |new, held| new <= held)
}
