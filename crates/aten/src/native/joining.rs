//! Tensors joined along a dimension that they have, or along a new one.

use smallvec::SmallVec;
use tensor_core::iter::IterConfig;
use tensor_core::promotion::{ResultType, can_cast};
use tensor_core::strides::{self, Dims, show, wrap_dim};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{MemoryFormat, Result, bail, check, check_type, check_value, overlap};

use crate::composite::view;
use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

/// A tensor with one look at its shape: another thread may change that meanwhile.
#[derive(Clone, Copy)]
struct Part<'a> {
    tensor: &'a Tensor,
    seen: &'a Metadata,
}

impl<'a> Part<'a> {
    fn new(tensor: &'a Tensor) -> Self {
        Self { tensor, seen: tensor.as_impl().metadata() }
    }

    /// A 1-d tensor without elements: once the only empty tensor, it joins with anything and adds nothing.
    fn is_legacy_empty(&self) -> bool {
        self.seen.sizes.as_slice() == [0]
    }
}

/// The memory format of the result: the inputs' own if they agree on one.
fn output_format(tensors: &[&Tensor]) -> MemoryFormat {
    let mut formats = tensors.iter().map(|x| x.suggest_memory_format());
    let first = formats.next().unwrap_or_default();
    if formats.all(|format| format == first) { first } else { MemoryFormat::Contiguous }
}

/// Refuses a tensor whose other dimensions are not those of the first one.
fn check_shape(first: &[i64], sizes: &[i64], dim: usize, at: usize) -> Result<()> {
    check!(
        sizes.len() == first.len(),
        "Tensors must have same number of dimensions: got {} and {}",
        first.len(),
        sizes.len()
    );
    for (d, (&wanted, &size)) in first.iter().zip(sizes).enumerate() {
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
    let all: SmallVec<[Part<'_>; 8]> = tensors.iter().map(|x| Part::new(x)).collect();
    for (i, x) in all.iter().enumerate() {
        let other = x.tensor.device();
        check!(other == device, "Tensor on device {other} is not on the expected device {device}!");
        check!(!x.seen.sizes.is_empty(), "zero-dimensional tensor (at position {i}) cannot be concatenated");
    }
    let common = tensors.iter().fold(ResultType::default(), |common, x| common.tensor(x.as_impl())).finish();
    let dtype = out.target(0).map_or(common, Tensor::dtype);
    check_type!(
        can_cast(common, dtype),
        "torch.cat(): input types can't be cast to the desired output type {}",
        dtype.cpp_name()
    );
    let Some(first) = all.iter().find(|x| !x.is_legacy_empty()) else {
        return out.prepare(0, Spec::dense(&[0], dtype, device), tensors)?.finish();
    };
    let dim = wrap_dim(dim, first.seen.sizes.len())?;
    let mut sizes = first.seen.sizes.clone();
    sizes[dim] = 0;
    let mut parts: SmallVec<[Part<'_>; 8]> = SmallVec::new();
    for (i, x) in all.iter().enumerate().filter(|(_, x)| !x.is_legacy_empty()) {
        check_shape(&first.seen.sizes, &x.seen.sizes, dim, i)?;
        sizes[dim] += x.seen.sizes[dim];
        parts.push(*x);
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
fn join(out: &Tensor, parts: &[Part<'_>], dim: usize) -> Result<()> {
    let to = out.as_impl().metadata();
    check!(
        parts.iter().all(|x| x.seen.sizes.len() == to.sizes.len()),
        "a tensor's metadata was changed by another thread during an operation"
    );
    // The dimensions as they lie in memory, outermost first.
    let mut order: SmallVec<[usize; 5]> = (0..to.sizes.len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(to.strides[d]));
    let in_order = |list: &[i64]| -> Dims { order.iter().map(|&d| list[d]).collect() };
    let in_a_row = |m: &Metadata| strides::is_contiguous(&in_order(&m.sizes), &in_order(&m.strides));
    let at = order.iter().position(|&d| d == dim).unwrap_or(0);
    if parts.iter().all(|x| x.seen.dtype == to.dtype && in_a_row(x.seen)) && in_a_row(to) {
        let rows: i64 = order[..at].iter().map(|&d| to.sizes[d]).product();
        let matrix = |m: &Metadata| {
            let width = m.numel / rows;
            Tensor::from_storage(m.storage.clone(), m.dtype, &[rows, width], &[width, 1], m.offset)
        };
        let parts = parts.iter().filter(|x| x.seen.numel > 0).map(|x| matrix(x.seen));
        let parts = parts.collect::<Result<SmallVec<[Tensor; 8]>>>()?;
        let parts: SmallVec<[&Tensor; 8]> = parts.iter().collect();
        return kernels::joining(out.device())?.cat.get(to.dtype, "cat_cpu")?(&matrix(to)?, &parts);
    }
    let mut start = 0;
    for part in parts {
        let width = part.seen.sizes[dim];
        let offset = to.offset + start * to.strides[dim];
        let slice = out.view_of_storage(&part.seen.sizes, &to.strides, offset)?;
        let iter = IterConfig::new()
            .output(Some(slice.as_impl()))
            .input(part.tensor.as_impl())
            .resize_outputs(false)
            .check_all_same_dtype(false)
            .build()?;
        if iter.numel() > 0 {
            kernels::copy(out.device())?.copy.get(to.dtype, "copy_")?(&iter)?;
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
    let shape = first.sizes();
    let d = wrap_dim(dim, shape.len() + 1)?;
    for (i, x) in tensors.iter().enumerate() {
        let sizes = x.sizes();
        check!(
            sizes == shape,
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {i}",
            show(shape),
            show(sizes)
        );
    }
    if d < shape.len() && matches!(out, Out::Fresh) {
        // A dimension can always be split by a view.
        let mut sizes = Dims::from_slice(shape);
        sizes.insert(d, tensors.len() as i64);
        return view::view(&cat(out, tensors, d as i64)?, &sizes);
    }
    let columns = tensors.iter().map(|x| view::unsqueeze(x, d as i64)).collect::<Result<SmallVec<[Tensor; 8]>>>()?;
    cat(out, &columns.iter().collect::<SmallVec<[&Tensor; 8]>>(), d as i64)
}
