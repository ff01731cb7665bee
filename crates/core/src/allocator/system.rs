//! Memory of the system: zeroed and 64-byte aligned, its pages not touched before they are used. An aligned request of the
//! standard allocator would write them all. What is kept of it is decided elsewhere.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use super::blocks::ALIGN;

/// Above this size the system is asked for huge pages, whose first touch costs a quarter a byte. Their own size.
pub(super) const HUGE: usize = 2 << 20;

/// The block within which aligned memory lies: its address is kept before that.
fn around(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(ALIGN)?, align_of::<*mut u8>()).ok()
}

/// Memory of a size that is not 0; null when there is not that much.
pub(super) fn allocate(size: usize) -> *mut u8 {
    if pages::EXIST && size > HUGE {
        return pages::map(size).unwrap_or(0) as *mut u8;
    }
    let Some(layout) = around(size) else { return std::ptr::null_mut() };
    // SAFETY: the layout's size is not 0.
    let base = unsafe { alloc_zeroed(layout) };
    if base.is_null() {
        return base;
    }
    // At least one pointer's size beyond the base, which is aligned to that.
    let offset = ALIGN - base as usize % ALIGN;
    // SAFETY: `size + ALIGN` bytes lie from `base` on, so `size` from `base + offset`; the pointer before that is
    // within them and aligned.
    unsafe {
        let aligned = base.add(offset);
        aligned.cast::<*mut u8>().sub(1).write(base);
        aligned
    }
}

/// # Safety
/// The pointer came from [`allocate`] with this size and is not used any more.
pub(super) unsafe fn free(pointer: *mut u8, size: usize) {
    if pages::EXIST && size > HUGE {
        // SAFETY: `map` mapped these bytes, and nothing uses them. An error leaves them mapped, which is harmless.
        unsafe { pages::unmap(pointer as usize, size) };
        return;
    }
    if let Some(layout) = around(size) {
        // SAFETY: `allocate` kept the address of the block, made with this layout, before the pointer.
        unsafe { dealloc(pointer.cast::<*mut u8>().sub(1).read(), layout) }
    }
}

/// Pages of Linux. Addresses are numbers here: what lies behind them belongs to whoever mapped it.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) mod pages {
    use super::HUGE;
    use std::ptr;

    /// There are such functions.
    pub(in super::super) const EXIST: bool = true;

    const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
    const KIND: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

    /// The size of a page.
    pub(in super::super) fn size() -> usize {
        // SAFETY: asks for a number.
        unsafe { libc::sysconf(libc::_SC_PAGESIZE).max(4096) as usize }
    }

    fn advise(start: usize, length: usize) {
        // SAFETY: the advice changes no content; without it the pages are as good.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
    }

    /// Fresh pages, from a multiple of [`HUGE`] on; nothing when there are not that many.
    pub(in super::super) fn map(length: usize) -> Option<usize> {
        let around = length.checked_add(HUGE)?;
        // SAFETY: a fresh anonymous mapping, which touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), around, ACCESS, KIND, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let (base, start) = (base as usize, (base as usize).next_multiple_of(HUGE));
        let end = start + length.next_multiple_of(size());
        // SAFETY: `start - base <= HUGE` bytes before the block and what is left behind its last page are this mapping's own
        // and unused. If they stay mapped, the block is as good.
        unsafe {
            if start > base {
                unmap(base, start - base);
            }
            if end < base + around {
                unmap(end, base + around - end);
            }
        }
        advise(start, length);
        Some(start)
    }

    /// Fresh pages at a multiple of the page size, if nothing is there.
    pub(in super::super) fn map_at(start: usize, length: usize) -> bool {
        // SAFETY: without MAP_FIXED the address is a wish, so nothing that exists is touched.
        let base = unsafe { libc::mmap(start as *mut libc::c_void, length, ACCESS, KIND, -1, 0) };
        if base == libc::MAP_FAILED {
            return false;
        }
        if base as usize != start {
            // SAFETY: the mapping was just made and nobody knows of it.
            unsafe { unmap(base as usize, length) };
            return false;
        }
        advise(start, length);
        true
    }

    /// Gives pages back; false if the system refuses.
    ///
    /// # Safety
    /// They are mapped by [`map`] or [`map_at`], and nothing uses them.
    pub(in super::super) unsafe fn unmap(start: usize, length: usize) -> bool {
        // SAFETY: forwarded from the caller.
        unsafe { libc::munmap(start as *mut libc::c_void, length) == 0 }
    }

    /// Moves [`HUGE`] bytes of pages with what they hold to `to`, in the place of those that are there. Both are multiples of
    /// that. After a failure they are where they were, and it is unknown what is at `to`.
    ///
    /// # Safety
    /// Both are mapped by [`map`] or [`map_at`], do not overlap, and nothing uses them.
    pub(in super::super) unsafe fn relocate(from: usize, to: usize) -> bool {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: what is replaced at `to` and what is moved away is the caller's, and unused.
        let moved = unsafe { libc::mremap(from as *mut libc::c_void, HUGE, HUGE, flags, to as *mut libc::c_void) };
        moved != libc::MAP_FAILED
    }
}

/// No system whose pages are handled.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) mod pages {
    pub(in super::super) const EXIST: bool = false;

    pub(in super::super) fn size() -> usize {
        4096
    }

    pub(in super::super) fn map(_: usize) -> Option<usize> {
        None
    }

    pub(in super::super) fn map_at(_: usize, _: usize) -> bool {
        false
    }

    pub(in super::super) unsafe fn unmap(_: usize, _: usize) -> bool {
        false
    }

    pub(in super::super) unsafe fn relocate(_: usize, _: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_kind_are_zeroed_and_aligned() {
        for size in [1280, 106_496, 3 << 20, 10 << 20] {
            let block = allocate(size);
            assert_eq!(block as usize % 64, 0);
            for at in [0, size / 2, size - 1] {
                // SAFETY: within the block that was just allocated and is freed below.
                assert_eq!(unsafe { block.add(at).read() }, 0);
                // SAFETY: as above.
                unsafe { block.add(at).write(1) };
            }
            // SAFETY: allocated above with this size.
            unsafe { free(block, size) };
        }
    }
}
