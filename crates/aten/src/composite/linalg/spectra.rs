//! Eigenvalues, singular values, and what is made of them: ranks, pseudoinverses, least squares.

use tensor_core::{DType, Result, check};

use super::checks::check_matrix;
use super::solve::is_vectors;
use super::{adjoint, is_recorded, shape, without};
use crate::{Tensor, ops};

/// Eigenvalues and eigenvectors of Hermitian matrices.
pub fn linalg_eigh(self_: &Tensor, uplo: &str) -> Result<(Tensor, Tensor)> {
    ops::_linalg_eigh(self_, uplo, true)
}

/// Eigenvalues of Hermitian matrices.
pub fn linalg_eigvalsh(self_: &Tensor, uplo: &str) -> Result<Tensor> {
    Ok(ops::_linalg_eigh(self_, uplo, is_recorded(self_))?.0)
}

/// Eigenvalues.
pub fn linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    if is_recorded(self_) { Ok(ops::linalg_eig(self_)?.0) } else { ops::_linalg_eigvals(self_) }
}

/// Singular values and vectors.
pub fn linalg_svd(a: &Tensor, full_matrices: bool, driver: Option<&str>) -> Result<(Tensor, Tensor, Tensor)> {
    ops::_linalg_svd(a, full_matrices, true, driver)
}

/// Singular values.
pub fn linalg_svdvals(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    Ok(ops::_linalg_svd(a, false, is_recorded(a), driver)?.1)
}

/// `linalg_svd` under its older name, with V itself.
pub fn svd(self_: &Tensor, some: bool, compute_uv: bool) -> Result<(Tensor, Tensor, Tensor)> {
    check!(
        self_.dim() >= 2,
        "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
        self_.dim()
    );
    if compute_uv {
        let (u, s, vh) = ops::linalg_svd(self_, !some, None)?;
        let v = ops::transpose_int(&vh, -2, -1)?;
        return Ok((u, s, if v.is_complex() { ops::_conj(&v)? } else { v }));
    }
    let s = ops::linalg_svdvals(self_, None)?;
    let [m, n] = shape(self_);
    let zeros = |n: i64| {
        let sizes: Vec<i64> = without(self_.sizes(), 2).iter().copied().chain([n, n]).collect();
        ops::new_zeros(self_, &sizes, None, None, None, None)
    };
    Ok((zeros(m)?, s, zeros(n)?))
}

/// The epsilon of a dtype's real numbers.
fn epsilon(dtype: DType) -> Result<f64> {
    match dtype.to_real() {
        DType::F32 => Ok(f64::from(f32::EPSILON)),
        DType::F64 => Ok(f64::EPSILON),
        _ => tensor_core::bail!(Runtime, "This function doesn't handle types other than float and double"),
    }
}

fn number(value: f64, like: &Tensor) -> Result<Tensor> {
    ops::full(&[], value, Some(DType::F64), None, Some(like.device()), None)
}

/// Both tolerances: a relative one of epsilon for each row or column, unless an absolute one is given.
fn tolerances(x: &Tensor, atol: Option<&Tensor>, rtol: Option<&Tensor>) -> Result<[Tensor; 2]> {
    let [m, n] = shape(x);
    let default = epsilon(x.dtype())? * m.max(n) as f64;
    let given = match atol {
        Some(atol) => atol.clone(),
        None => number(0.0, x)?,
    };
    let rtol = match (rtol, atol) {
        (Some(rtol), _) => rtol.clone(),
        (None, None) => number(default, x)?,
        // Where the absolute tolerance is positive, it stands alone.
        (None, Some(atol)) => ops::where_self(&ops::gt_scalar(atol, 0)?, &number(0.0, x)?, &number(default, x)?)?,
    };
    Ok([given, rtol])
}

/// The same for numbers.
fn numbers(x: &Tensor, atol: Option<f64>, rtol: Option<f64>) -> Result<[Tensor; 2]> {
    let [m, n] = shape(x);
    let atol = atol.unwrap_or(0.0);
    let default = if atol > 0.0 { 0.0 } else { epsilon(x.dtype())? * m.max(n) as f64 };
    Ok([number(atol, x)?, number(rtol.unwrap_or(default), x)?])
}

/// `max(atol, rtol * largest)`, where `largest` has a dimension of one element behind those of the tolerances.
fn bound(atol: &Tensor, rtol: &Tensor, largest: &Tensor) -> Result<Tensor> {
    let (atol, rtol) = (ops::unsqueeze(atol, -1)?, ops::unsqueeze(rtol, -1)?);
    ops::maximum(&atol, &ops::mul(&rtol, largest)?)
}

/// The inverses of the values above a bound, 0 for the others, in the dtype of `like`.
fn inverses(values: &Tensor, sizes: &Tensor, bound: &Tensor, like: &Tensor) -> Result<Tensor> {
    let inverses = ops::where_scalar_other(&ops::gt(sizes, bound)?, &ops::reciprocal(values)?, 0)?;
    ops::to_dtype(&inverses, like.dtype(), false, false, None)
}

/// The pseudoinverse.
pub fn linalg_pinv_atol_rtol_tensor(
    self_: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    let x = self_;
    check!(
        x.dim() >= 2 && matches!(x.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128),
        "linalg.pinv({}{{{}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
        x.dtype().cpp_name(),
        tensor_core::strides::show(x.sizes())
    );
    let [atol, rtol] = tolerances(x, atol, rtol)?;
    if x.numel() == 0 {
        let [m, n] = shape(x);
        let sizes: Vec<i64> = without(x.sizes(), 2).iter().copied().chain([n, m]).collect();
        return ops::new_zeros(x, &sizes, None, None, None, None);
    }
    if hermitian {
        let (values, vectors) = ops::linalg_eigh(x, "L")?;
        let sizes = ops::abs(&values)?;
        let bound = bound(&atol, &rtol, &ops::amax(&sizes, &[-1], true)?)?;
        let inverses = ops::unsqueeze(&inverses(&values, &sizes, &bound, x)?, -2)?;
        return ops::matmul(&ops::mul(&vectors, &inverses)?, &adjoint(&vectors)?);
    }
    let (u, s, vh) = ops::linalg_svd(x, false, None)?;
    let bound = bound(&atol, &rtol, &ops::narrow(&s, -1, 0, 1)?)?;
    let inverses = ops::unsqueeze(&inverses(&s, &s, &bound, x)?, -2)?;
    ops::matmul(&ops::mul(&adjoint(&vh)?, &inverses)?, &adjoint(&u)?)
}

/// The pseudoinverse.
pub fn linalg_pinv_atol_rtol_float(
    self_: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    check_matrix(self_, "linalg.pinv", "A")?;
    let [atol, rtol] = numbers(self_, atol, rtol)?;
    ops::linalg_pinv_atol_rtol_tensor(self_, Some(&atol), Some(&rtol), hermitian)
}

/// The pseudoinverse with a relative bound.
pub fn linalg_pinv(self_: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    ops::linalg_pinv_atol_rtol_float(self_, Some(0.0), Some(rcond), hermitian)
}

/// The pseudoinverse with a relative bound.
pub fn linalg_pinv_rcond_tensor(self_: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    ops::linalg_pinv_atol_rtol_tensor(self_, Some(&number(0.0, self_)?), Some(rcond), hermitian)
}

/// `linalg_pinv` under its older name.
pub fn pinverse(self_: &Tensor, rcond: f64) -> Result<Tensor> {
    ops::linalg_pinv(self_, rcond, false)
}

/// How many singular values are above a bound.
pub fn linalg_matrix_rank_atol_rtol_tensor(
    input: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    let name = "torch.linalg.matrix_rank";
    check_matrix(input, name, "input")?;
    for (what, tolerance) in [("atol", atol), ("rtol", rtol)] {
        check!(
            tolerance.is_none_or(|t| !t.is_complex()),
            "{name}: {what} tensor of complex type is not supported. Got {}",
            tolerance.map_or("", |t| t.dtype().cpp_name())
        );
    }
    let [atol, rtol] = tolerances(input, atol, rtol)?;
    if input.numel() == 0 {
        let sizes = without(input.sizes(), 2);
        return ops::new_zeros(input, sizes, Some(DType::I64), None, None, None);
    }
    let (sizes, largest) = if hermitian {
        let sizes = ops::abs(&ops::linalg_eigvalsh(input, "L")?)?;
        let largest = ops::amax(&sizes, &[-1], true)?;
        (sizes, largest)
    } else {
        let s = ops::linalg_svdvals(input, None)?;
        let largest = ops::narrow(&s, -1, 0, 1)?;
        (s, largest)
    };
    let counted = ops::gt(&sizes, &bound(&atol, &rtol, &largest)?)?;
    ops::sum_dim_int_list(&counted, Some(&[-1]), false, None)
}

/// How many singular values are above a bound.
pub fn linalg_matrix_rank_atol_rtol_float(
    self_: &Tensor,
    atol: Option<f64>,
    rtol: Option<f64>,
    hermitian: bool,
) -> Result<Tensor> {
    check_matrix(self_, "torch.linalg.matrix_rank", "input")?;
    let [atol, rtol] = numbers(self_, atol, rtol)?;
    ops::linalg_matrix_rank_atol_rtol_tensor(self_, Some(&atol), Some(&rtol), hermitian)
}

/// How many singular values are above a number.
pub fn linalg_matrix_rank(self_: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    ops::linalg_matrix_rank_atol_rtol_float(self_, Some(tol), Some(0.0), hermitian)
}

/// How many singular values are above a number.
pub fn linalg_matrix_rank_tol_tensor(input: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    ops::linalg_matrix_rank_atol_rtol_tensor(input, Some(tol), Some(&number(0.0, input)?), hermitian)
}

/// Least squares, by singular values whatever the driver; `driver` says which of the other results there are.
pub fn linalg_lstsq(
    self_: &Tensor,
    b: &Tensor,
    rcond: Option<f64>,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (x, name) = (self_, "torch.linalg.lstsq");
    check!(x.dim() >= 2, "{name}: input must have at least 2 dimensions.");
    check!(b.dim() >= 1, "{name}: other must have at least 1 dimension.");
    check!(
        x.dtype() == b.dtype(),
        "{name}: Expected input and other to have the same dtype, but got input's dtype {} and other's dtype {}",
        x.dtype().cpp_name(),
        b.dtype().cpp_name()
    );
    check!(
        x.dim() >= b.dim() && x.dim() - b.dim() <= 1,
        "{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
    );
    let vectors = is_vectors(x, b) || x.dim() == b.dim() + 1;
    let columns = if vectors { ops::unsqueeze(b, -1)? } else { b.clone() };
    let [m, n] = shape(x);
    check!(
        m == shape(&columns)[0],
        "{name}: input.size(-2) should match other.size({})",
        if vectors { -1 } else { -2 }
    );
    let driver = driver.unwrap_or("gelsy");
    check!(
        ["gels", "gelsy", "gelsd", "gelss"].contains(&driver),
        "{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
    );
    let bound = match driver {
        "gels" => 0.0,
        _ => match rcond {
            Some(rcond) => rcond,
            None => epsilon(x.dtype())? * m.max(n) as f64,
        },
    };
    let (u, s, vh) = ops::linalg_svd(x, false, None)?;
    let batch = without(x.sizes(), 2);
    let (solution, rank) = if m.min(n) == 0 {
        let sizes: Vec<i64> = batch.iter().copied().chain([n, shape(&columns)[1]]).collect();
        let none = ops::new_zeros(x, batch, Some(DType::I64), None, None, None)?;
        (ops::new_zeros(x, &sizes, None, None, None, None)?, none)
    } else {
        let least = ops::mul_scalar(&ops::narrow(&s, -1, 0, 1)?, bound)?;
        let inverses = ops::unsqueeze(&inverses(&s, &s, &least, x)?, -1)?;
        let along = ops::mul(&inverses, &ops::matmul(&adjoint(&u)?, &columns)?)?;
        let counted = ops::gt(&s, &least)?;
        (ops::matmul(&adjoint(&vh)?, &along)?, ops::sum_dim_int_list(&counted, Some(&[-1]), false, None)?)
    };
    let full = x.is_meta() || rank.to_vec::<i64>()?.iter().all(|&rank| rank == n);
    let real = x.dtype().to_real();
    let residuals = if m > n && driver != "gelsy" && (full || driver == "gels") {
        let left = ops::sub(&ops::matmul(x, &solution)?, &columns, 1)?;
        let squares = ops::pow_tensor_scalar(&ops::abs(&left)?, 2)?;
        ops::sum_dim_int_list(&squares, Some(&[-2]), false, None)?
    } else {
        ops::new_empty(x, &[0], Some(real), None, None, None)?
    };
    let none = |dtype: DType| ops::new_empty(x, &[0], Some(dtype), None, None, None);
    let rank = if driver == "gels" { none(DType::I64)? } else { rank };
    let values = if driver == "gelsd" || driver == "gelss" { s } else { none(real)? };
    let solution = if vectors { ops::squeeze_dim(&solution, -1)? } else { solution };
    Ok((solution, residuals, rank, values))
}
