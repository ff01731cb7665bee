//! Matrix products over strided matrices: `c = alpha * a @ b + beta * c` for every numeric dtype.
//!
//! A product is split into blocks of the result for the threads (`product`), a block into stretches of the inner dimension,
//! whose panels of `b` and strips of `a` are packed (`block`, `pack`, `ahead`) and multiplied tile by tile (`tile`). f16 and bf16
//! are widened to f32 while they are packed, and rounded once at the end; where the machine multiplies pairs of bf16, these are
//! packed as pairs (`units`, `pairs`). Few rows or columns are dot products (`dots`) or sums of columns (`vector`). Complex
//! products go to the `gemm` crate, and with the feature `blas` large ones to BLAS (`others`). Shapes are the caller's matter.
//!
//! An element is summed in the same order wherever its block begins: results do not depend on the number of threads.
//!
//! Where the ways part, as measured on one core of Zen 4 (117 GFLOP/s in f32; 114 of them for products whose operands are in the
//! second-level cache, 100 for 64 rows by transposed weights there, 90 from memory; 210 in pairs of bf16):
//!
//! | rows or columns of the result | large operand | way |
//! |---|---|---|
//! | up to 4 | side by side along the inner dimension | dot products: it is read once, at the speed of memory |
//! | 1 | side by side along the result | sums of columns |
//! | 2-4 | side by side along the result | tiles of four vectors, which read it where it lies |
//! | any | up to 512 KiB a stretch, side by side along the result | tiles that read it where it lies |
//! | any other | any | tiles of packed panels |
//!
//! Strips of `a` are packed but for results of a single vector of columns, where they are used once. Fetching ahead what is packed
//! next is worth 1.2 for weights in memory. Blocks of rows and columns go to threads from 64 x 64 x 64 multiplications each on.
#![allow(unsafe_code)]

mod ahead;
#[cfg(feature = "blas")]
mod blas;
mod block;
mod dots;
mod others;
mod pack;
mod pairs;
mod product;
#[cfg(test)]
mod tests;
mod tile;
mod units;
mod vector;

use tensor_core::{Complex, Result, bf16, check, f16};

pub(crate) use self::pack::transposed;
use self::pairs::Pairs;
use self::product::product;
use self::units::Single;
pub use self::vector::dot;
use crate::isa::{Isa, Level};
use crate::loops::{MatMut, MatRef};
use crate::simd::{Arith, Value};

/// An element type with matrix products.
pub trait Gemm: Value {
    /// `c = alpha * a @ b + beta * c` of matrices that fit and are not empty, on one thread or several.
    #[doc(hidden)]
    fn multiply<I: Isa>(alpha: Self::Op, a: MatRef<'_, Self>, b: MatRef<'_, Self>, beta: Self::Op, c: MatMut<'_, Self>);
}

/// `c = alpha * a @ b + beta * c`. With `beta` 0 the old elements of `c` do not matter; with `alpha` 0 or an empty inner
/// dimension those of `a` and `b` do not.
///
/// # Errors
/// When the shapes do not fit.
pub fn gemm<I: Isa, T: Gemm>(
    alpha: T::Op,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T::Op,
    c: MatMut<'_, T>,
) -> Result<()> {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    check!(
        b.rows() == k && c.rows() == m && c.cols() == n,
        "gemm: a is {m}x{k}, b is {}x{n}, c is {}x{}",
        b.rows(),
        c.rows(),
        c.cols()
    );
    if m == 0 || n == 0 {
        return Ok(());
    }
    if k == 0 || alpha == <T::Op as Arith>::ZERO {
        scale::<T>(beta, c);
    } else if n <= dots::COLS && a.col_stride() == 1 && b.row_stride() == 1 && const { dots::has::<T>() } {
        dots::dots::<I, T>(alpha, a, b, beta, c);
    } else if m <= dots::COLS && a.col_stride() == 1 && b.row_stride() == 1 && const { dots::has::<T>() } {
        dots::dots::<I, T>(alpha, b.t(), a.t(), beta, c.t());
    } else if n == 1 && (a.col_stride() == 1 || a.row_stride() == 1 || k == 1) {
        vector::gemv::<I, T>(alpha, a, b, beta, c);
    } else if m == 1 && (b.col_stride() == 1 || b.row_stride() == 1 || k == 1) {
        vector::gemv::<I, T>(alpha, b.t(), a.t(), beta, c.t());
    } else {
        T::multiply::<I>(alpha, a, b, beta, c);
    }
    Ok(())
}

/// `c = beta * c`
fn scale<T: Gemm>(beta: T::Op, mut c: MatMut<'_, T>) {
    for i in 0..c.rows() {
        for j in 0..c.cols() {
            let value = if beta == <T::Op as Arith>::ZERO { beta } else { beta.mul(c.as_ref().at(i, j).up()) };
            c.set(i, j, T::down(value));
        }
    }
}

/// `alpha * sum + beta * old`, where `old` does not matter if `beta` is 0.
#[inline(always)]
fn blend<T: Value>(alpha: T::Op, sum: T::Op, beta: T::Op, old: T) -> T {
    let product = alpha.mul(sum);
    T::down(if beta == <T::Op as Arith>::ZERO { product } else { product.add(beta.mul(old.up())) })
}

/// The product in tiles that use the registers of the level: 12 rows by two vectors of 32 registers, 6 by two of 16, and 4 by
/// two where a product and a sum take a register in between. The constants are the lanes of a vector at each level.
fn in_tiles<I: Isa, T, const V4: usize, const V3: usize, const BASELINE: usize>(
    alpha: T::Op,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T::Op,
    c: MatMut<'_, T>,
) where
    T: Value<Op: Value<Op = T::Op>>,
{
    // Branches of a const block: tiles of the other levels are not compiled.
    if const { I::LEVEL as u8 == Level::V4 as u8 } {
        product::<Single<I, T>, T, 12, V4>(alpha, a, b, beta, c);
    } else if const { I::LEVEL as u8 == Level::V3 as u8 } {
        product::<Single<I, T>, T, 6, V3>(alpha, a, b, beta, c);
    } else {
        product::<Single<I, T>, T, 4, BASELINE>(alpha, a, b, beta, c);
    }
}

macro_rules! products {
    ($($t:ty, |$alpha:ident, $a:ident, $b:ident, $beta:ident, $c:ident| $body:expr;)*) => { $(
        impl Gemm for $t {
            fn multiply<I: Isa>(
                $alpha: Self::Op,
                $a: MatRef<'_, Self>,
                $b: MatRef<'_, Self>,
                $beta: Self::Op,
                $c: MatMut<'_, Self>,
            ) {
                $body
            }
        }
    )* };
}
products! {
    u8, |alpha, a, b, beta, c| in_tiles::<I, u8, 16, 16, 16>(alpha, a, b, beta, c);
    i8, |alpha, a, b, beta, c| in_tiles::<I, i8, 16, 16, 16>(alpha, a, b, beta, c);
    i16, |alpha, a, b, beta, c| in_tiles::<I, i16, 16, 16, 8>(alpha, a, b, beta, c);
    i32, |alpha, a, b, beta, c| in_tiles::<I, i32, 16, 8, 4>(alpha, a, b, beta, c);
    i64, |alpha, a, b, beta, c| in_tiles::<I, i64, 8, 4, 2>(alpha, a, b, beta, c);
    f16, |alpha, a, b, beta, c| in_tiles::<I, f16, 16, 8, 4>(alpha, a, b, beta, c);
    bf16, |alpha, a, b, beta, c| if const { I::LEVEL as u8 == Level::V4 as u8 } && Pairs::pay() {
        product::<Pairs, bf16, 12, 16>(alpha, a, b, beta, c);
    } else {
        in_tiles::<I, bf16, 16, 8, 4>(alpha, a, b, beta, c);
    };
    f32, |alpha, a, b, beta, c| others::by_blas_or(alpha, a, b, beta, c, in_tiles::<I, f32, 16, 8, 4>);
    f64, |alpha, a, b, beta, c| others::by_blas_or(alpha, a, b, beta, c, in_tiles::<I, f64, 8, 4, 2>);
    Complex<f32>, |alpha, a, b, beta, c| others::by_blas_or(alpha, a, b, beta, c, others::by_crate);
    Complex<f64>, |alpha, a, b, beta, c| others::by_blas_or(alpha, a, b, beta, c, others::by_crate);
}
