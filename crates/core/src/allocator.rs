//! Where storages get their memory: [`Allocator`] a device, [`DataPtr`], and the caching allocator of the host.
//!
//! Memory is always initialised: a new block is zeroed once, a recycled one holds old bytes. So `empty` is sound.
#![allow(unsafe_code)]

mod ranges;
mod system;

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use ranges::Ranges;

use crate::refcount::blocks;
use crate::{Device, DeviceType, Result, bail};

/// What gives the memory of a [`DataPtr`] back.
pub enum Deleter {
    /// nothing to do
    None,
    /// a function of the pointer and its bytes, as allocated
    Function(unsafe fn(NonNull<u8>, usize)),
    /// a closure, run once: the owner of borrowed memory; behind a thin pointer, which few deleters have to follow
    Closure(Box<Box<dyn FnOnce() + Send + Sync>>),
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

    /// Address, bytes, device and deleter, for an owner who keeps them apart and gives the memory back with them.
    #[inline(always)]
    pub(crate) fn into_parts(mut self) -> (*mut u8, usize, Device, Deleter) {
        let deleter = std::mem::replace(&mut self.deleter, Deleter::None);
        (self.pointer, self.nbytes, self.device, deleter)
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

/// The allocator of the host: small blocks from thread-local lists, medium ones kept by size class, large ones cut from
/// ranges of pages.
///
/// Fresh pages cost more than arithmetic on them, so freed blocks are kept up to [`CpuAllocator::KEEP`] bytes. None waits for
/// its like while others grow: before pages are mapped, medium blocks join the ranges.
pub struct CpuAllocator {
    kept: [Mutex<Vec<usize>>; Class::COUNT],
    ranges: Ranges,
    allocated: AtomicUsize,
    peak: AtomicUsize,
    /// in `kept`
    cached: AtomicUsize,
}

/// The one allocator of the host.
pub static CPU: CpuAllocator = CpuAllocator::new();

/// Whether blocks are cut from pages at all; else all are medium.
const PAGED: bool = system::pages::EXIST && !cfg!(tensor_uncached);

/// Blocks of more bytes are large.
const MEDIUM: usize = if PAGED { 1 << 20 } else { usize::MAX };

/// Medium blocks of more bytes are cut from pages too, so that they can join them; others are the standard allocator's.
const CUT: usize = if PAGED { 64 << 10 } else { usize::MAX };

/// A size of medium blocks: eight to a power of two, so at most an eighth is wasted.
#[derive(Clone, Copy)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    const COUNT: usize = 53 * 8;

    /// A class by its number.
    fn at(index: usize) -> Self {
        Self { index, size: (index % 8 + 9) << (index / 8 + 7) }
    }

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

    const fn new() -> Self {
        Self {
            kept: [const { Mutex::new(Vec::new()) }; Class::COUNT],
            ranges: Ranges::new(),
            allocated: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            cached: AtomicUsize::new(0),
        }
    }

    /// Initialised memory of that many bytes, aligned to a cache line, and what gives it back; null for none.
    ///
    /// # Errors
    /// When there is not that much.
    #[inline(always)]
    pub(crate) fn memory(&self, nbytes: usize) -> Result<(*mut u8, Deleter)> {
        if nbytes == 0 {
            return Ok((std::ptr::null_mut(), Deleter::None));
        }
        if nbytes <= blocks::LARGEST {
            // SAFETY: the size is at most 1 KiB and the alignment a power of two.
            let layout = unsafe { Layout::from_size_align_unchecked(nbytes, blocks::ALIGN) };
            return Ok((blocks::allocate(layout).as_ptr(), Deleter::Function(release_small)));
        }
        let pointer = if nbytes > isize::MAX as usize / 2 { std::ptr::null_mut() } else { self.block(nbytes) };
        if pointer.is_null() {
            bail!(
                Runtime,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. Error code 12 (Cannot \
                 allocate memory)"
            );
        }
        self.count(nbytes);
        Ok((pointer, Deleter::Function(release_large)))
    }

    #[inline]
    fn count(&self, nbytes: usize) {
        let now = self.allocated.fetch_add(nbytes, Ordering::Relaxed) + nbytes;
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// A block of more than the largest small one; null when there is not that much.
    #[inline]
    fn block(&self, nbytes: usize) -> *mut u8 {
        if nbytes > MEDIUM {
            return self.cut(nbytes);
        }
        let class = Class::of(nbytes);
        let kept = self.kept[class.index].lock().pop();
        if let Some(address) = kept {
            self.cached.fetch_sub(class.size, Ordering::Relaxed);
            return address as *mut u8;
        }
        if nbytes > CUT { self.cut(class.size) } else { system::allocate(class.size) }
    }

    /// A block from the ranges.
    fn cut(&self, size: usize) -> *mut u8 {
        let block = self.ranges.take(size).or_else(|| {
            self.join();
            self.ranges.take(size).or_else(|| self.ranges.grow(size))
        });
        block.unwrap_or(0) as *mut u8
    }

    /// Kept blocks that were cut from the ranges join them again.
    fn join(&self) {
        self.drain(Class::of(CUT).index + 1..Class::of(MEDIUM).index + 1);
    }

    /// Gives kept blocks of some classes back to where they came from.
    fn drain(&self, classes: std::ops::Range<usize>) {
        for class in classes.map(Class::at) {
            for address in std::mem::take(&mut *self.kept[class.index].lock()) {
                self.cached.fetch_sub(class.size, Ordering::Relaxed);
                // SAFETY: `block` made every kept block with its class's size, and it has no owner.
                unsafe { self.discard(address as *mut u8, class.size, usize::MAX) }
            }
        }
    }

    /// Gives a medium block back to where it came from; ranges keep at most `room` bytes.
    ///
    /// # Safety
    /// The pointer came from [`CpuAllocator::block`] with this size of a class, and is not used any more.
    unsafe fn discard(&self, pointer: *mut u8, size: usize, room: usize) {
        // SAFETY: forwarded from the caller; `block` decides by the same bound.
        unsafe { if size > CUT { self.ranges.give(pointer as usize, size, room) } else { system::free(pointer, size) } }
    }

    /// Takes a block of [`CpuAllocator::block`] back.
    ///
    /// # Safety
    /// The pointer came from there with these bytes, and is not used any more.
    unsafe fn take_back(&self, pointer: *mut u8, nbytes: usize) {
        let room = Self::KEEP.saturating_sub(self.cached.load(Ordering::Relaxed));
        if nbytes > MEDIUM {
            // SAFETY: the block was cut with this size (forwarded from the caller).
            return unsafe { self.ranges.give(pointer as usize, nbytes, room) };
        }
        let class = Class::of(nbytes);
        if self.ranges.bytes() + class.size > room {
            // SAFETY: forwarded from the caller.
            return unsafe { self.discard(pointer, class.size, room) };
        }
        self.cached.fetch_add(class.size, Ordering::Relaxed);
        self.kept[class.index].lock().push(pointer as usize);
    }
}

/// # Safety
/// The pointer came from [`CpuAllocator::allocate`] with these bytes, above the largest small block.
unsafe fn release_large(pointer: NonNull<u8>, nbytes: usize) {
    CPU.allocated.fetch_sub(nbytes, Ordering::Relaxed);
    // SAFETY: forwarded from the caller.
    unsafe { CPU.take_back(pointer.as_ptr(), nbytes) }
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
        let (pointer, deleter) = self.memory(nbytes)?;
        // SAFETY: the memory is `nbytes` bytes long, initialised, and ours until its deleter has run.
        Ok(unsafe { DataPtr::new(pointer, nbytes, device, deleter) })
    }

    unsafe fn copy(&self, to: *mut u8, from: *const u8, nbytes: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, to, nbytes) }
    }

    fn stats(&self) -> MemoryStats {
        MemoryStats {
            allocated: self.allocated.load(Ordering::Relaxed),
            peak: self.peak.load(Ordering::Relaxed),
            cached: self.cached.load(Ordering::Relaxed) + self.ranges.bytes(),
        }
    }

    fn empty_cache(&self) {
        self.drain(0..Class::COUNT);
        self.ranges.empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(tensor_uncached, ignore = "nothing is kept")]
    fn freed_blocks_are_reused_and_counted() {
        // No other test has this size, nor takes it for a larger one.
        let block = CPU.allocate(60_000, Device::CPU).unwrap();
        let address = block.as_ptr() as usize;
        assert_eq!(address % 64, 0);
        drop(block);
        assert!(CPU.stats().cached >= 60_000);
        assert_eq!(CPU.allocate(60_000, Device::CPU).unwrap().as_ptr() as usize, address);
    }

    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "classes alone")]
    #[cfg_attr(any(miri, tensor_uncached), ignore = "nothing is kept")]
    fn medium_blocks_join_what_large_ones_are_cut_from() {
        let host = CpuAllocator::new();
        let medium: Vec<*mut u8> = (0..64).map(|_| host.block(100_000)).collect();
        for &block in &medium {
            // SAFETY: of `block` with this size.
            unsafe { host.take_back(block, 100_000) }
        }
        let kept = host.stats().cached;
        let large = host.block(6 << 20);
        assert!(host.stats().cached < kept - (6 << 20) + (1 << 16));
        // SAFETY: of `block` with this size.
        unsafe { host.take_back(large, 6 << 20) }
        host.empty_cache();
        assert_eq!(host.stats().cached, 0);
    }

    #[test]
    fn classes_hold_their_sizes() {
        for bits in 11..40 {
            for nbytes in [(1 << (bits - 1)) + 1, 3 << (bits - 2), (1 << bits) - 1, 1 << bits] {
                let class = Class::of(nbytes);
                assert!(class.size >= nbytes && class.size - nbytes <= nbytes / 8 + 1, "{nbytes}");
                assert_eq!(Class::of(class.size).index, class.index);
                assert_eq!(class.size, Class::at(class.index).size);
            }
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
