//! Reductions over dimensions: sums, products, extrema, truth, variance, norms.

use tensor_core::promotion::default_dtype;
use tensor_core::strides::wrap_dim;
use tensor_core::{DType, Device, Result, Scalar, bail, check, check_index, check_not_implemented, check_type};

use super::lanes::{dim_mask, lanes, lanes_in_any_order, reduced_sizes};
use crate::kernels::{self, ReduceKernels};
use crate::out::{Out, Spec, check_unchanged};
use crate::{Tensor, ops};

/// A tensor in another dtype, itself where it has it.
fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype { Ok(Tensor::clone(x)) } else { ops::_to_copy(x, Some(dtype), None, None, None, false, None) }
}

fn table(device: Device) -> Result<&'static ReduceKernels> {
    kernels::reduce(device)
}

/// What sums and products of a dtype give where nothing else is asked for.
fn sum_dtype(x: &Tensor, dtype: Option<DType>, out: Out<'_>) -> DType {
    let own = || if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() };
    dtype.or(out.target(0).map(Tensor::dtype)).unwrap_or_else(own)
}

/// One result from a kernel over lanes: `fill(out, lanes)`.
fn reduce(
    out: Out<'_>,
    x: &Tensor,
    mask: u64,
    keepdim: bool,
    (compute, result): (DType, DType),
    fill: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let sizes = reduced_sizes(x.sizes(), mask, keepdim);
    let slot = out.prepare(0, Spec::dense(&sizes, result, x.device()), &[x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let lanes = lanes_in_any_order(&cast(x, compute)?, mask)?;
        let lanes_of = |sizes: &[i64]| sizes[0] * sizes[2];
        check_unchanged(lanes_of(lanes.sizes()) == slot.tensor.numel())?;
        fill(&slot.tensor, &lanes)?;
    }
    slot.finish()
}

/// The sum of all elements.
pub fn sum(out: Out<'_>, self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    // The out form of the full sum does not take its dtype from the out tensor.
    let dtype = dtype.unwrap_or_else(|| sum_dtype(self_, None, Out::Fresh));
    sum_dim_int_list(out, self_, None, false, Some(dtype))
}

/// The sum over dimensions.
pub fn sum_dim_int_list(
    out: Out<'_>,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let mask = dim_mask(dim, self_.dim())?;
    let dtype = sum_dtype(self_, dtype, out);
    reduce(out, self_, mask, keepdim, (dtype, dtype), |out, x| table(x.device())?.sum.get(dtype, "sum_cpu")?(out, x))
}

/// The mean of all elements.
pub fn mean(out: Out<'_>, self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    if let (None, Some(target)) = (dtype, out.target(0)) {
        check!(
            tensor_core::promotion::can_cast(self_.dtype(), target.dtype()),
            "mean.dtype_out(): input types can't be cast to the desired output type {}",
            target.dtype().cpp_name()
        );
    }
    mean_dim(out, self_, None, false, dtype)
}

/// The mean over dimensions.
pub fn mean_dim(
    out: Out<'_>,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let computed = dtype.unwrap_or(self_.dtype());
    if !computed.is_differentiable() {
        let (what, problem) = match dtype {
            Some(_) => ("Optional dtype", "Got"),
            None => ("Input dtype", "Got"),
        };
        bail!(
            NotImplemented,
            "mean(): could not infer output dtype. {what} must be either a floating point or complex dtype. {problem}: {}",
            computed.cpp_name()
        );
    }
    if let (None, Some(target)) = (dtype, out.target(0)) {
        check!(
            tensor_core::promotion::can_cast(computed, target.dtype()),
            "result type {} can't be cast to the desired output type {}",
            computed.cpp_name(),
            target.dtype().cpp_name()
        );
    }
    let mask = dim_mask(dim, self_.dim())?;
    let dtype = dtype.or(out.target(0).map(Tensor::dtype)).unwrap_or(self_.dtype());
    reduce(out, self_, mask, keepdim, (dtype, dtype), |out, x| table(x.device())?.mean.get(dtype, "mean_cpu")?(out, x))
}

/// The product of all elements.
pub fn prod(out: Out<'_>, self_: &Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| sum_dtype(self_, None, Out::Fresh));
    product(out, self_, u64::MAX, false, Some(dtype))
}

/// The product over a dimension.
pub fn prod_dim_int(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    product(out, self_, 1 << wrap_dim(dim, self_.dim())?, keepdim, dtype)
}

fn product(out: Out<'_>, x: &Tensor, mask: u64, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    let dtype = sum_dtype(x, dtype, out);
    reduce(out, x, mask, keepdim, (dtype, dtype), |out, x| table(x.device())?.prod.get(dtype, "prod_cpu")?(out, x))
}

/// Refuses to take an extremum of nothing.
fn check_not_empty(name: &str, x: &Tensor, mask: u64) -> Result<()> {
    for (d, &size) in x.sizes().iter().enumerate() {
        check_index!(mask & 1 << d == 0 || size != 0, "{name}(): Expected reduction dim {d} to have non-zero size.");
    }
    Ok(())
}

fn check_same_out(x: &Tensor, out: Out<'_>) -> Result<()> {
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == x.dtype(),
            "Expected the dtype for input and out to match, but got {} for input's dtype and {} for out's dtype.",
            x.dtype().cpp_name(),
            target.dtype().cpp_name()
        );
    }
    Ok(())
}

fn check_extremum_dims(name: &str, x: &Tensor, dim: &[i64], mask: u64) -> Result<()> {
    if x.numel() != 0 {
        return Ok(());
    }
    check!(
        !dim.is_empty(),
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' \
         argument."
    );
    check_not_empty(name, x, mask)
}

/// The largest element over dimensions; NaN if there is one.
pub fn amax(out: Out<'_>, self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let self_ = &self_.pinned();
    let mask = dim_mask(Some(dim), self_.dim())?;
    check_same_out(self_, out)?;
    check_extremum_dims("amax", self_, dim, mask)?;
    let dtype = self_.dtype();
    reduce(out, self_, mask, keepdim, (dtype, dtype), |out, x| {
        table(x.device())?.amax.get(dtype, "max_values_cpu")?(out, x)
    })
}

/// The smallest element over dimensions; NaN if there is one.
pub fn amin(out: Out<'_>, self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let self_ = &self_.pinned();
    let mask = dim_mask(Some(dim), self_.dim())?;
    check_same_out(self_, out)?;
    check_extremum_dims("amin", self_, dim, mask)?;
    let dtype = self_.dtype();
    reduce(out, self_, mask, keepdim, (dtype, dtype), |out, x| {
        table(x.device())?.amin.get(dtype, "min_values_cpu")?(out, x)
    })
}

fn check_some(name: &str, x: &Tensor) -> Result<()> {
    check!(
        x.numel() > 0,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' \
         argument."
    );
    Ok(())
}

/// The largest of all elements.
pub fn max(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    let self_ = &self_.pinned();
    check_some("max", self_)?;
    let dtype = self_.dtype();
    reduce(out, self_, u64::MAX, false, (dtype, dtype), |out, x| table(x.device())?.amax.get(dtype, "max_all")?(out, x))
}

/// The smallest of all elements.
pub fn min(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    let self_ = &self_.pinned();
    check_some("min", self_)?;
    let dtype = self_.dtype();
    reduce(out, self_, u64::MAX, false, (dtype, dtype), |out, x| table(x.device())?.amin.get(dtype, "min_all")?(out, x))
}

type Select = fn(&ReduceKernels) -> &kernels::Columns<kernels::SelectingKernel>;

/// The extremum of a dimension with its index: `(values, indices)`.
fn select(
    out: Out<'_>,
    name: &str,
    x: &Tensor,
    dim: i64,
    keepdim: bool,
    error: &str,
    pick: Select,
) -> Result<(Tensor, Tensor)> {
    let x = &x.pinned();
    let d = wrap_dim(dim, x.dim())?;
    check_index!(x.dim() == 0 || x.sizes()[d] != 0, "{name}(): Expected reduction dim {d} to have non-zero size.");
    check_type!(!x.is_complex(), "{name}(): does not support complex input");
    let sizes = reduced_sizes(x.sizes(), 1 << d, keepdim);
    let values = out.prepare(0, Spec::like(&sizes, x), &[x])?;
    let indices = out.prepare(1, Spec::dense(&sizes, DType::I64, x.device()), &[x])?;
    if !values.is_meta() && values.tensor.numel() > 0 {
        let kernel = pick(table(x.device())?).get(x.dtype(), error)?;
        kernel(&values.tensor, &indices.tensor, &lanes(x, 1 << d)?)?;
    }
    Ok((values.finish()?, indices.finish()?))
}

/// The largest element of a dimension and where it is.
pub fn max_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    select(out, "max", self_, dim, keepdim, "max_cpu", |k| &k.max_dim)
}

/// The smallest element of a dimension and where it is.
pub fn min_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(Tensor, Tensor)> {
    select(out, "min", self_, dim, keepdim, "min_cpu", |k| &k.min_dim)
}

fn position(
    out: Out<'_>,
    name: &str,
    x: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    error: &str,
    pick: Select,
) -> Result<Tensor> {
    let x = &x.pinned();
    check_type!(!x.is_complex(), "{name}(): does not support complex input");
    check_not_implemented!(x.dtype() != DType::Bool, "{name}(): does not support bool input");
    let mask = match dim {
        Some(dim) => {
            let d = wrap_dim(dim, x.dim())?;
            check_index!(
                x.dim() == 0 || x.sizes()[d] != 0,
                "{name}(): Expected reduction dim {d} to have non-zero size."
            );
            1 << d
        }
        None => {
            check_index!(x.numel() != 0, "{name}(): Expected reduction dim to be specified for input.numel() == 0.");
            u64::MAX
        }
    };
    let sizes = reduced_sizes(x.sizes(), mask, keepdim);
    let slot = out.prepare(0, Spec::dense(&sizes, DType::I64, x.device()), &[x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let kernel = pick(table(x.device())?).get(x.dtype(), error)?;
        let values = Tensor::new_dense(slot.tensor.sizes(), x.dtype(), x.device())?;
        kernel(&values, &slot.tensor, &lanes(x, mask)?)?;
    }
    slot.finish()
}

/// Where the largest element of a dimension (or of all) is; the first of equals.
pub fn argmax(out: Out<'_>, self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
    position(out, "argmax", self_, dim, keepdim, "argmax_cpu", |k| &k.max_dim)
}

/// Where the smallest element of a dimension (or of all) is; the first of equals.
pub fn argmin(out: Out<'_>, self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
    position(out, "argmin", self_, dim, keepdim, "argmin_cpu", |k| &k.min_dim)
}

/// A truth over dimensions: bool, and uint8 for uint8 input.
fn truth(
    out: Out<'_>,
    name: &str,
    x: &Tensor,
    mask: u64,
    keepdim: bool,
    pick: fn(&ReduceKernels) -> &kernels::Columns<kernels::ReduceKernel>,
) -> Result<Tensor> {
    let own = if x.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    let result = out.target(0).map_or(own, Tensor::dtype);
    check!(
        matches!(result, DType::Bool | DType::U8),
        "{name} only supports bool tensor for result, got: {}",
        result.cpp_name()
    );
    reduce(out, x, mask, keepdim, (x.dtype(), result), |out, x| {
        let kernel = pick(table(x.device())?).get(x.dtype(), name)?;
        // A truth is one byte, 0 or 1, under either name.
        let bytes = crate::composite::view::view_dtype(out, DType::Bool)?;
        kernel(&bytes, x)
    })
}

/// True if all elements are not zero.
pub fn all(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    truth(out, "all", self_, u64::MAX, false, |k| &k.all)
}

/// True where all elements of a dimension are not zero.
pub fn all_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    truth(out, "all", self_, 1 << wrap_dim(dim, self_.dim())?, keepdim, |k| &k.all)
}

/// True where all elements of some dimensions are not zero.
pub fn all_dims(out: Out<'_>, self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(out, "all", self_, some_mask(dim, self_.dim())?, keepdim, |k| &k.all)
}

/// True if an element is not zero.
pub fn any(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    truth(out, "any", self_, u64::MAX, false, |k| &k.any)
}

/// True where an element of a dimension is not zero.
pub fn any_dim(out: Out<'_>, self_: &Tensor, dim: i64, keepdim: bool) -> Result<Tensor> {
    truth(out, "any", self_, 1 << wrap_dim(dim, self_.dim())?, keepdim, |k| &k.any)
}

/// True where an element of some dimensions is not zero.
pub fn any_dims(out: Out<'_>, self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    truth(out, "any", self_, some_mask(dim, self_.dim())?, keepdim, |k| &k.any)
}

/// As [`dim_mask`], but an empty list means no dimension.
fn some_mask(dim: Option<&[i64]>, ndim: usize) -> Result<u64> {
    if dim.is_some_and(<[i64]>::is_empty) { Ok(0) } else { dim_mask(dim, ndim) }
}

/// The variance over dimensions, divided by N - `correction`.
pub fn var_correction(
    out: Out<'_>,
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    check_not_implemented!(
        self_.dtype().is_differentiable(),
        "std and var only support floating point and complex dtypes"
    );
    let mask = dim_mask(dim, self_.dim())?;
    let correction = correction.map_or(1.0, Scalar::to_f64);
    let dtype = self_.dtype();
    reduce(out, self_, mask, keepdim, (dtype, dtype.to_real()), |out, x| {
        table(x.device())?.var.get(dtype, "std_cpu")?(out, x, correction)
    })
}

/// The `ord`-norm over dimensions.
pub fn linalg_vector_norm(
    out: Out<'_>,
    self_: &Tensor,
    ord: Scalar,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let own = self_.dtype();
    check!(!ord.is_complex(), "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    check_not_implemented!(
        own.is_differentiable(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        own.cpp_name()
    );
    let ord = ord.to_f64();
    let self_ = &self_.pinned();
    let mask = dim_mask(dim, self_.dim())?;
    if self_.numel() == 0 && (ord < 0.0 || ord.is_infinite()) {
        check!(
            dim.is_some_and(|d| !d.is_empty()),
            "linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an \
             identity"
        );
        for (d, &size) in self_.sizes().iter().enumerate() {
            check!(
                mask & 1 << d == 0 || size != 0,
                "linalg.vector_norm cannot compute the {ord} norm on the dimension {d} because this dimension is empty and \
                 the operation does not have an identity"
            );
        }
    }
    if let Some(dtype) = dtype {
        check!(
            dtype.is_differentiable(),
            "linalg.vector_norm: dtype should be floating point or complex, but got {}",
            dtype.cpp_name()
        );
        check!(
            own.is_complex() == dtype.is_complex(),
            "linalg.vector_norm: dtype should be {} for {} inputs, but got {}",
            if own.is_complex() { "complex" } else { "real" },
            if own.is_complex() { "complex" } else { "real" },
            dtype.cpp_name()
        );
        check!(
            tensor_core::promotion::promote_types(own, dtype) == dtype,
            "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing to the specified dtype \
             ({})",
            own.cpp_name(),
            dtype.cpp_name()
        );
    }
    let compute = dtype.unwrap_or(own);
    reduce(out, self_, mask, keepdim, (compute, compute.to_real()), |out, x| {
        table(x.device())?.norm.get(compute, "norm_cpu")?(out, x, ord)
    })
}

/// log(sum(exp(self))) over dimensions, without overflow.
pub fn logsumexp(out: Out<'_>, self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let x = if self_.dtype().is_integral(true) { cast(self_, default_dtype())? } else { Tensor::clone(self_) };
    if let Some(target) = out.target(0) {
        check!(
            target.dtype().is_differentiable(),
            "logsumexp(): Expected floating point type for result tensor, but got: {}",
            target.dtype().cpp_name()
        );
    }
    let mask = dim_mask(Some(dim), x.dim())?;
    let result = if x.numel() == 0 {
        ops::log(&ops::sum_dim_int_list(&ops::exp(&x)?, Some(dim), keepdim, None)?)?
    } else {
        let kept = if x.is_complex() {
            // The largest real part keeps exp within range.
            return finish(out, ops::log(&ops::sum_dim_int_list(&ops::exp(&x)?, Some(dim), keepdim, None)?)?);
        } else {
            ops::amax(&x, dim, true)?
        };
        let infinite = ops::eq_scalar(&ops::abs(&kept)?, f64::INFINITY)?;
        let shift = ops::masked_fill_scalar(&kept, &infinite, 0)?;
        let sums = ops::sum_dim_int_list(&ops::exp(&ops::sub(&x, &shift, 1)?)?, Some(dim), keepdim, None)?;
        let sizes = reduced_sizes(x.sizes(), mask, keepdim);
        ops::add(&ops::log(&sums)?, &ops::reshape(&shift, &sizes)?, 1)?
    };
    finish(out, result)
}

fn finish(out: Out<'_>, result: Tensor) -> Result<Tensor> {
    match out.target(0) {
        None => Ok(result),
        Some(target) => {
            crate::out::copy_into(target, &result)?;
            Ok(Tensor::clone(target))
        }
    }
}
