//! Tensors joined along a dimension that they have, or along a new one.

use smallvec::SmallVec;
use tensor_core::iter::IterConfig;
use tensor_core::promotion::{ResultType, can_cast};
use tensor_core::strides::{self, Dims, show, wrap_dim};
use tensor_core::{MemoryFormat, Result, bail, check, check_type, check_value, overlap};

use crate::composite::view;
use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

/// A 1-d tensor without elements: once the only empty tensor, it joins with anything and adds nothing.
fn is_legacy_empty(x: &Tensor) -> bool {
    x.sizes() == [0]
}

/// The memory format of the result: the inputs' own if they agree on one.
fn output_format(tensors: &[&Tensor]) -> MemoryFormat {
    let mut formats = tensors.iter().map(|x| x.suggest_memory_format());
    let first = formats.next().unwrap_or_default();
    if formats.all(|format| format == first) { first } else { MemoryFormat::Contiguous }
}

/// Refuses a tensor whose other dimensions are not those of the first one.
fn check_shape(first: &Tensor, x: &Tensor, dim: usize, at: usize) -> Result<()> {
    check!(x.dim() == first.dim(), "Tensors must have same number of dimensions: got {} and {}", first.dim(), x.dim());
    for (d, (&wanted, &size)) in first.sizes().iter().zip(x.sizes()).enumerate() {
        check!(
            d == dim || wanted == size,
            "Sizes of tensors must match except in dimension {dim}. Expected size {wanted} but got size {size} for tensor \
             number {at} in the list."
        );
    }
    Ok(())
}

/// The tensors in a row along a dimension.
pub fn cat(out: Out<'_>, tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    check_value!(!tensors.is_empty(), "torch.cat(): expected a non-empty list of Tensors");
    let device = tensors[0].device();
    for (i, x) in tensors.iter().enumerate() {
        check!(x.device() == device, "Tensor on device {} is not on the expected device {device}!", x.device());
        check!(x.dim() > 0, "zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let common = tensors.iter().fold(ResultType::default(), |common, x| common.tensor(x.as_impl())).finish();
    let dtype = out.target(0).map_or(common, Tensor::dtype);
    check_type!(
        can_cast(common, dtype),
        "torch.cat(): input types can't be cast to the desired output type {}",
        dtype.cpp_name()
    );
    let Some(first) = tensors.iter().find(|x| !is_legacy_empty(x)) else {
        return out.prepare(0, Spec::dense(&[0], dtype, device), tensors)?.finish();
    };
    let dim = wrap_dim(dim, first.dim())?;
    let mut sizes = Dims::from_slice(first.sizes());
    sizes[dim] = 0;
    let mut parts: SmallVec<[&Tensor; 8]> = SmallVec::new();
    for (i, x) in tensors.iter().enumerate().filter(|(_, x)| !is_legacy_empty(x)) {
        check_shape(first, x, dim, i)?;
        sizes[dim] += x.sizes()[dim];
        parts.push(x);
    }
    if let Some(target) = out.target(0) {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        for x in tensors {
            overlap::assert_no_overlap(target.as_impl(), x.as_impl())?;
        }
    }
    let format = output_format(tensors);
    let spec = Spec { strides: Some(strides::of_format(&sizes, format)?), ..Spec::dense(&sizes, dtype, device) };
    let slot = out.prepare(0, spec, tensors)?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        join(&slot.tensor, &parts, dim)?;
    }
    slot.finish()
}

/// Fills `out` with the parts: runs of memory where they lie as it does, else copies into its slices.
fn join(out: &Tensor, parts: &[&Tensor], dim: usize) -> Result<()> {
    // The dimensions as they lie in memory, outermost first.
    let mut order: SmallVec<[usize; 5]> = (0..out.dim()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(out.strides()[d]));
    let in_order = |list: &[i64]| -> Dims { order.iter().map(|&d| list[d]).collect() };
    let alike =
        |x: &&Tensor| x.dtype() == out.dtype() && strides::is_contiguous(&in_order(x.sizes()), &in_order(x.strides()));
    let at = order.iter().position(|&d| d == dim).unwrap_or(0);
    if parts.iter().all(alike) && strides::is_contiguous(&in_order(out.sizes()), &in_order(out.strides())) {
        let rows: i64 = order[..at].iter().map(|&d| out.sizes()[d]).product();
        let matrix = |x: &Tensor| {
            let width = x.numel() / rows;
            x.view_of_storage(Dims::from_slice(&[rows, width]), Dims::from_slice(&[width, 1]), x.storage_offset())
        };
        let parts =
            parts.iter().filter(|x| x.numel() > 0).map(|x| matrix(x)).collect::<Result<SmallVec<[Tensor; 8]>>>()?;
        let parts: SmallVec<[&Tensor; 8]> = parts.iter().collect();
        return kernels::joining(out.device())?.cat.get(out.dtype(), "cat_cpu")?(&matrix(out)?, &parts);
    }
    let mut start = 0;
    for part in parts {
        let width = part.sizes()[dim];
        let offset = out.storage_offset() + start * out.strides()[dim];
        let slice = out.view_of_storage(Dims::from_slice(part.sizes()), Dims::from_slice(out.strides()), offset)?;
        let iter = IterConfig::new()
            .output(Some(slice.as_impl()))
            .input(part.as_impl())
            .resize_outputs(false)
            .check_all_same_dtype(false)
            .build()?;
        if iter.numel() > 0 {
            kernels::copy(out.device())?.copy.get(out.dtype(), "copy_")?(&iter)?;
        }
        start += width;
    }
    Ok(())
}

/// Tensors of one shape along a new dimension.
pub fn stack(out: Out<'_>, tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        bail!(Runtime, "stack expects a non-empty TensorList");
    };
    let d = wrap_dim(dim, first.dim() + 1)?;
    for (i, x) in tensors.iter().enumerate() {
        check!(
            x.sizes() == first.sizes(),
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {i}",
            show(first.sizes()),
            show(x.sizes())
        );
    }
    if d < first.dim() && matches!(out, Out::Fresh) {
        // A dimension can always be split by a view.
        let mut sizes = Dims::from_slice(first.sizes());
        sizes.insert(d, tensors.len() as i64);
        return view::view(&cat(out, tensors, d as i64)?, &sizes);
    }
    let columns = tensors.iter().map(|x| view::unsqueeze(x, d as i64)).collect::<Result<SmallVec<[Tensor; 8]>>>()?;
    cat(out, &columns.iter().collect::<SmallVec<[&Tensor; 8]>>(), d as i64)
}
