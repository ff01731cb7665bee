//! Pieces along a dimension: by sections and positions, and forms of `split` whose pieces are no views for autograd.

use tensor_core::strides::wrap_dim;
use tensor_core::{DType, Result, check};

use super::view;
use crate::{Tensor, ops};

fn check_splits(x: &Tensor) -> Result<()> {
    check!(
        x.dim() > 0,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {} dims",
        x.dim()
    );
    Ok(())
}

/// `sections` pieces; the first ones are one larger where the size does not divide.
pub fn tensor_split_sections(self_: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    check_splits(self_)?;
    let d = wrap_dim(dim, self_.dim())?;
    check!(sections > 0, "number of sections must be larger than 0, got {sections}");
    let size = self_.sizes()[d];
    let (least, larger) = (size / sections, size % sections);
    let mut start = 0;
    (0..sections)
        .map(|i| {
            let end = start + least + i64::from(i < larger);
            let piece = ops::slice(self_, d as i64, Some(start), Some(end), 1);
            start = end;
            piece
        })
        .collect()
}

/// The pieces between positions.
pub fn tensor_split_indices(self_: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    check_splits(self_)?;
    let d = wrap_dim(dim, self_.dim())?;
    let size = self_.sizes()[d];
    let mut start = 0;
    indices
        .iter()
        .copied()
        .chain([size])
        .map(|end| {
            let piece = ops::slice(self_, d as i64, Some(start), Some(end), 1);
            start = end;
            piece
        })
        .collect()
}

/// `tensor_split` by the number of a 0-dim tensor, or by the positions of a vector.
pub fn tensor_split_tensor_indices_or_sections(
    self_: &Tensor,
    tensor_indices_or_sections: &Tensor,
    dim: i64,
) -> Result<Vec<Tensor>> {
    let given = tensor_indices_or_sections;
    check_splits(self_)?;
    check!(
        given.device().is_cpu(),
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
        given.device()
    );
    check!(
        given.dtype() == DType::I64,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        given.dtype().cpp_name()
    );
    check!(
        given.dim() <= 1,
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a \
         tensor with {} dims",
        given.dim()
    );
    if given.dim() == 0 {
        return ops::tensor_split_sections(self_, ops::item(given)?.to_i64(), dim);
    }
    ops::tensor_split_indices(self_, &given.to_vec::<i64>()?, dim)
}

/// The dimension that `hsplit`, `vsplit` or `dsplit` splits.
fn named_dim(name: &str, x: &Tensor, least: usize, dim: usize) -> Result<usize> {
    check!(
        x.dim() >= least,
        "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
        x.dim()
    );
    Ok(dim.min(x.dim() - 1))
}

fn equal_sections(name: &str, x: &Tensor, sections: i64, dim: usize) -> Result<Vec<Tensor>> {
    let size = x.sizes()[dim];
    check!(
        sections != 0 && size % sections == 0,
        "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by \
         the split_size {sections}!"
    );
    ops::tensor_split_sections(x, sections, dim as i64)
}

/// Equal pieces left to right: along dimension 1, or the only one.
pub fn hsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    equal_sections("hsplit", self_, sections, named_dim("hsplit", self_, 1, 1)?)
}

/// The pieces between positions left to right: along dimension 1, or the only one.
pub fn hsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    ops::tensor_split_indices(self_, indices, named_dim("hsplit", self_, 1, 1)? as i64)
}

/// Equal pieces top to bottom: along dimension 0.
pub fn vsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    equal_sections("vsplit", self_, sections, named_dim("vsplit", self_, 2, 0)?)
}

/// The pieces between positions top to bottom: along dimension 0.
pub fn vsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    ops::tensor_split_indices(self_, indices, named_dim("vsplit", self_, 2, 0)? as i64)
}

/// Equal pieces front to back: along dimension 2.
pub fn dsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    equal_sections("dsplit", self_, sections, named_dim("dsplit", self_, 3, 2)?)
}

/// The pieces between positions front to back: along dimension 2.
pub fn dsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    ops::tensor_split_indices(self_, indices, named_dim("dsplit", self_, 3, 2)? as i64)
}

/// `split` whose pieces may be written: autograd does not treat them as views.
pub fn unsafe_split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    view::split(self_, split_size, dim)
}

/// `split_with_sizes` whose pieces may be written: autograd does not treat them as views.
pub fn unsafe_split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    view::split_with_sizes(self_, split_sizes, dim)
}

/// `chunk` whose pieces may be written: autograd does not treat them as views.
pub fn unsafe_chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    check!(self_.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    check!(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let size = self_.size(dim)?;
    let split_size = (size + chunks - 1) / chunks;
    if split_size == 0 && size == 0 {
        return ops::unsafe_split_with_sizes(self_, &vec![0; chunks as usize], dim);
    }
    ops::unsafe_split(self_, split_size, dim)
}
