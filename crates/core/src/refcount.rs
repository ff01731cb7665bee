//! [`Ref`]: the shared pointer of tensors and storages, and the thread-local free lists that its blocks come from.
//!
//! No weak count, so a sole owner's drop needs a load and no atomic read-modify-write.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

#[repr(C)]
struct Inner<T> {
    count: AtomicUsize,
    value: T,
}

/// A counted reference to a `T` that never moves.
pub struct Ref<T>(NonNull<Inner<T>>);

// SAFETY: as for `Arc`: the count is atomic, and `T: Send + Sync` lets any thread read or drop the value.
unsafe impl<T: Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Ref<T> {}

impl<T> Ref<T> {
    /// Moves a value behind a new count of one.
    #[inline]
    pub fn new(value: T) -> Self {
        Self::new_with(|| value)
    }

    /// Makes a value behind a new count of one: in its place, where the compiler inlines `make`.
    #[inline(always)]
    pub fn new_with(make: impl FnOnce() -> T) -> Self {
        let block = blocks::allocate(Layout::new::<Inner<T>>()).cast::<Inner<T>>();
        // SAFETY: `block` is fresh memory of `Inner<T>`'s size, aligned to at least 64 bytes. If `make` unwinds, the block
        // is lost, no more.
        unsafe { block.write(Inner { count: AtomicUsize::new(1), value: make() }) };
        Self(block)
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: the block lives while any `Ref` to it does, and is only read through shared references.
        unsafe { self.0.as_ref() }
    }

    /// How many references there are.
    #[inline]
    pub fn use_count(this: &Self) -> usize {
        this.inner().count.load(Ordering::Acquire)
    }

    /// True if both point to the same value.
    #[inline]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.0 == b.0
    }

    /// The address of the value: its identity.
    #[inline]
    pub fn address(this: &Self) -> usize {
        this.0.as_ptr() as usize
    }
}

impl<T> Clone for Ref<T> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed is enough: the new reference is made from an existing one.
        let old = self.inner().count.fetch_add(1, Ordering::Relaxed);
        if old > isize::MAX as usize {
            // A count that overflows would free a live value; `Arc` aborts here as well.
            std::process::abort();
        }
        Self(self.0)
    }
}

impl<T> Drop for Ref<T> {
    #[inline]
    fn drop(&mut self) {
        let count = &self.inner().count;
        // Without weak references a sole owner stays the sole owner: nobody else can clone.
        if count.load(Ordering::Acquire) != 1 {
            if count.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        // SAFETY: this was the last reference; the value is dropped once and its block returned with its own layout.
        unsafe {
            self.0.as_ptr().drop_in_place();
            blocks::release(self.0.cast(), Layout::new::<Inner<T>>());
        }
    }
}

impl<T> Deref for Ref<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The one owner of a value in a block: a `Box` of up to [`blocks::LARGEST`] bytes from the free lists.
pub(crate) struct Unique<T>(NonNull<T>);

// SAFETY: as for `Box`.
unsafe impl<T: Send> Send for Unique<T> {}
// SAFETY: as for `Box`.
unsafe impl<T: Sync> Sync for Unique<T> {}

impl<T> Unique<T> {
    /// Makes a value in a block: in its place, where the compiler inlines `make`.
    #[inline(always)]
    pub(crate) fn new_with(make: impl FnOnce() -> T) -> Self {
        const { assert!(size_of::<T>() <= blocks::LARGEST && align_of::<T>() <= blocks::ALIGN) };
        let block = blocks::allocate(Layout::new::<T>()).cast::<T>();
        // SAFETY: `block` is fresh memory of `T`'s size, aligned to at least 64 bytes. If `make` unwinds, it is lost, no more.
        unsafe { block.write(make()) };
        Self(block)
    }
}

impl<T> Deref for Unique<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as its one owner.
        unsafe { self.0.as_ref() }
    }
}

impl<T> std::ops::DerefMut for Unique<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the owner is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Unique<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the one owner drops the value once and returns its block with its own layout.
        unsafe {
            self.0.as_ptr().drop_in_place();
            blocks::release(self.0.cast(), Layout::new::<T>());
        }
    }
}

/// Blocks of up to 1 KiB from thread-local free lists, 64-byte aligned, zeroed when new.
pub(crate) mod blocks {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::cell::UnsafeCell;
    use std::ptr::NonNull;

    /// Every block is aligned to a cache line.
    pub(crate) const ALIGN: usize = 64;
    const CLASSES: usize = 16;
    /// The largest block that is kept.
    pub(crate) const LARGEST: usize = ALIGN * CLASSES;
    /// Blocks of one size that a thread keeps. None under a sanitizer, which finds a use of what was given back.
    const KEEP: usize = if cfg!(tensor_uncached) { 0 } else { 256 };

    struct Lists([Vec<NonNull<u8>>; CLASSES]);

    impl Drop for Lists {
        fn drop(&mut self) {
            for (class, list) in self.0.iter_mut().enumerate() {
                for block in list.drain(..) {
                    // SAFETY: every block of list `class` was made by `fresh(class)`.
                    unsafe { dealloc(block.as_ptr(), layout(class)) };
                }
            }
        }
    }

    thread_local! {
        static LISTS: UnsafeCell<Lists> = const { UnsafeCell::new(Lists([const { Vec::new() }; CLASSES])) };
    }

    #[inline]
    fn layout(class: usize) -> Layout {
        let size = (class + 1) * ALIGN;
        Layout::from_size_align(size, ALIGN).unwrap_or_else(|_| unreachable!("a size below 1 KiB fits any layout"))
    }

    #[cold]
    fn fresh(class: usize) -> NonNull<u8> {
        let layout = layout(class);
        // SAFETY: the layout's size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
    }

    #[inline(always)]
    fn class_of(size: usize) -> usize {
        size.saturating_sub(1) / ALIGN
    }

    /// A block of at least `layout.size()` bytes (at most [`LARGEST`]), its bytes initialised.
    #[inline]
    pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
        debug_assert!(layout.size() <= LARGEST && layout.align() <= ALIGN);
        let class = class_of(layout.size());
        let kept = LISTS.try_with(|lists| {
            // SAFETY: the lists are this thread's, and no other reference lives: `pop` calls nothing of ours.
            unsafe { (&mut (*lists.get()).0)[class].pop() }
        });
        kept.ok().flatten().unwrap_or_else(|| fresh(class))
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// `block` came from [`allocate`] with this layout and is not used any more.
    #[inline]
    pub(crate) unsafe fn release(block: NonNull<u8>, layout: Layout) {
        let class = class_of(layout.size());
        let kept = LISTS.try_with(|lists| {
            // SAFETY: the lists are this thread's, and no other reference lives: `push` calls nothing of ours.
            let list = unsafe { &mut (&mut (*lists.get()).0)[class] };
            let keep = list.len() < KEEP;
            if keep {
                list.push(block);
            }
            keep
        });
        if kept != Ok(true) {
            // SAFETY: the caller gives up a block that `fresh(class)` made.
            unsafe { dealloc(block.as_ptr(), self::layout(class)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    struct Flag<'a>(&'a AtomicBool);
    impl Drop for Flag<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_last_reference_drops_the_value() {
        let dropped = AtomicBool::new(false);
        let a = Ref::new(Flag(&dropped));
        let b = a.clone();
        assert_eq!(Ref::use_count(&a), 2);
        assert!(Ref::ptr_eq(&a, &b));
        drop(a);
        assert!(!dropped.load(Ordering::SeqCst));
        drop(b);
        assert!(dropped.load(Ordering::SeqCst));
    }

    #[test]
    fn references_cross_threads() {
        let value = Ref::new(7usize);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let value = value.clone();
                scope.spawn(move || assert_eq!(*value, 7));
            }
        });
        assert_eq!(Ref::use_count(&value), 1);
    }
}
