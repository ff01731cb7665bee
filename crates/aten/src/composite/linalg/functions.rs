//! Functions of square matrices: exponentials, roots, powers; and the polar form.

use tensor_core::{DType, Result, check};

use super::checks::{check_float, check_matrix, check_square};
use super::{adjoint, identity, shape, without};
use crate::{Tensor, ops};

/// The norm up to which `polynomial` is the exponential, up to rounding.
const SMALL: f64 = 1.09;

/// The inverses of the factorials of 0 to 18.
fn factorials() -> [f64; 19] {
    let mut inverse = 1.0;
    std::array::from_fn(|i| {
        inverse /= i.max(1) as f64;
        inverse
    })
}

/// The polynomial of degree 18 in `a` that begins `e^a`, in seven products.
fn polynomial(a: &Tensor, eye: &Tensor) -> Result<Tensor> {
    let a2 = ops::matmul(a, a)?;
    let a3 = ops::matmul(&a2, a)?;
    let c = factorials();
    let part = |i: usize| -> Result<Tensor> {
        let first = ops::add(&ops::mul_scalar(eye, c[i])?, a, c[i + 1])?;
        ops::add(&first, &a2, c[i + 2])
    };
    let mut sum = ops::add(&part(15)?, &a3, c[18])?;
    for i in [12, 9, 6, 3, 0] {
        sum = ops::add(&ops::matmul(&sum, &a3)?, &part(i)?, 1)?;
    }
    Ok(sum)
}

/// e to the power of matrices: the polynomial of a small part of each, which is squared as often as it was halved.
pub fn linalg_matrix_exp(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_exp", "A")?;
    check_float(self_, "linalg.matrix_exp")?;
    if self_.numel() == 0 {
        return ops::clone(self_, Some(tensor_core::MemoryFormat::Contiguous));
    }
    // In double precision: squares of squares would lose what single precision has.
    let precise = if self_.is_complex() { DType::C128 } else { DType::F64 };
    if self_.dtype() != precise {
        let result = linalg_matrix_exp(&ops::to_dtype(self_, precise, false, false, None)?)?;
        return ops::to_dtype(&result, self_.dtype(), false, false, None);
    }
    let eye = identity(without(self_.sizes(), 2), shape(self_)[0], self_)?;
    let columns = ops::sum_dim_int_list(&ops::abs(self_)?, Some(&[-2]), true, None)?;
    let norm = ops::amax(&columns, &[-1], true)?;
    let halvings = ops::ceil(&ops::log2(&ops::div_scalar(&norm, SMALL)?)?)?;
    // Norms that are no numbers leave no number behind, without a loop of their own.
    let halvings =
        ops::clamp(&ops::nan_to_num(&halvings, Some(0.0), Some(0.0), Some(0.0))?, Some(0.into()), Some(1100.into()))?;
    let mut result = polynomial(&ops::mul(self_, &ops::exp2(&ops::neg(&halvings)?)?)?, &eye)?;
    let most = if self_.is_meta() { 0.0 } else { ops::item(&ops::max(&halvings)?)?.to_f64() };
    for step in 0..most as i64 {
        let square = ops::matmul(&result, &result)?;
        result = ops::where_self(&ops::gt_scalar(&halvings, step)?, &square, &result)?;
    }
    Ok(result)
}

/// `linalg_matrix_exp` under its older name.
pub fn matrix_exp(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_matrix_exp(self_)
}

/// The gradient of `matrix_exp`: the upper right quarter of the exponential of `[A^H grad; 0 A^H]`.
pub fn matrix_exp_backward(self_: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let (turned, n) = (adjoint(self_)?, shape(self_)[0]);
    let zeros = ops::zeros_like(grad, None, None, None, None, None)?;
    let upper = ops::cat(&[&turned, grad], -1)?;
    let lower = ops::cat(&[&zeros, &turned], -1)?;
    let whole = ops::linalg_matrix_exp(&ops::cat(&[&upper, &lower], -2)?)?;
    ops::narrow(&ops::narrow(&whole, -2, 0, n)?, -1, n, n)
}

/// The square root of Hermitian matrices.
pub fn linalg_matrix_sqrth(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_sqrth", "A")?;
    check_float(self_, "linalg.matrix_sqrth")?;
    let (values, vectors) = ops::linalg_eigh(self_, "L")?;
    let roots = ops::unsqueeze(&ops::sqrt(&ops::clamp_min(&values, 0)?)?, -2)?;
    ops::matmul(&ops::mul(&vectors, &roots)?, &adjoint(&vectors)?)
}

/// `A = U H`.
pub fn linalg_polar(a: &Tensor) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.polar", "A")?;
    check_float(a, "linalg.polar")?;
    let [m, n] = shape(a);
    check!(m >= n, "linalg.polar: input must have at least as many rows as columns, but got {m} by {n} matrices");
    let (u, s, vh) = ops::linalg_svd(a, false, None)?;
    let along = ops::mul(&adjoint(&vh)?, &ops::unsqueeze(&s, -2)?)?;
    Ok((ops::matmul(&u, &vh)?, ops::matmul(&along, &vh)?))
}

/// A power of square matrices, by squares.
pub fn linalg_matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_power", "A")?;
    match n {
        0 => {
            // A copy, so that the graph goes on to A, whose gradient is 0.
            let result = ops::clone(self_, None)?;
            let eye = identity(&[], shape(self_)[0], self_)?;
            ops::copy_(&result, &eye, false)?;
            return Ok(result);
        }
        1 => return ops::clone(self_, None),
        -1 => return ops::linalg_inv(self_),
        _ => {}
    }
    let base = if n < 0 { ops::linalg_inv(self_)? } else { self_.clone() };
    if n.unsigned_abs() == 3 {
        return ops::matmul(&ops::matmul(&base, &base)?, &base);
    }
    let (mut left, mut square, mut result) = (n.unsigned_abs(), base, None);
    loop {
        if left % 2 == 1 {
            result = Some(match result {
                Some(result) => ops::matmul(&result, &square)?,
                None => square.clone(),
            });
        }
        left /= 2;
        match result {
            Some(result) if left == 0 => return Ok(result),
            _ => square = ops::matmul(&square, &square)?,
        }
    }
}

/// `linalg_matrix_power` under its older name.
pub fn matrix_power(self_: &Tensor, n: i64) -> Result<Tensor> {
    ops::linalg_matrix_power(self_, n)
}
