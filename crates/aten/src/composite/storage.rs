//! What a tensor's memory is, and other memory for it.

use tensor_core::{MemoryFormat, Result};

use crate::Tensor;

/// True if the elements lie in row-major order, without gaps.
pub fn is_contiguous(self_: &Tensor) -> Result<bool> {
    Ok(self_.is_contiguous())
}

/// True if the elements lie in the order of a memory format, without gaps.
pub fn is_contiguous_memory_format(self_: &Tensor, memory_format: MemoryFormat) -> Result<bool> {
    Ok(self_.is_contiguous_in(memory_format))
}

/// [`is_contiguous_memory_format`] by its symbolic name.
pub fn sym_is_contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<bool> {
    Ok(self_.is_contiguous_in(memory_format))
}

/// The position of the first element in its storage.
pub fn sym_storage_offset(self_: &Tensor) -> Result<i64> {
    Ok(self_.storage_offset())
}

/// Gives a tensor the memory, sizes and strides of another one; it keeps its dtype.
pub fn set_source_tensor_(self_: &Tensor, source: &Tensor) -> Result<()> {
    if self_.is_same(source) {
        return Ok(());
    }
    let m = source.as_impl().metadata();
    let (sizes, strides) = (m.sizes.clone(), m.strides.clone());
    self_.as_impl().set_metadata(source.storage().clone(), self_.dtype(), sizes, strides, m.offset)
}
