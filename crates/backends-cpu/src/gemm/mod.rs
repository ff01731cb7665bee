//! Matrix products over strided matrices: `c = alpha * a @ b + beta * c` for every numeric dtype, or `+ beta * old`, a matrix of
//! its own, such as a bias that is broadcast ([`gemm_onto`]).
//!
//! A product is split into blocks of the result for the threads (`product`), a block into stretches of the inner dimension,
//! whose panels of `b` and strips of `a` are packed (`block`, `pack`, `ahead`) and multiplied tile by tile (`tile`). f16 and bf16
//! are widened to f32 while they are packed, and rounded once at the end; where the machine multiplies pairs of bf16, these are
//! packed as pairs (`units`, `pairs`). A few elements are multiplied on the stack (`tiny`). Few rows or columns are dot products
//! (`dots`) or sums of columns (`vector`). Complex products go to the `gemm` crate, and with the feature `blas` large ones to BLAS
//! (`others`). Shapes are the caller's matter.
//!
//! An element is summed in the same order wherever its block begins: results do not depend on the number of threads.
//!
//! Where the ways part, as measured on one core of Zen 4 (117 GFLOP/s in f32; 114 of them for products whose operands are in the
//! second-level cache, 104 for 64 rows by transposed weights there, 90 from memory; 210 in pairs of bf16):
//!
//! | rows or columns of the result | large operand | way |
//! |---|---|---|
//! | up to 32, of a vector of columns | up to 16 steps | on the stack: a third of the time of tiles |
//! | up to 4 | side by side along the inner dimension | dot products: it is read once, at the speed of memory |
//! | 1 | side by side along the result | sums of columns, in long runs: half of the time of a page here and a page there |
//! | 2-4 | side by side along the result | tiles of four vectors, which read it where it lies |
//! | any | up to 512 KiB a stretch (128 at level v3), side by side along the result | tiles that read it where it lies |
//! | any other | any | tiles of packed panels |
//!
//! Strips of `a` are packed but for results of a single vector of columns (two at level v3: 0.7 of the time), where they are used
//! once. Where registers are few, panels stay in the first-level cache and strips come from the second, not the other way round
//! (`block`): 0.85 to 0.95 of the time on Zen 3 (100 GFLOP/s a core in f32, of which large products reach 90). Fetching ahead
//! what is packed next is worth 1.2 for weights in memory. Blocks of rows and columns go to threads from 64 x 64 x 64
//! multiplications each on.
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
mod tiny;
mod units;
mod vector;

use tensor_core::{Complex, Result, bf16, check, f16};

pub(crate) use self::ahead::fetch;
pub(crate) use self::pack::transposed;
use self::pairs::Pairs;
use self::product::product;
use self::tile::Place;
pub use self::tile::Update;
use self::tiny::{is_tiny, tiny};
use self::units::Single;
pub use self::vector::dot;
use crate::isa::{Isa, Level};
use crate::loops::{MatMut, MatRef};
use crate::simd::{Arith, Value};

/// An element type with matrix products.
pub trait Gemm: Value {
    /// `c = alpha * a @ b + beta * old` of matrices that fit and are not empty, on one thread or several; `old` is `c` if there is
    /// none.
    #[doc(hidden)]
    fn multiply<I: Isa>(
        update: Update<Self::Op>,
        a: MatRef<'_, Self>,
        b: MatRef<'_, Self>,
        old: Option<MatRef<'_, Self>>,
        c: MatMut<'_, Self>,
    );
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
    gemm_onto::<I, T>(alpha, a, b, beta, None, c)
}

/// `c = alpha * a @ b + beta * old`: [`gemm()`] that is added to another matrix than `c`, if there is one: of its shape, of any
/// strides (0 where it is broadcast). It is read as tiles of `c` are written, not copied before.
///
/// # Errors
/// When the shapes do not fit.
pub fn gemm_onto<I: Isa, T: Gemm>(
    alpha: T::Op,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: T::Op,
    old: Option<MatRef<'_, T>>,
    mut c: MatMut<'_, T>,
) -> Result<()> {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    check!(
        b.rows() == k && c.rows() == m && c.cols() == n,
        "gemm: a is {m}x{k}, b is {}x{n}, c is {}x{}",
        b.rows(),
        c.rows(),
        c.cols()
    );
    check!(old.is_none_or(|old| old.rows() == m && old.cols() == n), "gemm: what is added is no {m}x{n} matrix");
    if m == 0 || n == 0 {
        return Ok(());
    }
    let old = old.filter(|_| beta != <T::Op as Arith>::ZERO);
    let lie = a.col_stride() == 1 && b.row_stride() == 1 && const { dots::has::<T>() };
    let way = if k == 0 || alpha == <T::Op as Arith>::ZERO {
        Way::Nothing
    } else if n <= dots::COLS && lie {
        Way::Dots
    } else if m <= dots::COLS && lie {
        Way::DotsTransposed
    } else if n == 1 && (a.col_stride() == 1 || a.row_stride() == 1 || k == 1) {
        Way::Vector
    } else if m == 1 && (b.col_stride() == 1 || b.row_stride() == 1 || k == 1) {
        Way::VectorTransposed
    } else {
        T::multiply::<I>(Update { alpha, beta }, a, b, old, c);
        return Ok(());
    };
    copy(old, &mut c);
    match way {
        Way::Nothing => scale::<T>(beta, c),
        Way::Dots => dots::dots::<I, T>(alpha, a, b, beta, c),
        Way::DotsTransposed => dots::dots::<I, T>(alpha, b.t(), a.t(), beta, c.t()),
        Way::Vector => vector::gemv::<I, T>(alpha, a, b, beta, c),
        Way::VectorTransposed => vector::gemv::<I, T>(alpha, b.t(), a.t(), beta, c.t()),
    }
    Ok(())
}

/// How a product is computed that is not worth tiles.
enum Way {
    Nothing,
    Dots,
    DotsTransposed,
    Vector,
    VectorTransposed,
}

/// `c = old`, if there is one.
fn copy<T: Copy>(old: Option<MatRef<'_, T>>, c: &mut MatMut<'_, T>) {
    let Some(old) = old else { return };
    for i in 0..c.rows() {
        for j in 0..c.cols() {
            c.set(i, j, old.at(i, j));
        }
    }
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
    update: Update<T::Op>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    old: Option<MatRef<'_, T>>,
    c: MatMut<'_, T>,
) where
    T: Value<Op: Value<Op = T::Op>>,
{
    // Branches of a const block: tiles of the other levels are not compiled.
    if const { I::LEVEL as u8 == Level::V4 as u8 } {
        tiny_or_tiles::<I, T, 12, V4>(update, a, b, old, c);
    } else if const { I::LEVEL as u8 == Level::V3 as u8 } {
        tiny_or_tiles::<I, T, 6, V3>(update, a, b, old, c);
    } else {
        tiny_or_tiles::<I, T, 4, BASELINE>(update, a, b, old, c);
    }
}

/// The product in tiles of `R` rows by two vectors of `L` lanes, if it is worth them.
#[inline]
fn tiny_or_tiles<I: Isa, T: Value<Op: Value<Op = T::Op>>, const R: usize, const L: usize>(
    update: Update<T::Op>,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    old: Option<MatRef<'_, T>>,
    mut c: MatMut<'_, T>,
) {
    if is_tiny(a.rows(), b.cols(), a.cols(), L) {
        // SAFETY: the caller of `gemm` has seen checked that the three matrices fit, and `old` is as large as `c`.
        unsafe { tiny::<I, T, L>(update, a, b, Place::new(&mut c, old)) }
    } else {
        product::<Single<I, T>, T, R, L>(update, a, b, old, c);
    }
}

macro_rules! products {
    ($($t:ty, |$update:ident, $a:ident, $b:ident, $old:ident, $c:ident| $body:expr;)*) => { $(
        impl Gemm for $t {
            fn multiply<I: Isa>(
                $update: Update<Self::Op>,
                $a: MatRef<'_, Self>,
                $b: MatRef<'_, Self>,
                $old: Option<MatRef<'_, Self>>,
                $c: MatMut<'_, Self>,
            ) {
                $body
            }
        }
    )* };
}
products! {
    u8, |update, a, b, old, c| in_tiles::<I, u8, 16, 16, 4>(update, a, b, old, c);
    i8, |update, a, b, old, c| in_tiles::<I, i8, 16, 16, 4>(update, a, b, old, c);
    i16, |update, a, b, old, c| in_tiles::<I, i16, 16, 16, 8>(update, a, b, old, c);
    i32, |update, a, b, old, c| in_tiles::<I, i32, 16, 8, 4>(update, a, b, old, c);
    i64, |update, a, b, old, c| in_tiles::<I, i64, 8, 4, 2>(update, a, b, old, c);
    f16, |update, a, b, old, c| in_tiles::<I, f16, 16, 8, 4>(update, a, b, old, c);
    bf16, |update, a, b, old, c| if const { I::LEVEL as u8 == Level::V4 as u8 } && Pairs::pay() {
        product::<Pairs, bf16, 12, 16>(update, a, b, old, c);
    } else {
        in_tiles::<I, bf16, 16, 8, 4>(update, a, b, old, c);
    };
    f32, |update, a, b, old, c| others::by_blas_or(update, a, b, old, c, in_tiles::<I, f32, 16, 8, 4>);
    f64, |update, a, b, old, c| others::by_blas_or(update, a, b, old, c, in_tiles::<I, f64, 8, 4, 2>);
    Complex<f32>, |update, a, b, old, c| others::by_blas_or(update, a, b, old, c, others::by_crate);
    Complex<f64>, |update, a, b, old, c| others::by_blas_or(update, a, b, old, c, others::by_crate);
}
