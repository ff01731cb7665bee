//! Where storages get their memory: [`Allocator`] a device, [`DataPtr`], and the caching allocator of the host.
//!
//! Memory is always initialised: a new block is zeroed once, a recycled one holds old bytes. So `empty` is sound.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::refcount::blocks;
use crate::{Device, DeviceType, Result, bail};

/// What gives the memory of a [`DataPtr`] back.
pub enum Deleter {
    /// nothing to do
    None,
    /// a function of the pointer and its bytes, as allocated
    Function(unsafe fn(NonNull<u8>, usize)),
    /// a closure, run once: the owner of borrowed memory
    Closure(Box<dyn FnOnce() + Send + Sync>),
}

/// Owned memory on a device.
pub struct DataPtr {
    pointer: *mut u8,
    nbytes: usize,
    device: Device,
    deleter: Deleter,
}

// SAFETY: a DataPtr is the only owner of its memory, and its deleter may run on any thread.
unsafe impl Send for DataPtr {}
// SAFETY: a shared DataPtr gives out nothing but the address.
unsafe impl Sync for DataPtr {}

impl DataPtr {
    /// Memory that `deleter` gives back.
    ///
    /// # Safety
    /// `pointer` is valid for reads and writes of `nbytes` initialised bytes on `device`, by this owner alone, until the
    /// deleter has run (null for the meta device).
    #[inline]
    pub unsafe fn new(pointer: *mut u8, nbytes: usize, device: Device, deleter: Deleter) -> Self {
        Self { pointer, nbytes, device, deleter }
    }

    /// The address; null on the meta device and for empty memory.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// Where the memory lies.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The bytes that may be used.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }
}

impl Drop for DataPtr {
    #[inline]
    fn drop(&mut self) {
        match std::mem::replace(&mut self.deleter, Deleter::None) {
            Deleter::None => {}
            Deleter::Function(release) => {
                if let Some(pointer) = NonNull::new(self.pointer) {
                    // SAFETY: the maker of this DataPtr paired the pointer with its release function; it runs once.
                    unsafe { release(pointer, self.nbytes) }
                }
            }
            Deleter::Closure(release) => release(),
        }
    }
}

/// Gives out memory of one kind of device.
pub trait Allocator: Send + Sync {
    /// Initialised memory of at least `nbytes` bytes, 64-byte aligned.
    ///
    /// # Errors
    /// `OutOfMemory` when the device has not that much.
    fn allocate(&self, nbytes: usize, device: Device) -> Result<DataPtr>;

    /// Copies bytes within the device.
    ///
    /// # Safety
    /// Both are memory of this allocator's device, valid for `nbytes`, and do not overlap.
    unsafe fn copy(&self, to: *mut u8, from: *const u8, nbytes: usize);

    /// What is in use and what is kept.
    fn stats(&self) -> MemoryStats;

    /// Gives kept memory back to the system.
    fn empty_cache(&self);
}

/// Bytes of an allocator (`torch.cuda.memory_stats`' main figures).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// in use by storages
    pub allocated: usize,
    /// the most that was in use at once
    pub peak: usize,
    /// kept for reuse
    pub cached: usize,
}

static ALLOCATORS: [OnceLock<&'static dyn Allocator>; DeviceType::ALL.len()] =
    [const { OnceLock::new() }; DeviceType::ALL.len()];

/// Registers the allocator of a kind of device. The first one stays.
pub fn register(kind: DeviceType, allocator: &'static dyn Allocator) {
    let _ = ALLOCATORS[kind as usize].set(allocator);
}

/// The allocator of a device.
///
/// # Errors
/// `Runtime` when no linked crate brings that device's backend.
pub fn of(device: Device) -> Result<&'static dyn Allocator> {
    match device.kind() {
        DeviceType::Cpu => Ok(&CPU),
        DeviceType::Meta => Ok(&MetaAllocator),
        kind => match ALLOCATORS[kind as usize].get() {
            Some(allocator) => Ok(*allocator),
            None => bail!(
                Runtime,
                "The '{}' backend is not linked into this program: enable it with the `{}` feature of the crate `tensor`",
                device,
                kind.name()
            ),
        },
    }
}

/// The meta device has no memory.
struct MetaAllocator;

impl Allocator for MetaAllocator {
    fn allocate(&self, nbytes: usize, device: Device) -> Result<DataPtr> {
        // SAFETY: null memory of the meta device is never read.
        Ok(unsafe { DataPtr::new(std::ptr::null_mut(), nbytes, device, Deleter::None) })
    }
    unsafe fn copy(&self, _: *mut u8, _: *const u8, _: usize) {}
    fn stats(&self) -> MemoryStats {
        MemoryStats::default()
    }
    fn empty_cache(&self) {}
}

/// The allocator of the host: small blocks from thread-local lists, larger ones kept by size class.
///
/// Fresh pages cost more than arithmetic on them, so freed blocks are kept up to [`CpuAllocator::KEEP`] bytes.
pub struct CpuAllocator {
    kept: [Mutex<Vec<usize>>; Class::COUNT],
    allocated: AtomicUsize,
    peak: AtomicUsize,
    cached: AtomicUsize,
}

/// The one allocator of the host.
pub static CPU: CpuAllocator = CpuAllocator {
    kept: [const { Mutex::new(Vec::new()) }; Class::COUNT],
    allocated: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
    cached: AtomicUsize::new(0),
};

/// A size of large blocks: eight to a power of two, so at most an eighth is wasted.
#[derive(Clone, Copy)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    const COUNT: usize = 53 * 8;

    /// The class of a size above [`blocks::LARGEST`] and at most a quarter of the address space.
    #[inline]
    fn of(nbytes: usize) -> Self {
        let bits = usize::BITS - (nbytes - 1).leading_zeros();
        let shift = bits - 4;
        let sixteenths = nbytes.div_ceil(1 << shift);
        Self { index: (bits as usize - 11) * 8 + sixteenths - 9, size: sixteenths << shift }
    }
}

impl CpuAllocator {
    /// The bytes that are kept at most. None under a sanitizer, which finds a use of what was given back.
    pub const KEEP: usize = if cfg!(tensor_uncached) { 0 } else { 4 << 30 };

    /// A small block: see [`is_small`].
    #[inline(always)]
    pub(crate) fn small(&self, nbytes: usize) -> DataPtr {
        debug_assert!(is_small(nbytes));
        // SAFETY: the size is below 1 KiB and the alignment a power of two.
        let layout = unsafe { Layout::from_size_align_unchecked(nbytes, blocks::ALIGN) };
        let block = blocks::allocate(layout);
        // SAFETY: a block is initialised, at least `nbytes` long, and ours until `release_small`.
        unsafe { DataPtr::new(block.as_ptr(), nbytes, Device::CPU, Deleter::Function(release_small)) }
    }

    #[inline]
    fn count(&self, nbytes: usize) {
        let now = self.allocated.fetch_add(nbytes, Ordering::Relaxed) + nbytes;
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }
}

/// True for sizes that [`CpuAllocator::small`] allocates.
#[inline]
pub(crate) fn is_small(nbytes: usize) -> bool {
    (1..=blocks::LARGEST).contains(&nbytes)
}

/// # Safety
/// The pointer came from [`CpuAllocator::allocate`] with these bytes, above the largest small block.
unsafe fn release_large(pointer: NonNull<u8>, nbytes: usize) {
    let class = Class::of(nbytes);
    CPU.allocated.fetch_sub(nbytes, Ordering::Relaxed);
    if CPU.cached.load(Ordering::Relaxed) + class.size <= CpuAllocator::KEEP {
        CPU.cached.fetch_add(class.size, Ordering::Relaxed);
        CPU.kept[class.index].lock().push(pointer.as_ptr() as usize);
    } else {
        // SAFETY: the block was made with this class's size and has no owner any more.
        unsafe { system::free(pointer.as_ptr(), class.size) }
    }
}

/// Memory of the system: zeroed and 64-byte aligned, its pages not touched before they are used. An aligned request of the
/// standard allocator would write them all.
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr;

    use super::blocks::ALIGN;

    /// Above this size the system is asked for huge pages, whose first touch costs a quarter a byte.
    #[cfg(all(target_os = "linux", not(miri)))]
    const HUGE: usize = 2 << 20;

    /// The block within which aligned memory lies: its address is kept before that.
    fn around(size: usize) -> Option<Layout> {
        Layout::from_size_align(size.checked_add(ALIGN)?, align_of::<*mut u8>()).ok()
    }

    /// Memory of a size that is not 0; null when there is not that much.
    pub(super) fn allocate(size: usize) -> *mut u8 {
        #[cfg(all(target_os = "linux", not(miri)))]
        if size > HUGE {
            return map(size);
        }
        let Some(layout) = around(size) else { return ptr::null_mut() };
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
        #[cfg(all(target_os = "linux", not(miri)))]
        if size > HUGE {
            // SAFETY: `map` mapped these bytes, and nothing uses them. An error leaves them mapped, which is harmless.
            unsafe { libc::munmap(pointer.cast(), size) };
            return;
        }
        if let Some(layout) = around(size) {
            // SAFETY: `allocate` kept the address of the block, made with this layout, before the pointer.
            unsafe { dealloc(pointer.cast::<*mut u8>().sub(1).read(), layout) }
        }
    }

    /// Fresh pages, from a multiple of [`HUGE`] on; null when there are not that many.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn map(size: usize) -> *mut u8 {
        let Some(length) = size.checked_add(HUGE) else { return ptr::null_mut() };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping, which touches nothing that exists.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, access, kind, -1, 0) };
        if base == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let base = base.cast::<u8>();
        let before = base.align_offset(HUGE);
        // SAFETY: `before <= HUGE` bytes before the block and `HUGE - before` behind its last page are this mapping's own and
        // unused. The advice changes no content; without it, or if parts stay mapped, the block is as good.
        unsafe {
            let block = base.add(before);
            if before > 0 {
                libc::munmap(base.cast(), before);
            }
            let page = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
            let end = size.next_multiple_of(page);
            if before + end < length {
                libc::munmap(block.add(end).cast(), length - before - end);
            }
            libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
            block
        }
    }
}

/// # Safety
/// The pointer came from [`CpuAllocator::allocate`] with these bytes, at most the largest small block.
unsafe fn release_small(pointer: NonNull<u8>, nbytes: usize) {
    // SAFETY: forwarded from the caller; the size is below 1 KiB, so the layout is valid.
    unsafe { blocks::release(pointer, Layout::from_size_align_unchecked(nbytes, blocks::ALIGN)) }
}

impl Allocator for CpuAllocator {
    #[inline]
    fn allocate(&self, nbytes: usize, device: Device) -> Result<DataPtr> {
        if nbytes == 0 {
            // SAFETY: no byte is valid behind a null pointer of length 0.
            return Ok(unsafe { DataPtr::new(std::ptr::null_mut(), 0, device, Deleter::None) });
        }
        if nbytes <= blocks::LARGEST {
            return Ok(self.small(nbytes));
        }
        let pointer = if nbytes > isize::MAX as usize / 2 {
            std::ptr::null_mut()
        } else {
            let class = Class::of(nbytes);
            let kept = self.kept[class.index].lock().pop();
            match kept {
                Some(address) => {
                    self.cached.fetch_sub(class.size, Ordering::Relaxed);
                    address as *mut u8
                }
                None => system::allocate(class.size),
            }
        };
        if pointer.is_null() {
            bail!(
                Runtime,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. Error code 12 (Cannot \
                 allocate memory)"
            );
        }
        self.count(nbytes);
        // SAFETY: the block is as long as its class, at least `nbytes` bytes, initialised, and ours until `release_large`.
        Ok(unsafe { DataPtr::new(pointer, nbytes, device, Deleter::Function(release_large)) })
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, nbytes: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, to, nbytes) }
    }

    fn stats(&self) -> MemoryStats {
        MemoryStats {
            allocated: self.allocated.load(Ordering::Relaxed),
            peak: self.peak.load(Ordering::Relaxed),
            cached: self.cached.load(Ordering::Relaxed),
        }
    }

    fn empty_cache(&self) {
        for (index, kept) in self.kept.iter().enumerate() {
            let (bits, sixteenths) = (index / 8 + 11, index % 8 + 9);
            let size = sixteenths << (bits - 4);
            for address in std::mem::take(&mut *kept.lock()) {
                self.cached.fetch_sub(size, Ordering::Relaxed);
                // SAFETY: every kept block was made with its class's size and has no owner.
                unsafe { system::free(address as *mut u8, size) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(tensor_uncached, ignore = "nothing is kept")]
    fn freed_blocks_are_reused_and_counted() {
        let block = CPU.allocate(1 << 20, Device::CPU).unwrap();
        let address = block.as_ptr() as usize;
        assert_eq!(address % 64, 0);
        drop(block);
        assert!(CPU.stats().cached >= 1 << 20);
        assert_eq!(CPU.allocate(1 << 20, Device::CPU).unwrap().as_ptr() as usize, address);
    }

    #[test]
    fn classes_hold_their_sizes() {
        for bits in 11..40 {
            for nbytes in [(1 << (bits - 1)) + 1, 3 << (bits - 2), (1 << bits) - 1, 1 << bits] {
                let class = Class::of(nbytes);
                assert!(class.size >= nbytes && class.size - nbytes <= nbytes / 8 + 1, "{nbytes}");
                assert_eq!(Class::of(class.size).index, class.index);
                assert_eq!(class.size, (class.index % 8 + 9) << (class.index / 8 + 7));
            }
        }
    }

    #[test]
    fn blocks_of_every_kind_are_zeroed_and_aligned() {
        for nbytes in [1025, 100_000, 3 << 20, (9 << 20) + 77] {
            let size = Class::of(nbytes).size;
            let block = system::allocate(size);
            assert_eq!(block as usize % 64, 0);
            for at in [0, nbytes / 2, size - 1] {
                // SAFETY: within the block that was just allocated and is freed below.
                assert_eq!(unsafe { block.add(at).read() }, 0);
                // SAFETY: as above.
                unsafe { block.add(at).write(1) };
            }
            // SAFETY: allocated above with this size.
            unsafe { system::free(block, size) };
        }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        assert!(CPU.allocate(usize::MAX, Device::CPU).is_err());
        assert!(CPU.allocate(1 << 60, Device::CPU).is_err());
    }

    #[test]
    fn a_backend_that_is_not_linked_says_how_to_enable_it() {
        let Err(error) = of(Device::cuda(0)) else { panic!("no cuda here") };
        assert!(error.message().contains("`cuda` feature"));
    }
}
