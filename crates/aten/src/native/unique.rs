//! Distinct elements and slices, sorted or as they follow each other.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, bail, check};

use crate::kernels;
use crate::out::{Out, resize_output};
use crate::{Tensor, ops};

type Results = (Tensor, Tensor, Tensor);

/// The distinct rows of a contiguous (n, m), the row that each became, and how many did.
fn distinct(x: &Tensor, name: &str, consecutive: bool) -> Result<[Tensor; 3]> {
    kernels::unique(x.device())?.unique.get(x.dtype(), name)?(x, consecutive)
}

fn check_not_meta(name: &str, x: &Tensor) -> Result<()> {
    if x.is_meta() {
        bail!(NotImplemented, "{name}: the shape of the result follows from elements, which meta tensors lack");
    }
    Ok(())
}

fn none(x: &Tensor) -> Result<Tensor> {
    Tensor::new_dense(&[0], DType::I64, x.device())
}

/// Results in the tensors of an out form.
fn finish(out: Out<'_>, results: Results) -> Result<Results> {
    let put = |i: usize, result: Tensor| {
        let Some(target) = out.target(i) else { return Ok(result) };
        check!(
            target.dtype() == result.dtype(),
            "Expected out tensor to have dtype {}, but got {} instead",
            result.dtype().c_name(),
            target.dtype().c_name()
        );
        if target.sizes() != result.sizes() {
            resize_output(target, result.sizes(), result.strides())?;
        }
        crate::composite::copy::copy_(target, &result, false)?;
        Ok(Tensor::clone(target))
    };
    Ok((put(0, results.0)?, put(1, results.1)?, put(2, results.2)?))
}

/// The distinct elements of a flattened tensor.
fn flat(x: &Tensor, name: &str, consecutive: bool, inverse: bool, counts: bool) -> Result<Results> {
    check_not_meta(name, x)?;
    let column = ops::reshape(x, &[x.numel(), 1])?;
    let [values, inverses, how_many] = distinct(&column, "unique", consecutive)?;
    let values = crate::composite::view::view(&values, &[-1])?;
    let inverses = if inverse { crate::composite::view::view(&inverses, x.sizes())? } else { none(x)? };
    Ok((values, inverses, if counts { how_many } else { none(x)? }))
}

/// The distinct slices along a dimension.
fn along(x: &Tensor, dim: i64, name: &str, consecutive: bool) -> Result<Results> {
    check_not_meta(name, x)?;
    let d = wrap_dim(dim, x.dim())?;
    let x = if x.dim() == 0 { ops::reshape(x, &[1])? } else { Tensor::clone(x) };
    let n = x.sizes()[d];
    let others = x.sizes().iter().enumerate().filter(|&(k, &size)| k != d && size == 0).count();
    if n == 0 {
        check!(others == 0, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
        return Ok((Tensor::new_dense(x.sizes(), x.dtype(), x.device())?, none(&x)?, none(&x)?));
    }
    check!(others == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    // The dimension first, the others in their order; and back.
    let order: Dims = [d].into_iter().chain((0..x.dim()).filter(|&k| k != d)).map(|k| k as i64).collect();
    let back: Dims = (1..=d).chain([0]).chain(d + 1..x.dim()).map(|k| k as i64).collect();
    let first = crate::composite::view::permute(&x, &order)?;
    let mut sizes = Dims::from_slice(first.sizes());
    let [rows, inverse, counts] = distinct(&ops::reshape(&first, &[n, -1])?, "unique_dim", consecutive)?;
    sizes[0] = rows.sizes()[0];
    let values = crate::composite::view::permute(&crate::composite::view::view(&rows, &sizes)?, &back)?;
    Ok((values, inverse, counts))
}

/// The distinct elements, sorted, and the position of each element among them.
pub fn _unique(out: Out<'_>, self_: &Tensor, _sorted: bool, return_inverse: bool) -> Result<(Tensor, Tensor)> {
    let (values, inverse, counts) = flat(self_, "_unique", false, return_inverse, false)?;
    let (values, inverse, _) = finish(out, (values, inverse, counts))?;
    Ok((values, inverse))
}

/// The distinct elements, sorted, the position of each element among them, and how often each occurs.
pub fn _unique2(
    out: Out<'_>,
    self_: &Tensor,
    _sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<Results> {
    finish(out, flat(self_, "_unique2", false, return_inverse, return_counts)?)
}

/// The distinct slices along a dimension, sorted, the position of each slice among them, and how often each occurs.
pub fn unique_dim(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    _sorted: bool,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<Results> {
    finish(out, along(self_, dim, "unique_dim", false)?)
}

/// The elements (or slices) that differ from the one before them.
pub fn unique_consecutive(
    out: Out<'_>,
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<Results> {
    match dim {
        Some(dim) if self_.dim() != 1 || dim != 0 => finish(out, along(self_, dim, "unique_consecutive", true)?),
        _ => finish(out, flat(self_, "unique_consecutive", true, return_inverse, return_counts)?),
    }
}

/// The slices along a dimension that differ from the one before them.
pub fn unique_dim_consecutive(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    _return_inverse: bool,
    _return_counts: bool,
) -> Result<Results> {
    finish(out, along(self_, dim, "unique_dim_consecutive", true)?)
}
