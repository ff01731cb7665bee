//! The normal form of operators along dimensions: a contiguous (A, R, B) tensor whose middle dimension is worked on.
//!
//! Reductions, scans, softmax and sorts see any input as A x B lanes of R elements, `B` apart. Kernels know no other shape.

use smallvec::SmallVec;
use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{MemoryFormat, Result, check};

use crate::{Tensor, ops};

/// Dimensions as bits: all of them where the list is absent or empty.
///
/// # Errors
/// `IndexError` for a dimension out of range, `RuntimeError` for one named twice or more than 64 dimensions.
pub fn dim_mask(dims: Option<&[i64]>, ndim: usize) -> Result<u64> {
    check!(ndim <= 64, "only tensors with up to 64 dims are supported");
    let mut mask = 0u64;
    for &dim in dims.unwrap_or_default() {
        let d = wrap_dim(dim, ndim)?;
        check!(mask & 1 << d == 0, "dim {d} appears multiple times in the list of dims");
        mask |= 1 << d;
    }
    Ok(if dims.is_none_or(<[i64]>::is_empty) { u64::MAX } else { mask })
}

/// The shape that is left when the masked dimensions are reduced.
pub fn reduced_sizes(sizes: &[i64], mask: u64, keepdim: bool) -> Dims {
    let reduced = |d: usize| mask & 1 << d != 0;
    let sizes = sizes.iter().enumerate();
    if keepdim {
        sizes.map(|(d, &size)| if reduced(d) { 1 } else { size }).collect()
    } else {
        sizes.filter(|(d, _)| !reduced(*d)).map(|(_, &size)| size).collect()
    }
}

/// `x` as (A, R, B), the masked dimensions in the middle in their order: a view where the memory allows it, else a copy in
/// which they come last. Lane (a, b) belongs to element a * B + b of the kept dimensions in row-major order.
///
/// # Errors
/// When a copy cannot be allocated.
pub fn lanes(x: &Tensor, mask: u64) -> Result<Tensor> {
    let m = x.as_impl().metadata();
    if let Some(view) = lanes_view(m, mask)? {
        return Ok(view);
    }
    let ndim = m.sizes.len();
    let (kept, reduced): (Vec<i64>, Vec<i64>) = (0..ndim as i64).partition(|d| mask & 1 << d == 0);
    let order: Vec<i64> = kept.iter().chain(&reduced).copied().collect();
    let permuted = crate::composite::view::permute(x, &order)?;
    let dense = ops::clone(&permuted, Some(MemoryFormat::Contiguous))?;
    // Its sizes, not those of `x`, which another thread may change meanwhile.
    let (outer, inner) = dense.sizes().split_at(kept.len().min(dense.dim()));
    let (a, r) = (outer.iter().product::<i64>(), inner.iter().product::<i64>());
    dense.view_of_storage(&[a, r, 1], &[r, 1, 1], dense.storage_offset())
}

/// `x` as (A, R, B) without a copy, if its elements lie in row-major order and the masked dimensions side by side.
fn lanes_view(m: &Metadata, mask: u64) -> Result<Option<Tensor>> {
    if !m.is_contiguous() {
        return Ok(None);
    }
    let (mut a, mut r, mut b) = (1i64, 1i64, 1i64);
    let mut seen: SmallVec<[bool; 8]> = SmallVec::new();
    for (d, &size) in m.sizes.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let reduced = mask & 1 << d != 0;
        match (reduced, seen.last()) {
            (true, Some(false)) | (_, None) => seen.push(reduced),
            (false, Some(true)) => seen.push(reduced),
            _ => {}
        }
        let split = seen.iter().filter(|&&was| was).count();
        if split > 1 {
            return Ok(None);
        }
        match (reduced, split) {
            (true, _) => r *= size,
            (false, 0) => a *= size,
            (false, _) => b *= size,
        }
    }
    let strides = Dims::from_slice(&[r * b, b, 1]);
    Tensor::view_of(m, &[a, r, b], &strides, m.offset).map(Some)
}

/// [`lanes`] for a reduction of everything whose order does not matter: any dense tensor is one lane.
///
/// # Errors
/// When a copy cannot be allocated.
pub fn lanes_in_any_order(x: &Tensor, mask: u64) -> Result<Tensor> {
    let m = x.as_impl().metadata();
    let everything = m.sizes.iter().enumerate().all(|(d, &size)| size == 1 || mask & 1 << d != 0);
    if everything && !m.is_contiguous() && m.is_non_overlapping_and_dense() {
        let n = m.numel;
        return Tensor::view_of(m, &[1, n, 1], &[n, 1, 1], m.offset);
    }
    lanes(x, mask)
}
