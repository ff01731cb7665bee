//! Derivatives of solutions, inverses and determinants.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, tls};

use super::{add, adjoint, on_diagonal, sub, zeros};

type Two = (Option<Tensor>, Option<Tensor>);

/// `-G X^H` or, for factors on the other side, `-X^H G`.
fn outer(grad: &Tensor, x: &Tensor, left: bool) -> Result<Tensor> {
    let turned = adjoint(x)?;
    ops::neg(&if left { ops::matmul(grad, &turned)? } else { ops::matmul(&turned, grad)? })
}

/// Of `A X = B` for triangular A.
pub fn linalg_solve_triangular_backward(
    grad: &Tensor,
    a: &Tensor,
    x: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    [wants_a, wants_b]: [bool; 2],
) -> Result<Two> {
    let grad_b = ops::linalg_solve_triangular(&adjoint(a)?, grad, !upper, left, unitriangular)?;
    let grad_a = if wants_a {
        let whole = outer(&grad_b, x, left)?;
        let edge = i64::from(unitriangular);
        Some(if upper { ops::triu(&whole, edge)? } else { ops::tril(&whole, -edge)? })
    } else {
        None
    };
    Ok((grad_a, wants_b.then_some(grad_b)))
}

/// Of `triangular_solve`, whose second result is a copy of A.
pub fn triangular_solve_backward(
    grad_x: Option<&Tensor>,
    grad_m: Option<&Tensor>,
    a: &Tensor,
    x: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
    [wants_b, wants_a]: [bool; 2],
) -> Result<Two> {
    let (mut grad_a, mut grad_b) = (None, None);
    if let Some(grad) = grad_x {
        let turned = super::super::conj(a)?;
        let turned = if transpose { turned } else { ops::transpose_int(&turned, -2, -1)? };
        let solved = ops::linalg_solve_triangular(&turned, grad, upper == transpose, true, unitriangular)?;
        if wants_a {
            let whole = if transpose {
                let along = ops::matmul(&super::super::conj(x)?, &ops::transpose_int(&solved, -2, -1)?)?;
                ops::neg(&along)?
            } else {
                outer(&solved, x, true)?
            };
            let edge = i64::from(unitriangular);
            grad_a = Some(if upper { ops::triu(&whole, edge)? } else { ops::tril(&whole, -edge)? });
        }
        grad_b = wants_b.then_some(solved);
    }
    if wants_a {
        grad_a = super::sum(grad_a, grad_m.cloned())?;
    }
    Ok((grad_b, grad_a))
}

/// Of `A X = B`, where the Cholesky factor of A is given.
pub fn cholesky_solve_backward(
    grad: &Tensor,
    _b: &Tensor,
    factor: &Tensor,
    x: &Tensor,
    upper: bool,
    [wants_b, wants_factor]: [bool; 2],
) -> Result<Two> {
    let grad_b = ops::cholesky_solve(grad, factor, upper)?;
    let grad_factor = if wants_factor {
        let common = ops::matmul(&grad_b, &adjoint(x)?)?;
        let common = ops::neg(&add(&common, &adjoint(&common)?)?)?;
        Some(if upper { ops::matmul(factor, &common)? } else { ops::matmul(&common, factor)? })
    } else {
        None
    };
    Ok((wants_b.then_some(grad_b), grad_factor))
}

/// Of `A X = B` with respect to A's LU factors.
pub fn lu_solve_factors_backward(
    grad: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    x: &Tensor,
    left: bool,
    adjoint_: bool,
) -> Result<Tensor> {
    let solved = ops::linalg_lu_solve(lu, pivots, grad, left, !adjoint_)?;
    let whole = outer(&solved, x, left)?;
    let whole = if adjoint_ { adjoint(&whole)? } else { whole };
    let (p, l, u) = ops::lu_unpack(lu, pivots, true, true)?;
    let rows = ops::matmul(&ops::transpose_int(&p, -2, -1)?, &whole)?;
    let below = ops::tril(&ops::matmul(&rows, &adjoint(&u)?)?, -1)?;
    add(&below, &ops::triu(&ops::matmul(&adjoint(&l)?, &rows)?, 0)?)
}

/// Of `A X = B`; the factors serve unless the gradient itself shall be differentiated.
pub fn linalg_solve_backward(
    grad: &Tensor,
    x: &Tensor,
    a: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
    left: bool,
    dim: i64,
    [wants_a, wants_b]: [bool; 2],
) -> Result<Two> {
    // B held vectors if it had a dimension less than A, and as many numbers as A has rows.
    let vectors = dim == 1 || (dim as usize + 1 == a.dim() && x.sizes() == &a.sizes()[..a.dim() - 1]);
    let column = |x: &Tensor| if vectors { ops::unsqueeze(x, -1) } else { Ok(x.clone()) };
    let (grad, x) = (column(grad)?, column(x)?);
    let solved = if tls::grad_enabled() {
        ops::linalg_solve(&adjoint(a)?, &grad, left)?
    } else {
        ops::linalg_lu_solve(lu, pivots, &grad, left, true)?
    };
    let grad_a = if wants_a { Some(outer(&solved, &x, left)?) } else { None };
    let grad_b = if vectors { ops::squeeze_dim(&solved, -1)? } else { solved };
    Ok((grad_a, wants_b.then_some(grad_b)))
}

/// Of the inverse Y: `-Y^H G Y^H`.
pub fn linalg_inv_backward(grad: &Tensor, inverse: &Tensor) -> Result<Tensor> {
    let turned = adjoint(inverse)?;
    ops::neg(&ops::matmul(&turned, &ops::matmul(grad, &turned)?)?)
}

/// `A^-H diag(scale)` for a number a matrix. Where A is singular, its factors are taken to be near by.
fn inverse_times(scale: &Tensor, a: &Tensor, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let sizes = &a.sizes()[..a.dim() - 1];
    let scaled = on_diagonal(&ops::expand(&ops::unsqueeze(scale, -1)?, sizes, false)?)?;
    if tls::grad_enabled() {
        let (solved, _) = ops::linalg_solve_ex(&adjoint(a)?, &scaled, true, false)?;
        return Ok(solved);
    }
    let epsilon = if a.dtype().to_real() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let diagonal = ops::diagonal(lu, 0, -2, -1)?;
    let zero = ops::to_dtype(&ops::eq_scalar(&diagonal, 0)?, lu.dtype(), false, false, None)?;
    let near = add(lu, &on_diagonal(&ops::mul_scalar(&zero, epsilon)?)?)?;
    // The factors are those of A^T where `_linalg_det` took that.
    let turned = a.is_contiguous() && !a.is_complex();
    ops::linalg_lu_solve(&near, pivots, &scaled, true, !turned)
}

/// The product of all elements of the last dimension but each one itself, whatever of them is 0.
fn products_of_others(x: &Tensor) -> Result<Tensor> {
    let n = x.size(-1)?;
    // Products of all before: 1, x0, x0 x1, ..
    let before = |x: &Tensor| -> Result<Tensor> {
        let one = ops::ones_like(&ops::narrow(x, -1, 0, 1)?, None, None, None, None, None)?;
        ops::cumprod(&ops::cat(&[&one, &ops::narrow(x, -1, 0, n - 1)?], -1)?, -1, None)
    };
    ops::mul(&before(x)?, &ops::flip(&before(&ops::flip(x, &[-1])?)?, &[-1])?)
}

/// Of the determinant, where it may be 0 and the gradient shall be differentiated: by singular values, of which products
/// without one make the adjugate.
fn adjugate(grad: &Tensor, a: &Tensor) -> Result<Tensor> {
    let (u, s, vh) = ops::linalg_svd(a, false, None)?;
    let turn = super::super::conj(&ops::mul(&ops::linalg_det(&u)?, &ops::linalg_det(&vh)?)?)?;
    let scale = ops::mul(&ops::unsqueeze(&ops::mul(&turn, grad)?, -1)?, &products_of_others(&s)?)?;
    ops::matmul(&ops::mul(&u, &ops::unsqueeze(&scale, -2)?)?, &vh)
}

/// True if an element is 0.
fn has_zero(x: &Tensor) -> Result<bool> {
    Ok(!x.is_meta() && ops::item(&ops::any(&ops::eq_scalar(x, 0)?)?)?.to_bool())
}

/// Of the determinant d: `A^-H g conj(d)`.
pub fn linalg_det_backward(grad: &Tensor, det: &Tensor, a: &Tensor, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    if a.size(-1)? == 1 {
        return ops::reshape(grad, a.sizes());
    }
    if a.numel() > 0 && tls::grad_enabled() && has_zero(det)? {
        return adjugate(grad, a);
    }
    let scale = ops::mul(grad, &super::super::conj(det)?)?;
    inverse_times(&scale, a, lu, pivots)
}

/// Of the sign (phase) s of the determinant and the logarithm of its magnitude: `A^-H (g_l + i Im(g_s conj(s)))`.
pub fn slogdet_backward(
    grad_sign: Option<&Tensor>,
    grad_logarithm: Option<&Tensor>,
    a: &Tensor,
    sign: &Tensor,
    lu: &Tensor,
    pivots: &Tensor,
) -> Result<Tensor> {
    let along = match grad_sign.filter(|_| a.is_complex()) {
        Some(grad) => {
            let turned = ops::imag(&ops::mul(grad, &super::super::conj(sign)?)?)?;
            Some(ops::complex(&zeros(&turned)?, &turned)?)
        }
        None => None,
    };
    match super::sum(grad_logarithm.cloned(), along)? {
        Some(scale) => inverse_times(&ops::to_dtype(&scale, a.dtype(), false, false, None)?, a, lu, pivots),
        None => zeros(a),
    }
}

/// Of least squares: of the solution through the pseudoinverse, of the sums of squares `r^H r` with `r = A X - B`.
pub fn linalg_lstsq_backward(
    grad_x: Option<&Tensor>,
    grad_squares: Option<&Tensor>,
    a: &Tensor,
    b: &Tensor,
    x: &Tensor,
    [wants_a, wants_b]: [bool; 2],
) -> Result<Two> {
    let vectors = x.dim() + 1 == a.dim();
    let column = |x: &Tensor| if vectors { ops::unsqueeze(x, -1) } else { Ok(x.clone()) };
    let (b, x) = (column(b)?, column(x)?);
    let (mut grad_a, mut grad_b) = (None, None);
    if let Some(grad) = grad_x {
        let grad = column(grad)?;
        let pinv = ops::linalg_pinv_atol_rtol_float(a, None, None, false)?;
        if wants_a {
            grad_a = Some(super::pinv_backward(&ops::matmul(&grad, &adjoint(&b)?)?, &pinv, a)?);
        }
        grad_b = Some(ops::matmul(&adjoint(&pinv)?, &grad)?);
    }
    if let Some(grad) = grad_squares.filter(|g| g.numel() > 0) {
        let left = sub(&ops::matmul(a, &x)?, &b)?;
        let scaled = ops::mul(&ops::mul_scalar(&ops::unsqueeze(grad, -2)?, 2)?, &left)?;
        if wants_a {
            grad_a = super::sum(grad_a, Some(ops::matmul(&scaled, &adjoint(&x)?)?))?;
        }
        grad_b = super::sum(grad_b, Some(ops::neg(&scaled)?))?;
    }
    let grad_b = match grad_b {
        Some(grad) if vectors => Some(ops::squeeze_dim(&grad, -1)?),
        other => other,
    };
    Ok((grad_a, grad_b.filter(|_| wants_b)))
}
