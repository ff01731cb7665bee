//! Arithmetic of sizes in formulas: written `dims::f(..)` there.

use tensor_core::{Result, strides};

/// The sizes with size 1 at a dimension: what a reduction with `keepdim` leaves.
///
/// # Errors
/// `IndexError` when there is no such dimension.
pub fn keep(sizes: &[i64], dim: i64) -> Result<Vec<i64>> {
    let mut kept = sizes.to_vec();
    if let Some(size) = kept.get_mut(strides::wrap_dim(dim, sizes.len())?) {
        *size = 1;
    }
    Ok(kept)
}
