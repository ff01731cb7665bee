//! Running products, extrema and logarithms of sums along a dimension.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result};

use super::lanes::lanes;
use crate::kernels;
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// The shape of a result as lanes of `x` see it.
fn like_lanes(x: &Tensor, lanes: &Tensor) -> Result<Tensor> {
    let sizes = Dims::from_slice(lanes.sizes());
    let strides = tensor_core::strides::contiguous(&sizes);
    x.view_of_storage(sizes, strides, x.storage_offset())
}

/// True if `lanes` lie in memory as the whole tensor does, dimension for dimension.
fn in_place(x: &Tensor, lanes: &Tensor, d: usize) -> bool {
    let inner: i64 = x.sizes().get(d + 1..).map_or(1, |sizes| sizes.iter().product());
    lanes.sizes()[2] == inner || x.numel() == 0
}

/// The input with the scanned dimension where kernels can scan it: as it is, contiguous.
fn scanned(x: &Tensor, d: usize) -> Result<Tensor> {
    let x = ops::contiguous(x, tensor_core::MemoryFormat::Contiguous)?;
    let made = lanes(&x, 1 << d)?;
    if in_place(&x, &made, d) {
        return Ok(made);
    }
    // A scanned dimension of size 1 may have been merged with others: one lane each.
    let inner: i64 = x.sizes().get(d + 1..).map_or(1, |sizes| sizes.iter().product());
    let r = x.sizes().get(d).copied().unwrap_or(1);
    let a = if r * inner == 0 { 0 } else { x.numel() / (r * inner) };
    x.view_of_storage(Dims::from_slice(&[a, r, inner]), Dims::from_slice(&[r * inner, inner, 1]), x.storage_offset())
}

/// The running product.
pub fn cumprod(out: Out<'_>, self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let self_ = &self_.pinned();
    let d = wrap_dim(dim, self_.dim())?;
    let own = if self_.dtype().is_integral(true) { DType::I64 } else { self_.dtype() };
    let dtype = dtype.or(out.target(0).map(Tensor::dtype)).unwrap_or(own);
    let slot = out.prepare(0, Spec::dense(self_.sizes(), dtype, self_.device()), &[self_])?;
    if !slot.is_meta() && self_.numel() > 0 {
        let kernel = kernels::scan(self_.device())?.cumprod.get(dtype, "cumprod_out_cpu")?;
        let x = ops::to_dtype(self_, dtype, false, false, None)?;
        let x = scanned(&x, d)?;
        kernel(&like_lanes(&slot.tensor, &x)?, &x)?;
    }
    slot.finish()
}

/// The logarithm of the running sum of exponentials.
pub fn logcumsumexp(out: Out<'_>, self_: &Tensor, dim: i64) -> Result<Tensor> {
    let self_ = &self_.pinned();
    let d = wrap_dim(dim, self_.dim())?;
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), &[self_])?;
    if !slot.is_meta() && self_.numel() > 0 {
        let kernel = kernels::scan(self_.device())?.logcumsumexp.get(self_.dtype(), "logcumsumexp_out_cpu")?;
        let x = scanned(self_, d)?;
        kernel(&like_lanes(&slot.tensor, &x)?, &x)?;
    }
    slot.finish()
}

fn extremum(out: Out<'_>, self_: &Tensor, dim: i64, largest: bool) -> Result<(Tensor, Tensor)> {
    let self_ = &self_.pinned();
    let d = wrap_dim(dim, self_.dim())?;
    let values = out.prepare(0, Spec::like(self_.sizes(), self_), &[self_])?;
    let indices = out.prepare(1, Spec::dense(self_.sizes(), DType::I64, self_.device()), &[self_])?;
    if !values.is_meta() && self_.numel() > 0 {
        let table = kernels::scan(self_.device())?;
        let kernel = if largest {
            table.cummax.get(self_.dtype(), "cummax_cpu")?
        } else {
            table.cummin.get(self_.dtype(), "cummin_cpu")?
        };
        let x = scanned(self_, d)?;
        kernel(&like_lanes(&values.tensor, &x)?, &like_lanes(&indices.tensor, &x)?, &x)?;
    }
    Ok((values.finish()?, indices.finish()?))
}

/// The largest element so far and where it is, the last of equals.
pub fn cummax(out: Out<'_>, self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    extremum(out, self_, dim, true)
}

/// The smallest element so far and where it is, the last of equals.
pub fn cummin(out: Out<'_>, self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    extremum(out, self_, dim, false)
}
