//! Factorisations in other forms: L, U and P of LU, Q and R of QR, Cholesky and `L D L^T` with errors.

use tensor_core::{DType, Result, bail, check};

use super::checks::{check_errors, check_float, check_matrix, check_square};
use super::{identity, nothing, shape, without};
use crate::{Tensor, ops};

/// The Cholesky factor; an error where there is none.
pub fn linalg_cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    let (factor, info) = ops::linalg_cholesky_ex(self_, upper, false)?;
    check_errors(&info, "linalg.cholesky", self_.dim() == 2)?;
    Ok(factor)
}

/// LU factors and pivots; an error where U is singular.
pub fn linalg_lu_factor(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (lu, pivots, info) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    check_errors(&info, "torch.linalg.lu_factor", a.dim() == 2)?;
    Ok((lu, pivots))
}

/// `linalg_lu_factor_ex` under its older name.
pub fn _lu_with_info(self_: &Tensor, pivot: bool, check_errors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    ops::linalg_lu_factor_ex(self_, pivot, check_errors)
}

/// `A = P L U`.
pub fn linalg_lu(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let (lu, pivots, _) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    ops::lu_unpack(&lu, &pivots, true, pivot)
}

/// For each row of `P A` which row of A it is, and the other way round: (.., m) of int64.
pub(super) fn permutations(pivots: &Tensor, m: i64) -> Result<[Tensor; 2]> {
    let sizes: Vec<i64> = without(pivots.sizes(), 1).iter().copied().chain([m]).collect();
    if pivots.is_meta() {
        let empty = || Tensor::new_dense(&sizes, DType::I64, pivots.device());
        return Ok([empty()?, empty()?]);
    }
    let k = pivots.sizes().last().copied().unwrap_or(0) as usize;
    let batch = without(&sizes, 1).iter().product::<i64>() as usize;
    let (pivots, m) = (pivots.to_vec::<i32>()?, m as usize);
    let (mut rows, mut places) = (Vec::with_capacity(batch * m), vec![0; batch * m]);
    for b in 0..batch {
        let mut order: Vec<i64> = (0..m as i64).collect();
        for (i, &pivot) in pivots[b * k..][..k].iter().enumerate() {
            let other = usize::try_from(pivot).ok().and_then(|pivot| pivot.checked_sub(1)).filter(|&p| p < m && i < m);
            let Some(other) = other else {
                bail!(Runtime, "pivots passed to lu_solve must be greater or equal to 1 and less or equal to {m}");
            };
            order.swap(i, other);
        }
        order.iter().enumerate().for_each(|(place, &row)| places[b * m + row as usize] = place as i64);
        rows.extend(order);
    }
    Ok([Tensor::from_vec(rows, &sizes)?, Tensor::from_vec(places, &sizes)?])
}

/// The permutation and the triangles of LU factors.
pub fn lu_unpack(
    lu_data: &Tensor,
    lu_pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_matrix(lu_data, "torch.lu_unpack", "LU_data")?;
    check!(
        !unpack_pivots || lu_pivots.dtype() == DType::I32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is \
         intended to be used with the output produced by torch.linalg.lu_factor"
    );
    let [m, n] = shape(lu_data);
    let k = m.min(n);
    let p = if unpack_pivots {
        // Column i of P has its 1 in the row of A that came to row i.
        let [rows, _] = permutations(lu_pivots, m)?;
        let sizes: Vec<i64> = without(lu_data.sizes(), 2).iter().copied().chain([m, m]).collect();
        let zeros = ops::new_zeros(lu_data, &sizes, None, None, None, None)?;
        let index: Vec<i64> = without(&sizes, 2).iter().copied().chain([1, m]).collect();
        ops::scatter_value(&zeros, -2, &ops::expand(&ops::unsqueeze(&rows, -2)?, &index, false)?, 1)?
    } else {
        nothing(lu_data)?
    };
    if !unpack_data {
        return Ok((p, nothing(lu_data)?, nothing(lu_data)?));
    }
    let l = ops::tril(&ops::narrow(lu_data, -1, 0, k)?, -1)?;
    ops::fill_scalar_(&ops::diagonal(&l, 0, -2, -1)?, 1)?;
    let u = ops::triu(&ops::narrow(lu_data, -2, 0, k)?, 0)?;
    Ok((p, l, u))
}

/// `L D L^T` factors; an error where D is singular.
pub fn linalg_ldl_factor(self_: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor)> {
    let (ld, pivots, info) = ops::linalg_ldl_factor_ex(self_, hermitian, false)?;
    check_errors(&info, "torch.linalg.ldl_factor", self_.dim() == 2)?;
    Ok((ld, pivots))
}

/// The matrix that reflections make, under its older name.
pub fn orgqr(self_: &Tensor, input2: &Tensor) -> Result<Tensor> {
    ops::linalg_householder_product(self_, input2)
}

/// `A = Q R`.
pub fn linalg_qr(a: &Tensor, mode: &str) -> Result<(Tensor, Tensor)> {
    check_matrix(a, "linalg.qr", "A")?;
    check_float(a, "linalg.qr")?;
    let (wants_q, reduced) = match mode {
        "reduced" => (true, true),
        "complete" => (true, false),
        "r" => (false, true),
        _ => bail!(
            Runtime,
            "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ),
    };
    let [m, n] = shape(a);
    let k = m.min(n);
    let width = if reduced { k } else { m };
    let (factors, tau) = ops::geqrf(a)?;
    let r = ops::triu(&ops::narrow(&factors, -2, 0, width)?, 0)?;
    if !wants_q {
        return Ok((nothing(a)?, r));
    }
    let reflections = ops::narrow(&factors, -1, 0, n.min(width))?;
    let reflections = if width > n { ops::constant_pad_nd(&reflections, &[0, width - n], 0)? } else { reflections };
    Ok((ops::linalg_householder_product(&reflections, &tau)?, r))
}

/// The inverse of a matrix whose Cholesky factor is given.
pub fn cholesky_inverse(self_: &Tensor, upper: bool) -> Result<Tensor> {
    check_square(self_, "cholesky_inverse", "A")?;
    let eye = identity(without(self_.sizes(), 2), shape(self_)[0], self_)?;
    super::cholesky_solve(&eye, self_, upper)
}
