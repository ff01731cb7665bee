//! Derivatives of factorisations: Cholesky, LU, QR, and of products of reflections.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, check};

use super::super::composed::through;
use super::{add, adjoint, half_diagonal, shape, sub, zeros};

/// Of `A = L L^H`: `L^-H sym(tril(L^H G)) L^-1 / 2` with half the diagonal.
pub fn cholesky_backward(grad: &Tensor, upper: bool, factor: &Tensor) -> Result<Tensor> {
    let (l, g) = if upper { (adjoint(factor)?, adjoint(grad)?) } else { (factor.clone(), grad.clone()) };
    let phi = ops::matmul(&adjoint(&l)?, &g)?;
    let both = add(&ops::tril(&phi, 0)?, &adjoint(&ops::tril(&phi, -1)?)?)?;
    let both = ops::mul_scalar(&both, 0.5)?;
    let left = ops::linalg_solve_triangular(&adjoint(&l)?, &both, true, true, false)?;
    ops::linalg_solve_triangular(&l, &left, false, false, false)
}

/// The gradient of the Cholesky factor from that of the inverse of the matrix.
pub fn cholesky_inverse_backward(grad: &Tensor, factor: &Tensor, upper: bool, inverse: &Tensor) -> Result<Tensor> {
    let common = add(grad, &adjoint(grad)?)?;
    let around = ops::neg(&ops::matmul(inverse, &ops::matmul(&common, inverse)?)?)?;
    if upper { ops::matmul(factor, &around) } else { ops::matmul(&around, factor) }
}

/// Of `A = P L U`, for matrices of any shape:
/// `P L^-H (G_U + tril(L^H G_L - G_U U^H, -1) U^-H)` for wide ones, the mirror image for tall ones.
fn plu(grad_l: Option<&Tensor>, grad_u: Option<&Tensor>, p: Option<&Tensor>, l: &Tensor, u: &Tensor) -> Result<Tensor> {
    let (m, n) = (l.size(-2)?, u.size(-1)?);
    let k = m.min(n);
    // What lies outside of the triangles does not take part.
    let grad_l = grad_l.map(|g| ops::tril(g, -1)).transpose()?;
    let grad_u = grad_u.map(|g| ops::triu(g, 0)).transpose()?;
    let (grad_l, grad_u) = (grad_l.as_ref(), grad_u.as_ref());
    let from_l = grad_l.map(|g| ops::matmul(&adjoint(l)?, g)).transpose()?;
    let from_u = grad_u.map(|g| ops::matmul(g, &adjoint(u)?)).transpose()?;
    let difference = match (&from_l, &from_u) {
        (Some(a), Some(b)) => sub(a, b)?,
        (Some(a), None) => a.clone(),
        (None, Some(b)) => ops::neg(b)?,
        (None, None) => return zeros(&ops::matmul(l, u)?),
    };
    let inner = if m <= n {
        let first = ops::narrow(u, -1, 0, k)?;
        let below = ops::tril(&difference, -1)?;
        let below = ops::linalg_solve_triangular(&adjoint(&first)?, &below, false, false, false)?;
        let whole = ops::constant_pad_nd(&below, &[0, n - k], 0)?;
        let whole = match grad_u {
            Some(g) => add(g, &whole)?,
            None => whole,
        };
        ops::linalg_solve_triangular(&adjoint(l)?, &whole, true, true, true)?
    } else {
        let first = ops::narrow(l, -2, 0, k)?;
        let above = ops::triu(&ops::neg(&difference)?, 0)?;
        let above = ops::linalg_solve_triangular(&adjoint(&first)?, &above, true, true, true)?;
        let whole = ops::constant_pad_nd(&above, &[0, 0, 0, m - k], 0)?;
        let whole = match grad_l {
            Some(g) => add(g, &whole)?,
            None => whole,
        };
        ops::linalg_solve_triangular(&adjoint(u)?, &whole, false, false, false)?
    };
    match p {
        Some(p) => ops::matmul(p, &inner),
        None => Ok(inner),
    }
}

/// Of `linalg_lu`.
pub fn linalg_lu_backward(
    grad_l: Option<&Tensor>,
    grad_u: Option<&Tensor>,
    p: &Tensor,
    l: &Tensor,
    u: &Tensor,
    pivot: bool,
) -> Result<Tensor> {
    plu(grad_l, grad_u, pivot.then_some(p), l, u)
}

/// Of `linalg_lu_factor_ex`.
pub fn lu_factor_ex_backward(grad: &Tensor, lu: &Tensor, pivots: &Tensor, pivot: bool) -> Result<Tensor> {
    let (p, l, u) = ops::lu_unpack(lu, pivots, true, pivot)?;
    let [m, n] = shape(lu)?;
    let k = m.min(n);
    let (grad_l, grad_u) = (ops::narrow(grad, -1, 0, k)?, ops::narrow(grad, -2, 0, k)?);
    plu(Some(&grad_l), Some(&grad_u), pivot.then_some(&p), &l, &u)
}

/// Of `lu_unpack`: each gradient's triangle, in a matrix of m rows and n columns.
pub fn lu_unpack_backward(grad_l: Option<&Tensor>, grad_u: Option<&Tensor>, m: i64, n: i64) -> Result<Tensor> {
    let k = m.min(n);
    let below = grad_l.map(|g| ops::constant_pad_nd(&ops::tril(g, -1)?, &[0, n - k], 0)).transpose()?;
    let above = grad_u.map(|g| ops::constant_pad_nd(&ops::triu(g, 0)?, &[0, 0, 0, m - k], 0)).transpose()?;
    match super::sum(below, above)? {
        Some(grad) => Ok(grad),
        None => tensor_core::bail!(Runtime, "lu_unpack: neither L nor U has a gradient"),
    }
}

/// `X + X^H` with the real diagonal of X.
fn symmetric(x: &Tensor) -> Result<Tensor> {
    half_diagonal(&add(x, &adjoint(x)?)?)
}

/// The lower triangle of `X - X^H`, with half its diagonal.
fn skew_triangle(x: &Tensor) -> Result<Tensor> {
    half_diagonal(&ops::tril(&sub(x, &adjoint(x)?)?, 0)?)
}

/// Of `A = Q R`.
pub fn linalg_qr_backward(
    grad_q: Option<&Tensor>,
    grad_r: Option<&Tensor>,
    q: &Tensor,
    r: &Tensor,
    mode: &str,
) -> Result<Tensor> {
    check!(
        mode != "r",
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, \
         mode='reduced') if you are going to differentiate through linalg.qr."
    );
    let (m, n) = (q.size(-2)?, r.size(-1)?);
    check!(
        mode != "complete" || m <= n,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
    );
    let from_q = grad_q.map(|g| ops::matmul(&adjoint(q)?, g)).transpose()?;
    let from_r = grad_r.map(|g| ops::matmul(g, &adjoint(r)?)).transpose()?;
    let difference = match (from_q, from_r) {
        (Some(a), Some(b)) => sub(&a, &b)?,
        (Some(a), None) => a,
        (None, Some(b)) => ops::neg(&b)?,
        (None, None) => return zeros(&ops::matmul(q, r)?),
    };
    if m >= n {
        let inner = ops::matmul(q, &symmetric(&ops::triu(&ops::neg(&difference)?, 0)?)?)?;
        let inner = match grad_q {
            Some(g) => add(g, &inner)?,
            None => inner,
        };
        return ops::linalg_solve_triangular(&adjoint(r)?, &inner, false, false, false);
    }
    let first = ops::narrow(r, -1, 0, m)?;
    let inner = skew_triangle(&difference)?;
    let inner = ops::linalg_solve_triangular(&adjoint(&first)?, &inner, false, false, false)?;
    let inner = ops::constant_pad_nd(&inner, &[0, n - m], 0)?;
    let inner = match grad_r {
        Some(g) => add(&inner, g)?,
        None => inner,
    };
    ops::matmul(q, &inner)
}

/// The adjoint of a reflection applied to the rows of `x`, or the reflection itself: `x - tau v (v^H x)`.
fn reflect(x: &Tensor, v: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let along = ops::matmul(&adjoint(v)?, x)?;
    let scale = ops::unsqueeze(&ops::unsqueeze(tau, -1)?, -1)?;
    sub(x, &ops::mul(&scale, &ops::matmul(v, &along)?)?)
}

/// Q x, or Q^H x, of the reflections below the diagonal of `input`, one after the other.
fn reflections(input: &Tensor, tau: &Tensor, x: &Tensor, turned: bool) -> Result<Tensor> {
    let k = tau.size(-1)?;
    let m = input.size(-2)?;
    let vectors = ops::tril(&ops::narrow(input, -1, 0, k)?, -1)?;
    let eye = ops::eye_m(m, k, Some(input.dtype()), None, Some(input.device()), None)?;
    let vectors = add(&vectors, &eye)?;
    let tau = if turned { super::super::conj(tau)? } else { tau.clone() };
    let mut x = x.clone();
    for step in 0..k {
        let i = if turned { step } else { k - 1 - step };
        x = reflect(&x, &ops::narrow(&vectors, -1, i, 1)?, &ops::select_int(&tau, -1, i)?)?;
    }
    Ok(x)
}

/// Of `linalg_householder_product`, through the reflections one by one.
pub fn householder_product_backward(
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    _mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let [input, tau] = through([input, tau], [Some(grad)], |[input, tau]| {
        let [m, n] = shape(input)?;
        let eye = ops::eye_m(m, n, Some(input.dtype()), None, Some(input.device()), None)?;
        Ok([Some(reflections(input, tau, &ops::expand(&eye, input.sizes(), false)?, false)?)])
    })?;
    Ok((input, tau))
}

/// Of `ormqr`, through the reflections one by one.
pub fn ormqr_backward(
    grad: &Tensor,
    input: &Tensor,
    tau: &Tensor,
    other: &Tensor,
    left: bool,
    transpose: bool,
    _mask: [bool; 3],
) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
    let [input, tau, other] = through([input, tau, other], [Some(grad)], |[input, tau, other]| {
        Ok([Some(if left {
            reflections(input, tau, other, transpose)?
        } else {
            adjoint(&reflections(input, tau, &adjoint(other)?, !transpose)?)?
        })])
    })?;
    Ok((input, tau, other))
}
