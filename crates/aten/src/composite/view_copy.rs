//! Views as fresh tensors (`X_copy`), and tensors with what a view shows replaced (`X_scatter`).

use tensor_core::strides::{self, show};
use tensor_core::{DType, MemoryFormat, Result, check, overlap};

use super::{diagonal as diagonals, reshaping, view};
use crate::{Tensor, ops};

/// A copy in row-major order.
fn dense(x: &Tensor) -> Result<Tensor> {
    ops::clone(x, Some(MemoryFormat::Contiguous))
}

/// `copied!(t_copy(self_) = view::t);` writes the copy of a view operator.
macro_rules! copied {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $view:path;)*) => { $(
        $(#[$doc])*
        pub fn $name(self_: &Tensor, $($arg: $ty),*) -> Result<Tensor> {
            dense(&$view(self_, $($arg),*)?)
        }
    )* };
}

copied! {
    /// `alias` as a copy.
    alias_copy() = view::alias;
    /// `detach` as a copy.
    detach_copy() = view::detach;
    /// `as_strided` as a copy.
    as_strided_copy(size: &[i64], stride: &[i64], storage_offset: Option<i64>) = view::as_strided;
    /// `diagonal` as a copy.
    diagonal_copy(offset: i64, dim1: i64, dim2: i64) = diagonals::diagonal;
    /// `expand` as a copy.
    expand_copy(size: &[i64], implicit: bool) = view::expand;
    /// `permute` as a copy.
    permute_copy(dims: &[i64]) = view::permute;
    /// `select` as a copy.
    select_copy_int(dim: i64, index: i64) = view::select_int;
    /// `slice` as a copy.
    slice_copy(dim: i64, start: Option<i64>, end: Option<i64>, step: i64) = view::slice;
    /// `squeeze` as a copy.
    squeeze_copy() = view::squeeze;
    /// `squeeze` of one dimension as a copy.
    squeeze_copy_dim(dim: i64) = view::squeeze_dim;
    /// `squeeze` of some dimensions as a copy.
    squeeze_copy_dims(dim: &[i64]) = view::squeeze_dims;
    /// `t` as a copy.
    t_copy() = view::t;
    /// `transpose` as a copy.
    transpose_copy_int(dim0: i64, dim1: i64) = view::transpose_int;
    /// `unsqueeze` as a copy.
    unsqueeze_copy(dim: i64) = view::unsqueeze;
    /// `unfold` as a copy.
    unfold_copy(dimension: i64, size: i64, step: i64) = reshaping::unfold;
    /// `view` of another dtype as a copy.
    view_copy_dtype(dtype: DType) = view::view_dtype;
}

/// `view` as a copy; any strides will do.
pub fn view_copy(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = strides::infer_size(size, self_.numel())?;
    let strides = strides::contiguous(&sizes);
    let copy = dense(self_)?;
    copy.view_of_storage(&sizes, &strides, copy.storage_offset())
}

/// `split` as copies.
pub fn split_copy(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    view::split(self_, split_size, dim)?.iter().map(dense).collect()
}

/// `split_with_sizes` as copies.
pub fn split_with_sizes_copy(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    view::split_with_sizes(self_, split_sizes, dim)?.iter().map(dense).collect()
}

/// `unbind` as copies.
pub fn unbind_copy_int(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    view::unbind_int(self_, dim)?.iter().map(dense).collect()
}

/// `narrow` as a copy.
pub fn narrow_copy(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    check!(
        self_.dim() == 0 || dim < self_.dim() as i64,
        "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  (Could this error message be \
         improved?  If so, please report an enhancement request to PyTorch.)"
    );
    dense(&view::narrow(self_, dim, start, length)?)
}

/// A copy of `x`, strides, offset and all, with what `view` shows of it replaced by `src`.
pub(super) fn scattered(x: &Tensor, src: &Tensor, view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let result = if overlap::has_internal_overlap(x.as_impl()) {
        ops::clone(x, Some(MemoryFormat::Preserve))?
    } else {
        // The whole storage, so that views by absolute offsets find what they found.
        let elements = (x.storage().nbytes() / x.element_size()) as i64;
        let whole = x.view_of_storage(&[elements], &[1], 0)?;
        let copy = dense(&whole)?;
        copy.view_of_storage(x.sizes(), x.strides(), x.storage_offset())?
    };
    let slice = view(&result)?;
    check!(
        slice.sizes() == src.sizes(),
        "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
        show(src.sizes()),
        show(slice.sizes())
    );
    ops::copy_(&slice, src, false)?;
    Ok(result)
}

/// `self` with a slice replaced by `src`.
pub fn slice_scatter(
    self_: &Tensor,
    src: &Tensor,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    scattered(self_, src, |x| view::slice(x, dim, start, end, step))
}

/// `self` with one index of a dimension replaced by `src`.
pub fn select_scatter(self_: &Tensor, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    scattered(self_, src, |x| view::select_int(x, dim, index))
}

/// `self` with the elements of any strided view replaced by `src`.
pub fn as_strided_scatter(
    self_: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    scattered(self_, src, |x| view::as_strided(x, size, stride, storage_offset))
}

/// Gradient of `select`: zeros, with the gradient at its place.
pub fn select_backward(grad_output: &Tensor, input_sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    let result = ops::new_zeros(grad_output, input_sizes, None, None, None, None)?;
    ops::copy_(&view::select_int(&result, dim, index)?, grad_output, false)?;
    Ok(result)
}

/// Gradient of `slice`: zeros, with the gradient at its place.
pub fn slice_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Result<Tensor> {
    let result = ops::new_zeros(grad_output, input_sizes, None, None, None, None)?;
    ops::copy_(&view::slice(&result, dim, Some(start), Some(end), step)?, grad_output, false)?;
    Ok(result)
}
