//! Buffers of a thread, kept for the next block and the next call.

use std::any::Any;
use std::cell::RefCell;

use tensor_core::Element;

/// Buffers above this many bytes are given back to the system.
const KEEP: usize = 32 << 20;

thread_local! {
    static BUFFERS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// The box is kept: it goes back among the others.
#[allow(clippy::box_collection)]
fn take<T: Element>() -> Box<Vec<T>> {
    BUFFERS.with_borrow_mut(|buffers| {
        let at = buffers.iter().position(|buffer| buffer.is::<Vec<T>>());
        at.and_then(|at| buffers.swap_remove(at).downcast().ok()).unwrap_or_default()
    })
}

/// Runs `f` on a buffer of `len` elements of no particular value.
#[inline(always)]
pub fn with<T: Element, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = take::<T>();
    if buffer.len() < len {
        buffer.resize(len, T::zeroed());
    }
    let result = f(&mut buffer[..len]);
    if buffer.len() * size_of::<T>() <= KEEP {
        BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    }
    result
}
