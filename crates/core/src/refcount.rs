//! [`Ref`]: the shared pointer of tensors and storages, the slot for what autograd keeps with a tensor, and the thread-local
//! free lists that their blocks come from.
//!
//! No weak count, so a sole owner's drop needs a load and no atomic read-modify-write.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

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
    /// Bytes from the start of its block, which is aligned to [`blocks::ALIGN`], to the value.
    pub(crate) const VALUE: usize = std::mem::offset_of!(Inner<T>, value);

    /// Makes a value behind a new count of one: `write` writes it, whole, where it stays (see [`write_fields`]).
    ///
    /// # Safety
    /// When `write` returns, every field has a value. If it unwinds, what it wrote is lost, no more.
    #[inline(always)]
    pub(crate) unsafe fn new_in_place(write: impl FnOnce(*mut T)) -> Self {
        let block = blocks::allocate(Layout::new::<Inner<T>>()).cast::<Inner<T>>();
        // SAFETY: `block` is fresh memory of `Inner<T>`'s size, aligned to at least 64 bytes.
        unsafe { (&raw mut (*block.as_ptr()).count).write(AtomicUsize::new(1)) };
        // SAFETY: as above; the field lies within the block.
        write(unsafe { &raw mut (*block.as_ptr()).value });
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

/// Writes the fields of a struct where it lies, each by a store of its own. A literal would be built on the stack and moved
/// with its padding, by loads that wait for the stores before them: several nanoseconds for each tensor.
///
/// `field: value` writes a value, `field => write` calls a function with the field's address. To be used under `unsafe`: the
/// address is valid for writes of the struct, whose old value is not dropped. Every field is named, or it does not build.
macro_rules! write_fields {
    (@ $to:ident $field:ident : $value:expr) => { (&raw mut (*$to).$field).write($value) };
    (@ $to:ident $field:ident => $write:expr) => { $write(&raw mut (*$to).$field) };
    ($to:expr, $type:ident { $($field:ident $how:tt $value:expr),* $(,)? }) => {{
        let to: *mut $type = $to;
        let _every_field = |whole: &$type| {
            let $type { $($field: _),* } = whole;
        };
        $(write_fields!(@ to $field $how $value);)*
    }};
}
pub(crate) use write_fields;

/// A value of any type, made at first need and dropped with its owner: a `OnceLock<Box<dyn Any>>` whose value lies in a
/// block of the free lists, and whose race is one exchange.
#[derive(Default)]
pub(crate) struct Slot(AtomicPtr<Head>);

/// What is known of a slot's value without its type.
struct Head {
    of: TypeId,
    drop: unsafe fn(NonNull<Head>),
}

#[repr(C)]
struct Entry<T> {
    head: Head,
    value: T,
}

impl<T: Send + Sync + 'static> Entry<T> {
    /// # Safety
    /// `entry` is an `Entry<T>` of [`Slot::get_or_init`], and not used any more.
    unsafe fn drop(entry: NonNull<Head>) {
        let entry = entry.cast::<Self>();
        // SAFETY: forwarded from the caller: the value is dropped once, its block returned with its own layout.
        unsafe {
            entry.drop_in_place();
            blocks::release(entry.cast(), Layout::new::<Self>());
        }
    }
}

impl Slot {
    /// True if there is a value.
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }

    /// The value, if there is one of this type.
    #[inline]
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let head = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: what is published lives as long as the slot and is never changed; its head says which type follows.
        unsafe { (head.as_ref().of == TypeId::of::<T>()).then(|| &head.cast::<Entry<T>>().as_ref().value) }
    }

    /// The value, made now if there is none; `None` if there is one of another type. It begins as the default and is filled
    /// in where it stays: what is moved there is stored and loaded in different widths, which makes the loads wait.
    #[inline]
    pub(crate) fn get_or_init<T: Default + Send + Sync + 'static>(&self, fill: impl FnOnce(&mut T)) -> Option<&T> {
        const { assert!(size_of::<Entry<T>>() <= blocks::LARGEST && align_of::<Entry<T>>() <= blocks::ALIGN) };
        if self.is_some() {
            return self.get();
        }
        let mut block = blocks::allocate(Layout::new::<Entry<T>>()).cast::<Entry<T>>();
        let head = Head { of: TypeId::of::<T>(), drop: Entry::<T>::drop };
        // SAFETY: fresh memory of the entry's size, aligned to at least 64 bytes. If `fill` unwinds, it is lost, no more.
        unsafe {
            block.write(Entry { head, value: T::default() });
            fill(&mut block.as_mut().value);
        }
        let fresh = block.cast::<Head>().as_ptr();
        if self.0.compare_exchange(std::ptr::null_mut(), fresh, Ordering::Release, Ordering::Relaxed).is_ok() {
            // SAFETY: as in `get`; the type is the one that was just written.
            return Some(unsafe { &block.as_ref().value });
        }
        // SAFETY: another thread was faster, so this entry was not published and is dropped here once.
        unsafe { Entry::<T>::drop(block.cast()) };
        self.get()
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        if let Some(head) = NonNull::new(*self.0.get_mut()) {
            // SAFETY: the last owner drops the entry, whose head knows how, once.
            unsafe { (head.as_ref().drop)(head) };
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
        // SAFETY: the value is written whole.
        let a = unsafe { Ref::new_in_place(|to: *mut Flag<'_>| to.write(Flag(&dropped))) };
        let b = a.clone();
        assert_eq!(Ref::use_count(&a), 2);
        assert!(Ref::ptr_eq(&a, &b));
        drop(a);
        assert!(!dropped.load(Ordering::SeqCst));
        drop(b);
        assert!(dropped.load(Ordering::SeqCst));
    }

    #[test]
    fn a_slot_keeps_the_first_value() {
        let slot = Slot::default();
        assert!(!slot.is_some() && slot.get::<String>().is_none());
        std::thread::scope(|scope| {
            for i in 0..8 {
                let slot = &slot;
                scope.spawn(move || slot.get_or_init(|text| *text = format!("{i}")).map(String::len));
            }
        });
        let first = slot.get::<String>().unwrap();
        assert_eq!(slot.get_or_init(|text| *text = "later".to_owned()).unwrap(), first);
        assert!(slot.get::<usize>().is_none() && slot.get_or_init(|number: &mut usize| *number = 7).is_none());
    }

    #[test]
    fn a_slot_drops_its_value() {
        static DROPPED: AtomicBool = AtomicBool::new(false);
        let slot = Slot::default();
        slot.get_or_init(|flag: &mut Option<Flag<'static>>| *flag = Some(Flag(&DROPPED)));
        assert!(!DROPPED.load(Ordering::SeqCst));
        drop(slot);
        assert!(DROPPED.load(Ordering::SeqCst));
    }

    #[test]
    fn references_cross_threads() {
        // SAFETY: the value is written whole.
        let value = unsafe { Ref::new_in_place(|to: *mut usize| to.write(7)) };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let value = value.clone();
                scope.spawn(move || assert_eq!(*value, 7));
            }
        });
        assert_eq!(Ref::use_count(&value), 1);
    }
}
