//! A buffer of the thread, kept for the next task: fresh memory costs more than a small block's arithmetic.

use std::cell::Cell;

use bytemuck::{Pod, Zeroable};

/// A cache line, so that vectors do not lie across two.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    static BUFFER: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Runs `f` on `len` elements of any value.
#[inline(always)]
pub fn with<T: Pod, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = BUFFER.take();
    let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    if buffer.len() < lines {
        buffer.resize(lines, Line::zeroed());
    }
    let result = f(&mut bytemuck::cast_slice_mut(buffer.as_mut_slice())[..len]);
    BUFFER.set(buffer);
    result
}

/// Takes the first `n` elements off a slice.
#[inline(always)]
pub fn take<'a, T>(rest: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    let (head, tail) = std::mem::take(rest).split_at_mut(n);
    *rest = tail;
    head
}
