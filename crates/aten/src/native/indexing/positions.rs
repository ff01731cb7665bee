//! Positions in the flattened tensor: `nonzero` finds them, `take` and `put` use them, masks stand for them.

use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, Error, ErrorKind, MemoryFormat, Result, bail, check, check_index, overlap};

use super::plan::{Axes, Bounds, IndexPlan};
use super::scatter::into_copy;
use crate::out::{Out, Spec, resize_output};
use crate::{Tensor, kernels, ops};

/// The indices of the elements that are not zero, a row each.
pub fn nonzero(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == DType::I64,
            "nonzero: Expected out tensor to have scalar type Long but got scalar type{}",
            target.dtype().cpp_name()
        );
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), self_.as_impl())?;
    }
    if self_.is_meta() {
        bail!(NotImplemented, "nonzero: the shape of the result follows from elements, which meta tensors lack");
    }
    let x = self_.pinned();
    let found = kernels::indexing(x.device())?.nonzero.get(x.dtype(), "nonzero_count_cpu")?(&x)?;
    let Some(target) = out.target(0) else { return Ok(found) };
    if target.sizes() != found.sizes() {
        resize_output(target, found.sizes(), found.strides())?;
    }
    crate::composite::copy::copy_(target, &found, false)?;
    Ok(Tensor::clone(target))
}

/// The first `size` rows of `nonzero`; rows of `fill_value` where there are fewer.
pub fn nonzero_static(out: Out<'_>, self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    check!(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == DType::I64,
            "nonzero_static: Expected out tensor to have scalar type Long but got scalar type{}",
            target.dtype().cpp_name()
        );
    }
    let ndim = self_.dim() as i64;
    let slot = out.prepare(0, Spec::dense(&[size, ndim], DType::I64, self_.device()), &[self_])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let found = nonzero(Out::Fresh, self_)?;
        let rows = found.sizes()[0].min(size);
        ops::fill_scalar_(&slot.tensor, fill_value)?;
        let first = |x: &Tensor| x.view_of_storage(&[rows, ndim], x.strides(), x.storage_offset());
        crate::composite::copy::copy_(&first(&slot.tensor)?, &first(&found)?, false)?;
    }
    slot.finish()
}

fn out_of_range(index: i64, _: usize, size: i64) -> Error {
    Error::new(ErrorKind::Index, format!("out of range: tried to access index {index} on a tensor of {size} elements."))
}

/// Plans the choice of elements of a 1-d tensor by an index tensor of any shape.
fn plan_flat(x: &Tensor, index: &Tensor) -> IndexPlan {
    let none = || Axes { sizes: Dims::new(), strides: Dims::new() };
    IndexPlan {
        flat: Tensor::clone(x),
        before: none(),
        indexed: Axes { sizes: Dims::from_slice(x.sizes()), strides: Dims::from_slice(&[1]) },
        after: none(),
        indices: [Tensor::clone(index)].into_iter().collect(),
        bounds: Bounds { wrap: true, refuse: out_of_range, first: 0 },
    }
}

/// A tensor's elements in row-major order, as a dense vector.
fn flattened(x: &Tensor) -> Result<Tensor> {
    let x = if x.is_contiguous() { Tensor::clone(x) } else { ops::clone(x, Some(MemoryFormat::Contiguous))? };
    let n = x.numel();
    x.view_of_storage(&[n], &[1], x.storage_offset())
}

/// Elements of the flattened `self`, in the shape of `index`.
pub fn take(out: Out<'_>, self_: &Tensor, index: &Tensor) -> Result<Tensor> {
    let (self_, index) = (&self_.pinned(), &index.pinned());
    check!(
        index.dtype() == DType::I64,
        "take(): Expected a long tensor for index, but got {}",
        index.dtype().cpp_name()
    );
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == self_.dtype(),
            "take(): self and out expected to have the same dtype, but got self.dtype = {} and out.dtype = {}",
            self_.dtype().cpp_name(),
            target.dtype().cpp_name()
        );
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), self_.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), index.as_impl())?;
    }
    check_index!(self_.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
    if !matches!(out, Out::Fresh) {
        // The kernel checks indices as it reads them.
        return super::finish(out, take(Out::Fresh, self_, index)?);
    }
    let slot = out.prepare(0, Spec::like(index.sizes(), self_), &[])?;
    if !slot.is_meta() && index.numel() > 0 {
        let kernel = kernels::indexing(self_.device())?.index.get(self_.dtype(), "take_cpu")?;
        kernel(&slot.tensor, &plan_flat(&flattened(self_)?, index))?;
    }
    slot.finish()
}

/// The target of an operator that copies `self` in its own strides and writes into that; then brings it where it belongs.
fn into_clone(out: Out<'_>, self_: &Tensor, run: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if let Out::InPlace(target) = out {
        return run(target);
    }
    let result = ops::clone(self_, Some(MemoryFormat::Preserve))?;
    run(&result)?;
    super::finish(out, result)
}

/// `self` with elements of `source` at positions of its flattened form, or added to them.
pub fn put(out: Out<'_>, self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let (self_, index, source) = (&self_.pinned(), &index.pinned(), &source.pinned());
    check!(
        index.dtype() == DType::I64,
        "put_(): Expected a long tensor for index, but got {}",
        index.dtype().cpp_name()
    );
    check!(
        self_.dtype() == source.dtype(),
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        self_.dtype().cpp_name(),
        source.dtype().cpp_name()
    );
    check_index!(
        source.numel() == index.numel(),
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, \
         index.numel() = {}",
        source.numel(),
        index.numel()
    );
    check_index!(self_.numel() > 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
    into_clone(out, self_, |target| {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), index.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), source.as_impl())?;
        into_copy(Out::InPlace(target), target, &[index, source], |result| {
            let values = ops::reshape(source, index.sizes())?;
            let kernel = kernels::indexing(result.device())?.index_put.get(result.dtype(), "take_put_cpu")?;
            kernel(&plan_flat(&flattened(result)?, index), &values, accumulate)
        })
    })
}

/// A tensor expanded to a shape that it broadcasts to.
fn expanded(x: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let (sizes, strides) = strides::expand(x.sizes(), x.strides(), shape)?;
    x.view_of_storage(&sizes, &strides, x.storage_offset())
}

/// The elements where a mask holds, as a vector; shapes broadcast.
pub fn masked_select(out: Out<'_>, self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let (self_, mask) = (&self_.pinned(), &mask.pinned());
    check!(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask");
    if let Some(target) = out.target(0) {
        check!(target.dtype() == self_.dtype(), "masked_select(): self and result must have the same scalar type");
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), self_.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), mask.as_impl())?;
    }
    let shape = strides::broadcast(mask.sizes(), self_.sizes())?;
    if self_.is_meta() {
        bail!(NotImplemented, "masked_select: the shape of the result follows from elements, which meta tensors lack");
    }
    let kernel = kernels::indexing(self_.device())?.masked_select.get(self_.dtype(), "masked_select")?;
    let found = kernel(&expanded(self_, &shape)?, &expanded(mask, &shape)?)?;
    super::finish(out, found)
}

/// `self` with the elements of `source`, in order, where a mask holds.
pub fn masked_scatter(out: Out<'_>, self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let (self_, mask, source) = (&self_.pinned(), &mask.pinned(), &source.pinned());
    check!(
        self_.dtype() == source.dtype(),
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        self_.dtype().cpp_name(),
        source.dtype().cpp_name()
    );
    check!(
        mask.dtype() == DType::Bool,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().cpp_name()
    );
    let (target, mask) = if let Out::InPlace(target) = out {
        check!(
            mask.dim() <= target.dim(),
            "expand(CPUBoolType{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of \
             dimensions in the tensor ({})",
            show(mask.sizes()),
            show(target.sizes()),
            target.dim(),
            mask.dim()
        );
        (Tensor::clone(target), ops::expand(mask, target.sizes(), false)?)
    } else {
        let shape = strides::broadcast(mask.sizes(), self_.sizes())?;
        (ops::clone(&expanded(self_, &shape)?, Some(MemoryFormat::Contiguous))?, expanded(mask, &shape)?)
    };
    overlap::assert_no_internal_overlap(target.as_impl())?;
    overlap::assert_no_partial_overlap(target.as_impl(), mask.as_impl())?;
    if !target.is_meta() {
        let kernel = kernels::indexing(target.device())?.masked_scatter.get(target.dtype(), "masked_scatter")?;
        into_copy(Out::InPlace(&target), &target, &[&mask, source], |result| kernel(result, &mask, source))?;
    }
    if matches!(out, Out::Into(_)) { super::finish(out, target) } else { Ok(target) }
}
