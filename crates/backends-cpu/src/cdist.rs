//! Distances between rows, and their gradients.

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::isa::{Baseline, Isa};
use crate::loops::views::{lock, par_rows};
use crate::rows;
use crate::simd::{Arith, Math, Real, RealFloating, RealMath};

/// `|a - b|`
#[inline(always)]
fn apart<T: RealFloating>(a: T, b: T) -> T::Op {
    RealMath::abs(a.up().sub(b.up()))
}

/// `(sum |a - b|^p)^(1/p)`; how many differ for p = 0, the largest difference for infinity.
#[inline(always)]
fn distance<I: Isa, T: RealFloating>(a: &[T], b: &[T], p: f64) -> T::Op {
    if p == 0.0 || p.is_infinite() {
        let mut result = T::Op::ZERO;
        for (&a, &b) in a.iter().zip(b) {
            let d = apart(a, b);
            result = if p != 0.0 {
                d.maximum(result)
            } else if d == T::Op::ZERO {
                result
            } else {
                result.add(T::Op::ONE)
            };
        }
        return result;
    }
    let zero = T::Op::ZERO;
    let sum = if p == 1.0 {
        rows::sums(
            a,
            b,
            #[inline(always)]
            |a: T, b: T| (apart(a, b), zero),
        )
    } else if p == 2.0 {
        rows::sums(
            a,
            b,
            #[inline(always)]
            |a: T, b: T| {
                let d = apart(a, b);
                (d.mul(d), zero)
            },
        )
    } else {
        let p = T::Op::from_f64(p);
        rows::sums(
            a,
            b,
            #[inline(always)]
            |a: T, b: T| (apart(a, b).pow::<I>(p), zero),
        )
    };
    match p {
        1.0 => T::Op::from_f64(sum.0),
        2.0 => T::Op::from_f64(sum.0.sqrt()),
        _ => T::Op::from_f64(sum.0.powf(1.0 / p)),
    }
}

/// `out += share of grad in the distance of a and b`
fn add_gradient<T: RealFloating>(out: &mut [T::Op], (a, b): (&[T], &[T]), grad: T, dist: T, p: f64) {
    let (zero, one) = (T::Op::ZERO, T::Op::ONE);
    let (grad, dist) = (grad.up(), dist.up());
    let side = |d: T::Op| if d > zero { one } else { if d < zero { one.neg() } else { zero } };
    let pairs = out.iter_mut().zip(a.iter().zip(b).map(|(a, b)| a.up().sub(b.up())));
    if p == 0.0 {
    } else if p == 1.0 {
        pairs.for_each(|(out, d)| *out = out.add(grad.mul(side(d))));
    } else if p.is_infinite() {
        pairs.for_each(|(out, d)| {
            if RealMath::abs(d) == dist {
                *out = out.add(grad.mul(side(d)));
            }
        });
    } else if dist == zero {
    } else if p == 2.0 {
        let factor = grad.div(dist);
        pairs.for_each(|(out, d)| *out = out.add(factor.mul(d)));
    } else {
        let power = T::Op::from_f64(p - 1.0);
        let factor = grad.div(dist.pow::<Baseline>(power));
        pairs.for_each(|(out, d)| {
            if d != zero {
                *out = out.add(side(d).mul(RealMath::abs(d).pow::<Baseline>(power)).mul(factor));
            }
        });
    }
}

/// `out[b, i, j] = distance(x1[b, i, :], x2[b, j, :])`
pub fn cdist<I: Isa, T: RealFloating>(out: &Tensor, x1: &Tensor, x2: &Tensor, p: f64) -> Result<()> {
    let locked = lock(&[x1.as_impl(), x2.as_impl()], &[out.as_impl()])?;
    let (first, second) = (locked.read::<T>(0)?, locked.read::<T>(1)?);
    let (batch, n, m, width) = (first.size(0), first.size(1), second.size(1), first.size(2));
    let (first, second) = (first.dense(), second.dense());
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<I, T>(
            out,
            batch * n,
            m * width.max(1),
            #[inline(always)]
            |row, out| {
                let a = &first[row * width..][..width];
                for (j, out) in out.iter_mut().enumerate() {
                    let b = &second[(row / n * m + j) * width..][..width];
                    *out = T::down(distance::<I, T>(a, b, p));
                }
            },
        );
    });
    Ok(())
}

/// `out[b, i, :] = sum over j of grad[b, i, j] * slope of the distance of x1[b, i, :] and x2[b, j, :]`, from
/// `[grad, x1, x2, distances]`.
pub fn cdist_backward<T: RealFloating>(out: &Tensor, inputs: [&Tensor; 4], p: f64) -> Result<()> {
    let locked = lock(&inputs.map(|input| &**input.as_impl()), &[out.as_impl()])?;
    let (first, second) = (locked.read::<T>(1)?, locked.read::<T>(2)?);
    let (batch, n, m, width) = (first.size(0), first.size(1), second.size(1), first.size(2));
    let (grad, first) = (locked.read::<T>(0)?.dense(), first.dense());
    let (second, dist) = (second.dense(), locked.read::<T>(3)?.dense());
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, batch * n, m * width.max(1), |row, out| {
            let mut sums = vec![T::Op::ZERO; width];
            for j in 0..m {
                let rows = (&first[row * width..][..width], &second[(row / n * m + j) * width..][..width]);
                add_gradient::<T>(&mut sums, rows, grad[row * m + j], dist[row * m + j], p);
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::down(sum);
            }
        });
    });
    Ok(())
}

/// Where the distances of row `i` to those after it start, among n rows.
#[inline]
fn start(i: usize, n: usize) -> usize {
    i * (2 * n - i - 1) / 2
}

/// `out = distance(x[i, :], x[j, :])` for i < j, row by row.
pub fn pdist<I: Isa, T: RealFloating>(out: &Tensor, x: &Tensor, p: f64) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let (n, width) = (x.size(0), x.size(1));
    let x = x.dense();
    locked.write::<T>(0)?.with_dense(|out| {
        let pairs = out.len();
        par_rows::<I, T>(
            out,
            pairs,
            width.max(1),
            #[inline(always)]
            |pair, out| {
                // The row whose distances hold this one.
                let (mut low, mut high) = (0, n - 1);
                while low + 1 < high {
                    let middle = low.midpoint(high);
                    if start(middle, n) <= pair { low = middle } else { high = middle }
                }
                let j = low + 1 + pair - start(low, n);
                out[0] = T::down(distance::<I, T>(&x[low * width..][..width], &x[j * width..][..width], p));
            },
        );
    });
    Ok(())
}

/// `out[i, :] = sum over j of grad of (i, j) * slope of the distance`, from `[grad, x, distances]`.
pub fn pdist_backward<T: RealFloating>(out: &Tensor, inputs: [&Tensor; 3], p: f64) -> Result<()> {
    let locked = lock(&inputs.map(|input| &**input.as_impl()), &[out.as_impl()])?;
    let x = locked.read::<T>(1)?;
    let (n, width) = (x.size(0), x.size(1));
    let (grad, x, dist) = (locked.read::<T>(0)?.dense(), x.dense(), locked.read::<T>(2)?.dense());
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, n, n * width.max(1), |i, out| {
            let mut sums = vec![T::Op::ZERO; width];
            for j in (0..n).filter(|&j| j != i) {
                let (low, high) = (i.min(j), i.max(j));
                let pair = start(low, n) + high - low - 1;
                let rows = (&x[i * width..][..width], &x[j * width..][..width]);
                add_gradient::<T>(&mut sums, rows, grad[pair], dist[pair], p);
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::down(sum);
            }
        });
    });
    Ok(())
}
