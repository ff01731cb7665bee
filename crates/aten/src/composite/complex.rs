//! Complex numbers and their parts. Conjugation is computed, never a lazy bit.

use tensor_core::strides::Dims;
use tensor_core::{Result, check};

use crate::{Out, Tensor, iterate, kernels, ops};

/// The complex conjugate; a real tensor is its own.
pub fn conj(self_: &Tensor) -> Result<Tensor> {
    if self_.is_complex() { ops::_conj_physical(self_) } else { Ok(Tensor::clone(self_)) }
}

/// The complex conjugate of a complex tensor, computed.
pub fn _conj(self_: &Tensor) -> Result<Tensor> {
    ops::_conj_physical(self_)
}

/// The complex conjugate; a real tensor is its own.
pub fn conj_physical(self_: &Tensor) -> Result<Tensor> {
    conj(self_)
}

/// `conj_physical` in place.
pub fn conj_physical_(self_: &Tensor) -> Result<()> {
    if !self_.is_complex() {
        return Ok(());
    }
    let out = Out::InPlace(self_);
    let column = |device| Ok(&kernels::pointwise(device)?.conj_physical);
    iterate::run(iterate::unary(out, self_)?, out, "conj_cpu", column).map(drop)
}

/// The angle of complex numbers; of real ones 0, or pi below 0.
pub fn angle(self_: &Tensor) -> Result<Tensor> {
    if self_.is_complex() {
        return ops::atan2(&imag(self_)?, &real(self_)?);
    }
    let float = ops::mul_scalar(self_, 1.0)?;
    if float.numel() == 0 {
        return ops::empty_like(self_, Some(float.dtype()), None, None, None, None);
    }
    let half_turns = ops::where_self(
        &ops::isnan(&float)?,
        &float,
        &ops::to_dtype(&ops::lt_scalar(&float, 0)?, float.dtype(), false, false, None)?,
    )?;
    ops::mul_scalar(&half_turns, std::f64::consts::PI)
}

/// The tensor itself: no lazy conjugation is ever due.
pub fn resolve_conj(self_: &Tensor) -> Result<Tensor> {
    Ok(Tensor::clone(self_))
}

/// The tensor itself: no lazy negation is ever due.
pub fn resolve_neg(self_: &Tensor) -> Result<Tensor> {
    Ok(Tensor::clone(self_))
}

/// A complex tensor as a real one with a last dimension of the two parts: a view.
pub fn view_as_real(self_: &Tensor) -> Result<Tensor> {
    tensor_core::check_type!(self_.is_complex(), "view_as_real is only supported for complex tensors");
    let m = self_.as_impl().metadata();
    let mut sizes = m.sizes.clone();
    let mut strides: Dims = m.strides.iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    Tensor::from_storage(m.storage.clone(), m.dtype.to_real(), &sizes, &strides, m.offset * 2)
}

/// A real tensor with a last dimension of two parts as a complex one: a view.
pub fn view_as_complex(self_: &Tensor) -> Result<Tensor> {
    let dtype = self_.dtype();
    check!(
        matches!(dtype, tensor_core::DType::F32 | tensor_core::DType::F64),
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
        dtype.cpp_name()
    );
    let m = self_.as_impl().metadata();
    check!(!m.sizes.is_empty(), "Input tensor must have one or more dimensions");
    let last = m.sizes.len() - 1;
    check!(m.sizes[last] == 2, "Tensor must have a last dimension of size 2");
    check!(m.strides[last] == 1, "Tensor must have a last dimension with stride 1");
    for &stride in &m.strides[..last] {
        check!(stride % 2 == 0, "Tensor must have a stride divisible by 2 for all but last dimension");
    }
    check!(m.offset % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    let sizes = Dims::from_slice(&m.sizes[..last]);
    let strides: Dims = m.strides[..last].iter().map(|s| s / 2).collect();
    Tensor::from_storage(m.storage.clone(), dtype.to_complex(), &sizes, &strides, m.offset / 2)
}

/// The real part, a view; a real tensor is its own.
pub fn real(self_: &Tensor) -> Result<Tensor> {
    if !self_.is_complex() {
        return Ok(Tensor::clone(self_));
    }
    ops::select_int(&ops::view_as_real(self_)?, -1, 0)
}

/// The imaginary part, a view.
pub fn imag(self_: &Tensor) -> Result<Tensor> {
    check!(self_.is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
    ops::select_int(&ops::view_as_real(self_)?, -1, 1)
}
