//! Reductions and scans over the middle dimension of a contiguous (A, R, B) tensor.
//!
//! Sums are cascades over fixed blocks, so a result depends on the shape alone, not on the number of threads.

use tensor_aten::Tensor;
use tensor_core::{Bool, Complex, Element, Result};

use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks, par_chunks2};
use crate::parallel::{GRAIN, parallel_reduce};
use crate::simd::{Arith, Floating, Math, Number, Ordered, Real, Value};

/// Independent accumulators of a row: enough to keep the vector units busy.
const WIDTH: usize = 32;
/// Elements that are accumulated in a straight line before partial results are combined pairwise.
const BLOCK: usize = 2048;
/// Columns that are accumulated side by side.
const COLUMNS: usize = 64;
/// Rows that a column accumulates in a straight line.
const DEPTH: usize = 128;

/// How a lane is folded: a step an element, and the combination of two partial results.
trait Fold<T: Value>: Copy + Send + Sync {
    type Acc: Copy + Send + Sync;
    fn identity(self) -> Self::Acc;
    fn step<I: Isa>(self, acc: Self::Acc, x: T::Op) -> Self::Acc;
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

/// Folds a row in blocks, combined pairwise.
#[inline(always)]
fn fold_row<I: Isa, T: Value, F: Fold<T>>(fold: F, row: &[T]) -> F::Acc {
    // Partial results of 2^level blocks, as in binary counting: a cascade without recursion.
    let mut levels = [fold.identity(); 48];
    let mut blocks = 0u64;
    let mut result = None;
    for block in row.chunks(BLOCK) {
        let mut carry = fold_block::<I, T, F>(fold, block);
        let mut level = 0;
        while blocks >> level & 1 == 1 {
            carry = fold.combine(levels[level], carry);
            level += 1;
        }
        levels[level] = carry;
        blocks += 1;
    }
    for (level, &part) in levels.iter().enumerate() {
        if blocks >> level & 1 == 1 {
            result = Some(match result {
                None => part,
                Some(right) => fold.combine(part, right),
            });
        }
    }
    result.unwrap_or_else(|| fold.identity())
}

#[inline(always)]
fn fold_block<I: Isa, T: Value, F: Fold<T>>(fold: F, block: &[T]) -> F::Acc {
    let mut acc = [fold.identity(); WIDTH];
    let (runs, rest) = block.as_chunks::<WIDTH>();
    for run in runs {
        for (acc, x) in acc.iter_mut().zip(run) {
            *acc = fold.step::<I>(*acc, x.up());
        }
    }
    for (acc, x) in acc.iter_mut().zip(rest) {
        *acc = fold.step::<I>(*acc, x.up());
    }
    let mut width = WIDTH;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = fold.combine(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

/// Folds `columns.len()` neighbouring columns of `rows` rows, `pitch` apart.
#[inline(always)]
fn fold_columns<I: Isa, T: Value, F: Fold<T>>(fold: F, x: &[T], rows: usize, pitch: usize, columns: &mut [F::Acc]) {
    let width = columns.len();
    let mut start = 0;
    while start < rows {
        let mut acc = [fold.identity(); COLUMNS];
        let end = rows.min(start + DEPTH);
        for r in start..end {
            for (acc, x) in acc[..width].iter_mut().zip(&x[r * pitch..][..width]) {
                *acc = fold.step::<I>(*acc, x.up());
            }
        }
        for (total, part) in columns.iter_mut().zip(acc) {
            *total = fold.combine(*total, part);
        }
        start = end;
    }
}

/// The (A, R, B) of a kernel's input.
fn extents(x: &Tensor) -> (usize, usize, usize) {
    match *x.sizes() {
        [a, r, b] => (a as usize, r as usize, b as usize),
        _ => (1, x.numel() as usize, 1),
    }
}

/// `out[a, b] = finish(fold of x[a, :, b])`
fn reduce<I: Isa, T: Value, O: Element, F: Fold<T>>(
    out: &Tensor,
    x: &Tensor,
    fold: F,
    finish: impl Fn(F::Acc, usize) -> O + Sync,
) -> Result<()> {
    let (a, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    locked.write::<O>(0)?.with_dense(|out| {
        if a * b == 1 {
            let whole = parallel_reduce(
                r,
                GRAIN,
                fold.identity(),
                |begin, end| I::run(|| fold_row::<I, T, F>(fold, &x[begin..end])),
                |p, q| fold.combine(p, q),
            );
            out[0] = finish(whole, r);
        } else if b == 1 {
            par_chunks::<I, O>(out, (GRAIN / r.max(1)).max(1), |start, part| {
                for (i, out) in part.iter_mut().enumerate() {
                    *out = finish(fold_row::<I, T, F>(fold, &x[(start + i) * r..][..r]), r);
                }
            });
        } else {
            let grain = (GRAIN / r.max(1)).max(1).next_multiple_of(COLUMNS.min(b));
            par_chunks::<I, O>(out, grain, |start, part| {
                let mut done = 0;
                while done < part.len() {
                    let (row, column) = ((start + done) / b, (start + done) % b);
                    let width = COLUMNS.min(b - column).min(part.len() - done);
                    let mut columns = [fold.identity(); COLUMNS];
                    if r > 0 {
                        fold_columns::<I, T, F>(fold, &x[row * r * b + column..], r, b, &mut columns[..width]);
                    }
                    for (out, acc) in part[done..done + width].iter_mut().zip(columns) {
                        *out = finish(acc, r);
                    }
                    done += width;
                }
            });
        }
    });
    Ok(())
}

/// A fold given by its parts.
macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident<T: $bound:path> -> $acc:ty { $identity:expr; |$s:ident, $x:ident| $step:expr; |$p:ident, $q:ident| $combine:expr })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;
        impl<T: $bound> Fold<T> for $name {
            type Acc = $acc;
            #[inline(always)]
            fn identity(self) -> Self::Acc { $identity }
            #[inline(always)]
            fn step<I: Isa>(self, $s: Self::Acc, $x: T::Op) -> Self::Acc { $step }
            #[inline(always)]
            fn combine(self, $p: Self::Acc, $q: Self::Acc) -> Self::Acc { $combine }
        }
    )* };
}

folds! {
    /// sum
    Sum<T: Number> -> T::Op { T::Op::ZERO; |s, x| s.add(x); |p, q| p.add(q) }
    /// product
    Product<T: Number> -> T::Op { T::Op::ONE; |s, x| s.mul(x); |p, q| p.mul(q) }
    /// the largest; no number if there is one
    Largest<T: Ordered> -> T::Op { T::Op::LOWEST; |s, x| x.maximum(s); |p, q| p.maximum(q) }
    /// the smallest; no number if there is one
    Smallest<T: Ordered> -> T::Op { T::Op::HIGHEST; |s, x| x.minimum(s); |p, q| p.minimum(q) }
    /// all are true
    All<T: Number> -> bool { true; |s, x| s & x.truth(); |p, q| p & q }
    /// one is true
    Any<T: Number> -> bool { false; |s, x| s | x.truth(); |p, q| p | q }
}

/// `out = sum(x)`
pub fn sum<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Sum, |acc, _| T::down(acc))
}

/// `out = sum(x) / R`
pub fn mean<I: Isa, T: Floating>(out: &Tensor, x: &Tensor) -> Result<()>
where
    T::Op: Math,
{
    reduce::<I, T, T, _>(out, x, Sum, |acc, r| T::down(acc.div(T::Op::from_f64(r as f64))))
}

/// `out = prod(x)`
pub fn prod<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Product, |acc, _| T::down(acc))
}

/// `out = max(x)`
pub fn amax<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Largest, |acc, _| T::down(acc))
}

/// `out = min(x)`
pub fn amin<I: Isa, T: Ordered>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, T, _>(out, x, Smallest, |acc, _| T::down(acc))
}

/// `out = all(x != 0)`
pub fn all<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, Bool, _>(out, x, All, |acc, _| Bool::new(acc))
}

/// `out = any(x != 0)`
pub fn any<I: Isa, T: Number>(out: &Tensor, x: &Tensor) -> Result<()> {
    reduce::<I, T, Bool, _>(out, x, Any, |acc, _| Bool::new(acc))
}

/// A number as real f64 parts: the variance and norms of complex numbers are those of their parts and moduli.
pub trait Parts: Floating {
    /// The real and the imaginary part (0 for real numbers).
    fn parts(self) -> (f64, f64);
    /// The element of the real dtype.
    fn real(value: f64) -> Self::Abs;
}
impl Parts for f32 {
    #[inline(always)]
    fn parts(self) -> (f64, f64) {
        (self as f64, 0.0)
    }
    #[inline(always)]
    fn real(value: f64) -> f32 {
        value as f32
    }
}
impl Parts for f64 {
    #[inline(always)]
    fn parts(self) -> (f64, f64) {
        (self, 0.0)
    }
    #[inline(always)]
    fn real(value: f64) -> f64 {
        value
    }
}
macro_rules! parts {
    ($($half:ty)*, $($complex:ty)*) => { $(
        impl Parts for $half {
            #[inline(always)]
            fn parts(self) -> (f64, f64) { (self.up() as f64, 0.0) }
            #[inline(always)]
            fn real(value: f64) -> Self { <$half>::down(value as f32) }
        }
    )* $(
        impl Parts for Complex<$complex> {
            #[inline(always)]
            fn parts(self) -> (f64, f64) { (self.re as f64, self.im as f64) }
            #[inline(always)]
            fn real(value: f64) -> $complex { value as $complex }
        }
    )* };
}
parts!(tensor_core::f16 tensor_core::bf16, f32 f64);

/// The sum of the parts of numbers, in f64.
#[derive(Clone, Copy)]
struct Total;
/// The sum of squared distances from a mean, in f64.
#[derive(Clone, Copy)]
struct Spread(f64, f64);
/// Moduli to a power, summed, in f64.
#[derive(Clone, Copy)]
struct Powers(f64);

/// A fold over the elements themselves, in f64.
trait Wide<T: Parts>: Copy + Send + Sync {
    type Acc: Copy;
    fn identity(self) -> Self::Acc;
    fn step(self, acc: Self::Acc, x: (f64, f64)) -> Self::Acc;
    fn combine(self, a: Self::Acc, b: Self::Acc) -> Self::Acc;
}
impl<T: Parts> Wide<T> for Total {
    type Acc = (f64, f64);
    #[inline(always)]
    fn identity(self) -> (f64, f64) {
        (0.0, 0.0)
    }
    #[inline(always)]
    fn step(self, acc: (f64, f64), x: (f64, f64)) -> (f64, f64) {
        (acc.0 + x.0, acc.1 + x.1)
    }
    #[inline(always)]
    fn combine(self, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        (a.0 + b.0, a.1 + b.1)
    }
}
impl<T: Parts> Wide<T> for Spread {
    type Acc = f64;
    #[inline(always)]
    fn identity(self) -> f64 {
        0.0
    }
    #[inline(always)]
    fn step(self, acc: f64, x: (f64, f64)) -> f64 {
        let (re, im) = (x.0 - self.0, x.1 - self.1);
        acc + re * re + im * im
    }
    #[inline(always)]
    fn combine(self, a: f64, b: f64) -> f64 {
        a + b
    }
}
impl<T: Parts> Wide<T> for Powers {
    type Acc = f64;
    #[inline(always)]
    fn identity(self) -> f64 {
        match self.0 {
            p if p == f64::INFINITY => 0.0,
            p if p == f64::NEG_INFINITY => f64::INFINITY,
            _ => 0.0,
        }
    }
    #[inline(always)]
    fn step(self, acc: f64, (re, im): (f64, f64)) -> f64 {
        let p = self.0;
        if p == 2.0 {
            return acc + re * re + im * im;
        }
        let modulus = if im == 0.0 { re.abs() } else { re.hypot(im) };
        if p == 1.0 {
            acc + modulus
        } else if p == 0.0 {
            acc + f64::from(u8::from(modulus != 0.0))
        } else if p.is_infinite() {
            <Self as Wide<T>>::combine(self, modulus, acc)
        } else {
            acc + modulus.powf(p)
        }
    }
    #[inline(always)]
    fn combine(self, a: f64, b: f64) -> f64 {
        if self.0 == f64::INFINITY {
            Real::maximum(a, b)
        } else if self.0 == f64::NEG_INFINITY {
            Real::minimum(a, b)
        } else {
            a + b
        }
    }
}

/// Folds a strided lane in f64 with a few accumulators.
#[inline(always)]
fn wide_lane<T: Parts, W: Wide<T>>(fold: W, x: &[T], r: usize, pitch: usize) -> W::Acc {
    const N: usize = 16;
    let mut acc = [fold.identity(); N];
    if pitch == 1 {
        let row = &x[..r];
        let (runs, rest) = row.as_chunks::<N>();
        for run in runs {
            for (acc, &x) in acc.iter_mut().zip(run) {
                *acc = fold.step(*acc, x.parts());
            }
        }
        for (acc, &x) in acc.iter_mut().zip(rest) {
            *acc = fold.step(*acc, x.parts());
        }
    } else {
        for i in 0..r {
            acc[i % N] = fold.step(acc[i % N], x[i * pitch].parts());
        }
    }
    let mut width = N;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = fold.combine(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

/// Calls `f(lane, R, pitch)` for each lane of `x` (A, R, B) and stores what it gives.
fn by_lane<I: Isa, T: Value, O: Element>(
    out: &Tensor,
    x: &Tensor,
    f: impl Fn(&[T], usize, usize) -> O + Sync,
) -> Result<()> {
    let (_, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    locked.write::<O>(0)?.with_dense(|out| {
        par_chunks::<I, O>(out, (GRAIN / r.max(1)).max(1), |start, part| {
            for (i, out) in part.iter_mut().enumerate() {
                let (row, column) = ((start + i) / b, (start + i) % b);
                let first = (row * r * b + column).min(x.len());
                *out = f(&x[first..], r, b);
            }
        });
    });
    Ok(())
}

/// `out = sum(|x - mean(x)|^2) / max(R - correction, 0)`
pub fn var<I: Isa, T: Parts>(out: &Tensor, x: &Tensor, correction: f64) -> Result<()> {
    by_lane::<I, T, T::Abs>(out, x, |x, r, pitch| {
        let total = wide_lane(Total, x, r, pitch);
        let n = r as f64;
        let spread = wide_lane(Spread(total.0 / n, total.1 / n), x, r, pitch);
        T::real(spread / (n - correction).max(0.0))
    })
}

/// `out = (sum |x|^p)^(1/p)`; the count of nonzeros for p = 0, the extremum for p = +-inf.
pub fn norm<I: Isa, T: Parts>(out: &Tensor, x: &Tensor, p: f64) -> Result<()> {
    by_lane::<I, T, T::Abs>(out, x, |x, r, pitch| {
        let total = wide_lane(Powers(p), x, r, pitch);
        T::real(match p {
            2.0 => total.sqrt(),
            p if p == 0.0 || p == 1.0 || p.is_infinite() => total,
            p => total.powf(1.0 / p),
        })
    })
}

/// The first element that `wins` over all others, and where it is; the first no-number beats everything.
#[inline(always)]
fn select<T: Ordered>(x: &[T], r: usize, pitch: usize, wins: impl Fn(T::Op, T::Op) -> bool) -> (usize, T) {
    let (mut at, mut best) = (0, x[0]);
    let mut up = best.up();
    for i in 1..r {
        let candidate = x[i * pitch].up();
        if !up.is_nan() && (wins(candidate, up) || candidate.is_nan()) {
            (at, best, up) = (i, x[i * pitch], candidate);
        }
    }
    (at, best)
}

fn selecting<I: Isa, T: Ordered>(
    values: &Tensor,
    indices: &Tensor,
    x: &Tensor,
    wins: impl Fn(T::Op, T::Op) -> bool + Sync,
) -> Result<()> {
    let (_, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            par_chunks2::<I, T, i64>(values, indices, (GRAIN / r.max(1)).max(1), |start, values, indices| {
                for (i, (value, index)) in values.iter_mut().zip(indices).enumerate() {
                    let (row, column) = ((start + i) / b, (start + i) % b);
                    let (at, best) = select(&x[row * r * b + column..], r, b, &wins);
                    (*value, *index) = (best, at as i64);
                }
            });
        });
    });
    Ok(())
}

/// `values, indices = max(x)`
pub fn max_dim<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    selecting::<I, T>(values, indices, x, |candidate, best| candidate > best)
}

/// `values, indices = min(x)`
pub fn min_dim<I: Isa, T: Ordered>(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()> {
    selecting::<I, T>(values, indices, x, |candidate, best| candidate < best)
}

/// What running sums accumulate in: f64 for the real floating types, the type itself for others, as PyTorch does.
pub trait Running: Number {
    /// The accumulator.
    type Sum: Copy + Send;
    /// 0
    fn zero() -> Self::Sum;
    /// The next sum, and the element to store.
    fn next(sum: Self::Sum, x: Self) -> (Self::Sum, Self);
}
macro_rules! running {
    (wide: $($t:ty)*) => { $(
        impl Running for $t {
            type Sum = f64;
            #[inline(always)]
            fn zero() -> f64 { 0.0 }
            #[inline(always)]
            fn next(sum: f64, x: Self) -> (f64, Self) {
                let sum = sum + x.up() as f64;
                (sum, Self::down(sum as _))
            }
        }
    )* };
    (own: $($t:ty)*) => { $(
        impl Running for $t {
            type Sum = $t;
            #[inline(always)]
            fn zero() -> $t { <$t as Arith>::ZERO }
            #[inline(always)]
            fn next(sum: $t, x: Self) -> ($t, Self) {
                let sum = Arith::add(sum, x.up());
                (sum, sum)
            }
        }
    )* };
}
running!(wide: tensor_core::f16 tensor_core::bf16 f32 f64);
running!(own: u8 i8 i16 i32 i64 Bool);

impl Running for Complex<f32> {
    type Sum = Complex<f64>;
    #[inline(always)]
    fn zero() -> Complex<f64> {
        Complex::new(0.0, 0.0)
    }
    #[inline(always)]
    fn next(sum: Complex<f64>, x: Self) -> (Complex<f64>, Self) {
        let sum = sum + Complex::new(x.re as f64, x.im as f64);
        (sum, Complex::new(sum.re as f32, sum.im as f32))
    }
}
impl Running for Complex<f64> {
    type Sum = Complex<f64>;
    #[inline(always)]
    fn zero() -> Complex<f64> {
        Complex::new(0.0, 0.0)
    }
    #[inline(always)]
    fn next(sum: Complex<f64>, x: Self) -> (Complex<f64>, Self) {
        let sum = sum + x;
        (sum, sum)
    }
}

/// `out[a, i, b] = sum of x[a, ..=i, b]`
pub fn cumsum<I: Isa, T: Running>(out: &Tensor, x: &Tensor) -> Result<()> {
    let (_, r, b) = extents(x);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let pitch = r * b;
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<I, T>(out, pitch.max(GRAIN / pitch.max(1) * pitch), |start, part| {
            // Chunks are whole (R, B) planes: the grain is a multiple of their size.
            for (out, x) in part.chunks_mut(pitch).zip(x[start..].chunks(pitch)) {
                if b == 1 {
                    let mut sum = T::zero();
                    for (out, &x) in out.iter_mut().zip(x) {
                        (sum, *out) = T::next(sum, x);
                    }
                    continue;
                }
                let mut column = 0;
                while column < b {
                    let width = COLUMNS.min(b - column);
                    let mut sums = [T::zero(); COLUMNS];
                    for i in 0..r {
                        let at = i * b + column;
                        for ((sum, out), &x) in sums.iter_mut().zip(&mut out[at..at + width]).zip(&x[at..at + width]) {
                            (*sum, *out) = T::next(*sum, x);
                        }
                    }
                    column += width;
                }
            }
        });
    });
    Ok(())
}
