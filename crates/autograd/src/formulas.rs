//! Functions that formulas call where an expression of operators does not do. They call dispatched operators only, so that
//! their results have derivatives. Here are those that many families use; a family's own are in `formulas/FAMILY.rs`.

mod attention;
mod batch_norm;
mod cdist;
mod composed;
mod convolution;
pub mod dims;
mod dropout;
mod einsum;
mod embedding;
mod fft;
mod flip;
mod grid_sampler;
mod indexing;
mod joining;
mod layer_norm;
mod linalg;
mod loss;
mod matmul;
mod padding;
mod pixel;
mod pointwise;
mod pooling;
mod recurrent;
mod reduce;
mod renorm;
mod repeating;
pub mod scalar;
mod softmax;
mod sorting;
mod special;
mod view;
mod view_copy;
mod weight_norm;

use tensor_aten::{Tensor, ops};
use tensor_core::strides::Dims;
use tensor_core::{DType, Device, Result, bail, strides};

pub use attention::*;
pub use batch_norm::*;
pub use cdist::*;
pub use convolution::*;
pub use dropout::*;
pub use einsum::*;
pub use embedding::*;
pub use fft::*;
pub use flip::*;
pub use grid_sampler::*;
pub use indexing::*;
pub use joining::*;
pub use layer_norm::*;
pub use linalg::*;
pub use loss::*;
pub use matmul::*;
pub use padding::*;
pub use pixel::*;
pub use pointwise::*;
pub use pooling::*;
pub use recurrent::*;
pub use reduce::*;
pub use renorm::*;
pub use repeating::*;
pub use softmax::*;
pub use sorting::*;
pub use special::*;
pub use view::*;
pub use view_copy::*;
pub use weight_norm::*;

/// The complex conjugate; a real tensor is its own.
///
/// # Errors
/// When the operator fails.
pub fn conj(x: &Tensor) -> Result<Tensor> {
    if x.is_complex() { ops::conj(x) } else { Ok(x.clone()) }
}

/// What stands for a derivative that nobody has written.
///
/// # Errors
/// Always: `NotImplementedError`.
pub fn not_implemented(what: &str) -> Result<Tensor> {
    bail!(NotImplemented, "the derivative for '{what}' is not implemented.")
}

/// The size of a dimension, counted from the end when negative.
///
/// # Errors
/// `IndexError` when there is no such dimension.
pub fn size(sizes: &[i64], dim: i64) -> Result<i64> {
    match sizes.get(strides::wrap_dim(dim, sizes.len())?) {
        Some(size) => Ok(*size),
        None => bail!(Index, "Dimension specified as {dim} but tensor has no dimensions"),
    }
}

/// A saved list as operators take it.
pub fn refs(list: &[Tensor]) -> Vec<&Tensor> {
    list.iter().collect()
}

/// A saved list with absent tensors as operators take it.
pub fn refs_opt(list: &[Option<Tensor>]) -> Vec<Option<&Tensor>> {
    list.iter().map(Option::as_ref).collect()
}

/// The real part of a complex gradient of a real input (`handle_r_to_c`).
///
/// # Errors
/// When the operator fails.
pub fn handle_r_to_c(dtype: DType, grad: &Tensor) -> Result<Tensor> {
    if grad.is_complex() && !dtype.is_complex() { ops::real(grad) } else { Ok(grad.clone()) }
}

/// Zeros of a shape.
///
/// # Errors
/// When they cannot be allocated.
pub fn zeros(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    ops::zeros(sizes, Some(dtype), None, Some(device), None)
}

/// Elements of no particular value in given strides.
///
/// # Errors
/// When they cannot be allocated.
pub fn empty_strided(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    ops::empty_strided(sizes, strides, Some(dtype), None, Some(device), None)
}

/// The tensor in another dtype; itself if it has that.
///
/// # Errors
/// When the operator fails.
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    ops::_to_copy(x, Some(dtype), None, None, None, false, None)
}

/// The tensor on another device; itself if it is there.
///
/// # Errors
/// When the operator fails.
pub fn to_device(x: &Tensor, device: Device) -> Result<Tensor> {
    if x.device() == device {
        return Ok(x.clone());
    }
    ops::_to_copy(x, None, None, Some(device), None, false, None)
}

/// True if a shape can be expanded to `target`.
pub fn is_expandable(shape: &[i64], target: &[i64]) -> bool {
    shape.len() <= target.len()
        && shape.iter().rev().zip(target.iter().rev()).all(|(&size, &wanted)| size == wanted || size == 1)
}

/// Sums a broadcast gradient back to the shape that was broadcast (`sum_to_size`).
///
/// # Errors
/// When the shape cannot be expanded to the gradient's.
pub fn sum_to_size(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if grad.sizes() == sizes {
        return Ok(grad.clone());
    }
    if sizes.is_empty() {
        return ops::sum(grad, None);
    }
    tensor_core::check!(
        is_expandable(sizes, grad.sizes()),
        "size {{{}}} is not expandable to size {{{}}}.",
        strides::show(sizes),
        strides::show(grad.sizes())
    );
    let lead = grad.dim() - sizes.len();
    let summed = |&d: &usize| d < lead || (sizes[d - lead] == 1 && grad.sizes()[d] != 1);
    let dims: Dims = (0..grad.dim()).filter(summed).map(|d| d as i64).collect();
    let sum = ops::sum_dim_int_list(grad, Some(&dims), true, None)?;
    if lead == 0 { Ok(sum) } else { ops::view(&sum, sizes) }
}

/// Dimensions counted from the end made positive, in ascending order.
///
/// # Errors
/// `IndexError` when one is out of range.
pub fn wrap_dims(dims: &[i64], ndim: usize) -> Result<Dims> {
    let mut wrapped = dims.iter().map(|&d| Ok(strides::wrap_dim(d, ndim)? as i64)).collect::<Result<Dims>>()?;
    wrapped.sort_unstable();
    Ok(wrapped)
}

/// Puts back, as size 1, the dimensions that a reduction without `keepdim` dropped (`unsqueeze_multiple`). No dimensions
/// stand for all of them.
///
/// # Errors
/// `IndexError` when a dimension is out of range.
pub fn unsqueeze_multiple(x: &Tensor, dims: Option<&[i64]>, ndim: usize) -> Result<Tensor> {
    let dims = match dims {
        Some(dims) if !dims.is_empty() => wrap_dims(dims, ndim)?,
        _ => (0..ndim as i64).collect(),
    };
    let mut out = x.clone();
    if ndim > 0 {
        for dim in dims {
            out = ops::unsqueeze(&out, dim)?;
        }
    }
    Ok(out)
}

/// A reduction's gradient with the reduced dimensions put back as size 1.
///
/// # Errors
/// `IndexError` when a dimension is out of range.
pub fn restore_reduced_dims(grad: &Tensor, dims: Option<&[i64]>, keepdim: bool, ndim: usize) -> Result<Tensor> {
    if keepdim { Ok(grad.clone()) } else { unsqueeze_multiple(grad, dims, ndim) }
}

/// The gradient of a sum: the sum's gradient at every element (`sum_backward`).
///
/// # Errors
/// `IndexError` when a dimension is out of range.
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dims: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let grad = restore_reduced_dims(grad, dims, keepdim, sizes.len())?;
    ops::expand(&grad, sizes, false)
}
