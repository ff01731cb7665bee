//! Pooling over windows of planes (planes, D, H, W), or of pixels (images, D, H, W, channels).

mod average;
mod lines;
mod maximum;
#[cfg(test)]
mod tests;
mod windows;

pub use average::{avg_pool, avg_pool_backward};
pub use maximum::{max_pool, unpool};

use tensor_core::{Element, Result};

use crate::loops::views::{Locked, ViewMut};

/// The elements of a contiguous input, as many as expected.
fn slice<'a, T: Element>(locked: &'a Locked<'_>, i: usize, len: usize) -> Result<&'a [T]> {
    match locked.read::<T>(i)?.slice() {
        Some(slice) if slice.len() == len => Ok(slice),
        _ => tensor_core::bail!(Runtime, "pooling: input {i} is no contiguous tensor of {len} elements"),
    }
}

/// The elements of a contiguous output, as many as expected.
fn slice_mut<'a, T: Element>(view: &'a mut ViewMut<'_, T>, len: usize) -> Result<&'a mut [T]> {
    match view.slice_mut() {
        Some(slice) if slice.len() == len => Ok(slice),
        _ => tensor_core::bail!(Runtime, "pooling: an output is no contiguous tensor of {len} elements"),
    }
}
