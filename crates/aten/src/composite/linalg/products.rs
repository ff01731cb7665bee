//! Cross products, tensors as matrices, and matrices of powers.

use tensor_core::strides::{self, Dims, wrap_dim};
use tensor_core::{Result, check, check_not_implemented};

use super::checks::check_errors;
use crate::{Tensor, ops};

/// The cross product of vectors of three elements.
pub fn linalg_cross(self_: &Tensor, other: &Tensor, dim: i64) -> Result<Tensor> {
    check!(self_.dim() == other.dim(), "linalg.cross: inputs must have the same number of dimensions.");
    let d = wrap_dim(dim, self_.dim())? as i64;
    let (own, theirs) = (self_.size(d)?, other.size(d)?);
    check!(own == 3 && theirs == 3, "linalg.cross: inputs dimension {dim} must have length 3. Got {own} and {theirs}");
    let sizes = strides::broadcast(self_.sizes(), other.sizes())?;
    let (a, b) = (ops::expand(self_, &sizes, false)?, ops::expand(other, &sizes, false)?);
    let product = |x: i64, y: i64| ops::mul(&ops::roll(&a, &[x], &[d])?, &ops::roll(&b, &[y], &[d])?);
    ops::sub(&product(-1, -2)?, &product(-2, -1)?, 1)
}

/// The cross product along a dimension, or the first one of three elements.
pub fn cross(self_: &Tensor, other: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    let dim = match dim {
        Some(dim) => Some(dim),
        None => self_.sizes().iter().position(|&n| n == 3).map(|d| d as i64),
    };
    let Some(dim) = dim else { tensor_core::bail!(Runtime, "no dimension of size 3 in input") };
    ops::linalg_cross(self_, other, dim)
}

/// The inverse of a product over the first `ind` dimensions.
pub fn linalg_tensorinv(self_: &Tensor, ind: i64) -> Result<Tensor> {
    check!(ind > 0, "Expected a strictly positive integer for 'ind', but got {ind}");
    let sizes = self_.sizes();
    let (first, rest) = sizes.split_at((ind as usize).min(sizes.len()));
    let (rows, cols): (i64, i64) = (first.iter().product(), rest.iter().product());
    check!(
        cols == rows,
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {cols} != {rows}"
    );
    let shape: Dims = rest.iter().chain(first).copied().collect();
    let (inverse, info) = ops::linalg_inv_ex(&ops::reshape(self_, &[cols, cols])?, false)?;
    check_errors(&info, "inv", true)?;
    ops::reshape(&inverse, &shape)
}

/// The solution of a product over the last dimensions.
pub fn linalg_tensorsolve(self_: &Tensor, other: &Tensor, dims: Option<&[i64]>) -> Result<Tensor> {
    let (ndim, given) = (self_.dim(), other.dim());
    let matrix = match dims {
        Some(dims) => {
            let last: Dims = (ndim as i64 - dims.len() as i64..ndim as i64).collect();
            ops::movedim_intlist(self_, dims, &last)?
        }
        None => self_.clone(),
    };
    let shape = Dims::from_slice(&matrix.sizes()[given.min(ndim)..]);
    let (cols, rows): (i64, i64) = (shape.iter().product(), other.numel());
    check!(
        cols == rows,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got \
         {cols} != {rows}"
    );
    let matrix = ops::reshape(&matrix, &[cols, cols])?;
    ops::reshape(&ops::linalg_solve(&matrix, &ops::flatten_using_ints(other, 0, -1)?, true)?, &shape)
}

/// The powers 0 to N - 1.
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    let dtype = x.dtype();
    check_not_implemented!(
        dtype.is_differentiable() || dtype.is_integral(false),
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        dtype.cpp_name()
    );
    let x = if x.dim() == 0 { ops::unsqueeze(x, -1)? } else { x.clone() };
    let n = n.unwrap_or(x.size(-1)?);
    check!(n > 1, "N must be greater than 1.");
    let sizes: Vec<i64> = x.sizes().iter().copied().chain([n - 1]).collect();
    let powers = ops::cumprod(&ops::expand(&ops::unsqueeze(&x, -1)?, &sizes, false)?, -1, None)?;
    let first: Vec<i64> = x.sizes().iter().copied().chain([1]).collect();
    let ones = ops::new_ones(&powers, &first, None, None, None, None)?;
    ops::cat(&[&ones, &powers], -1)
}
