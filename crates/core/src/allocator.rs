//! Where storages get their memory: [`Allocator`] a device, [`DataPtr`], and the caching allocator of the host.
//!
//! Memory is always initialised: a new block is zeroed once, a recycled one holds old bytes. So `empty` is sound.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::collections::BTreeMap;
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
    pub unsafe fn new(pointer: *mut u8, nbytes: usize, device: Device, deleter: Deleter) -> Self {
        Self { pointer, nbytes, device, deleter }
    }

    /// The address; null on the meta device and for empty memory.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// Where the memory lies.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The bytes that may be used.
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
    kept: Mutex<BTreeMap<usize, Vec<usize>>>,
    allocated: AtomicUsize,
    peak: AtomicUsize,
    cached: AtomicUsize,
}

/// The one allocator of the host.
pub static CPU: CpuAllocator = CpuAllocator {
    kept: Mutex::new(BTreeMap::new()),
    allocated: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
    cached: AtomicUsize::new(0),
};

impl CpuAllocator {
    /// The bytes that are kept at most.
    pub const KEEP: usize = 4 << 30;

    /// Size classes: eight to a power of two, so at most an eighth is wasted.
    fn class(nbytes: usize) -> usize {
        let step = (nbytes.next_power_of_two() / 16).max(blocks::ALIGN);
        nbytes.div_ceil(step) * step
    }

    fn count(&self, nbytes: usize) {
        let now = self.allocated.fetch_add(nbytes, Ordering::Relaxed) + nbytes;
        if now > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(now, Ordering::Relaxed);
        }
    }
}

/// # Safety
/// The pointer came from [`CpuAllocator::allocate`] with these bytes, above the largest small block.
unsafe fn release_large(pointer: NonNull<u8>, nbytes: usize) {
    let class = CpuAllocator::class(nbytes);
    CPU.allocated.fetch_sub(nbytes, Ordering::Relaxed);
    if CPU.cached.load(Ordering::Relaxed) + class <= CpuAllocator::KEEP {
        CPU.cached.fetch_add(class, Ordering::Relaxed);
        CPU.kept.lock().entry(class).or_default().push(pointer.as_ptr() as usize);
    } else if let Ok(layout) = Layout::from_size_align(class, blocks::ALIGN) {
        // SAFETY: the block was allocated with this class's layout.
        unsafe { std::alloc::dealloc(pointer.as_ptr(), layout) }
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
            // SAFETY: the size is below 1 KiB and the alignment a power of two.
            let layout = unsafe { Layout::from_size_align_unchecked(nbytes, blocks::ALIGN) };
            let block = blocks::allocate(layout);
            // SAFETY: a block is initialised, at least `nbytes` long, and ours until `release_small`.
            return Ok(unsafe { DataPtr::new(block.as_ptr(), nbytes, device, Deleter::Function(release_small)) });
        }
        let class = if nbytes > isize::MAX as usize / 2 { usize::MAX } else { Self::class(nbytes) };
        let kept = self.kept.lock().get_mut(&class).and_then(Vec::pop);
        let pointer = match kept {
            Some(address) => {
                self.cached.fetch_sub(class, Ordering::Relaxed);
                address as *mut u8
            }
            None => match Layout::from_size_align(class, blocks::ALIGN) {
                // SAFETY: the layout's size is not zero.
                Ok(layout) => unsafe { std::alloc::alloc_zeroed(layout) },
                Err(_) => std::ptr::null_mut(),
            },
        };
        if pointer.is_null() {
            bail!(
                Runtime,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. Error code 12 (Cannot \
                 allocate memory)"
            );
        }
        self.count(nbytes);
        // SAFETY: the block is `class >= nbytes` bytes, initialised, and ours until `release_large`.
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
        let kept = std::mem::take(&mut *self.kept.lock());
        for (class, list) in kept {
            for address in list {
                self.cached.fetch_sub(class, Ordering::Relaxed);
                if let Ok(layout) = Layout::from_size_align(class, blocks::ALIGN) {
                    // SAFETY: every kept block of a class was allocated with the class's layout and has no owner.
                    unsafe { std::alloc::dealloc(address as *mut u8, layout) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_reused_and_counted() {
        let block = CPU.allocate(1 << 20, Device::CPU).unwrap();
        let address = block.as_ptr() as usize;
        assert_eq!(address % 64, 0);
        drop(block);
        assert!(CPU.stats().cached >= 1 << 20);
        assert_eq!(CPU.allocate(1 << 20, Device::CPU).unwrap().as_ptr() as usize, address);
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
