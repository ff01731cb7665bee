//! Buffers of a thread for what kernels lay out and pack, kept for the next block and the next call: fresh memory costs more
//! than a small block's arithmetic.

use std::cell::RefCell;

use bytemuck::{Pod, Zeroable};

/// Buffers above this many bytes are given back to the system.
const KEEP: usize = 32 << 20;

/// A cache line, so that vectors do not lie across two.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// Those that are not in use: calls nest.
    static BUFFERS: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` on `len` elements of any value, which begin on a cache line.
#[inline(always)]
pub fn with<T: Pod, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    let mut buffer = take(lines);
    let result = f(&mut bytemuck::cast_slice_mut(buffer.as_mut_slice())[..len]);
    give_back(buffer);
    result
}

fn take(lines: usize) -> Vec<Line> {
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < lines {
        buffer.resize(lines, Line::zeroed());
    }
    buffer
}

fn give_back(buffer: Vec<Line>) {
    if buffer.len() * size_of::<Line>() <= KEEP {
        BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    }
}

/// Takes the first `n` elements off a slice.
#[inline(always)]
pub fn split_off<'a, T>(rest: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    let (head, tail) = std::mem::take(rest).split_at_mut(n);
    *rest = tail;
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_nest_and_are_used_again() {
        let first = with(100, |outer: &mut [f32]| {
            outer.fill(1.0);
            with(7, |inner: &mut [f64]| {
                inner.fill(2.0);
                assert!((inner.as_ptr() as usize).is_multiple_of(64));
            });
            assert!(outer.len() == 100 && outer.iter().all(|&x| x == 1.0));
            outer.as_ptr() as usize
        });
        // The outer one came back last, so it is the next one.
        with(100, |again: &mut [f32]| assert_eq!(again.as_ptr() as usize, first));
        with(0, |none: &mut [u8]| assert!(none.is_empty()));
    }
}
