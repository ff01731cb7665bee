//! Covariances, and integrals by trapezoids.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{Result, Scalar, check};

use crate::{Tensor, ops};

/// The covariances of variables in rows, observed in columns, with frequencies and weights of the observations.
pub fn cov(self_: &Tensor, correction: i64, fweights: Option<&Tensor>, aweights: Option<&Tensor>) -> Result<Tensor> {
    check!(
        self_.dim() <= 2,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    check!(self_.dtype() != tensor_core::DType::Bool, "cov(): bool dtype is not supported for input");
    let x = if self_.dim() < 2 { ops::reshape(self_, &[1, -1])? } else { self_.clone() };
    let observed = x.sizes()[1];
    let mut weights: Option<Tensor> = None;
    if let Some(f) = fweights {
        check!(
            f.dim() <= 1,
            "cov(): expected fweights to have one or fewer dimensions but got fweights with {} dimensions",
            f.dim()
        );
        check!(
            f.dtype().is_integral(true),
            "cov(): expected fweights to have integral dtype but got fweights with {} dtype",
            f.dtype().cpp_name()
        );
        check!(
            f.numel() == observed,
            "cov(): expected fweights to have the same numel as there are observations in the input but got {} != {observed}",
            f.numel()
        );
        weights = Some(f.clone());
    }
    if let Some(a) = aweights {
        check!(
            a.dim() <= 1,
            "cov(): expected aweights to have one or fewer dimensions but got aweights with {} dimensions",
            a.dim()
        );
        check!(
            a.dtype().is_floating_point(),
            "cov(): expected aweights to have floating point dtype but got aweights with {} dtype",
            a.dtype().cpp_name()
        );
        check!(
            a.numel() == observed,
            "cov(): expected aweights to have the same numel as there are observations in the input but got {} != {observed}",
            a.numel()
        );
        weights = Some(match weights {
            Some(f) => ops::mul(&f, a)?,
            None => a.clone(),
        });
    }
    let float = |x: &Tensor| {
        if x.dtype().is_integral(true) {
            ops::to_dtype(x, tensor_core::promotion::default_dtype(), false, false, None)
        } else {
            Ok(x.clone())
        }
    };
    let x = float(&x)?;
    let total = match &weights {
        Some(w) => Some(ops::sum(w, None)?),
        None => None,
    };
    let mean = match (&weights, &total) {
        (Some(w), Some(total)) => ops::div(&ops::sum_dim_int_list(&ops::mul(&x, w)?, Some(&[1]), true, None)?, total)?,
        _ => ops::mean_dim(&x, Some(&[1]), true, None)?,
    };
    let centred = ops::sub(&x, &mean, 1)?;
    let turned = ops::transpose_int(&centred, 0, 1)?;
    let turned = if turned.is_complex() { ops::conj(&turned)? } else { turned };
    let products = match &weights {
        Some(w) => ops::mm(&ops::mul(&centred, w)?, &turned)?,
        None => ops::mm(&centred, &turned)?,
    };
    let freedom = match (&total, aweights, fweights) {
        (None, ..) => None,
        (Some(total), Some(a), _) if correction != 0 => {
            let w = weights.as_ref().unwrap_or(a);
            let square = ops::sum(&ops::mul(w, a)?, None)?;
            Some(ops::sub(total, &ops::mul_scalar(&ops::div(&square, total)?, correction)?, 1)?)
        }
        (Some(total), Some(_), _) => Some(total.clone()),
        (Some(total), None, _) => Some(ops::sub_scalar(total, correction, 1)?),
    };
    let result = match freedom {
        None => ops::div_scalar(&products, Scalar::Int((observed - correction).max(0)))?,
        Some(freedom) => ops::div(&products, &ops::clamp_min(&freedom, 0)?)?,
    };
    ops::squeeze(&result)
}

/// The correlations of variables in rows.
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    check!(
        self_.dim() <= 2,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let c = ops::cov(self_, 1, None, None)?;
    if c.dim() == 0 {
        return ops::div(&c, &c);
    }
    let deviation = ops::sqrt(&ops::diagonal(&c, 0, 0, 1)?)?;
    let rows = ops::div(&c, &ops::unsqueeze(&deviation, 1)?)?;
    let correlations = ops::div(&rows, &ops::unsqueeze(&deviation, 0)?)?;
    if !correlations.is_complex() {
        return ops::clamp(&correlations, Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.0)));
    }
    let parts = ops::view_as_real(&correlations)?;
    ops::view_as_complex(&ops::clamp(&parts, Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.0)))?)
}

/// All but the last and all but the first along a dimension.
fn neighbours(x: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    let left = (x.size(dim)? - 1).max(0);
    Ok((ops::narrow(x, dim, 0, left)?, ops::narrow(x, dim, x.size(dim)? - left, left)?))
}

/// Twice the means of neighbours.
fn doubled(y: &Tensor, dim: i64) -> Result<Tensor> {
    let (left, right) = neighbours(y, dim)?;
    ops::add(&left, &right, 1)
}

/// The distances of the points of `x`, in a shape that broadcasts with `y`.
fn widths(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())?;
    check!(x.dim() > 0, "trapezoid: received `x` dimension is zero");
    let x = if x.dim() == 1 {
        check!(x.sizes()[0] == y.sizes()[d], "trapezoid: There must be one `x` value for each sample point");
        let shape: Dims = (0..y.dim()).map(|k| if k == d { x.sizes()[0] } else { 1 }).collect();
        ops::reshape(x, &shape)?
    } else if x.dim() < y.dim() {
        let shape: Dims = (0..y.dim() - x.dim()).map(|_| 1).chain(x.sizes().iter().copied()).collect();
        ops::reshape(x, &shape)?
    } else {
        x.clone()
    };
    let along = if x.dim() == y.dim() { d as i64 } else { dim };
    let (left, right) = neighbours(&x, along)?;
    ops::sub(&right, &left, 1)
}

fn empty_sum(y: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())?;
    let sizes: Dims = y.sizes().iter().enumerate().filter(|&(k, _)| k != d).map(|(_, &n)| n).collect();
    ops::new_zeros(y, &sizes, None, None, None, None)
}

/// The integral over samples at `x`.
pub fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    if y.size(dim)? == 0 {
        return empty_sum(y, dim);
    }
    let parts = ops::mul(&widths(y, x, dim)?, &doubled(y, dim)?)?;
    ops::div_scalar(&ops::sum_dim_int_list(&parts, Some(&[dim]), false, None)?, 2.0)
}

/// The integral over samples `dx` apart.
pub fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    if y.size(dim)? == 0 {
        return empty_sum(y, dim);
    }
    check!(
        !dx.is_boolean() && y.dtype() != tensor_core::DType::Bool,
        "trapezoid: received a bool input for `x` or `y`, but bool is not supported"
    );
    let (left, right) = neighbours(y, dim)?;
    let sum = ops::sum_dim_int_list(&ops::add(&left, &right, 1)?, Some(&[dim]), false, None)?;
    ops::mul_scalar(&sum, half(dx))
}

fn half(dx: Scalar) -> Scalar {
    if dx.is_complex() { Scalar::Complex(dx.to_complex() / 2.0) } else { Scalar::Float(dx.to_f64() / 2.0) }
}

/// `trapezoid` under another name.
pub fn trapz_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    ops::trapezoid_x(y, x, dim)
}

/// `trapezoid` under another name.
pub fn trapz_dx(y: &Tensor, dx: f64, dim: i64) -> Result<Tensor> {
    ops::trapezoid_dx(y, dx, dim)
}

/// The running integral over samples at `x`.
pub fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let parts = ops::mul(&widths(y, x, dim)?, &doubled(y, dim)?)?;
    ops::div_scalar(&ops::cumsum(&parts, dim, None)?, 2.0)
}

/// The running integral over samples `dx` apart.
pub fn cumulative_trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    ops::cumsum(&ops::mul_scalar(&doubled(y, dim)?, half(dx))?, dim, None)
}
