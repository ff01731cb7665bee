//! Sorts, the largest elements, order statistics. Kernels see contiguous rows: what comes along another dimension is brought
//! into that form, and back.

use tensor_core::strides::{self, Dims, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, Scalar, bail, check, check_index, check_type, overlap};

use super::lanes::reduced_sizes;
use crate::kernels;
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

/// A tensor with dimension `d` last, after the others in their order.
fn moved(x: &Tensor, d: usize) -> Result<Tensor> {
    let order: Dims = (0..x.dim()).filter(|&k| k != d).chain([d]).map(|k| k as i64).collect();
    if x.dim() == 0 { Ok(Tensor::clone(x)) } else { crate::composite::view::permute(x, &order) }
}

/// A contiguous tensor as (rows, n) by its last dimension.
fn matrix(x: &Tensor) -> Result<Tensor> {
    let n = x.sizes().last().copied().unwrap_or(1);
    let rows = if n == 0 { 0 } else { x.numel() / n };
    x.view_of_storage(&[rows, n], &[n, 1], x.storage_offset())
}

/// The rows along dimension `d`, contiguous.
fn rows(x: &Tensor, d: usize) -> Result<Tensor> {
    matrix(&ops::contiguous(&moved(x, d)?, MemoryFormat::Contiguous)?)
}

/// Calls `fill(values, indices)` with contiguous rows that then are those along dimension `d` of two results.
fn fill_rows(
    values: &Tensor,
    indices: &Tensor,
    d: usize,
    fill: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let (to_values, to_indices) = (moved(values, d)?, moved(indices, d)?);
    if to_values.is_contiguous() && to_indices.is_contiguous() {
        return fill(&matrix(&to_values)?, &matrix(&to_indices)?);
    }
    let dense = |x: &Tensor| Tensor::new_dense(x.sizes(), x.dtype(), x.device());
    let (dense_values, dense_indices) = (dense(&to_values)?, dense(&to_indices)?);
    fill(&matrix(&dense_values)?, &matrix(&dense_indices)?)?;
    crate::composite::copy::copy_(&to_values, &dense_values, false)?;
    crate::composite::copy::copy_(&to_indices, &dense_indices, false)?;
    Ok(())
}

/// The sorted elements along a dimension and where they were.
pub fn sort(out: Out<'_>, self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    sort_stable(out, self_, None, dim, descending)
}

/// As [`sort`]; equal elements keep their order in any case.
pub fn sort_stable(
    out: Out<'_>,
    self_: &Tensor,
    _stable: Option<bool>,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    let d = wrap_dim(dim, self_.dim())?;
    let layout = Some(strides::dense_like(self_.sizes(), self_.strides()));
    let like = |dtype| Spec { strides: layout.clone(), ..Spec::dense(self_.sizes(), dtype, self_.device()) };
    let values = out.prepare(0, like(self_.dtype()), &[self_])?;
    let indices = out.prepare(1, like(DType::I64), &[self_])?;
    if !values.is_meta() && self_.numel() > 0 {
        check_type!(!self_.is_complex(), " Sort does not support complex dtypes on CPU");
        let kernel = kernels::sorting(self_.device())?.sort.get(self_.dtype(), "sorting_kernel_method_name")?;
        let x = rows(self_, d)?;
        fill_rows(&values.tensor, &indices.tensor, d, |values, indices| kernel(values, indices, &x, descending))?;
    }
    Ok((values.finish()?, indices.finish()?))
}

/// Where the elements of the sorted tensor were.
pub fn argsort_stable(out: Out<'_>, self_: &Tensor, stable: bool, dim: i64, descending: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, self_.dim())?;
    let layout = Some(strides::dense_like(self_.sizes(), self_.strides()));
    let spec = Spec { strides: layout, ..Spec::dense(self_.sizes(), DType::I64, self_.device()) };
    let slot = out.prepare(0, spec, &[self_])?;
    let (_, indices) = sort_stable(Out::Fresh, self_, Some(stable), d as i64, descending)?;
    bring(slot, &indices)
}

/// A result that was computed apart, in its place.
fn bring(slot: Slot, result: &Tensor) -> Result<Tensor> {
    if !slot.is_meta() && result.numel() > 0 {
        crate::composite::copy::copy_(&slot.tensor, result, false)?;
    }
    slot.finish()
}

/// The `k` largest or smallest elements along a dimension and where they are, in their order.
pub fn topk(out: Out<'_>, self_: &Tensor, k: i64, dim: i64, largest: bool, _sorted: bool) -> Result<(Tensor, Tensor)> {
    let d = wrap_dim(dim, self_.dim())?;
    check!(k >= 0 && k <= self_.sizes().get(d).copied().unwrap_or(1), "selected index k out of range");
    let mut sizes = Dims::from_slice(self_.sizes());
    if let Some(size) = sizes.get_mut(d) {
        *size = k;
    }
    let values = out.prepare(0, Spec::like(&sizes, self_), &[self_])?;
    let indices = out.prepare(1, Spec::dense(&sizes, DType::I64, self_.device()), &[self_])?;
    if !values.is_meta() && self_.numel() > 0 {
        check_type!(!self_.is_complex(), " topk does not support complex dtypes on CPU");
        if self_.dtype() == DType::Bool {
            bail!(NotImplemented, "topk does not support bool dtypes on CPU");
        }
        if values.tensor.numel() > 0 {
            let kernel = kernels::sorting(self_.device())?.topk.get(self_.dtype(), "topk_cpu")?;
            let x = rows(self_, d)?;
            fill_rows(&values.tensor, &indices.tensor, d, |values, indices| kernel(values, indices, &x, largest))?;
        }
    }
    Ok((values.finish()?, indices.finish()?))
}

/// One element of each row and its index: the results have no dimension `d`, or one of size 1.
fn select(
    out: Out<'_>,
    name: &str,
    x: &Tensor,
    dim: i64,
    keepdim: bool,
    fill: impl FnOnce(&Tensor, &Tensor, &Tensor) -> Result<()>,
) -> Result<(Tensor, Tensor)> {
    let d = wrap_dim(dim, x.dim())?;
    check_index!(x.dim() == 0 || x.sizes()[d] != 0, "{name}(): Expected reduction dim {d} to have non-zero size.");
    if let Out::Into([values, indices]) = out {
        check_outputs(name, x, values, indices)?;
    }
    let sizes = reduced_sizes(x.sizes(), 1 << d, keepdim);
    let values = out.prepare(0, Spec::like(&sizes, x), &[x])?;
    let indices = out.prepare(1, Spec::dense(&sizes, DType::I64, x.device()), &[x])?;
    if !values.is_meta() {
        let flat = |x: &Tensor| x.view_of_storage(&[x.numel()], &[1], x.storage_offset());
        fill(&flat(&values.tensor)?, &flat(&indices.tensor)?, &rows(x, d)?)?;
    }
    Ok((values.finish()?, indices.finish()?))
}

fn check_outputs(name: &str, x: &Tensor, values: &Tensor, indices: &Tensor) -> Result<()> {
    if name == "kthvalue" || name == "mode" {
        check!(values.dtype() == x.dtype(), "output values must be of same type as input");
        check!(indices.dtype() == DType::I64, "output indices must be of scalar type Long");
    } else {
        check!(
            indices.dtype() == DType::I64,
            "Expected tensor for argument #1 'indices' to have scalar type Long; but got torch.{}Tensor instead (while \
             checking arguments for median)",
            indices.dtype().cpp_name()
        );
    }
    for target in [values, indices] {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), x.as_impl())?;
    }
    Ok(())
}

/// The `k`-th smallest element along a dimension and where it is.
pub fn kthvalue(out: Out<'_>, self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    let d = wrap_dim(dim, self_.dim())?;
    let n = self_.sizes().get(d).copied().unwrap_or(1);
    check_index!(self_.dim() == 0 || n != 0, "kthvalue(): Expected reduction dim {d} to have non-zero size.");
    check!(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension {d}");
    select(out, "kthvalue", self_, dim, keepdim, |values, indices, x| {
        let kernel = kernels::sorting(x.device())?.kthvalue.get(x.dtype(), "kthvalue_cpu")?;
        if values.numel() == 0 { Ok(()) } else { kernel(values, indices, x, k as usize) }
    })
}

fn median_of(
    out: Out<'_>,
    x: &Tensor,
    dim: i64,
    keepdim: bool,
    skipped: bool,
    error: &str,
) -> Result<(Tensor, Tensor)> {
    select(out, if skipped { "nanmedian" } else { "median" }, x, dim, keepdim, |values, indices, x| {
        let kernel = kernels::sorting(x.device())?.median.get(x.dtype(), error)?;
        if values.numel() == 0 { Ok(()) } else { kernel(values, indices, x, skipped) }
    })
}

/// The median of all elements.
fn median_all(out: Out<'_>, x: &Tensor, skipped: bool) -> Result<Tensor> {
    let slot = out.prepare(0, Spec::like(&[], x), &[x])?;
    if slot.is_meta() {
        return slot.finish();
    }
    if x.numel() == 0 {
        kernels::sorting(x.device())?.median.get(x.dtype(), "median_cpu")?;
        // What a no-number becomes in PyTorch's cast.
        let nothing = match x.dtype() {
            DType::I64 => Scalar::Int(i64::MIN),
            DType::I32 => Scalar::Int(i64::from(i32::MIN)),
            dtype if dtype.is_integral(true) => Scalar::Int(0),
            _ => Scalar::Float(f64::NAN),
        };
        crate::composite::fill::fill_scalar_(&slot.tensor, nothing)?;
        return slot.finish();
    }
    let flat = ops::reshape(x, &[-1])?;
    let (value, _) = median_of(Out::Fresh, &flat, 0, false, skipped, "median_cpu")?;
    bring(slot, &value)
}

/// The median of all elements, the lower of two; a no-number if there is one.
pub fn median(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    median_all(out, self_, false)
}

/// The median of all elements that are numbers.
pub fn nanmedian(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    median_all(out, self_, true)
}

/// The median along a dimension and where it is.
pub fn median_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    median_of(out, self_, dim, keepdim, false, "median_out")
}

/// The median of the numbers along a dimension and where it is.
pub fn nanmedian_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    median_of(out, self_, dim, keepdim, true, "median_out")
}

/// The most frequent element along a dimension and its last index.
pub fn mode(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    select(out, "mode", self_, dim, keepdim, |values, indices, x| {
        let kernel = kernels::sorting(x.device())?.mode.get(x.dtype(), "mode_cpu")?;
        if values.numel() == 0 { Ok(()) } else { kernel(values, indices, x) }
    })
}
