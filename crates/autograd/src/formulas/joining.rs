//! Gradients of joins: the parts of the whole's gradient.

use tensor_aten::{Tensor, ops};
use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result};

use super::handle_r_to_c;

/// Gradients of `cat`: the slices that the tensors became. A 1-d tensor without elements became none.
pub fn cat_tensors_backward(grad: &Tensor, sizes: &[Dims], dtypes: &[DType], dim: i64) -> Result<Vec<Option<Tensor>>> {
    let legacy = |sizes: &Dims| sizes.as_slice() == [0];
    // Where all became none, any dimension will do.
    let d = match sizes.iter().find(|sizes| !legacy(sizes)) {
        Some(sizes) => wrap_dim(dim, sizes.len())?,
        None => 0,
    };
    let mut start = 0;
    let mut grads = Vec::with_capacity(sizes.len());
    for (sizes, &dtype) in sizes.iter().zip(dtypes) {
        let grad = handle_r_to_c(dtype, grad)?;
        if legacy(sizes) {
            grads.push(Some(ops::zeros(&[0], Some(grad.dtype()), None, Some(grad.device()), None)?));
            continue;
        }
        grads.push(Some(ops::narrow(&grad, d as i64, start, sizes[d])?));
        start += sizes[d];
    }
    Ok(grads)
}

/// Gradients of `stack`: the slices that the tensors became.
pub fn stack_tensors_backward(grad: &Tensor, dtypes: &[DType], dim: i64) -> Result<Vec<Option<Tensor>>> {
    let slices = ops::unbind_int(grad, dim)?;
    slices.iter().zip(dtypes).map(|(grad, &dtype)| handle_r_to_c(dtype, grad).map(Some)).collect()
}

/// Gradients of `block_diag`: the blocks on the diagonal.
pub fn block_diag_backward(grad: &Tensor, sizes: &[Dims], dtypes: &[DType]) -> Result<Vec<Option<Tensor>>> {
    let (mut row, mut column) = (0, 0);
    let mut grads = Vec::with_capacity(sizes.len());
    for (sizes, &dtype) in sizes.iter().zip(dtypes) {
        let (n, m) = match sizes.as_slice() {
            [] => (1, 1),
            [m] => (1, *m),
            [n, m, ..] => (*n, *m),
        };
        let block = ops::narrow(&ops::narrow(grad, 0, row, n)?, 1, column, m)?;
        grads.push(Some(handle_r_to_c(dtype, &ops::reshape(&block, sizes)?)?));
        (row, column) = (row + n, column + m);
    }
    Ok(grads)
}
