//! Gradients of reductions: what was summed over gets the gradient back, broadcast.

use tensor_aten::native::lanes::dim_mask;
use tensor_aten::{Tensor, ops};
use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, Scalar, tls};

use super::conj;

/// A result of a reduction with the reduced dimensions put back as size 1.
fn restore(result: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return Ok(result.clone());
    }
    let mask = dim_mask(dim, sizes.len())?;
    let kept: Dims = sizes.iter().enumerate().map(|(d, &size)| if mask & 1 << d != 0 { 1 } else { size }).collect();
    ops::reshape(result, &kept)
}

/// Gradient of a sum.
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    ops::expand(&restore(grad, sizes, dim, keepdim)?, sizes, false)
}

/// Gradient of a mean.
pub fn mean_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let mask = dim_mask(dim, sizes.len())?;
    let count: i64 = sizes.iter().enumerate().filter(|(d, _)| mask & 1 << d != 0).map(|(_, &size)| size).product();
    ops::div_scalar(&sum_backward(grad, sizes, dim, keepdim)?, count)
}

/// The products of the elements of a dimension before each, or after each where `reverse`: a scan in log2(n) steps.
fn products_of_one_side(x: &Tensor, dim: i64, reverse: bool) -> Result<Tensor> {
    let n = x.sizes()[dim as usize];
    let join = |near: &Tensor, far: &Tensor| ops::cat(&if reverse { [far, near] } else { [near, far] }, dim);
    // The `len` elements nearest to the end that products start from, or farthest from it.
    let near = |x: &Tensor, len: i64| ops::narrow(x, dim, if reverse { n - len } else { 0 }, len);
    let far = |x: &Tensor, len: i64| ops::narrow(x, dim, if reverse { 0 } else { n - len }, len);
    let one = ops::ones_like(&near(x, 1)?, None, None, None, None, None)?;
    let mut products = join(&one, &near(x, n - 1)?)?;
    let mut step = 1;
    while step < n {
        let longer = ops::mul(&far(&products, n - step)?, &near(&products, n - step)?)?;
        products = join(&near(&products, step)?, &longer)?;
        step *= 2;
    }
    Ok(products)
}

/// The products of all elements of a dimension but one, for each: differentiable, and right where there are zeros.
fn products_of_others(x: &Tensor, dim: usize) -> Result<Tensor> {
    ops::mul(&products_of_one_side(x, dim as i64, false)?, &products_of_one_side(x, dim as i64, true)?)
}

/// Gradient of the product of all elements.
pub fn prod_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(grad.clone());
    }
    let x = &ops::to_dtype(x, grad.dtype(), false, false, None)?;
    let flat = ops::reshape(x, &[-1])?;
    if !tls::grad_enabled() {
        let zeros = ops::sum(&ops::eq_scalar(&flat, 0)?, None)?;
        if ops::item(&zeros)?.to_i64() > 1 {
            return ops::zeros_like(x, None, None, None, None, None);
        }
    }
    let slope = prod_dim_backward(grad, &flat, result, 0, false)?;
    ops::reshape(&slope, x.sizes())
}

/// Gradient of a product over a dimension.
pub fn prod_dim_backward(grad: &Tensor, x: &Tensor, result: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    if x.dim() == 0 {
        return Ok(grad.clone());
    }
    // In the dtype of the product, which the operator may have been told.
    let x = &ops::to_dtype(x, grad.dtype(), false, false, None)?;
    let d = wrap_dim(dim, x.dim())?;
    let (grad, result) = if keepdim {
        (grad.clone(), result.clone())
    } else {
        (ops::unsqueeze(grad, d as i64)?, ops::unsqueeze(result, d as i64)?)
    };
    let zeros = ops::item(&ops::any(&ops::eq_scalar(x, 0)?)?)?.to_bool();
    if zeros {
        return ops::mul(&grad, &conj(&products_of_others(x, d)?)?);
    }
    ops::mul(&grad, &conj(&ops::div(&result, x)?)?)
}

/// `grad` shared evenly by the elements that a mask marks.
fn share(grad: &Tensor, marked: &Tensor, count: &Tensor) -> Result<Tensor> {
    ops::mul(&ops::div(grad, count)?, marked)
}

/// Where elements equal an extremum; no-numbers where that is none.
fn equal(x: &Tensor, extremum: &Tensor) -> Result<Tensor> {
    ops::logical_or(&ops::eq(x, extremum)?, &ops::logical_and(&ops::isnan(x)?, &ops::isnan(extremum)?)?)
}

/// Gradient of `amax` and `amin`: shared by ties.
pub fn extremum_dims_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    let grad = restore(grad, x.sizes(), Some(dim), keepdim)?;
    let result = restore(result, x.sizes(), Some(dim), keepdim)?;
    let marked = ops::eq(x, &result)?;
    let count = ops::sum_dim_int_list(&marked, Some(dim), true, None)?;
    share(&grad, &marked, &count)
}

/// Gradient of the extremum of everything: shared by ties.
pub fn evenly_distribute_backward(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    let marked = equal(x, result)?;
    share(grad, &marked, &ops::sum(&marked, None)?)
}

/// Gradient of a selected element of a dimension.
pub fn value_selecting_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    indices: &Tensor,
    keepdim: bool,
) -> Result<Tensor> {
    let zeros = ops::zeros(sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
    if sizes.is_empty() || keepdim {
        return ops::scatter_src(&zeros, dim, indices, grad);
    }
    ops::scatter_src(&zeros, dim, &ops::unsqueeze(indices, dim)?, &ops::unsqueeze(grad, dim)?)
}

/// Gradient of a variance: 2 (x - mean) / (N - correction). Without degrees of freedom, that of a variance of everything is
/// infinite; over named dimensions the formula stays as it is, and N is 1 where they are none.
pub fn var_backward(
    grad: &Tensor,
    x: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let dim = if x.dim() == 0 { None } else { dim };
    let count = match dim {
        None => x.numel(),
        Some(dims) => dims.iter().map(|&d| x.size(d)).product::<Result<i64>>()?,
    };
    let freedom = count as f64 - correction.map_or(1.0, Scalar::to_f64);
    let grad = restore(grad, x.sizes(), dim, keepdim)?;
    let mean = ops::mean_dim(x, dim, true, None)?;
    if dim.is_none() && freedom <= 0.0 {
        let nowhere = ops::full(&[], f64::INFINITY, Some(grad.dtype()), None, Some(x.device()), None)?;
        let none = ops::full(&[], f64::NAN, Some(grad.dtype()), None, Some(x.device()), None)?;
        return ops::mul(&grad, &ops::where_self(&ops::eq(x, &mean)?, &none, &nowhere)?);
    }
    ops::mul(&ops::mul_scalar(&grad, 2.0 / freedom)?, &ops::sub(x, &mean, 1)?)
}

/// Gradient of a p-norm.
pub fn vector_norm_backward(
    grad: &Tensor,
    x: &Tensor,
    norm: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let p = ord.to_f64();
    let grad = restore(grad, x.sizes(), dim, keepdim)?;
    let norm = restore(norm, x.sizes(), dim, keepdim)?;
    let sign = |x: &Tensor| super::pointwise::abs_backward(&ops::ones_like(x, None, None, None, None, None)?, x);
    let safe = |slope: &Tensor, at: &Tensor| ops::masked_fill_scalar(slope, &ops::eq_scalar(at, 0)?, 0);
    if p == 0.0 {
        ops::zeros_like(x, None, None, None, None, None)
    } else if p == 1.0 {
        ops::mul(&sign(x)?, &grad)
    } else if p == 2.0 {
        let slope = ops::mul(&grad, &safe(&ops::div(x, &norm)?, &norm)?)?;
        Ok(slope)
    } else if p.is_infinite() {
        let marked = equal(&ops::abs(x)?, &norm)?;
        let count = ops::sum_dim_int_list(&marked, dim, true, None)?;
        ops::mul(&sign(x)?, &share(&grad, &marked, &count)?)
    } else if p < 2.0 {
        let modulus = ops::abs(x)?;
        let slope = ops::mul(&sign(x)?, &ops::pow_tensor_scalar(&modulus, p - 1.0)?)?;
        let slope = safe(&slope, &modulus)?;
        ops::mul(&slope, &ops::mul(&grad, &ops::pow_tensor_scalar(&norm, 1.0 - p)?)?)
    } else {
        let modulus = ops::abs(x)?;
        let slope = ops::mul(x, &ops::pow_tensor_scalar(&modulus, p - 2.0)?)?;
        let scale = safe(&ops::div(&grad, &ops::pow_tensor_scalar(&norm, p - 1.0)?)?, &norm)?;
        ops::mul(&slope, &scale)
    }
}

/// Gradient of `logsumexp`: softmax.
pub fn logsumexp_backward(grad: &Tensor, x: &Tensor, result: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let grad = restore(grad, x.sizes(), Some(dim), keepdim)?;
    let result = restore(result, x.sizes(), Some(dim), keepdim)?;
    ops::mul(&grad, &conj(&ops::exp(&ops::sub(x, &result, 1)?)?)?)
}

/// Gradient of running sums: running sums from the end.
pub fn cumsum_backward(grad: &Tensor, dtype: DType, dim: i64) -> Result<Tensor> {
    let grad = &ops::to_dtype(grad, dtype, false, false, None)?;
    if grad.numel() <= 1 || grad.size(dim)? == 1 {
        return Ok(grad.clone());
    }
    from_end(grad, dim)
}

/// Sums from each element to the end of a dimension.
fn from_end(x: &Tensor, dim: i64) -> Result<Tensor> {
    ops::flip(&ops::cumsum(&ops::flip(x, &[dim])?, dim, None)?, &[dim])
}

/// Gradient of `nansum`: numbers alone get it.
pub fn nansum_backward(grad: &Tensor, x: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let grad = sum_backward(grad, x.sizes(), dim, keepdim)?;
    ops::mul(&grad, &ops::logical_not(&ops::isnan(x)?)?)
}

/// Gradient of a standard deviation.
pub fn std_backward(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let slope = ops::div(grad, &ops::mul_scalar(result, 2)?)?;
    let slope = ops::masked_fill_scalar(&slope, &ops::eq_scalar(result, 0)?, 0)?;
    var_backward(&slope, x, dim, correction, keepdim)
}

/// The sum of the gradients that there are; zeros where there are none.
fn total(parts: [Option<Tensor>; 2], x: &Tensor) -> Result<Tensor> {
    match parts {
        [Some(a), Some(b)] => ops::add(&a, &b, 1),
        [Some(one), None] | [None, Some(one)] => Ok(one),
        [None, None] => ops::zeros_like(x, None, None, None, None, None),
    }
}

/// Gradient of a variance with its mean.
pub fn var_mean_backward(
    grad_var: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    x: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let of_var = grad_var.map(|grad| var_backward(grad, x, dim, correction, keepdim)).transpose()?;
    let of_mean = grad_mean.map(|grad| mean_backward(grad, x.sizes(), dim, keepdim)).transpose()?;
    total([of_var, of_mean], x)
}

/// Gradient of a standard deviation with its mean.
pub fn std_mean_backward(
    grad_std: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    x: &Tensor,
    std: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let of_std = grad_std.map(|grad| std_backward(grad, x, std, dim, correction, keepdim)).transpose()?;
    let of_mean = grad_mean.map(|grad| mean_backward(grad, x.sizes(), dim, keepdim)).transpose()?;
    total([of_std, of_mean], x)
}

/// Gradient of `aminmax`: shared by ties.
pub fn aminmax_backward(
    grad_min: Option<&Tensor>,
    grad_max: Option<&Tensor>,
    x: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    min: &Tensor,
    max: &Tensor,
) -> Result<Tensor> {
    let dims: Dims = dim.into_iter().collect();
    let of = |grad: Option<&Tensor>, result: &Tensor| {
        grad.map(|grad| extremum_dims_backward(grad, x, result, &dims, keepdim)).transpose()
    };
    total([of(grad_min, min)?, of(grad_max, max)?], x)
}
