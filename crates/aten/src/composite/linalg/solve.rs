//! Systems of equations, inverses and determinants.

use tensor_core::strides::{self, show};
use tensor_core::{DType, Result, check};

use super::checks::{check_errors, check_float, check_matrix, check_precise, check_solver, check_square, same_dtype};
use super::factors::permutations;
use super::{adjoint, identity, shape, without};
use crate::{Tensor, ops};

/// `x`'s matrices for each one of a larger batch.
fn wide(x: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes: Vec<i64> = batch.iter().chain(&shape(x)).copied().collect();
    ops::expand(x, &sizes, false)
}

/// The solution of `A X = self`, where `input2` is the Cholesky factor of A.
pub fn cholesky_solve(self_: &Tensor, input2: &Tensor, upper: bool) -> Result<Tensor> {
    let (b, a) = (self_, input2);
    check!(b.dim() >= 2, "b should have at least 2 dimensions, but has {} dimensions instead", b.dim());
    check!(a.dim() >= 2, "u should have at least 2 dimensions, but has {} dimensions instead", a.dim());
    check!(
        a.dtype() == b.dtype(),
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().cpp_name(),
        a.dtype().cpp_name()
    );
    let ([rows, cols], [height, width]) = (shape(a), shape(b));
    check!(rows == cols, "A must be batches of square matrices, but they are {rows} by {cols} matrices");
    check!(
        rows == height,
        "Incompatible matrix sizes for cholesky_solve: each A matrix is {rows} by {cols} but each b matrix is {height} by \
         {width}"
    );
    let turned = adjoint(a)?;
    let (lower, higher) = if upper { (&turned, a) } else { (a, &turned) };
    let half = ops::linalg_solve_triangular(lower, b, false, true, false)?;
    ops::linalg_solve_triangular(higher, &half, true, true, false)
}

/// The solution of a triangular system, or of its transpose, and a copy of the matrix.
pub fn triangular_solve(
    self_: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    let b = self_;
    check!(
        b.dim() >= 2,
        "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {} dimensions instead",
        b.dim()
    );
    check!(
        a.dim() >= 2,
        "torch.triangular_solve: Expected A to have at least 2 dimensions, but it has {} dimensions instead",
        a.dim()
    );
    check!(
        a.dtype() == b.dtype(),
        "triangular_solve: Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        b.dtype().cpp_name(),
        a.dtype().cpp_name()
    );
    let ([rows, cols], [height, width]) = (shape(a), shape(b));
    check!(rows == cols, "A must be batches of square matrices, but they are {rows} by {cols} matrices");
    check!(
        rows == height,
        "Incompatible matrix sizes for triangular_solve: each A matrix is {rows} by {cols} but each b matrix is {height} \
         by {width}"
    );
    let batch = strides::broadcast(without(a.sizes(), 2), without(b.sizes(), 2))?;
    let turned = if transpose { ops::transpose_int(a, -2, -1)? } else { a.clone() };
    let x = ops::linalg_solve_triangular(&turned, b, upper != transpose, true, unitriangular)?;
    Ok((x, ops::clone(&wide(a, &batch)?, Some(tensor_core::MemoryFormat::Contiguous))?))
}

/// Rows in another order: row i of the result is row `order[i]` of x.
fn rows(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    let batch = without(x.sizes(), 2);
    let sizes: Vec<i64> = batch.iter().copied().chain([shape(x)[0]]).collect();
    let order = ops::unsqueeze(&ops::expand(order, &sizes, false)?, -1)?;
    ops::gather(x, -2, &ops::expand(&order, x.sizes(), false)?, false)
}

/// The solution of a system whose matrix is given by its LU factors.
pub fn linalg_lu_solve(lu: &Tensor, pivots: &Tensor, b: &Tensor, left: bool, adjoint_: bool) -> Result<Tensor> {
    let name = "linalg.lu_solve";
    check_float(lu, name)?;
    check!(
        lu.dtype() == b.dtype(),
        "{name}: Expected LU and B to have the same dtype, but found LU of type {} and B of type {} instead",
        lu.dtype().cpp_name(),
        b.dtype().cpp_name()
    );
    check!(pivots.dtype() == DType::I32, "{name}: pivots should be a Tensor of scalar type torch.int32");
    check_square(lu, "torch.linalg.lu_solve", "LU")?;
    check_solver(lu, b, left, name)?;
    let count = pivots.sizes().last().copied().unwrap_or(0);
    check!(lu.size(-1)? == count, "{name}: Number of pivots per batch should be same as the dimension of the matrix");
    check!(
        without(lu.sizes(), 2) == without(pivots.sizes(), 1),
        "{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} instead",
        show(pivots.sizes())
    );
    if !left {
        // X A = B is A^H X^H = B^H.
        return adjoint(&linalg_lu_solve(lu, pivots, &adjoint(b)?, true, !adjoint_)?);
    }
    let batch = strides::broadcast(without(lu.sizes(), 2), without(b.sizes(), 2))?;
    let b = wide(b, &batch)?;
    let [forth, back] = permutations(pivots, shape(lu)[0])?;
    if adjoint_ {
        let turned = adjoint(lu)?;
        let half = ops::linalg_solve_triangular(&turned, &b, false, true, false)?;
        let x = ops::linalg_solve_triangular(&turned, &half, true, true, true)?;
        return rows(&x, &back);
    }
    let half = ops::linalg_solve_triangular(lu, &rows(&b, &forth)?, false, true, true)?;
    ops::linalg_solve_triangular(lu, &half, true, true, false)
}

/// `linalg_lu_solve` with other places of its arguments.
pub fn lu_solve(self_: &Tensor, lu_data: &Tensor, lu_pivots: &Tensor) -> Result<Tensor> {
    ops::linalg_lu_solve(lu_data, lu_pivots, self_, true, false)
}

/// True if B holds vectors beside the matrices of A.
pub(super) fn is_vectors(a: &Tensor, b: &Tensor) -> bool {
    b.dim() == 1 || (a.dim() == b.dim() + 1 && b.sizes() == without(a.sizes(), 1))
}

/// The solution of `A X = B`, A's LU factors, and where they failed.
pub fn _linalg_solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check_errors_: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let name = "linalg.solve";
    check_float(a, name)?;
    same_dtype(a, b, name)?;
    check_square(a, name, "A")?;
    let vectors = is_vectors(a, b);
    check!(
        left || !vectors,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case \
         linalg.solve is equivalent to B / A.squeeze(-1)"
    );
    let columns = if vectors { ops::unsqueeze(b, -1)? } else { b.clone() };
    check_matrix(&columns, name, "B")?;
    check_solver(a, &columns, left, name)?;
    strides::broadcast(without(a.sizes(), 2), without(columns.sizes(), 2))?;
    let (lu, pivots, info) = ops::linalg_lu_factor_ex(a, true, false)?;
    if check_errors_ {
        check_errors(&info, "torch.linalg.solve_ex", a.dim() == 2)?;
    }
    let x = ops::linalg_lu_solve(&lu, &pivots, &columns, left, false)?;
    Ok((if vectors { ops::squeeze_dim(&x, -1)? } else { x }, lu, pivots, info))
}

/// The solution of `A X = B`, and where A is singular.
pub fn linalg_solve_ex(a: &Tensor, b: &Tensor, left: bool, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let (x, _, _, info) = ops::_linalg_solve_ex(a, b, left, check_errors)?;
    Ok((x, info))
}

/// The solution of `A X = B`.
pub fn linalg_solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, _, _, info) = ops::_linalg_solve_ex(a, b, left, false)?;
    check_errors(&info, "torch.linalg.solve", a.dim() == 2)?;
    Ok(x)
}

/// The inverse, and where the matrix is singular.
pub fn linalg_inv_ex(a: &Tensor, check_errors_: bool) -> Result<(Tensor, Tensor)> {
    check_square(a, "linalg.inv", "A")?;
    check_precise(a, "linalg.inv")?;
    let (lu, pivots, info) = ops::linalg_lu_factor_ex(a, true, false)?;
    if check_errors_ {
        check_errors(&info, "linalg.inv_ex", a.dim() == 2)?;
    }
    let eye = identity(without(a.sizes(), 2), shape(a)[0], a)?;
    Ok((ops::linalg_lu_solve(&lu, &pivots, &eye, true, false)?, info))
}

/// The inverse; an error where there is none.
pub fn linalg_inv(a: &Tensor) -> Result<Tensor> {
    let (inverse, info) = ops::linalg_inv_ex(a, false)?;
    check_errors(&info, "linalg.inv", a.dim() == 2)?;
    Ok(inverse)
}

/// `linalg_inv` under its older name.
pub fn inverse(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_inv(self_)
}

/// -1 for an odd number of exchanged rows, else 1, in the factors' dtype.
fn parity(lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let n = pivots.sizes().last().copied().unwrap_or(0);
    let own = ops::arange_start(1, n + 1, Some(pivots.dtype()), None, Some(pivots.device()), None)?;
    let exchanged = ops::sum_dim_int_list(&ops::ne(pivots, &own)?, Some(&[-1]), false, None)?;
    let odd = ops::to_dtype(&ops::remainder_scalar(&exchanged, 2)?, lu.dtype(), false, false, None)?;
    ops::add_scalar(&ops::mul_scalar(&odd, -2)?, 1, 1)
}

/// LU factors that have A's determinant: those of its transpose, whose memory is column by column, if A lies row by row.
fn determinant_factors(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let turned = a.is_contiguous() && !a.is_complex();
    let a = if turned { ops::transpose_int(a, -2, -1)? } else { a.clone() };
    let (lu, pivots, _) = ops::linalg_lu_factor_ex(&a, true, false)?;
    Ok((lu, pivots))
}

/// Determinants and LU factors.
pub fn _linalg_det(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.det", "A")?;
    check_float(a, "linalg.det")?;
    let (lu, pivots) = determinant_factors(a)?;
    let product = ops::prod_dim_int(&ops::diagonal(&lu, 0, -2, -1)?, -1, false, None)?;
    Ok((ops::mul(&parity(&lu, &pivots)?, &product)?, lu, pivots))
}

/// Determinants.
pub fn linalg_det(a: &Tensor) -> Result<Tensor> {
    Ok(ops::_linalg_det(a)?.0)
}

/// `linalg_det` under its older name.
pub fn det(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_det(self_)
}

/// Signs of determinants, logarithms of their magnitudes, and LU factors.
pub fn _linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check_square(a, "linalg.slogdet", "A")?;
    check_float(a, "linalg.slogdet")?;
    let (lu, pivots) = determinant_factors(a)?;
    let diagonal = ops::diagonal(&lu, 0, -2, -1)?;
    let signs = ops::prod_dim_int(&ops::sgn(&diagonal)?, -1, false, None)?;
    let logarithms = ops::sum_dim_int_list(&ops::log(&ops::abs(&diagonal)?)?, Some(&[-1]), false, None)?;
    Ok((ops::mul(&parity(&lu, &pivots)?, &signs)?, logarithms, lu, pivots))
}

/// Signs of determinants and logarithms of their magnitudes.
pub fn linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sign, logarithm, ..) = ops::_linalg_slogdet(a)?;
    Ok((sign, logarithm))
}

/// `linalg_slogdet` under its older name.
pub fn slogdet(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    ops::linalg_slogdet(self_)
}

/// Logarithms of determinants.
pub fn logdet(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "logdet", "A")?;
    check_float(self_, "logdet")?;
    let (sign, logarithm) = ops::linalg_slogdet(self_)?;
    if self_.is_complex() {
        return ops::add(&ops::log(&sign)?, &logarithm, 1);
    }
    ops::where_scalar_self(&ops::eq_scalar(&sign, -1.0)?, f64::NAN, &logarithm)
}
