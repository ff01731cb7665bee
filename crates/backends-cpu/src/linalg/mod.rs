//! Dense linear algebra: factorisations, solves and spectra of the matrices of a batch. Shapes, checks and what is made of these
//! are in `aten/src/native/linalg.rs` and `aten/src/composite/linalg/`.
//!
//! Every kernel copies a matrix into a column-major [`Mat`], works on that in safe code, and writes the results; matrices of a
//! batch go to threads. Factors are LAPACK's: signs, pivots that count from 1, Householder vectors below the diagonal. Trailing
//! parts of large matrices are updated by matrix products. Kernels take `outputs`, `inputs` and two flags, and fill outputs of
//! any strides; the last output of those that may fail counts where they did (0: they did not).

mod cholesky;
mod eig;
mod eigh;
mod field;
mod ldl;
mod lu;
mod mat;
mod qr;
mod schur;
mod svd;
#[cfg(test)]
mod tests;
mod triangular;

use tensor_aten::Tensor;
use tensor_core::{Element, Result, bail};

pub use cholesky::cholesky;
pub use eig::eig;
pub use eigh::eigh;
pub use field::Field;
pub use ldl::{ldl_factor, ldl_solve};
pub use lu::lu_factor;
pub use qr::{geqrf, householder_product, ormqr};
pub use svd::svd;
pub use triangular::solve_triangular;

use crate::isa::Baseline;
use crate::loops::views::{ViewMut, par_chunks};
use crate::parallel::GRAIN;
use mat::Mat;

/// Multiplications and additions of a matrix below which it is not worth a thread.
fn grain(work: usize) -> usize {
    (GRAIN / work.max(1)).max(1)
}

/// How many matrices a shape has.
fn batch_of(sizes: &[i64]) -> usize {
    sizes.iter().rev().skip(2).map(|&n| n as usize).product()
}

/// The results of `compute` for all matrices of a batch, each of about `work` steps, in parallel.
fn batched<R: Send>(batch: usize, work: usize, compute: impl Fn(usize) -> Result<R> + Sync) -> Result<Vec<R>> {
    if batch == 1 {
        return Ok(vec![compute(0)?]);
    }
    let mut results: Vec<Option<Result<R>>> = Vec::new();
    results.resize_with(batch, || None);
    par_chunks::<Baseline, _>(&mut results, grain(work), |begin, results| {
        for (i, result) in results.iter_mut().enumerate() {
            *result = Some(compute(begin + i));
        }
    });
    results.into_iter().flatten().collect()
}

/// The operands of a kernel, as many as it has.
fn operands<'a, const N: usize>(list: &[&'a Tensor], name: &str) -> Result<[&'a Tensor; N]> {
    match list.try_into() {
        Ok(operands) => Ok(operands),
        Err(_) => bail!(Runtime, "{name}: expected {N} operands, got {}", list.len()),
    }
}

/// Writes row `i` of the last dimension, if rows have elements.
fn write_row<T: Element>(out: &mut ViewMut<'_, T>, i: usize, values: &[T]) {
    let last = out.dim().saturating_sub(1);
    if out.numel() > 0 && !values.is_empty() {
        out.lane_mut(last, i).copy_from(values);
    }
}

/// Writes matrix `i` of the batch.
fn write_matrix<T: Field>(out: &mut ViewMut<'_, T>, i: usize, values: &Mat<T>) -> Result<()> {
    if out.numel() > 0 { values.write(out.matrix_mut(i)?) } else { Ok(()) }
}
