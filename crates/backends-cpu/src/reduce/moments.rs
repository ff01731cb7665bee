//! Variances and norms along the middle dimension of a contiguous (A, R, B) tensor, carried in f64.

use tensor_aten::Tensor;
use tensor_core::{Complex, Element, Result};

use super::extents;
use crate::isa::{Baseline, Isa};
use crate::loops::views::{column_runs, lock, par_chunks};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::rows;
use crate::simd::{Arith, Floating, Math, Real, RealFloating, Value};

/// Independent accumulators of a row.
const WIDTH: usize = 16;
/// Bytes that stay in the nearest cache while a block's mean is found, and its spread about that.
const NEAR: usize = 16 << 10;
/// Columns that are laid out as rows together: those of a cache line.
const TILE: usize = 16;

/// A number in f64: the variance and norms of complex numbers are those of their parts and moduli.
pub trait Parts: Floating {
    /// f64, or complex numbers of it.
    type Wide: Arith + Copy + Send + Sync;
    /// The number in f64.
    fn wide(self) -> Self::Wide;
    /// `sum` and the square of the modulus.
    fn add_square<I: Isa>(sum: f64, value: Self::Wide) -> f64;
    /// The modulus.
    fn modulus(value: Self::Wide) -> f64;
    /// A fraction of a number.
    fn over(value: Self::Wide, n: f64) -> Self::Wide;
    /// The mean of some elements, at least one, and the sum of squared distances from it.
    fn moments<I: Isa>(block: &[Self]) -> (Self::Wide, f64);
    /// The element of the real dtype.
    fn real(value: f64) -> Self::Abs;
}

macro_rules! parts {
    ($($real:ty)*; $($complex:ty)*) => { $(
        impl Parts for $real {
            type Wide = f64;
            #[inline(always)]
            fn wide(self) -> f64 { Real::to_f64(self.up()) }
            #[inline(always)]
            fn add_square<I: Isa>(sum: f64, value: f64) -> f64 { I::mul_add(value, value, sum) }
            #[inline(always)]
            fn modulus(value: f64) -> f64 { value.abs() }
            #[inline(always)]
            fn over(value: f64, n: f64) -> f64 { value / n }
            fn moments<I: Isa>(block: &[Self]) -> (f64, f64) { near_moments::<I, Self>(block) }
            #[inline(always)]
            fn real(value: f64) -> Self { <$real>::down(value as _) }
        }
    )* $(
        impl Parts for Complex<$complex> {
            type Wide = Complex<f64>;
            #[inline(always)]
            fn wide(self) -> Complex<f64> { Complex::new(self.re as f64, self.im as f64) }
            #[inline(always)]
            fn add_square<I: Isa>(sum: f64, value: Complex<f64>) -> f64 {
                I::mul_add(value.re, value.re, I::mul_add(value.im, value.im, sum))
            }
            #[inline(always)]
            fn modulus(value: Complex<f64>) -> f64 { value.re.hypot(value.im) }
            #[inline(always)]
            fn over(value: Complex<f64>, n: f64) -> Complex<f64> { Complex::new(value.re / n, value.im / n) }
            fn moments<I: Isa>(block: &[Self]) -> (Complex<f64>, f64) { wide_moments::<I, Self>(block) }
            #[inline(always)]
            fn real(value: f64) -> $complex { value as $complex }
        }
    )* };
}
parts!(f32 f64 tensor_core::f16 tensor_core::bf16; f32 f64);

/// The elements of one result.
#[derive(Clone, Copy)]
struct Row<'a, T> {
    x: &'a [T],
    /// True if it is all the work there is: it is shared among the threads, in chunks of a fixed size.
    alone: bool,
}

impl<T: Parts> Row<'_, T> {
    /// Combines `step(.., x)` over the elements, in an order that depends on their number alone.
    #[inline]
    fn fold<I: Isa, A: Copy + Send + Sync>(
        self,
        init: A,
        step: impl Fn(A, T::Wide) -> A + Copy + Sync,
        combine: impl Fn(A, A) -> A + Copy + Sync,
    ) -> A {
        let x = self.x;
        if self.alone {
            let chunk = |begin: usize, end: usize| fold_row::<I, T, A>(&x[begin..end], init, step, combine);
            parallel_reduce(x.len(), GRAIN, init, chunk, combine)
        } else {
            fold_row::<I, T, A>(x, init, step, combine)
        }
    }
}

/// Out of line, one copy for all that call it.
#[inline(never)]
fn fold_row<I: Isa, T: Parts, A: Copy>(
    x: &[T],
    init: A,
    step: impl Fn(A, T::Wide) -> A,
    combine: impl Fn(A, A) -> A,
) -> A {
    I::run(
        #[inline(always)]
        || {
            let mut acc = [init; WIDTH];
            let (runs, rest) = x.as_chunks::<WIDTH>();
            for run in runs {
                // Not in place: that LLVM would unroll and vectorise by twos.
                let mut next = acc;
                for i in 0..WIDTH {
                    next[i] = step(acc[i], run[i].wide());
                }
                acc = next;
            }
            let mut few = init;
            for x in rest {
                few = step(few, x.wide());
            }
            let mut width = WIDTH;
            while width > 1 {
                width /= 2;
                for i in 0..width {
                    acc[i] = combine(acc[i], acc[i + width]);
                }
            }
            combine(acc[0], few)
        },
    )
}

/// Stores what `f` gives for each row of `x` (A, R, B). Columns are laid out as rows first, a tile at a time.
fn by_row<T: Value, O: Element>(out: &Tensor, x: &Tensor, f: &(dyn Fn(Row<'_, T>) -> O + Sync)) -> Result<()> {
    let (a, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    locked.write::<O>(0)?.with_dense(|out| {
        if a * b == 1 {
            out[0] = f(Row { x: &x, alone: true });
            return;
        }
        let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(TILE.min(b));
        par_chunks::<Baseline, O>(out, grain, |start, part| {
            let mut rows = vec![T::zeroed(); if b == 1 { 0 } else { TILE * r }];
            column_runs(start, part.len(), b, TILE, |done, row, column, width| {
                if b == 1 {
                    part[done] = f(Row { x: &x[row * r..][..r], alone: false });
                    return;
                }
                for i in 0..r {
                    for (j, &x) in x[(row * r + i) * b + column..][..width].iter().enumerate() {
                        rows[j * r + i] = x;
                    }
                }
                for (j, out) in part[done..done + width].iter_mut().enumerate() {
                    *out = f(Row { x: &rows[j * r..][..r], alone: false });
                }
            });
        });
    });
    Ok(())
}

/// [`Parts::moments`] in f64.
fn wide_moments<I: Isa, T: Parts>(block: &[T]) -> (T::Wide, f64) {
    let total = fold_row::<I, T, _>(block, T::Wide::ZERO, |acc, x| acc.add(x), |p, q| p.add(q));
    let mean = T::over(total, block.len() as f64);
    (mean, fold_row::<I, T, _>(block, 0.0, |acc, x| T::add_square::<I>(acc, x.sub(mean)), |p, q| p + q))
}

/// [`Parts::moments`] in the type of computation, about a centre that is the mean but for rounding; in f64 where that overflows.
#[inline(never)]
fn near_moments<I: Isa, T: RealFloating + Parts<Wide = f64>>(block: &[T]) -> (f64, f64) {
    let n = block.len() as f64;
    let (centre, sum, squares) = I::run(
        #[inline(always)]
        || {
            let total = rows::sum(
                block,
                #[inline(always)]
                |x: T| x.up(),
            );
            let centre = T::Op::from_f64(total / n);
            let (sum, squares) = rows::sums(
                block,
                block,
                #[inline(always)]
                |x: T, _: T| {
                    let d = x.up().sub(centre);
                    (d, d.mul(d))
                },
            );
            (Real::to_f64(centre), sum, squares)
        },
    );
    if squares.is_finite() { (centre + sum / n, squares - sum * sum / n) } else { wide_moments::<I, T>(block) }
}

/// The number of elements, their mean, and the sum of squared distances from it.
#[derive(Clone, Copy)]
struct Moments<W> {
    n: f64,
    mean: W,
    spread: f64,
}

impl<W: Arith + Copy> Moments<W> {
    const NONE: Self = Self { n: 0.0, mean: W::ZERO, spread: 0.0 };

    /// Those of elements side by side, in blocks.
    fn of<I: Isa, T: Parts<Wide = W>>(x: &[T]) -> Self {
        let mut all = Self::NONE;
        for block in x.chunks(NEAR / size_of::<T>()) {
            let (mean, spread) = T::moments::<I>(block);
            all = all.with::<T>(Self { n: block.len() as f64, mean, spread });
        }
        all
    }

    /// Those of both together.
    fn with<T: Parts<Wide = W>>(self, other: Self) -> Self {
        if self.n == 0.0 {
            return other;
        }
        let (n, apart) = (self.n + other.n, other.mean.sub(self.mean));
        let between = T::add_square::<Baseline>(0.0, apart) * (self.n * other.n / n);
        Self { n, mean: self.mean.add(T::over(apart, n / other.n)), spread: self.spread + other.spread + between }
    }
}

/// `out = sum(|x - mean(x)|^2) / max(R - correction, 0)`
pub fn var<I: Isa, T: Parts>(out: &Tensor, x: &Tensor, correction: f64) -> Result<()> {
    by_row::<T, T::Abs>(out, x, &|row| {
        let chunk = |begin: usize, end: usize| Moments::of::<I, T>(&row.x[begin..end]);
        let n = row.x.len();
        let all =
            if row.alone { parallel_reduce(n, GRAIN, Moments::NONE, chunk, Moments::with::<T>) } else { chunk(0, n) };
        T::real(all.spread / (all.n - correction).max(0.0))
    })
}

/// `out = (sum |x|^p)^(1/p)`; the count of nonzeros for p = 0, the extremum for p = +-inf.
pub fn norm<I: Isa, T: Parts>(out: &Tensor, x: &Tensor, p: f64) -> Result<()> {
    by_row::<T, T::Abs>(out, x, &|row| {
        let add = |p: f64, q: f64| p + q;
        T::real(if p == 2.0 {
            row.fold::<I, _>(0.0, |sum, x| T::add_square::<I>(sum, x), add).sqrt()
        } else if p == 1.0 {
            row.fold::<I, _>(0.0, |sum, x| sum + T::modulus(x), add)
        } else if p == 0.0 {
            row.fold::<I, _>(0.0, |sum, x| sum + f64::from(u8::from(T::modulus(x) != 0.0)), add)
        } else if p == f64::INFINITY {
            row.fold::<I, _>(0.0, |most, x| Real::maximum(T::modulus(x), most), Real::maximum)
        } else if p == f64::NEG_INFINITY {
            row.fold::<I, _>(f64::INFINITY, |least, x| Real::minimum(T::modulus(x), least), Real::minimum)
        } else {
            row.fold::<Baseline, _>(0.0, |sum, x| sum + T::modulus(x).powf(p), add).powf(1.0 / p)
        })
    })
}
