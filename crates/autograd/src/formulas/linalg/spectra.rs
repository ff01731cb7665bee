//! Derivatives of eigenvalues, singular values, and of functions of matrices.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, check};

use super::super::composed::through;
use super::{add, adjoint, diagonal, on_diagonal, shape, sub, zeros};

/// `x_j - x_i` at (i, j), with ones on the diagonal.
fn differences(x: &Tensor) -> Result<Tensor> {
    let all = sub(&ops::unsqueeze(x, -2)?, &ops::unsqueeze(x, -1)?)?;
    let n = x.size(-1)?;
    let eye = ops::eye(n, Some(x.dtype()), None, Some(x.device()), None)?;
    add(&all, &eye)
}

/// True unless the largest element of `x` is beyond what rounding explains.
fn is_small(x: &Tensor) -> Result<bool> {
    if x.is_meta() || x.numel() == 0 {
        return Ok(true);
    }
    let bound = if x.dtype().to_real() == DType::F32 { 1e-2 } else { 1e-6 };
    let size = ops::item(&ops::max(&ops::abs(x)?)?)?.to_f64();
    Ok(size <= bound || size.is_nan())
}

/// Refuses a loss that depends on the phase of eigenvectors: `V^H G` would have an imaginary diagonal.
fn check_phase(along: &Tensor, name: &str) -> Result<()> {
    if along.is_complex() {
        check!(
            is_small(&ops::imag(&diagonal(along)?)?)?,
            "{name}: The eigenvectors in the complex case are specified up to multiplication by e^{{i phi}}. The specified \
             loss function depends on this quantity, so it is ill-defined."
        );
    }
    Ok(())
}

/// The Hermitian part.
fn symmetric(x: &Tensor) -> Result<Tensor> {
    ops::mul_scalar(&add(x, &adjoint(x)?)?, 0.5)
}

/// Of eigenvalues and eigenvectors of Hermitian matrices, whose gradient is Hermitian too: the Hermitian part of
/// `V (diag(g_L) + (V^H g_V) / E) V^H`, E the differences.
pub fn linalg_eigh_backward(
    grad_values: Option<&Tensor>,
    grad_vectors: Option<&Tensor>,
    values: &Tensor,
    vectors: &Tensor,
    compute_v: bool,
) -> Result<Tensor> {
    check!(
        compute_v,
        "linalg_eigh_backward: torch.linalg.eigvalsh does not compute eigenvectors, which its derivative needs"
    );
    let turned = adjoint(vectors)?;
    let Some(grad) = grad_vectors else {
        let Some(grad) = grad_values else { return zeros(vectors) };
        return symmetric(&ops::matmul(&ops::mul(vectors, &ops::unsqueeze(grad, -2)?)?, &turned)?);
    };
    let along = ops::matmul(&turned, grad)?;
    check_phase(&along, "linalg_eigh_backward")?;
    let inner = ops::div(&along, &differences(values)?)?;
    let inner = sub(&inner, &on_diagonal(&diagonal(&inner)?)?)?;
    let inner = match grad_values {
        Some(grad) => add(&inner, &on_diagonal(grad)?)?,
        None => inner,
    };
    symmetric(&ops::matmul(vectors, &ops::matmul(&inner, &turned)?)?)
}

/// Of eigenvalues and eigenvectors of length 1: `V^-H (diag(g_L) + (V^H g_V - V^H V diag(Re(V^H g_V))) / E^*) V^H`.
pub fn linalg_eig_backward(
    grad_values: Option<&Tensor>,
    grad_vectors: Option<&Tensor>,
    values: &Tensor,
    vectors: &Tensor,
) -> Result<Tensor> {
    let turned = adjoint(vectors)?;
    let inner = match grad_vectors {
        Some(grad) => {
            let along = ops::matmul(&turned, grad)?;
            check_phase(&along, "linalg_eig_backward")?;
            let real = ops::to_dtype(&ops::real(&diagonal(&along)?)?, vectors.dtype(), false, false, None)?;
            let lengths = ops::mul(&ops::matmul(&turned, vectors)?, &ops::unsqueeze(&real, -2)?)?;
            let gaps = super::super::conj(&differences(values)?)?;
            let inner = ops::div(&sub(&along, &lengths)?, &gaps)?;
            Some(sub(&inner, &on_diagonal(&diagonal(&inner)?)?)?)
        }
        None => None,
    };
    match super::sum(inner, grad_values.map(on_diagonal).transpose()?)? {
        Some(inner) => ops::linalg_solve(&turned, &ops::matmul(&inner, &turned)?, true),
        None => zeros(vectors),
    }
}

/// `x - x^H`
fn skew(x: &Tensor) -> Result<Tensor> {
    sub(x, &adjoint(x)?)
}

/// Of `A = U diag(S) V^H`.
pub fn svd_backward(
    grad_u: Option<&Tensor>,
    grad_s: Option<&Tensor>,
    grad_vh: Option<&Tensor>,
    u: &Tensor,
    s: &Tensor,
    vh: &Tensor,
    compute_uv: bool,
) -> Result<Tensor> {
    check!(
        compute_uv,
        "svd_backward: Setting compute_uv to false in torch.svd doesn't compute singular matrices, and hence we cannot \
         compute backward. Please use torch.svd(compute_uv=True)"
    );
    let (m, n, k) = (u.size(-2)?, vh.size(-1)?, s.size(-1)?);
    let vectors = grad_u.is_some() || grad_vh.is_some();
    // Vectors beyond the singular values are any that complete a basis: nothing flows through them.
    let (u, vh) = (ops::narrow(u, -1, 0, k)?, ops::narrow(vh, -2, 0, k)?);
    let grad_u = grad_u.map(|g| ops::narrow(g, -1, 0, k)).transpose()?;
    let grad_vh = grad_vh.map(|g| ops::narrow(g, -2, 0, k)).transpose()?;
    let (grad_u, grad_vh) = (grad_u.as_ref(), grad_vh.as_ref());
    if !vectors {
        let Some(grad) = grad_s else { return zeros(&ops::matmul(&u, &vh)?) };
        return ops::matmul(&ops::mul(&u, &ops::unsqueeze(grad, -2)?)?, &vh);
    }
    let (uh, v) = (adjoint(&u)?, adjoint(&vh)?);
    let from_u = grad_u.map(|g| skew(&ops::matmul(&uh, g)?)).transpose()?;
    let from_v = grad_vh.map(|g| skew(&ops::matmul(&vh, &adjoint(g)?)?)).transpose()?;
    let is_complex = u.is_complex();
    if is_complex && let (Some(a), Some(b)) = (&from_u, &from_v) {
        check!(
            is_small(&ops::imag(&diagonal(&add(a, b)?)?)?)?,
            "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{{i phi}}. The \
             specified loss function depends on this phase term, making it ill-defined."
        );
    }
    let gaps = differences(&ops::mul(s, s)?)?;
    let (rows, cols) = (ops::unsqueeze(s, -1)?, ops::unsqueeze(s, -2)?);
    let left = from_u.as_ref().map(|x| ops::mul(x, &cols)).transpose()?;
    let right = from_v.as_ref().map(|x| ops::mul(&rows, x)).transpose()?;
    let mut inner = match super::sum(left, right)? {
        Some(both) => ops::div(&both, &gaps)?,
        None => return zeros(&ops::matmul(&u, &vh)?),
    };
    inner = sub(&inner, &on_diagonal(&diagonal(&inner)?)?)?;
    if let Some(grad) = grad_s {
        inner = add(&inner, &on_diagonal(grad)?)?;
    }
    if is_complex && let (Some(phase), Some(_)) = (&from_u, &from_v) {
        let turn = ops::div(&diagonal(phase)?, &ops::mul_scalar(s, 2)?)?;
        inner = add(&inner, &on_diagonal(&turn)?)?;
    }
    if let Some(grad) = grad_u.filter(|_| m > k) {
        let scaled = ops::div(grad, &cols)?;
        let beside = sub(&scaled, &ops::matmul(&u, &ops::matmul(&uh, &scaled)?)?)?;
        return ops::matmul(&add(&ops::matmul(&u, &inner)?, &beside)?, &vh);
    }
    if let Some(grad) = grad_vh.filter(|_| n > k) {
        let scaled = ops::div(grad, &rows)?;
        let beside = sub(&scaled, &ops::matmul(&ops::matmul(&scaled, &v)?, &vh)?)?;
        return ops::matmul(&u, &add(&ops::matmul(&inner, &vh)?, &beside)?);
    }
    if m >= n { ops::matmul(&u, &ops::matmul(&inner, &vh)?) } else { ops::matmul(&ops::matmul(&u, &inner)?, &vh) }
}

/// Of the pseudoinverse.
pub fn pinv_backward(grad: &Tensor, pinv: &Tensor, a: &Tensor) -> Result<Tensor> {
    let [m, n] = shape(a)?;
    let (ph, gh) = (adjoint(pinv)?, adjoint(grad)?);
    if m <= n {
        let k = ops::matmul(&gh, pinv)?;
        let kph = ops::matmul(&k, &ph)?;
        let first = sub(&kph, &adjoint(&ops::matmul(pinv, &k)?)?)?;
        let second = ops::matmul(&ops::matmul(a, pinv)?, &kph)?;
        let third = ops::matmul(&ops::matmul(&ph, pinv)?, &sub(&gh, &ops::matmul(&k, a)?)?)?;
        return add(&sub(&first, &second)?, &third);
    }
    let k = ops::matmul(pinv, &gh)?;
    let phk = ops::matmul(&ph, &k)?;
    let first = sub(&phk, &adjoint(&ops::matmul(&k, pinv)?)?)?;
    let second = ops::matmul(&ops::matmul(&sub(&gh, &ops::matmul(a, &k)?)?, pinv)?, &ph)?;
    let third = ops::matmul(&ops::matmul(&phk, pinv)?, a)?;
    sub(&add(&first, &second)?, &third)
}

/// Of the exponential.
pub fn linalg_matrix_exp_backward(a: &Tensor, grad: &Tensor) -> Result<Tensor> {
    ops::matrix_exp_backward(a, grad)
}

/// Of the square root R: the X of `R X + X R = G`, by the eigenvalues of R.
pub fn linalg_matrix_sqrth_backward(grad: &Tensor, root: &Tensor) -> Result<Tensor> {
    let (values, vectors) = ops::linalg_eigh(root, "L")?;
    let turned = adjoint(&vectors)?;
    let inner = ops::matmul(&turned, &ops::matmul(&symmetric(grad)?, &vectors)?)?;
    let sums = add(&ops::unsqueeze(&values, -2)?, &ops::unsqueeze(&values, -1)?)?;
    ops::matmul(&vectors, &ops::matmul(&ops::div(&inner, &sums)?, &turned)?)
}

/// Of `A = U H`, through singular vectors.
pub fn linalg_polar_backward(grad_u: Option<&Tensor>, grad_h: Option<&Tensor>, a: &Tensor) -> Result<Tensor> {
    let [grad] = through([a], [grad_u, grad_h], |[a]| {
        let (u, s, vh) = ops::linalg_svd(a, false, None)?;
        let along = ops::mul(&adjoint(&vh)?, &ops::unsqueeze(&s, -2)?)?;
        Ok([Some(ops::matmul(&u, &vh)?), Some(ops::matmul(&along, &vh)?)])
    })?;
    match grad {
        Some(grad) => Ok(grad),
        None => zeros(a),
    }
}
