//! Norms of matrices and condition numbers.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, Scalar, bail, check, check_value};

use super::checks::{check_float, check_matrix, check_precise, check_square};
use super::without;
use crate::{Tensor, ops};

/// The dimensions of matrices, counted from the start.
fn plane(x: &Tensor, dim: &[i64]) -> Result<[usize; 2]> {
    let &[a, b] = dim else {
        bail!(Runtime, "linalg.matrix_norm: dim must be a 2-tuple. Got {}", tensor_core::strides::show(dim))
    };
    let (rows, cols) = (wrap_dim(a, x.dim())?, wrap_dim(b, x.dim())?);
    check!(rows != cols, "linalg.matrix_norm: dims must be different. Got ({a}, {b})");
    Ok([rows, cols])
}

fn check_norm(x: &Tensor, dtype: Option<DType>) -> Result<()> {
    check_matrix(x, "linalg.matrix_norm", "A")?;
    let own = x.dtype();
    check_float(x, "linalg.matrix_norm")?;
    if let Some(dtype) = dtype {
        check!(
            dtype.is_differentiable(),
            "linalg.matrix_norm: dtype should be floating point or complex, but got {}",
            dtype.cpp_name()
        );
        let kind = if own.is_complex() { "complex" } else { "real" };
        check!(
            own.is_complex() == dtype.is_complex(),
            "linalg.matrix_norm: dtype should be {kind} for {kind} inputs, but got {}",
            dtype.cpp_name()
        );
    }
    Ok(())
}

/// The singular values of the matrices along two dimensions, reduced over the last dimension by `f` of the values and
/// whether that dimension stays.
fn by_values(
    x: &Tensor,
    [rows, cols]: [usize; 2],
    keepdim: bool,
    dtype: Option<DType>,
    f: impl FnOnce(&Tensor, bool) -> Result<Tensor>,
) -> Result<Tensor> {
    let x = match dtype {
        Some(dtype) => ops::to_dtype(x, dtype, false, false, None)?,
        None => x.clone(),
    };
    let others = (0..x.dim()).filter(|&d| d != rows && d != cols);
    let order: Dims = others.chain([rows, cols]).map(|d| d as i64).collect();
    let result = f(&ops::linalg_svdvals(&ops::permute(&x, &order)?, None)?, keepdim)?;
    if !keepdim {
        return Ok(result);
    }
    let mut back = Dims::from_slice(&order);
    order.iter().enumerate().for_each(|(place, &d)| back[d as usize] = place as i64);
    ops::permute(&ops::unsqueeze(&result, -1)?, &back)
}

/// The shortest text of a number, as C++ prints it.
fn show(ord: Scalar) -> String {
    let value = ord.to_f64();
    if value.is_infinite() { if value < 0.0 { "-inf".into() } else { "inf".into() } } else { format!("{value}") }
}

/// A norm of matrices by its order.
pub fn linalg_matrix_norm(
    self_: &Tensor,
    ord: Scalar,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_norm(self_, dtype)?;
    let order = ord.to_f64();
    let (size, largest) = (order.abs(), order > 0.0);
    check!(size == 1.0 || size == 2.0 || size.is_infinite(), "linalg.matrix_norm: Order {} not supported.", show(ord));
    let [mut summed, mut compared] = plane(self_, dim)?;
    let extreme = |x: &Tensor, d: i64, keepdim: bool| {
        if largest { ops::amax(x, &[d], keepdim) } else { ops::amin(x, &[d], keepdim) }
    };
    if size == 2.0 {
        check_precise(self_, "linalg.matrix_norm")?;
        return by_values(self_, [summed, compared], keepdim, dtype, |s, keep| extreme(s, -1, keep));
    }
    if size.is_infinite() {
        std::mem::swap(&mut summed, &mut compared);
    }
    if summed < compared && !keepdim {
        compared -= 1;
    }
    let sums = ops::linalg_vector_norm(self_, 1.0, Some(&[summed as i64]), keepdim, dtype)?;
    extreme(&sums, compared as i64, keepdim)
}

/// A norm of matrices by its name.
pub fn linalg_matrix_norm_str_ord(
    self_: &Tensor,
    ord: &str,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_norm(self_, dtype)?;
    let dims = plane(self_, dim)?;
    match ord {
        "fro" => ops::linalg_vector_norm(self_, 2.0, Some(&dims.map(|d| d as i64)), keepdim, dtype),
        "nuc" => by_values(self_, dims, keepdim, dtype, |s, keep| ops::sum_dim_int_list(s, Some(&[-1]), keep, None)),
        _ => bail!(Runtime, "linalg.matrix_norm: Order {ord} not supported."),
    }
}

fn check_dims(x: &Tensor, dim: Option<&[i64]>, ordered: bool) -> Result<()> {
    if let Some(dim) = dim {
        check!(
            matches!(dim.len(), 1 | 2),
            "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}",
            tensor_core::strides::show(dim)
        );
    } else if ordered {
        check!(
            matches!(x.dim(), 1 | 2),
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
            x.dim()
        );
    }
    Ok(())
}

/// A norm of vectors or matrices.
pub fn linalg_norm(
    self_: &Tensor,
    ord: Option<Scalar>,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_dims(self_, dim, ord.is_some())?;
    match (ord, dim) {
        (Some(ord), Some(dim)) if dim.len() == 2 => ops::linalg_matrix_norm(self_, ord, dim, keepdim, dtype),
        (Some(ord), None) if self_.dim() == 2 => ops::linalg_matrix_norm(self_, ord, &[0, 1], keepdim, dtype),
        _ => ops::linalg_vector_norm(self_, ord.unwrap_or(Scalar::Float(2.0)), dim, keepdim, dtype),
    }
}

/// A norm of matrices by its name.
pub fn linalg_norm_ord_str(
    self_: &Tensor,
    ord: &str,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    check_dims(self_, dim, true)?;
    ops::linalg_matrix_norm_str_ord(self_, ord, dim.unwrap_or(&[0, 1]), keepdim, dtype)
}

/// The sum of singular values of a matrix.
pub fn nuclear_norm(self_: &Tensor, keepdim: bool) -> Result<Tensor> {
    check!(
        self_.dim() == 2,
        "Expected a tensor with 2 dimensions, but got a tensor with {} dimensions instead.",
        self_.dim()
    );
    ops::linalg_matrix_norm_str_ord(self_, "nuc", &[0, 1], keepdim, None)
}

/// The sum of singular values of the matrices along two dimensions.
pub fn nuclear_norm_dim(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    ops::linalg_matrix_norm_str_ord(self_, "nuc", dim, keepdim, None)
}

/// The 2-norm over one or two dimensions.
pub fn frobenius_norm_dim(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    check!(dim.len() <= 2, "Expected at most 2 dimensions, but got {} dimensions instead.", dim.len());
    ops::norm_scalar_opt_dim(self_, Some(Scalar::Float(2.0)), dim, keepdim)
}

/// The condition number of no elements.
fn none(x: &Tensor) -> Result<Tensor> {
    ops::new_zeros(x, without(x.sizes(), 2), Some(x.dtype().to_real()), None, None, None)
}

/// The inverse, with infinities where there is none.
fn inverse(x: &Tensor) -> Result<Tensor> {
    let (inverse, info) = ops::linalg_inv_ex(x, false)?;
    let singular = ops::unsqueeze(&ops::unsqueeze(&ops::gt_scalar(&info, 0)?, -1)?, -1)?;
    ops::masked_fill_scalar(&inverse, &singular, f64::INFINITY)
}

/// The condition number.
pub fn linalg_cond(self_: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    let x = self_;
    check!(x.dim() >= 2, "linalg.cond: The input tensor must have at least 2 dimensions.");
    let ord = p.unwrap_or(Scalar::Float(2.0));
    let size = ord.to_f64().abs();
    check_value!(
        size == 1.0 || size == 2.0 || size.is_infinite(),
        "linalg.cond got an invalid norm type: {}",
        show(ord)
    );
    if x.numel() == 0 {
        return none(x);
    }
    if size == 2.0 {
        let s = ops::linalg_svdvals(x, None)?;
        let (largest, smallest) = (ops::narrow(&s, -1, 0, 1)?, ops::narrow(&s, -1, -1, 1)?);
        let ratio = if ord.to_f64() < 0.0 { ops::div(&smallest, &largest)? } else { ops::div(&largest, &smallest)? };
        return ops::squeeze_dim(&ratio, -1);
    }
    check_square(x, &format!("linalg.cond(ord={})", show(ord)), "A")?;
    let norm = |x: &Tensor| ops::linalg_matrix_norm(x, ord, &[-2, -1], false, None);
    ops::mul(&norm(x)?, &norm(&inverse(x)?)?)
}

/// The condition number in a norm by its name.
pub fn linalg_cond_p_str(self_: &Tensor, p: &str) -> Result<Tensor> {
    let x = self_;
    check!(x.dim() >= 2, "linalg.cond: The input tensor must have at least 2 dimensions.");
    check_value!(p == "fro" || p == "nuc", "linalg.cond got an invalid norm type: {p}");
    check_square(x, &format!("linalg.cond(ord={p})"), "A")?;
    if x.numel() == 0 {
        return none(x);
    }
    if p == "nuc" {
        let s = ops::linalg_svdvals(x, None)?;
        let sum = |s: &Tensor| ops::sum_dim_int_list(s, Some(&[-1]), false, None);
        return ops::mul(&sum(&s)?, &sum(&ops::reciprocal(&s)?)?);
    }
    let norm = |x: &Tensor| ops::linalg_matrix_norm_str_ord(x, p, &[-2, -1], false, None);
    ops::mul(&norm(x)?, &norm(&inverse(x)?)?)
}
