//! Views: another shape, strides or offset over the same storage. No element moves.

use tensor_core::strides::{self, Dims, show, wrap_dim};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{DType, MemoryFormat, Result, bail, check, check_index};

use crate::{Tensor, ops};

/// The same view again (`alias`): a new tensor over the same elements.
pub fn alias(self_: &Tensor) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    Tensor::view_of(m, &m.sizes, &m.strides, m.offset)
}

/// The same elements again.
pub fn lift(self_: &Tensor) -> Result<Tensor> {
    alias(self_)
}

/// The same view again.
pub fn lift_fresh(self_: &Tensor) -> Result<Tensor> {
    alias(self_)
}

/// The same view, cut off from the graph.
pub fn detach(self_: &Tensor) -> Result<Tensor> {
    alias(self_)
}

/// `detach` in place: autograd forgets this tensor's history; the elements stay.
pub fn detach_(_self: &Tensor) -> Result<()> {
    Ok(())
}

/// Any sizes, strides and offset that lie within the storage.
pub fn as_strided(self_: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor> {
    check!(size.len() == stride.len(), "mismatch in length of strides and shape");
    check!(
        stride.iter().all(|&s| s >= 0),
        "as_strided: Negative strides are not supported at the moment, got strides: {}",
        show(stride)
    );
    let offset = storage_offset.unwrap_or(self_.storage_offset());
    self_.view_of_storage(size, stride, offset)
}

/// `as_strided` in place.
pub fn as_strided_(self_: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<()> {
    check!(size.len() == stride.len(), "mismatch in length of strides and shape");
    let offset = storage_offset.unwrap_or(self_.storage_offset());
    restride(self_, strides::dims(size), strides::dims(stride), offset)
}

/// The same elements in row-major order under another shape; one size may be -1.
pub fn view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    // Filled in place, as below: sizes that are returned are stored and loaded in different widths, which makes the loads wait.
    let mut sizes = strides::dims(size);
    strides::infer_size_in_place(&mut sizes, m.numel)?;
    let mut strides = strides::dims(&sizes);
    check!(
        strides::view_into(&m.sizes, &m.strides, &sizes, &mut strides),
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
         contiguous subspaces). Use .reshape(...) instead."
    );
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// `view` that autograd does not treat as a view: its input is about to be dropped.
pub fn _unsafe_view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    view(self_, size)
}

/// The same bytes as elements of another dtype; the last dimension scales with the item size.
pub fn view_dtype(self_: &Tensor, dtype: DType) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let (old, new) = (m.dtype.itemsize() as i64, dtype.itemsize() as i64);
    let (mut sizes, mut strides, mut offset) = (strides::dims(&m.sizes), strides::dims(&m.strides), m.offset);
    if old != new {
        let Some(last) = sizes.len().checked_sub(1) else {
            bail!(
                Runtime,
                "self.dim() cannot be 0 to view {} as {} (different element sizes)",
                self_.dtype().cpp_name(),
                dtype.cpp_name()
            );
        };
        check!(
            strides[last] == 1,
            "self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
            self_.dtype().cpp_name(),
            dtype.cpp_name(),
            strides[last]
        );
        if old > new {
            let ratio = old / new;
            sizes[last] *= ratio;
            offset *= ratio;
            for stride in &mut strides[..last] {
                *stride *= ratio;
            }
        } else {
            let ratio = new / old;
            check!(
                sizes[last] % ratio == 0,
                "self.size(-1) must be divisible by {ratio} to view {} as {} (different element sizes), but got {}",
                self_.dtype().cpp_name(),
                dtype.cpp_name(),
                sizes[last]
            );
            check!(
                offset % ratio == 0,
                "self.storage_offset() must be divisible by {ratio} to view {} as {} (different element sizes), but got \
                 {offset}",
                self_.dtype().cpp_name(),
                dtype.cpp_name()
            );
            for (d, stride) in strides[..last].iter_mut().enumerate() {
                check!(
                    *stride % ratio == 0,
                    "self.stride({d}) must be divisible by {ratio} to view {} as {} (different element sizes), but got \
                     {stride}",
                    self_.dtype().cpp_name(),
                    dtype.cpp_name()
                );
                *stride /= ratio;
            }
            sizes[last] /= ratio;
            offset /= ratio;
        }
    }
    Tensor::from_storage(self_.storage().clone(), dtype, &sizes, &strides, offset)
}

/// `view` with another tensor's shape.
pub fn view_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::view(self_, other.sizes())
}

/// A view where the strides allow it, else a copy.
pub fn reshape(self_: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let sizes = strides::infer_size(shape, self_.numel())?;
    if self_.is_contiguous() {
        return ops::view(self_, &sizes);
    }
    let m = self_.as_impl().metadata();
    if let Some(strides) = strides::view(&m.sizes, &m.strides, &sizes) {
        return ops::_reshape_alias(self_, &sizes, &strides);
    }
    let copy = ops::clone(self_, Some(MemoryFormat::Contiguous))?;
    ops::_unsafe_view(&copy, &sizes)
}

/// The view that `reshape` makes of a tensor that is not contiguous.
pub fn _reshape_alias(self_: &Tensor, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    self_.view_of_storage(size, stride, self_.storage_offset())
}

/// `reshape` with another tensor's shape.
pub fn reshape_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::reshape(self_, other.sizes())
}

/// Dimensions of size 1, and new leading ones, repeated with stride 0.
pub fn expand(self_: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    check!(
        size.len() >= self_.dim(),
        "expand(torch.{}{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of \
         dimensions in the tensor ({})",
        legacy_type_name(self_),
        show(self_.sizes()),
        show(size),
        size.len(),
        self_.dim()
    );
    let m = self_.as_impl().metadata();
    let mut sizes = strides::dims(size);
    let mut strides = strides::dims(size);
    strides::expand_into(&m.sizes, &m.strides, size, &mut sizes, &mut strides)?;
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

fn legacy_type_name(tensor: &Tensor) -> String {
    format!("{}Tensor", tensor.dtype().cpp_name())
}

/// `expand` to another tensor's shape.
pub fn expand_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::expand(self_, other.sizes(), false)
}

/// The dimensions in another order.
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let ndim = m.sizes.len();
    check!(
        dims.len() == ndim,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering \
         of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {}",
        dims.len()
    );
    let mut seen = 0u64;
    let (mut sizes, mut strides) = (Dims::new(), Dims::new());
    for &dim in dims {
        let d = wrap_dim(dim, ndim)?;
        check!(seen & 1 << d == 0, "permute(): duplicate dims are not allowed.");
        seen |= 1 << d;
        sizes.push(m.sizes[d]);
        strides.push(m.strides[d]);
    }
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// Exchanges two dimensions of sizes and strides.
#[inline(always)]
fn swap(sizes: &mut [i64], strides: &mut [i64], dim0: i64, dim1: i64) -> Result<()> {
    let (a, b) = (wrap_dim(dim0, sizes.len())?, wrap_dim(dim1, sizes.len())?);
    // Those of a 0-dim tensor are its only one, which it has not.
    if a != b {
        sizes.swap(a, b);
        strides.swap(a, b);
    }
    Ok(())
}

/// Two dimensions exchanged.
pub fn transpose_int(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let mut sizes = strides::dims(&m.sizes);
    let mut strides = strides::dims(&m.strides);
    swap(&mut sizes, &mut strides, dim0, dim1)?;
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// Two dimensions exchanged in place.
pub fn transpose_(self_: &Tensor, dim0: i64, dim1: i64) -> Result<()> {
    let m = self_.as_impl().metadata();
    let mut sizes = strides::dims(&m.sizes);
    let mut strides = strides::dims(&m.strides);
    swap(&mut sizes, &mut strides, dim0, dim1)?;
    restride(self_, sizes, strides, m.offset)
}

fn check_t(self_: &Tensor, name: &str) -> Result<i64> {
    check!(self_.dim() <= 2, "{name} expects a tensor with <= 2 dimensions, but self is {}D", self_.dim());
    Ok(if self_.dim() < 2 { 0 } else { 1 })
}

/// The transpose of a matrix; vectors and 0-dim tensors as they are.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    let last = check_t(self_, "t()")?;
    transpose_int(self_, 0, last)
}

/// `t` in place.
pub fn t_(self_: &Tensor) -> Result<()> {
    let last = check_t(self_, "t_()")?;
    transpose_(self_, 0, last)
}

/// The view without those dimensions of size 1 that `drop` names.
fn squeezed(m: &Metadata, drop: impl Fn(usize) -> bool) -> (Dims, Dims) {
    let keep = |d: &usize| m.sizes[*d] != 1 || !drop(*d);
    let kept: Dims = (0..m.sizes.len()).filter(keep).map(|d| d as i64).collect();
    (kept.iter().map(|&d| m.sizes[d as usize]).collect(), kept.iter().map(|&d| m.strides[d as usize]).collect())
}

fn dim_mask(dims: &[i64], ndim: usize) -> Result<u64> {
    let mut mask = 0u64;
    for &dim in dims {
        let d = wrap_dim(dim, ndim)?;
        check!(mask & 1 << d == 0, "dim {d} appears multiple times in the list of dims");
        mask |= 1 << d;
    }
    Ok(mask)
}

fn restride(self_: &Tensor, sizes: Dims, strides: Dims, offset: i64) -> Result<()> {
    self_.as_impl().set_metadata(self_.storage().clone(), self_.dtype(), sizes, strides, offset)?;
    self_.as_impl().bump_version();
    Ok(())
}

/// Without all dimensions of size 1.
pub fn squeeze(self_: &Tensor) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let (sizes, strides) = squeezed(m, |_| true);
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// Without one dimension, if its size is 1.
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let d = wrap_dim(dim, m.sizes.len())?;
    let (sizes, strides) = squeezed(m, |i| i == d);
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// Without those of some dimensions whose size is 1.
pub fn squeeze_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let mask = dim_mask(dim, m.sizes.len())?;
    let (sizes, strides) = squeezed(m, |i| mask & 1 << i != 0);
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// `squeeze` in place.
pub fn squeeze_(self_: &Tensor) -> Result<()> {
    let m = self_.as_impl().metadata();
    let (sizes, strides) = squeezed(m, |_| true);
    restride(self_, sizes, strides, m.offset)
}

/// `squeeze_dim` in place.
pub fn squeeze_dim_(self_: &Tensor, dim: i64) -> Result<()> {
    let m = self_.as_impl().metadata();
    let d = wrap_dim(dim, m.sizes.len())?;
    let (sizes, strides) = squeezed(m, |i| i == d);
    restride(self_, sizes, strides, m.offset)
}

/// `squeeze_dims` in place.
pub fn squeeze_dims_(self_: &Tensor, dim: &[i64]) -> Result<()> {
    let m = self_.as_impl().metadata();
    let mask = dim_mask(dim, m.sizes.len())?;
    let (sizes, strides) = squeezed(m, |i| mask & 1 << i != 0);
    restride(self_, sizes, strides, m.offset)
}

fn unsqueezed(m: &Metadata, dim: i64) -> Result<(Dims, Dims)> {
    let d = wrap_dim(dim, m.sizes.len() + 1)?;
    let stride = if d < m.sizes.len() { m.sizes[d] * m.strides[d] } else { 1 };
    let mut sizes = strides::dims(&m.sizes);
    let mut strides = strides::dims(&m.strides);
    sizes.insert(d, 1);
    strides.insert(d, stride);
    Ok((sizes, strides))
}

/// With a new dimension of size 1.
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let (sizes, strides) = unsqueezed(m, dim)?;
    Tensor::view_of(m, &sizes, &strides, m.offset)
}

/// `unsqueeze` in place.
pub fn unsqueeze_(self_: &Tensor, dim: i64) -> Result<()> {
    let m = self_.as_impl().metadata();
    let (sizes, strides) = unsqueezed(m, dim)?;
    restride(self_, sizes, strides, m.offset)
}

/// One index of a dimension; the dimension goes.
pub fn select_int(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    check_index!(!m.sizes.is_empty(), "select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, m.sizes.len())?;
    let size = m.sizes[d];
    check_index!(
        index >= -size && index < size,
        "select(): index {index} out of range for tensor of size {} at dimension {d}",
        show(&m.sizes)
    );
    let mut sizes = strides::dims(&m.sizes);
    let mut strides = strides::dims(&m.strides);
    let at = if index < 0 { index + size } else { index };
    let offset = m.offset + at * strides.remove(d);
    sizes.remove(d);
    Tensor::view_of(m, &sizes, &strides, offset)
}

/// Every `step`-th index of a dimension from `start` up to `end`; bounds are clamped as Python's are.
pub fn slice(self_: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    check_index!(!m.sizes.is_empty(), "slice() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, m.sizes.len())?;
    check!(step > 0, "slice step must be positive");
    let size = m.sizes[d];
    let clamp =
        |bound: i64, least: i64| (if bound < 0 { bound.saturating_add(size) } else { bound }).clamp(least, size);
    let start = clamp(start.unwrap_or(0), 0);
    let end = clamp(end.unwrap_or(i64::MAX), start);
    let mut sizes = strides::dims(&m.sizes);
    let mut strides = strides::dims(&m.strides);
    let stride = m.strides[d];
    let offset = m.offset + start * stride;
    let length = end - start;
    if step == 1 {
        // No division: it is what most slices are.
        sizes.as_mut_slice()[d] = length;
    } else {
        let size = length / step + i64::from(length % step != 0);
        let wide = stride.saturating_mul(step);
        sizes.as_mut_slice()[d] = size;
        strides.as_mut_slice()[d] = if size <= 1 && wide == i64::MAX { stride } else { wide };
    }
    Tensor::view_of(m, &sizes, &strides, offset)
}

/// `length` indices of a dimension from `start`.
pub fn narrow(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    check!(self_.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
    check!(length >= 0, "narrow(): length must be non-negative.");
    let size = self_.size(dim)?;
    check_index!(
        start >= -size && start <= size,
        "start out of range (expected to be in range of [{}, {size}], but got {start})",
        -size
    );
    let start = if start < 0 { start + size } else { start };
    check!(start <= size - length, "start ({start}) + length ({length}) exceeds dimension size ({size}).");
    ops::slice(self_, dim, Some(start), Some(start + length), 1)
}

/// `narrow` with a 0-dim integer tensor as start.
pub fn narrow_tensor(self_: &Tensor, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
    check!(start.dim() == 0 && start.dtype().is_integral(false), "start must be an 0-dim integral Tensor.");
    let start = ops::item(start)?.to_i64();
    ops::narrow(self_, dim, start, length)
}

/// Pieces of `split_size` along a dimension, the last one smaller.
pub fn split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let self_ = &self_.pinned();
    check!(self_.dim() != 0, "split expects at least a 1-dimensional tensor");
    check!(split_size >= 0, "split expects split_size be non-negative, but got split_size={split_size}");
    let size = self_.size(dim)?;
    check!(
        split_size > 0 || size == 0,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
    );
    let pieces = if split_size == 0 { 1 } else { ((size + split_size - 1) / split_size).max(1) };
    (0..pieces)
        .map(|i| {
            let start = i * split_size;
            slice(self_, dim, Some(start), Some((start + split_size).min(size)), 1)
        })
        .collect()
}

/// Pieces of given sizes along a dimension.
pub fn split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let self_ = &self_.pinned();
    check!(self_.dim() != 0, "split expects at least a 1-dimensional tensor");
    let size = self_.size(dim)?;
    for &piece in split_sizes {
        check!(
            piece >= 0,
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
            show(split_sizes)
        );
    }
    let total: i64 = split_sizes.iter().fold(0, |sum, &s| sum.saturating_add(s));
    check!(
        total == size,
        "split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got \
         split_sizes={}",
        show(split_sizes)
    );
    let mut start = 0;
    split_sizes
        .iter()
        .map(|&piece| {
            let view = slice(self_, dim, Some(start), Some(start + piece), 1);
            start += piece;
            view
        })
        .collect()
}

/// Up to `chunks` pieces of equal size along a dimension.
pub fn chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    check!(self_.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    check!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let size = self_.size(dim)?;
    let split_size = (size + chunks - 1) / chunks;
    if split_size == 0 && size == 0 {
        let sizes = vec![0; chunks as usize];
        return ops::split_with_sizes(self_, &sizes, dim);
    }
    ops::split(self_, split_size, dim)
}

/// The slices of a dimension, the dimension gone.
pub fn unbind_int(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    let self_ = &self_.pinned();
    let sizes = self_.sizes();
    let d = wrap_dim(dim, sizes.len())?;
    check_index!(!sizes.is_empty(), "Dimension specified as {d} but tensor has no dimensions");
    (0..sizes[d]).map(|i| select_int(self_, d as i64, i)).collect()
}

/// Dimensions `start_dim` to `end_dim` as one.
pub fn flatten_using_ints(self_: &Tensor, start_dim: i64, end_dim: i64) -> Result<Tensor> {
    let sizes = self_.sizes();
    let (start, end) = (wrap_dim(start_dim, sizes.len())?, wrap_dim(end_dim, sizes.len())?);
    check!(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
    if sizes.is_empty() {
        return ops::reshape(self_, &[1]);
    }
    if start == end {
        return Ok(self_.clone());
    }
    let mut shape = strides::dims(&sizes[..start]);
    shape.push(sizes[start..=end].iter().product());
    shape.extend_from_slice(&sizes[end + 1..]);
    ops::reshape(self_, &shape)
}

/// The size of a dimension.
pub fn size_int(self_: &Tensor, dim: i64) -> Result<i64> {
    self_.size(dim)
}

/// The stride of a dimension.
pub fn stride_int(self_: &Tensor, dim: i64) -> Result<i64> {
    self_.stride(dim)
}

/// `size_int` by its symbolic name.
pub fn sym_size_int(self_: &Tensor, dim: i64) -> Result<i64> {
    self_.size(dim)
}

/// `stride_int` by its symbolic name.
pub fn sym_stride_int(self_: &Tensor, dim: i64) -> Result<i64> {
    self_.stride(dim)
}

/// The number of elements.
pub fn numel(self_: &Tensor) -> Result<i64> {
    Ok(self_.numel())
}

/// `numel` by its symbolic name.
pub fn sym_numel(self_: &Tensor) -> Result<i64> {
    Ok(self_.numel())
}
