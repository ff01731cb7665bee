//! A buffer of the thread for packed operands, kept for the next product.

use std::cell::Cell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

thread_local! {
    static BUFFER: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` on `bytes` bytes, initialised to no particular value and aligned as cache lines.
#[inline]
pub(super) fn with<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let mut buffer = BUFFER.take();
    let lines = bytes.div_ceil(size_of::<Line>());
    if buffer.len() < lines {
        buffer.resize(lines, Line { _bytes: [0; 64] });
    }
    let result = f(buffer.as_mut_ptr().cast());
    BUFFER.set(buffer);
    result
}
