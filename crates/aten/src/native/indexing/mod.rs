//! Elements chosen by index tensors: `index` and `index_put`.
//!
//! What index tensors mean is in [`plan`]. `index_select` and its kin, which index one dimension, are in `dims`; elements
//! chosen one by one along a dimension (`gather`, `scatter`) in `scatter`; those of the flattened tensor in `positions`.

mod dims;
pub mod plan;
mod positions;
mod scatter;

use smallvec::SmallVec;
use tensor_core::iter::IterConfig;
use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, MemoryFormat, Result, check, check_index, overlap};

pub use dims::*;
pub use plan::{Axes, Bounds, IndexPlan};
pub use positions::*;
pub use scatter::*;

use crate::out::{Out, Spec};
use crate::{Tensor, kernels, ops};

/// Index tensors in the dtype that kernels read.
fn as_i64(index: &Tensor) -> Result<Tensor> {
    if index.dtype() == DType::I64 {
        return Ok(Tensor::clone(index));
    }
    ops::_to_copy(index, Some(DType::I64), None, None, None, false, None)
}

/// Index tensors whose shapes no other thread can change.
fn pinned(indices: &[Option<&Tensor>]) -> SmallVec<[Option<Tensor>; 4]> {
    indices.iter().map(|index| index.map(Tensor::pinned)).collect()
}

fn references(indices: &[Option<Tensor>]) -> SmallVec<[Option<&Tensor>; 4]> {
    indices.iter().map(Option::as_ref).collect()
}

/// The elements that index tensors name.
pub fn index(out: Out<'_>, self_: &Tensor, indices: &[Option<&Tensor>]) -> Result<Tensor> {
    let (self_, indices) = (&self_.pinned(), &pinned(indices));
    let indices = &references(indices)[..];
    check_index!(!indices.is_empty(), "at least one index must be provided");
    check_index!(
        indices.len() <= self_.dim(),
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        indices.len()
    );
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == self_.dtype(),
            "index_out: self ({}) and result ({}) must have the same scalar type",
            self_.dtype().cpp_name(),
            target.dtype().cpp_name()
        );
        overlap::assert_no_internal_overlap(target.as_impl())?;
        for other in indices.iter().flatten().chain([&self_]) {
            overlap::assert_no_overlap(target.as_impl(), other.as_impl())?;
        }
    }
    if !matches!(out, Out::Fresh) {
        // The kernel checks indices as it reads them.
        return finish(out, index(Out::Fresh, self_, indices)?);
    }
    if let [Some(mask)] = indices
        && mask.dtype() == DType::Bool
        && mask.sizes() == self_.sizes()
        && !self_.is_meta()
    {
        return masked_select(out, self_, mask);
    }
    let plan = plan::plan(self_, indices)?;
    let sizes = plan.sizes();
    let strides = Some(result_strides(self_, &plan)?);
    let result = out.prepare(0, Spec { strides, ..Spec::like(&sizes, self_) }, &[])?.finish()?;
    if !result.is_meta() {
        let kernel = kernels::indexing(self_.device())?.index.get(self_.dtype(), "index_cpu")?;
        kernel(&result, &plan)?;
    }
    Ok(result)
}

/// The strides of the result: an iterator's choice from the strides that its inputs have along the result's dimensions.
fn result_strides(x: &Tensor, plan: &IndexPlan) -> Result<Dims> {
    let sizes = plan.sizes();
    if x.is_contiguous() && plan.indices.iter().all(Tensor::is_contiguous) && plan.before.sizes.is_empty() {
        return Ok(strides::contiguous(&sizes));
    }
    let meta = |strides: Dims| Tensor::new_strided(sizes.clone(), strides, x.dtype(), tensor_core::Device::META);
    let source = meta(plan.strides())?;
    let mut inputs = vec![source];
    for index in &plan.indices {
        let mut strides = Dims::from_elem(0, plan.before.sizes.len());
        strides.extend_from_slice(index.strides());
        strides.resize(sizes.len(), 0);
        inputs.push(meta(strides)?);
    }
    let mut config = IterConfig::new().output(None).check_mem_overlap(false).check_all_same_dtype(false);
    for input in &inputs {
        config = config.input(input.as_impl());
    }
    let iter = config.static_dtype(x.dtype()).static_device(tensor_core::Device::META).build()?;
    Ok(Dims::from_slice(iter.output(0).strides()))
}

/// The mask of `self[mask] = number`, shaped to broadcast, if that is what an `index_put` does.
fn fill_mask(self_: &Tensor, indices: &[Option<&Tensor>], values: &Tensor) -> Result<Option<Tensor>> {
    if values.numel() != 1 || !values.device().is_cpu() {
        return Ok(None);
    }
    let (mut passed, mut found) = (0, None);
    for index in indices {
        let Some(mask) = index else {
            passed += 1;
            continue;
        };
        if !plan::is_mask(mask.dtype()) || mask.device() != self_.device() || found.is_some() {
            return Ok(None);
        }
        for d in 0..mask.dim() {
            plan::check_mask(self_, mask, d, passed + d)?;
        }
        passed += mask.dim();
        found = Some(*mask);
    }
    let Some(mask) = found else { return Ok(None) };
    let (mut sizes, mut strides) = (Dims::from_slice(mask.sizes()), Dims::from_slice(mask.strides()));
    for _ in passed..self_.dim() {
        sizes.push(1);
        strides.push(1);
    }
    mask.view_of_storage(&sizes, &strides, mask.storage_offset()).map(Some)
}

/// Writes `values` to the elements of `self` that index tensors name.
fn put_at(target: &Tensor, indices: &[Option<&Tensor>], values: &Tensor, accumulate: bool) -> Result<()> {
    let (self_, indices, values) = (&target.pinned(), &pinned(indices), &values.pinned());
    let indices = &references(indices)[..];
    check_index!(
        indices.len() <= self_.dim(),
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        indices.len()
    );
    if !accumulate && let Some(mask) = fill_mask(self_, indices, values)? {
        // The masked fill counts the write.
        return crate::composite::pointwise::masked_fill_(target, &mask, &crate::composite::view::view(values, &[])?);
    }
    for other in indices.iter().flatten().chain([&values]) {
        overlap::assert_no_overlap(self_.as_impl(), other.as_impl())?;
    }
    let masked = indices.iter().flatten().any(|index| plan::is_mask(index.dtype()));
    if self_.is_meta() && masked {
        // How many elements a mask names follows from its elements, which meta tensors lack.
        target.as_impl().bump_version();
        return Ok(());
    }
    let plan = plan::plan(self_, indices)?;
    let sizes = plan.sizes();
    check!(
        is_expandable(values.sizes(), &sizes),
        "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
        show(values.sizes()),
        show(&sizes)
    );
    check!(
        values.dtype() == self_.dtype(),
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
        self_.dtype().cpp_name(),
        values.dtype().cpp_name()
    );
    if !self_.is_meta() {
        let kernel = kernels::indexing(self_.device())?.index_put.get(self_.dtype(), "index_put")?;
        let apart;
        let values = if values.storage().ptr_eq(self_.storage()) {
            apart = ops::clone(values, Some(MemoryFormat::Contiguous))?;
            &apart
        } else {
            values
        };
        let (sizes, strides) = strides::expand(values.sizes(), values.strides(), &sizes)?;
        kernel(&plan, &values.view_of_storage(&sizes, &strides, values.storage_offset())?, accumulate)?;
    }
    target.as_impl().bump_version();
    Ok(())
}

/// True if a shape can be expanded to `target`.
fn is_expandable(shape: &[i64], target: &[i64]) -> bool {
    shape.len() <= target.len()
        && shape.iter().rev().zip(target.iter().rev()).all(|(&size, &wanted)| size == wanted || size == 1)
}

/// `self` with `values` at the elements that index tensors name: in their place, or added to them.
pub fn index_put(
    out: Out<'_>,
    self_: &Tensor,
    indices: &[Option<&Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    match out {
        Out::InPlace(target) => {
            put_at(target, indices, values, accumulate)?;
            Ok(Tensor::clone(target))
        }
        _ => {
            let result = ops::clone(self_, Some(MemoryFormat::Preserve))?;
            put_at(&result, indices, values, accumulate)?;
            finish(out, result)
        }
    }
}

/// `index_put_`, which this is upstream the kernel of.
pub fn _index_put_impl_(
    out: Out<'_>,
    self_: &Tensor,
    indices: &[Option<&Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Tensor> {
    index_put(out, self_, indices, values, accumulate)
}

/// A result that was computed apart, brought where it belongs.
pub(in crate::native) fn finish(out: Out<'_>, result: Tensor) -> Result<Tensor> {
    if matches!(out, Out::Fresh) {
        return Ok(result);
    }
    let strides = Some(Dims::from_slice(result.strides()));
    let slot = out.prepare(0, Spec { strides, ..Spec::like(result.sizes(), &result) }, &[&result])?;
    crate::composite::copy::copy_(&slot.tensor, &result, false)?;
    slot.finish()
}
