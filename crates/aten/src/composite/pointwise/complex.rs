//! Complex numbers of their parts, and a many-variable gamma function.

use tensor_core::strides::Dims;
use tensor_core::{DType, Result, bail, check};

use crate::{Tensor, ops};

fn check_parts(real: &Tensor, imag: &Tensor) -> Result<()> {
    let fits = |x: &Tensor| matches!(x.dtype(), DType::F16 | DType::F32 | DType::F64);
    if !(fits(real) && fits(imag)) {
        bail!(
            NotImplemented,
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            real.dtype().cpp_name(),
            imag.dtype().cpp_name()
        );
    }
    check!(
        real.dtype() == imag.dtype(),
        "Expected object of scalar type {} but got scalar type {} for second argument",
        real.dtype().cpp_name(),
        imag.dtype().cpp_name()
    );
    Ok(())
}

/// `real + i imag`
pub fn complex(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
    check_parts(real, imag)?;
    let dtype = match real.dtype() {
        DType::F16 => DType::C32,
        DType::F32 => DType::C64,
        _ => DType::C128,
    };
    // The result lies as that of any operator of two tensors.
    let like = ops::add(real, imag, 1)?;
    let (sizes, strides) = (Dims::from_slice(like.sizes()), Dims::from_slice(like.strides()));
    let made = Tensor::new_strided(sizes, strides, dtype, real.device())?;
    let parts = ops::view_as_real(&made)?;
    for (i, part) in [real, imag].into_iter().enumerate() {
        ops::copy_(&ops::select_int(&parts, -1, i as i64)?, part, false)?;
    }
    Ok(made)
}

/// `abs e^(i angle)`
pub fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    check_parts(abs, angle)?;
    complex(&ops::mul(abs, &ops::cos(angle)?)?, &ops::mul(abs, &ops::sin(angle)?)?)
}

/// The logarithm of the gamma function of `p` variables.
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    check!(p >= 1, "p has to be greater than or equal to 1");
    let float = ops::mul_scalar(self_, 1.0)?;
    let dtype = Some(float.dtype());
    let terms = ops::arange_start_step(-(p as f64) / 2.0 + 0.5, 0.5, 0.5, dtype, None, Some(float.device()), None)?;
    let sum = ops::sum_dim_int_list(
        &ops::lgamma(&ops::add(&ops::unsqueeze(&float, -1)?, &terms, 1)?)?,
        Some(&[-1]),
        false,
        None,
    )?;
    ops::add_scalar(&sum, (p * (p - 1)) as f64 * std::f64::consts::PI.ln() / 4.0, 1)
}

/// `mvlgamma` in place.
pub fn mvlgamma_(self_: &Tensor, p: i64) -> Result<()> {
    crate::composite::copy::copy_(self_, &mvlgamma(self_, p)?, false)
}

/// `mvlgamma` under another name.
pub fn special_multigammaln(self_: &Tensor, p: i64) -> Result<Tensor> {
    ops::mvlgamma(self_, p)
}
