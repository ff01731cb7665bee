//! Running sums, products, extrema and logarithms of sums along a dimension.

use tensor_core::strides::wrap_dim;
use tensor_core::{DType, MemoryFormat, Result, check};

use super::lanes::lanes;
use crate::generated::kernels::ScanKernels;
use crate::kernels::{self, Columns, ScanKernel};
use crate::out::{Out, Slot, Spec, check_unchanged};
use crate::{Tensor, ops};

/// The dtype of running sums and products: the one asked for, else that of an out tensor, else i64 for integers.
fn running_dtype(out: &Out<'_>, x: &Tensor, dtype: Option<DType>) -> Result<DType> {
    let own = if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() };
    if let Out::InPlace(target) = out {
        check!(
            dtype.is_none_or(|dtype| dtype == target.dtype()),
            "Bad in-place call: input tensor dtype {} and output tensor dtype {} should match",
            target.dtype().c_name(),
            dtype.unwrap_or(own).c_name()
        );
        return Ok(target.dtype());
    }
    Ok(dtype.or(out.target(0).map(Tensor::dtype)).unwrap_or(own))
}

/// The lanes of an input along dimension `d`.
fn input_lanes(x: &Tensor, d: usize) -> Result<Tensor> {
    lanes(&ops::contiguous(x, MemoryFormat::Contiguous)?, 1 << d)
}

/// The lanes of a result, which are those of the input.
fn result_lanes(slot: &Slot, x: &Tensor, d: usize) -> Result<Tensor> {
    let into = lanes(&slot.tensor, 1 << d)?;
    check_unchanged(x.sizes() == into.sizes())?;
    Ok(into)
}

/// The running sum.
pub fn cumsum(out: Out<'_>, self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    running(out, self_, dim, dtype, "cumsum_out_cpu", |table| &table.cumsum)
}

/// The running product.
pub fn cumprod(out: Out<'_>, self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    running(out, self_, dim, dtype, "cumprod_out_cpu", |table| &table.cumprod)
}

fn running(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    dtype: Option<DType>,
    name: &'static str,
    kernel: impl Fn(&'static ScanKernels) -> &'static Columns<ScanKernel>,
) -> Result<Tensor> {
    let self_ = &self_.pinned();
    let d = wrap_dim(dim, self_.dim())?;
    let dtype = running_dtype(&out, self_, dtype)?;
    let slot = out.prepare(0, Spec::dense(self_.sizes(), dtype, self_.device()), &[self_])?;
    if !slot.is_meta() && self_.numel() > 0 {
        let kernel = kernel(kernels::scan(self_.device())?).get(dtype, name)?;
        let x = input_lanes(&ops::to_dtype(self_, dtype, false, false, None)?, d)?;
        kernel(&result_lanes(&slot, &x, d)?, &x)?;
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
        let x = input_lanes(self_, d)?;
        kernel(&result_lanes(&slot, &x, d)?, &x)?;
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
        let x = input_lanes(self_, d)?;
        kernel(&result_lanes(&values, &x, d)?, &result_lanes(&indices, &x, d)?, &x)?;
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
