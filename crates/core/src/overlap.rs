//! Whether tensors share memory in a way that makes writing to one of them wrong. Checks run before any write.
//!
//! As in PyTorch the answer may be [`Overlap::TooHard`] for tensors with gaps; such a call is let through.

use crate::tensor_impl::Metadata;
use crate::{Result, TensorImpl, bail};

/// What two tensors, or two elements of one tensor, share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// no byte
    No,
    /// every byte, in the same order
    Full,
    /// some bytes, or all in another order
    Partial,
    /// not known without solving for it
    TooHard,
}

/// True if two indices of the tensor certainly reach the same element, as in an expanded view.
pub fn has_internal_overlap(tensor: &TensorImpl) -> bool {
    internal(tensor.metadata())
}

/// What `a` and `b` share.
pub fn overlap(a: &TensorImpl, b: &TensorImpl) -> Overlap {
    if std::ptr::eq(a, b) { Overlap::Full } else { between(a.metadata(), b.metadata()) }
}

/// Refuses to write to a tensor with elements that share memory.
///
/// # Errors
/// When two indices of the tensor reach the same element.
#[inline]
pub fn assert_no_internal_overlap(tensor: &TensorImpl) -> Result<()> {
    check_internal(tensor.metadata())
}

/// Refuses an input that shares some, but not all, of the written-to tensor's memory.
///
/// # Errors
/// When they overlap partially.
#[inline]
pub fn assert_no_partial_overlap(output: &TensorImpl, input: &TensorImpl) -> Result<()> {
    if overlap(output, input) == Overlap::Partial { refuse_shared() } else { Ok(()) }
}

/// Refuses an input that shares memory with the written-to tensor.
///
/// # Errors
/// When they overlap, partially or fully.
#[inline]
pub fn assert_no_overlap(output: &TensorImpl, input: &TensorImpl) -> Result<()> {
    match overlap(output, input) {
        Overlap::Partial | Overlap::Full => refuse_shared(),
        Overlap::No | Overlap::TooHard => Ok(()),
    }
}

/// [`assert_no_internal_overlap`] of one moment's metadata.
#[inline]
pub(crate) fn check_internal(m: &Metadata) -> Result<()> {
    if internal(m) {
        bail!(
            Runtime,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
             Please clone() the tensor before performing the operation."
        );
    }
    Ok(())
}

/// [`assert_no_partial_overlap`] of one moment's metadata.
#[inline]
pub(crate) fn check_partial(output: &Metadata, input: &Metadata) -> Result<()> {
    if between(output, input) == Overlap::Partial { refuse_shared() } else { Ok(()) }
}

#[cold]
fn refuse_shared() -> Result<()> {
    bail!(
        Runtime,
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation."
    );
}

#[inline]
fn internal(m: &Metadata) -> bool {
    !m.is_contiguous()
        && m.strides.iter().zip(&m.sizes).any(|(&stride, &size)| stride == 0 && size > 1)
        && !m.is_non_overlapping_and_dense()
}

fn between(a: &Metadata, b: &Metadata) -> Overlap {
    // Distinct storages first: the common case, at the cost of one comparison.
    if !a.storage.ptr_eq(&b.storage) || a.numel == 0 || b.numel == 0 {
        return Overlap::No;
    }
    if !a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense() {
        return Overlap::TooHard;
    }
    let (a_bytes, b_bytes) = (dense_bytes(a), dense_bytes(b));
    if a_bytes == b_bytes {
        return if a.strides == b.strides { Overlap::Full } else { Overlap::Partial };
    }
    let disjoint = a_bytes.end <= b_bytes.start || b_bytes.end <= a_bytes.start;
    if disjoint { Overlap::No } else { Overlap::Partial }
}

/// The bytes of its storage that a tensor without gaps covers.
fn dense_bytes(m: &Metadata) -> std::ops::Range<i64> {
    let itemsize = m.dtype.itemsize() as i64;
    m.offset * itemsize..(m.offset + m.numel) * itemsize
}
