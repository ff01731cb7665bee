//! Reductions of segments of the middle dimension of contiguous (outer, along, inner) tensors.

use tensor_aten::Tensor;
use tensor_aten::kernels::{SegmentReduction, Segments};
use tensor_core::{Result, check};

use crate::loops::views::lock;
use crate::simd::{Arith, Math, Real, RealFloating};

/// The bounds of each segment, checked to rise within `size`.
fn spans(bounds: &[i64], outer: usize, size: usize) -> Result<Vec<Vec<(usize, usize)>>> {
    let each = bounds.len().checked_div(outer).unwrap_or(0);
    let rising = |row: &[i64]| row.windows(2).all(|w| 0 <= w[0] && w[0] <= w[1] && w[1] as usize <= size);
    let rows: Vec<&[i64]> = bounds.chunks(each.max(1)).take(outer).collect();
    check!(rows.iter().all(|row| rising(row)), "segment_reduce(): segments lie outside of data");
    Ok(rows.into_iter().map(|row| row.windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect()).collect())
}

fn shape(x: &Tensor) -> [usize; 3] {
    match *x.sizes() {
        [a, b, c] => [a as usize, b as usize, c as usize],
        _ => [0; 3],
    }
}

/// `out[a, s, c]` reduces `x[a, segment s, c]`, from the initial value or the reduction's neutral one.
pub fn segment_reduce<T: RealFloating>(out: &Tensor, x: &Tensor, segments: Segments<'_>) -> Result<()> {
    let [outer, along, inner] = shape(x);
    let locked = lock(&[x.as_impl(), segments.bounds.as_impl()], &[out.as_impl()])?;
    let (x, bounds) = (locked.read::<T>(0)?.dense(), locked.read::<i64>(1)?.dense());
    let spans = spans(&bounds, outer, along)?;
    let f = <T::Op as Math>::from_f64;
    let neutral = match segments.reduction {
        SegmentReduction::Max => f64::NEG_INFINITY,
        SegmentReduction::Min => f64::INFINITY,
        SegmentReduction::Mean | SegmentReduction::Sum => 0.0,
        SegmentReduction::Prod => 1.0,
    };
    let start = f(segments.initial.unwrap_or(neutral));
    let nan = |x: T::Op| Real::to_f64(x).is_nan();
    let fold = |sum: T::Op, x: T::Op| match segments.reduction {
        SegmentReduction::Max => {
            if nan(x) || (!nan(sum) && x > sum) {
                x
            } else {
                sum
            }
        }
        SegmentReduction::Min => {
            if nan(x) || (!nan(sum) && x < sum) {
                x
            } else {
                sum
            }
        }
        SegmentReduction::Mean | SegmentReduction::Sum => sum.add(x),
        SegmentReduction::Prod => sum.mul(x),
    };
    let end = |sum: T::Op, length: usize| match segments.reduction {
        SegmentReduction::Mean if length > 0 && !nan(sum) => sum.div(f(length as f64)),
        SegmentReduction::Mean if length == 0 && segments.initial.is_none() => f(f64::NAN),
        _ => sum,
    };
    locked.write::<T>(0)?.with_dense(|out| {
        let places = spans.iter().enumerate().flat_map(|(a, row)| row.iter().map(move |&span| (a, span)));
        for (out, (a, (begin, stop))) in out.chunks_mut(inner.max(1)).zip(places) {
            for (c, out) in out.iter_mut().enumerate() {
                let sum = (begin..stop).fold(start, |sum, i| fold(sum, x[(a * along + i) * inner + c].up()));
                *out = T::down(end(sum, stop - begin));
            }
        }
    });
    Ok(())
}

/// Adds nothing to zeros outside of segments, and inside the gradients of [`segment_reduce`]: `[grad, output, x]`. Equal
/// extremes share theirs where these are positive, as PyTorch has it.
pub fn segment_reduce_backward<T: RealFloating>(
    out: &Tensor,
    [grad, output, x]: [&Tensor; 3],
    segments: Segments<'_>,
) -> Result<()> {
    let [outer, along, inner] = shape(x);
    let reads = [grad.as_impl(), output.as_impl(), x.as_impl(), segments.bounds.as_impl()];
    let locked = lock(&reads.map(|x| &**x), &[out.as_impl()])?;
    let [grad, output, x] = [locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense(), locked.read::<T>(2)?.dense()];
    let bounds = locked.read::<i64>(3)?.dense();
    let spans = spans(&bounds, outer, along)?;
    let f = <T::Op as Math>::from_f64;
    let initial = f(segments.initial.unwrap_or(1.0));
    let nan = |x: T::Op| Real::to_f64(x).is_nan();
    locked.write::<T>(0)?.with_dense(|out| {
        let places = spans.iter().enumerate().flat_map(|(a, row)| row.iter().map(move |&span| (a, span)));
        for (s, (a, (begin, end))) in places.enumerate() {
            for c in 0..inner {
                let (g, result) = (grad[s * inner + c].up(), output[s * inner + c].up());
                let at = |i: usize| (a * along + i) * inner + c;
                match segments.reduction {
                    SegmentReduction::Sum => (begin..end).for_each(|i| out[at(i)] = T::down(g)),
                    SegmentReduction::Mean => {
                        let share = T::down(g.div(f((end - begin) as f64)));
                        (begin..end).for_each(|i| out[at(i)] = share);
                    }
                    SegmentReduction::Max | SegmentReduction::Min => {
                        let chosen = |i: usize| nan(x[at(i)].up()) || x[at(i)].up() == result;
                        let count = (begin..end).filter(|&i| chosen(i)).count();
                        let shared = count > 1 && g > T::Op::ZERO;
                        let share = if shared { T::down(g.div(f(count as f64))) } else { T::down(g) };
                        (begin..end).filter(|&i| chosen(i)).for_each(|i| out[at(i)] = share);
                    }
                    SegmentReduction::Prod => {
                        let whole = g.mul(result);
                        for i in begin..end {
                            let here = x[at(i)].up();
                            let slope = if nan(here) || here == T::Op::ZERO {
                                let others = (begin..end).filter(|&k| k != i);
                                g.mul(others.fold(initial, |product, k| product.mul(x[at(k)].up())))
                            } else {
                                whole.div(here)
                            };
                            out[at(i)] = T::down(slope);
                        }
                    }
                }
            }
        }
    });
    Ok(())
}
