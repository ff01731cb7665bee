//! Indices of one dimension: `index_select` reads them; `index_add`, `index_copy`, `index_fill` and `index_reduce` write.

use tensor_core::strides::{Dims, show, wrap_dim};
use tensor_core::{DType, Error, ErrorKind, MemoryFormat, Result, Scalar, check, check_index, overlap};

use super::as_i64;
use super::plan::{Axes, Bounds, IndexPlan, flat};
use super::scatter::into_copy;
use crate::out::{Out, Spec};
use crate::{Tensor, kernels, ops};

/// Plans the choice of indices of a dimension by a vector, or by a 0-dim tensor that stands for one.
pub(in crate::native) fn plan_dim(x: &Tensor, dim: usize, index: &Tensor, bounds: Bounds) -> Result<IndexPlan> {
    let axes = |from: usize, to: usize| Axes {
        sizes: Dims::from_slice(x.sizes().get(from..to).unwrap_or_default()),
        strides: Dims::from_slice(x.strides().get(from..to).unwrap_or_default()),
    };
    let one = || Axes { sizes: Dims::from_slice(&[1]), strides: Dims::from_slice(&[1]) };
    let index = as_i64(index)?;
    let index = if index.dim() == 0 { crate::composite::view::unsqueeze(&index, 0)? } else { index };
    Ok(IndexPlan {
        flat: flat(x)?,
        before: axes(0, dim),
        indexed: if x.dim() == 0 { one() } else { axes(dim, dim + 1) },
        after: axes(dim + 1, x.dim()),
        indices: [index].into_iter().collect(),
        bounds,
    })
}

pub(in crate::native) fn out_of_range_in_self(_: i64, _: usize, _: i64) -> Error {
    Error::new(ErrorKind::Index, "index out of range in self")
}

/// Of upstream's kernel for the second dimension.
fn out_of_data_bounds(index: i64, _: usize, size: i64) -> Error {
    Error::runtime(format!("INDICES element is out of DATA bounds, id={index} axis_dim={size}"))
}

pub(super) fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

fn out_of_bounds_of_copy(index: i64, _: usize, size: i64) -> Error {
    Error::new(
        ErrorKind::Index,
        format!("index_copy_(): index {index} is out of bounds for dimension 0 with size {size}"),
    )
}

fn out_of_bounds_of_fill(index: i64, _: usize, size: i64) -> Error {
    Error::new(ErrorKind::Index, format!("index {index} is out of bounds for dimension 0 with size {size}"))
}

/// Refuses an out tensor that overlaps itself or what is read.
fn check_target(out: Out<'_>, inputs: &[&Tensor]) -> Result<()> {
    if let Some(target) = out.target(0) {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        for input in inputs {
            overlap::assert_no_overlap(target.as_impl(), input.as_impl())?;
        }
    }
    Ok(())
}

/// Some indices of a dimension.
pub fn index_select(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let (self_, index) = (&self_.pinned(), &index.pinned());
    let d = wrap_dim(dim, self_.dim())?;
    check_index!(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
    check!(
        self_.dim() > 0 || index.numel() == 1,
        "index_select(): Index to scalar can have only 1 value, got {} value(s)",
        index.numel()
    );
    check!(matches!(index.dtype(), DType::I64 | DType::I32), "index_select(): Expected dtype int32 or int64 for index");
    if let Some(target) = out.target(0) {
        check!(target.dtype() == self_.dtype(), "index_select(): self and result must have the same scalar type");
    }
    check_target(out, &[self_, index])?;
    if !matches!(out, Out::Fresh) {
        // The kernel checks indices as it reads them.
        return super::finish(out, index_select(Out::Fresh, self_, dim, index)?);
    }
    let mut sizes = Dims::from_slice(self_.sizes());
    if let Some(size) = sizes.get_mut(d) {
        *size = index.numel();
    }
    let slot = out.prepare(0, Spec::like(&sizes, self_), &[])?;
    if !slot.is_meta() {
        let many = self_.dim() > 1 && index.numel() > 0;
        check!(!many || self_.sizes()[d] > 0, "index_select(): self indexing axis dim should be positive");
        let refuse = if many && d == 1 { out_of_data_bounds } else { out_of_range_in_self };
        let plan = plan_dim(self_, d, index, Bounds { wrap: false, refuse, first: 0 })?;
        kernels::indexing(self_.device())?.index.get(self_.dtype(), "index_select")?(&slot.tensor, &plan)?;
    }
    slot.finish()
}

/// Writes `values`, one slice an index, to slices of a dimension, or adds them.
fn put_slices(
    result: &Tensor,
    d: usize,
    index: &Tensor,
    values: &Tensor,
    accumulate: bool,
    bounds: Bounds,
) -> Result<()> {
    let plan = plan_dim(result, d, index, bounds)?;
    let sizes = plan.sizes();
    let same = values.numel() == sizes.iter().product::<i64>();
    let values = if same { ops::reshape(values, &sizes)? } else { ops::expand(values, &sizes, false)? };
    kernels::indexing(result.device())?.index_put.get(result.dtype(), "index_put")?(&plan, &values, accumulate)
}

/// The sizes without a dimension.
fn slice_sizes(x: &Tensor, d: usize) -> Dims {
    let mut sizes = Dims::from_slice(x.sizes());
    if d < sizes.len() {
        sizes.remove(d);
    }
    sizes
}

/// The checks that `index_add` and `index_reduce` share; gives the dimension.
fn check_source(name: &str, self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    check_index!(
        index.dim() <= 1,
        "{name}_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
        index.dim(),
        index.dtype().cpp_name(),
        show(index.sizes())
    );
    check!(
        matches!(index.dtype(), DType::I64 | DType::I32),
        "{name}_(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().cpp_name()
    );
    check!(
        self_.dtype() == source.dtype(),
        "{name}_(): self ({}) and source ({}) must have the same scalar type",
        self_.dtype().cpp_name(),
        source.dtype().cpp_name()
    );
    check!(
        d == 0 || d < source.dim(),
        "{name}_(): Indexing dim {d} is out of bounds of the source tensor with dim {}",
        source.dim()
    );
    let indices = index.numel();
    let slices = source.sizes().get(d).copied().unwrap_or(1);
    check!(
        indices == slices,
        "{name}_(): Number of indices ({indices}) should be equal to source.size(dim): ({slices}), for dim: {d}"
    );
    let both = self_.dim() > 0 && source.dim() > 0;
    let alike = if both { slice_sizes(self_, d) == slice_sizes(source, d) } else { self_.sizes() == source.sizes() };
    check!(
        alike,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} \
         source.shape = {}",
        show(self_.sizes()),
        show(source.sizes())
    );
    Ok(d)
}

/// `self` with slices of `source`, times `alpha`, added to those of a dimension.
pub fn index_add(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let (self_, index, source) = (&self_.pinned(), &index.pinned(), &source.pinned());
    let d = check_source("index_add", self_, dim, index, source)?;
    check_target(out, &[index, source])?;
    let refuse = if self_.dim() > 1 { out_of_bounds } else { out_of_range_in_self };
    into_copy(out, self_, &[index, source], |result| {
        let scaled = if alpha.equals(1.0) { Tensor::clone(source) } else { ops::mul_scalar(source, alpha)? };
        put_slices(result, d, index, &scaled, true, Bounds { wrap: false, refuse, first: 0 })
    })
}

/// `self` with slices of a dimension replaced by those of `source`.
pub fn index_copy(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    let (self_, index, source) = (&self_.pinned(), &index.pinned(), &source.pinned());
    let d = wrap_dim(dim, self_.dim())?;
    check_index!(index.dim() <= 1, "index_copy_(): Index should have dimension 1 or 0 (got {})", index.dim());
    let indices = index.numel();
    if source.dim() == 0 {
        check_index!(
            indices == 1,
            "index_copy_(): When source is scalar, index should have one element (got {indices})"
        );
    } else {
        check_index!(
            source.dim() == self_.dim() || self_.dim() == 0,
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source \
             dimensionality ({}), destination dimensionality ({})",
            source.dim(),
            self_.dim()
        );
    }
    check!(
        index.dtype() == DType::I64,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype().cpp_name()
    );
    check!(
        self_.dtype() == source.dtype(),
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        self_.dtype().cpp_name(),
        source.dtype().cpp_name()
    );
    let (to, from) = (slice_sizes(self_, d), slice_sizes(source, d));
    if to != from {
        let list = |sizes: &[i64]| show(sizes).to_string().trim_matches(['[', ']']).to_owned();
        check!(
            false,
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension \
             {d} and source slice shape: {} at dimension 0.",
            list(&to),
            list(&from)
        );
    }
    if let Some(&slices) = source.sizes().get(d) {
        check_index!(
            indices == slices,
            "index_copy_(): Number of indices ({indices}) should be equal to source.size(dim) ({slices})"
        );
    }
    check_target(out, &[index, source])?;
    into_copy(out, self_, &[index, source], |result| {
        put_slices(result, d, index, source, false, Bounds { wrap: false, refuse: out_of_bounds_of_copy, first: 0 })
    })
}

/// Fills slices of a dimension with what `value` gives, once everything else is checked.
fn fill_slices(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    let index = &index.pinned();
    check_index!(index.dtype() == DType::I64, "index_fill_(): Expected dtype int64 for index.");
    let d = wrap_dim(dim, self_.dim())?;
    check!(index.dim() <= 1, "Index has to be a vector/scalar");
    let target = match out {
        Out::InPlace(target) => target.pinned(),
        _ => ops::clone(self_, Some(MemoryFormat::Preserve))?,
    };
    check_target(Out::InPlace(&target), &[index])?;
    if !target.is_meta() {
        put_slices(
            &target,
            d,
            index,
            &value()?,
            false,
            Bounds { wrap: true, refuse: out_of_bounds_of_fill, first: 0 },
        )?;
    }
    match out {
        Out::InPlace(target) => {
            target.as_impl().bump_version();
            return Ok(Tensor::clone(target));
        }
        Out::Into(_) => return super::finish(out, target),
        Out::Fresh => {}
    }
    Ok(target)
}

/// A number as a tensor that slices of `self` can be filled with.
fn fill_value(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    check!(
        self_.is_complex() || !value.is_complex(),
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    value.check_fits(self_.dtype())?;
    Tensor::scalar_tensor(value, self_.dtype())
}

/// `self` with slices of a dimension filled with a number.
pub fn index_fill_int_scalar(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    fill_slices(out, self_, dim, index, || fill_value(self_, value))
}

/// [`index_fill_int_scalar`] with the value of a 0-dim tensor.
pub fn index_fill_int_tensor(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<Tensor> {
    check!(
        value.dim() == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    fill_slices(out, self_, dim, index, || fill_value(self_, ops::item(value)?))
}

/// `self` with slices of `source` reduced into those of a dimension; with those of `self` if `include_self`.
pub fn index_reduce(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    check!(
        matches!(reduce, "prod" | "mean" | "amax" | "amin"),
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
    );
    let (self_, index, source) = (&self_.pinned(), &index.pinned(), &source.pinned());
    let d = check_source("index_reduce", self_, dim, index, source)?;
    check_target(out, &[index, source])?;
    let size = self_.sizes().get(d).copied().unwrap_or(1);
    if index.device().is_cpu() {
        let within = as_i64(index)?.to_vec::<i64>()?.iter().all(|i| (0..size).contains(i));
        check_index!(within, "index out of range in self");
    }
    // Each slice's index at all of its elements.
    let mut shape = Dims::from_elem(1, source.dim());
    if let Some(along) = shape.get_mut(d) {
        *along = index.numel();
    }
    let index = ops::expand(&ops::reshape(index, &shape)?, source.sizes(), false)?;
    super::scatter_reduce_two(out, self_, d as i64, &index, source, reduce, include_self)
}
