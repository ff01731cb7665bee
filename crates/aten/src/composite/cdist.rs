//! Distances between rows: the choice of a way, and the one by products of matrices.

use tensor_core::{Result, check};

use crate::native::cdist::{batched, by_products, check_rows};
use crate::{Tensor, ops};

/// The distances (.., P, R) of the rows of (.., P, M) and (.., R, M), by a product of matrices: inexact where rows are close.
pub fn _euclidean_dist(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    // (-2 x1, |x1|^2, 1) . (x2, 1, |x2|^2)
    let square = |x: &Tensor| ops::sum_dim_int_list(&ops::pow_tensor_scalar(x, 2)?, Some(&[-1]), true, None);
    let (norm1, norm2) = (square(x1)?, square(x2)?);
    let ones = |like: &Tensor| ops::ones_like(like, None, None, None, None, None);
    let left = ops::cat(&[&ops::mul_scalar(x1, -2)?, &norm1, &ones(&norm1)?], -1)?;
    let right = ops::cat(&[x2, &ones(&norm2)?, &norm2], -1)?;
    let squares = ops::matmul(&left, &ops::transpose_int(&right, -1, -2)?)?;
    ops::sqrt(&ops::clamp_min(&squares, 0)?)
}

/// The distances (.., P, R) of the rows of (.., P, M) and (.., R, M).
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    check_rows(x1, x2, p)?;
    if x1.numel() == 0 || x2.numel() == 0 || !by_products(x1, x2, p, compute_mode)? {
        return ops::_cdist_forward(x1, x2, p, compute_mode);
    }
    let (a, b, lead) = batched(x1, x2)?;
    let sizes = [&lead[..], &[a.sizes()[1], b.sizes()[1]]].concat();
    ops::view(&ops::_euclidean_dist(&a, &b)?, &sizes)
}

/// The distances of the rows of `self` (N, M) to those after them: N (N - 1) / 2.
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    check!(self_.dim() == 2, "pdist only supports 2D tensors, got: {}D", self_.dim());
    check!(self_.is_floating_point(), "pdist only supports floating-point dtypes");
    check!(p >= 0.0, "pdist only supports non-negative p values");
    ops::_pdist_forward(&ops::contiguous(self_, tensor_core::MemoryFormat::Contiguous)?, p)
}
