//! Weights as lengths and directions.

use tensor_core::strides::Dims;
use tensor_core::{DType, MemoryFormat, Result, check};

use crate::{Tensor, ops};

/// The norms over all dimensions but one, of 1 element along these; over all dimensions with -1.
pub fn norm_except_dim(v: &Tensor, pow: i64, dim: i64) -> Result<Tensor> {
    if dim == -1 {
        return ops::norm_scalar(v, pow);
    }
    let last = v.dim() as i64 - 1;
    if dim != 0 && dim != last {
        let turned = ops::norm_except_dim(&ops::transpose_int(v, 0, dim)?, pow, 0)?;
        return ops::transpose_int(&turned, 0, dim);
    }
    let size = v.size(dim)?;
    let mut shape = Dims::from_elem(1, v.dim());
    shape[dim as usize] = size;
    let dense = ops::contiguous(v, MemoryFormat::Contiguous)?;
    let (matrix, over) = if dim == 0 { ([size, -1], 1) } else { ([-1, size], 0) };
    let norms = ops::norm_scalar_opt_dim(&ops::view(&dense, &matrix)?, Some(pow.into()), &[over], false)?;
    ops::view(&norms, &shape)
}

/// `v * g / norm(v)`, with norms over all dimensions but one.
pub fn _weight_norm(v: &Tensor, g: &Tensor, dim: i64) -> Result<Tensor> {
    check!(
        v.device() == g.device(),
        "weight_norm: expected v_in and g_in to be on the same device, but v_in is on {} and g_in is on {}",
        v.device(),
        g.device()
    );
    let v = ops::contiguous(v, MemoryFormat::Contiguous)?;
    let g = ops::contiguous(g, MemoryFormat::Contiguous)?;
    let half = [&v, &g].iter().any(|x| matches!(x.dtype(), DType::F16 | DType::BF16));
    if !half && (dim == 0 || dim == v.dim() as i64 - 1) {
        return Ok(ops::_weight_norm_interface(&v, &g, dim)?.0);
    }
    ops::mul(&v, &ops::div(&g, &ops::norm_except_dim(&v, 2, dim)?)?)
}

/// [`_weight_norm`] with a node of its own, over all dimensions but the first or the last; and the norms.
pub fn _weight_norm_interface(v: &Tensor, g: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    check!(dim == 0 || dim == v.dim() as i64 - 1, "fused kernels can only be applied for first or last dim");
    let norms = ops::norm_except_dim(v, 2, dim)?;
    let w = ops::mul(&ops::contiguous(v, MemoryFormat::Contiguous)?, &ops::div(g, &norms)?)?;
    Ok((w, norms))
}
