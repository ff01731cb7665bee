//! Memory ahead of its use, and slices written past the caches.

use tensor_core::Element;

use super::stream;
pub use super::stream::{STREAM, pays};

/// Asks for the memory of an element that will be used soon; any number is fine.
#[inline(always)]
pub fn prefetch<T>(x: &[T], at: usize) {
    prefetch_from(x.as_ptr(), at);
}

/// [`prefetch`] of what begins at an address.
#[inline(always)]
pub(super) fn prefetch_from<T>(x: *const T, at: usize) {
    let address = x.wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing that the program sees and faults at no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Writes rows, one behind the other, past the caches, as many as fit.
pub fn copy_rows<'a, T: Element>(out: &mut [T], rows: impl Iterator<Item = &'a [T]>) {
    let mut rest = out;
    for row in rows {
        let n = row.len().min(rest.len());
        let (to, tail) = rest.split_at_mut(n);
        // SAFETY: `n` elements of a slice and of an exclusive one.
        unsafe { stream::copy(row.as_ptr().cast(), to.as_mut_ptr().cast(), n * size_of::<T>()) };
        rest = tail;
    }
    stream::fence();
}

/// A time in which slices are written past the caches: in order before what comes after it.
pub struct Beyond(());

impl Beyond {
    /// Runs `f`, which may write so.
    #[inline(always)]
    pub fn time<R>(f: impl FnOnce(&Self) -> R) -> R {
        struct Fence;
        impl Drop for Fence {
            fn drop(&mut self) {
                stream::fence();
            }
        }
        let _fence = Fence;
        f(&Self(()))
    }

    /// Writes a row, as much as fits.
    #[inline(always)]
    pub fn write<T: Element>(&self, out: &mut [T], row: &[T]) {
        let n = row.len().min(out.len());
        // SAFETY: `n` elements of a slice and of an exclusive one.
        unsafe { stream::copy(row.as_ptr().cast(), out.as_mut_ptr().cast(), n * size_of::<T>()) };
    }
}

/// Writes zeros past the caches.
pub fn clear<T: Element>(out: &mut [T]) {
    let zeros = [T::zeroed(); 64];
    for part in out.chunks_mut(zeros.len()) {
        // SAFETY: a part is at most as long as the zeros.
        unsafe { stream::copy(zeros.as_ptr().cast(), part.as_mut_ptr().cast(), size_of_val(part)) };
    }
    stream::fence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_write_every_element_and_no_other() {
        for (begin, n) in [(0, 0), (3, 1), (1, 40), (0, 64), (5, 333)] {
            let from: Vec<i16> = (0..n as i16).collect();
            let mut out = vec![-1i16; begin + n + 7];
            prefetch(&out, 1 << 40);
            copy_rows(&mut out[begin..begin + n], from.chunks(7));
            assert_eq!(out[begin..begin + n], from);
            clear(&mut out[begin..begin + n]);
            assert!(out.iter().enumerate().all(|(i, &x)| x == if (begin..begin + n).contains(&i) { 0 } else { -1 }));
        }
    }
}
