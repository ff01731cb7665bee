//! [`Storage`]: untyped bytes that tensors view, with the lock that a running kernel holds.
//!
//! Two guards exist. [`Access`] is the kernels' one: it locks the distinct storages of a call in address order, checks
//! that no slice of them is out, and gives raw pointers until it is dropped. [`Borrow`] is the users' one: it only counts
//! (n readers or one writer, as `RefCell` does), so nobody ever waits for a guard; a conflict is an error at once.
#![allow(unsafe_code)]

mod access;

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

pub use self::access::Access;
use self::access::Hold;
use crate::allocator::{self, DataPtr, Deleter};
use crate::refcount::{blocks, write_fields};
use crate::{Device, Ref, Result, bail, check};
use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;

/// A shared reference to a block of bytes on a device. Cloning shares the bytes.
#[derive(Clone)]
pub struct Storage(Ref<StorageImpl>);

/// With its count of references the state fills one cache line; what follows in its block is the memory of small storages.
#[repr(C)]
struct StorageImpl {
    lock: RawRwLock,
    /// Readers that are out, or -1 for a writer. Changed under the lock only.
    borrowed: AtomicIsize,
    pointer: AtomicPtr<u8>,
    nbytes: AtomicUsize,
    version: AtomicU32,
    resizable: AtomicBool,
    device: Device,
    /// Gives the memory back. Replaced under the exclusive lock only, with the pointer and the size.
    deleter: UnsafeCell<Deleter>,
    room: UnsafeCell<[u8; StorageImpl::ROOM]>,
}

const _: () = assert!(
    (Ref::<StorageImpl>::VALUE + std::mem::offset_of!(StorageImpl, room)).is_multiple_of(blocks::ALIGN),
    "memory of the host is aligned to cache lines"
);

impl StorageImpl {
    /// Bytes that lie beside the state.
    const ROOM: usize = blocks::ALIGN;

    /// A storage whose bytes lie at an address, or beside its state.
    #[inline(always)]
    fn new(pointer: Option<*mut u8>, nbytes: usize, device: Device, resizable: bool, deleter: Deleter) -> Ref<Self> {
        // SAFETY: `Ref` gives the address of the storage to be, in a block whose bytes are initialised: so is the room. Every
        // other field is written.
        unsafe {
            Ref::new_in_place(
                #[inline(always)]
                |to: *mut Self| {
                    let pointer = pointer.unwrap_or_else(|| (&raw mut (*to).room).cast());
                    write_fields!(
                        to,
                        StorageImpl {
                            lock: RawRwLock::INIT,
                            borrowed: AtomicIsize::new(0),
                            pointer: AtomicPtr::new(pointer),
                            nbytes: AtomicUsize::new(nbytes),
                            version: AtomicU32::new(0),
                            resizable: AtomicBool::new(resizable),
                            device: device,
                            deleter: UnsafeCell::new(deleter),
                            room => |_| (),
                        }
                    );
                },
            )
        }
    }
}

impl Drop for StorageImpl {
    #[inline]
    fn drop(&mut self) {
        let (pointer, nbytes) = (*self.pointer.get_mut(), *self.nbytes.get_mut());
        let deleter = std::mem::replace(self.deleter.get_mut(), Deleter::None);
        // SAFETY: the memory came with this deleter, as many bytes of it, and this was its owner.
        drop(unsafe { DataPtr::new(pointer, nbytes, self.device, deleter) });
    }
}

// SAFETY: `deleter` is touched under the exclusive lock or by the last owner, `room` by kernels under the lock as any memory of
// a storage; every other field is atomic.
unsafe impl Send for StorageImpl {}
// SAFETY: as above.
unsafe impl Sync for StorageImpl {}

impl Storage {
    /// Fresh memory of a device. Its bytes are initialised, with no particular value.
    ///
    /// # Errors
    /// When the device has no backend in this program, or not that much memory.
    #[inline]
    pub fn allocate(nbytes: usize, device: Device) -> Result<Self> {
        if !device.is_cpu() {
            return Ok(Self::from_data_ptr(allocator::of(device)?.allocate(nbytes, device)?, true));
        }
        if (1..=StorageImpl::ROOM).contains(&nbytes) {
            return Ok(Self(StorageImpl::new(None, nbytes, device, true, Deleter::None)));
        }
        let (pointer, deleter) = allocator::CPU.memory(nbytes)?;
        Ok(Self(StorageImpl::new(Some(pointer), nbytes, device, true, deleter)))
    }

    /// A storage over memory that was allocated elsewhere.
    #[inline(always)]
    pub fn from_data_ptr(data: DataPtr, resizable: bool) -> Self {
        let (pointer, nbytes, device, deleter) = data.into_parts();
        Self(StorageImpl::new(Some(pointer), nbytes, device, resizable, deleter))
    }

    /// A storage over a vector's memory, without a copy.
    pub fn from_vec<T: bytemuck::Pod + Send + Sync>(mut values: Vec<T>) -> Self {
        let pointer = values.as_mut_ptr().cast::<u8>();
        let nbytes = std::mem::size_of_val(values.as_slice());
        let deleter = if values.len() == values.capacity() && nbytes > 0 {
            std::mem::forget(values);
            Deleter::Function(release_vec::<T>)
        } else {
            Deleter::Closure(Box::new(Box::new(move || drop(values))))
        };
        // SAFETY: the vector's buffer stays where it is and belongs to the deleter alone; `Pod` values are initialised.
        Self::from_data_ptr(unsafe { DataPtr::new(pointer, nbytes, Device::CPU, deleter) }, false)
    }

    /// A storage of the host that holds a copy of some bytes.
    ///
    /// # Errors
    /// When there is not that much memory.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let storage = Self::allocate(bytes.len(), Device::CPU)?;
        if !bytes.is_empty() {
            // SAFETY: the fresh storage has that many bytes and no other owner yet.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.data_ptr(), bytes.len()) }
        }
        Ok(storage)
    }

    /// The device of the bytes.
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// How many bytes there are. May grow.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.0.nbytes.load(Ordering::Acquire)
    }

    /// The address of the bytes: their identity, not a licence to read them. Null when empty or on the meta device.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        self.0.pointer.load(Ordering::Acquire)
    }

    /// True if both are the same storage.
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Ref::ptr_eq(&self.0, &other.0)
    }

    /// A number that no other living storage has.
    #[inline]
    pub fn id(&self) -> usize {
        Ref::address(&self.0)
    }

    /// How many tensors and handles share the bytes.
    #[inline]
    pub fn use_count(&self) -> usize {
        Ref::use_count(&self.0)
    }

    /// How many in-place operations have written the bytes.
    #[inline]
    pub fn version(&self) -> u32 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Counts an in-place operation.
    #[inline]
    pub fn bump_version(&self) {
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// True if [`Storage::grow`] may give it more bytes.
    pub fn resizable(&self) -> bool {
        self.0.resizable.load(Ordering::Relaxed)
    }

    /// Grows to at least `nbytes` bytes, keeping the old ones. Storages never shrink.
    ///
    /// # Errors
    /// When the storage borrows foreign memory, when a slice of it is out, or when there is not that much memory.
    pub fn grow(&self, nbytes: usize) -> Result<()> {
        if nbytes <= self.nbytes() {
            return Ok(());
        }
        check!(self.resizable(), "Trying to resize storage that is not resizable");
        let memory = allocator::of(self.device())?;
        let _lock = Hold::of(&self.0, true)?;
        let old = self.nbytes();
        if nbytes <= old {
            return Ok(());
        }
        let fresh = memory.allocate(nbytes, self.device())?;
        let (pointer, _, device, deleter) = fresh.into_parts();
        // SAFETY: the exclusive lock is held, both blocks are valid for `old` bytes and distinct; the old block has no
        // slices (checked by `Access::lock`) and kernels read pointers only under the lock, so it may be dropped: with the
        // deleter that it came with, which is taken from its cell under the same lock.
        unsafe {
            if old > 0 {
                memory.copy(pointer, self.data_ptr(), old);
            }
            let before = self.0.pointer.swap(pointer, Ordering::AcqRel);
            let deleter = std::mem::replace(&mut *self.0.deleter.get(), deleter);
            drop(DataPtr::new(before, old, device, deleter));
        }
        self.0.nbytes.store(nbytes, Ordering::Release);
        Ok(())
    }

    /// Runs `f` on the bytes of a storage of the host, under the lock: it waits for a kernel that writes them, and refuses
    /// nobody meanwhile. `f` runs no user code and no operators.
    ///
    /// # Errors
    /// When a writer is out, and those of `f`.
    pub(crate) fn locked_bytes<R>(&self, f: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        check!(self.device().is_cpu(), "expected a tensor on the cpu, but got one on {}", self.device());
        let _lock = Hold::of(&self.0, false)?;
        let pointer = self.data_ptr();
        if pointer.is_null() {
            return f(&[]);
        }
        // SAFETY: the bytes of a storage of the host are initialised and live as long as the storage; under the shared lock
        // no kernel writes them and `grow` does not move them, and `Access::lock` found no writing guard out.
        f(unsafe { std::slice::from_raw_parts(pointer, self.nbytes()) })
    }

    /// Counts a reader of the bytes until the guard is dropped.
    ///
    /// # Errors
    /// When a writer is out, on any thread.
    pub fn borrow(&self) -> Result<Borrow> {
        let _lock = Hold::of(&self.0, false)?;
        self.0.borrowed.fetch_add(1, Ordering::AcqRel);
        Ok(Borrow { storage: self.clone(), writes: false })
    }

    /// Counts the one writer of the bytes until the guard is dropped, and bumps the version.
    ///
    /// # Errors
    /// When a reader or writer is out, on any thread.
    pub fn borrow_mut(&self) -> Result<Borrow> {
        let _lock = Hold::of(&self.0, true)?;
        self.0.borrowed.store(-1, Ordering::Release);
        self.bump_version();
        Ok(Borrow { storage: self.clone(), writes: true })
    }
}

/// # Safety
/// The pointer and the bytes are those of a vector of `T` without room to spare, which was forgotten.
unsafe fn release_vec<T>(pointer: NonNull<u8>, nbytes: usize) {
    let len = nbytes / size_of::<T>();
    // SAFETY: forwarded from the caller.
    drop(unsafe { Vec::from_raw_parts(pointer.cast::<T>().as_ptr(), len, len) });
}

/// A counted use of a storage's bytes by user code. While one is out, kernels that conflict with it are errors.
pub struct Borrow {
    storage: Storage,
    writes: bool,
}

impl Borrow {
    /// The bytes. Valid while the guard lives: a borrowed storage does not grow.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.storage.data_ptr()
    }

    /// The bytes of a storage of the host; none on other devices.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let pointer = self.as_ptr();
        if pointer.is_null() || !self.storage.device().is_cpu() {
            return &[];
        }
        // SAFETY: the bytes are initialised and live as long as the storage; while this guard counts, kernels that write
        // them are errors, `grow` is an error, and a second guard that writes them is an error.
        unsafe { std::slice::from_raw_parts(pointer, self.nbytes()) }
    }

    /// The bytes of a storage of the host, to write; none for a reader and on other devices.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let pointer = self.as_ptr();
        if pointer.is_null() || !self.writes || !self.storage.device().is_cpu() {
            return &mut [];
        }
        // SAFETY: as in `bytes`; this is the one writer, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.nbytes()) }
    }

    /// How many bytes there are.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.storage.nbytes()
    }

    /// True for the one writer.
    pub fn writes(&self) -> bool {
        self.writes
    }
}

impl Drop for Borrow {
    fn drop(&mut self) {
        let count = &self.storage.0.borrowed;
        if self.writes {
            count.store(0, Ordering::Release);
        } else {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Checks that a storage has room for `needed` bytes, as `set_` and `as_strided` must.
///
/// # Errors
/// With PyTorch's text when it has not.
pub fn check_in_bounds(storage: &Storage, sizes: &[i64], strides: &[i64], itemsize: usize, offset: i64) -> Result<()> {
    let needed = crate::strides::storage_bytes(sizes, strides, itemsize, offset)?;
    let have = storage.nbytes();
    if needed > have {
        bail!(
            Runtime,
            "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage size of {} are out \
             of bounds for storage of size {}",
            crate::strides::show(sizes),
            crate::strides::show(strides),
            offset,
            itemsize,
            needed,
            have
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
