//! Gradients of matrix products.

use tensor_aten::{Tensor, ops};
use tensor_core::{Complex, Result, Scalar};

use crate::formulas;

/// `grad * factor`, without a product where the factor is 1.
pub fn maybe_multiply(grad: &Tensor, factor: Scalar) -> Result<Tensor> {
    if factor.to_complex() == Complex::new(1.0, 0.0) { Ok(grad.clone()) } else { ops::mul_scalar(grad, factor) }
}

/// Whether a matrix lies column after column.
fn is_column_major(sizes: &[i64], strides: &[i64]) -> bool {
    matches!((sizes, strides), ([rows, _], [1, stride]) if stride == rows)
}

/// The gradient of the left factor of `mat1 @ mat2`, laid out as that one.
///
/// A weight is used transposed: its gradient, transposed back, is then what its leaf can keep without a copy.
pub fn mm_mat1_grad(grad: &Tensor, mat2: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    if is_column_major(sizes, strides) {
        return ops::t(&ops::mm(&formulas::conj(mat2)?, &ops::t(grad)?)?);
    }
    ops::mm(grad, &formulas::conj(&ops::t(mat2)?)?)
}

/// The gradient of the right factor of `mat1 @ mat2`, laid out as that one.
pub fn mm_mat2_grad(grad: &Tensor, mat1: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    if is_column_major(sizes, strides) {
        return ops::t(&ops::mm(&ops::t(grad)?, &formulas::conj(mat1)?)?);
    }
    ops::mm(&formulas::conj(&ops::t(mat1)?)?, grad)
}

/// The gradient of a sum over a batch, for each of its `count` matrices.
pub fn addbmm_grad(grad: &Tensor, count: i64) -> Result<Tensor> {
    let sizes: Vec<i64> = [count].iter().chain(grad.sizes()).copied().collect();
    ops::expand(&ops::unsqueeze(grad, 0)?, &sizes, false)
}
