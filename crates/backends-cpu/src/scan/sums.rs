//! Running sums along the middle dimension of a contiguous (A, R, B) tensor.

use tensor_aten::Tensor;
use tensor_core::{Bool, Complex, Result};

use super::grain;
use crate::arrays::each;
use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks};
use crate::simd::{Arith, Number, Value};

/// Columns that are summed side by side.
const COLUMNS: usize = 64;
/// Rows that are summed side by side. More of a page apart would drive each other out of the nearest cache.
const ROWS: usize = 4;

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

/// Runs along whole rows of `r` elements, [`ROWS`] at a time: each sum waits for the one before it, those of other rows do not.
#[inline(always)]
fn scan_rows<T: Running>(out: &mut [T], x: &[T], r: usize) {
    let rows = x.len() / r;
    for first in (0..rows).step_by(ROWS) {
        let (out, x) = (&mut out[first * r..], &x[first * r..]);
        if rows - first < ROWS {
            for row in 0..rows - first {
                let mut sum = T::zero();
                for at in row * r..(row + 1) * r {
                    (sum, out[at]) = T::next(sum, x[at]);
                }
            }
            return;
        }
        let x: [&[T]; ROWS] = each(|k| &x[k * r..][..r]);
        let mut sums = [T::zero(); ROWS];
        for i in 0..r {
            for k in 0..ROWS {
                (sums[k], out[k * r + i]) = T::next(sums[k], x[k][i]);
            }
        }
    }
}

/// `out[a, i, b] = sum of x[a, ..=i, b]`
pub fn cumsum<I: Isa, T: Running>(out: &Tensor, x: &Tensor) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let view = locked.read::<T>(0)?;
    let (r, b) = (view.size(1), view.size(2));
    let x = view.dense();
    let pitch = r * b;
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<I, T>(
            out,
            grain(pitch),
            #[inline(always)]
            |start, part| {
                // Chunks are whole (R, B) planes: the grain is a multiple of their size.
                let x = &x[start..start + part.len()];
                if b == 1 {
                    return scan_rows(part, x, r);
                }
                for (out, x) in part.chunks_mut(pitch).zip(x.chunks(pitch)) {
                    for column in (0..b).step_by(COLUMNS) {
                        let width = COLUMNS.min(b - column);
                        let mut sums = [T::zero(); COLUMNS];
                        for at in (column..pitch).step_by(b) {
                            for ((sum, out), &x) in
                                sums.iter_mut().zip(&mut out[at..at + width]).zip(&x[at..at + width])
                            {
                                (*sum, *out) = T::next(*sum, x);
                            }
                        }
                    }
                }
            },
        );
    });
    Ok(())
}
