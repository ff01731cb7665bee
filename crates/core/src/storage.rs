//! [`Storage`]: untyped bytes that tensors view, with the lock that a running kernel holds.
//!
//! Two guards exist. [`Access`] is the kernels' one: it locks the distinct storages of a call in address order, checks
//! that no slice of them is out, and gives raw pointers until it is dropped. [`Borrow`] is the users' one: it only counts
//! (n readers or one writer, as `RefCell` does), so nobody ever waits for a guard; a conflict is an error at once.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use parking_lot::RawRwLock;
use parking_lot::lock_api::RawRwLock as _;
use smallvec::SmallVec;

use crate::allocator::{self, Allocator, DataPtr, Deleter};
use crate::refcount::write_fields;
use crate::{Device, Error, Ref, Result, bail, check};

/// A shared reference to a block of bytes on a device. Cloning shares the bytes.
#[derive(Clone)]
pub struct Storage(Ref<StorageImpl>);

struct StorageImpl {
    lock: RawRwLock,
    /// Readers that are out, or -1 for a writer. Changed under the lock only.
    borrowed: AtomicIsize,
    pointer: AtomicPtr<u8>,
    nbytes: AtomicUsize,
    version: AtomicU32,
    resizable: AtomicBool,
    device: Device,
    /// Replaced under the exclusive lock only.
    data: UnsafeCell<DataPtr>,
}

impl StorageImpl {
    #[inline(always)]
    fn new(data: DataPtr, resizable: bool) -> Ref<Self> {
        let write = |to| {
            // SAFETY: `Ref` gives the address of the storage to be.
            unsafe {
                write_fields!(
                    to,
                    StorageImpl {
                        lock: RawRwLock::INIT,
                        borrowed: AtomicIsize::new(0),
                        pointer: AtomicPtr::new(data.as_ptr()),
                        nbytes: AtomicUsize::new(data.nbytes()),
                        version: AtomicU32::new(0),
                        resizable: AtomicBool::new(resizable),
                        device: data.device(),
                        data: UnsafeCell::new(data),
                    }
                );
            }
        };
        // SAFETY: every field is written.
        unsafe { Ref::new_in_place(write) }
    }
}

// SAFETY: `data` is touched under the exclusive lock or by the last owner; every other field is atomic.
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
        if !allocator::is_small(nbytes) {
            return Ok(Self::from_data_ptr(allocator::CPU.allocate(nbytes, device)?, true));
        }
        Ok(Self(StorageImpl::new(allocator::CPU.small(nbytes), true)))
    }

    /// A storage over memory that was allocated elsewhere.
    #[inline(always)]
    pub fn from_data_ptr(data: DataPtr, resizable: bool) -> Self {
        Self(StorageImpl::new(data, resizable))
    }

    /// A storage over a vector's memory, without a copy.
    pub fn from_vec<T: bytemuck::Pod + Send + Sync>(mut values: Vec<T>) -> Self {
        let pointer = values.as_mut_ptr().cast::<u8>();
        let nbytes = std::mem::size_of_val(values.as_slice());
        let deleter = Deleter::Closure(Box::new(move || drop(values)));
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
        let _access = Access::of(self, true)?;
        let old = self.nbytes();
        if nbytes <= old {
            return Ok(());
        }
        let fresh = memory.allocate(nbytes, self.device())?;
        // SAFETY: the exclusive lock is held, both blocks are valid for `old` bytes and distinct; the old block has no
        // slices (checked by `Access::lock`) and kernels read pointers only under the lock, so it may be dropped.
        unsafe {
            if old > 0 {
                memory.copy(fresh.as_ptr(), self.data_ptr(), old);
            }
            self.0.pointer.store(fresh.as_ptr(), Ordering::Release);
            *self.0.data.get() = fresh;
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
        let _access = Access::of(self, false)?;
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
        let _access = Access::of(self, false)?;
        self.0.borrowed.fetch_add(1, Ordering::AcqRel);
        Ok(Borrow { storage: self.clone(), writes: false })
    }

    /// Counts the one writer of the bytes until the guard is dropped, and bumps the version.
    ///
    /// # Errors
    /// When a reader or writer is out, on any thread.
    pub fn borrow_mut(&self) -> Result<Borrow> {
        let _access = Access::of(self, true)?;
        self.0.borrowed.store(-1, Ordering::Release);
        self.bump_version();
        Ok(Borrow { storage: self.clone(), writes: true })
    }
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

/// The locks of a running kernel: shared on what it reads, exclusive on what it writes. Released on drop.
///
/// Kernels never run operators or user code while they hold one, so there is no cycle of waiting threads; the address
/// order rules out the rest.
pub struct Access<'a> {
    /// Distinct storages in address order, and whether they are written.
    wanted: SmallVec<[(&'a StorageImpl, bool); 4]>,
    /// How many of them are locked.
    locked: usize,
}

impl<'a> Access<'a> {
    /// No locks.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "a guard without anything to guard is only a beginning")]
    pub fn new() -> Self {
        Self { wanted: SmallVec::new(), locked: 0 }
    }

    /// Wants a lock, exclusive on a storage that is written. Taken by [`Access::lock`].
    #[inline(always)]
    pub fn add(&mut self, storage: &'a Storage, write: bool) {
        self.wanted.push((&*storage.0, write));
    }

    /// Takes the locks that were added, on each storage once. It is called once: a lock of its own thread would be waited for.
    ///
    /// # Errors
    /// When a slice that conflicts is out ("storage is borrowed"), or locks were taken before.
    #[inline(always)]
    pub fn lock(&mut self) -> Result<()> {
        check!(self.locked == 0, "the locks of a kernel were taken twice");
        if self.wanted.len() > 1 {
            self.order();
        }
        let Self { wanted, locked } = self;
        for &(storage, write) in wanted.iter() {
            if write {
                storage.lock.lock_exclusive();
            } else {
                storage.lock.lock_shared();
            }
            *locked += 1;
            let borrowed = storage.borrowed.load(Ordering::Acquire);
            if borrowed < 0 || (write && borrowed > 0) {
                return Err(borrow_conflict(write));
            }
        }
        Ok(())
    }

    /// The locks on one storage.
    ///
    /// # Errors
    /// As [`Access::lock`].
    fn of(storage: &'a Storage, write: bool) -> Result<Self> {
        let mut access = Self::new();
        access.add(storage, write);
        access.lock()?;
        Ok(access)
    }

    /// Brings what is wanted into address order, each storage once.
    fn order(&mut self) {
        let address = |storage: &StorageImpl| std::ptr::from_ref(storage) as usize;
        if let [(a, a_written), (b, b_written)] = self.wanted.as_mut_slice() {
            if address(a) > address(b) {
                self.wanted.swap(0, 1);
            } else if address(a) == address(b) {
                *a_written |= *b_written;
                self.wanted.pop();
            }
            return;
        }
        // Writers first among equals, so that the duplicate that goes is the reader.
        self.wanted.sort_unstable_by_key(|(storage, write)| (address(storage), !write));
        self.wanted.dedup_by(|b, a| std::ptr::eq(a.0, b.0));
    }
}

#[cold]
fn borrow_conflict(write: bool) -> Error {
    let what = if write { "written" } else { "read" };
    Error::runtime(format!("storage is borrowed: it cannot be {what} while a slice or accessor of it is alive"))
}

impl Drop for Access<'_> {
    #[inline]
    fn drop(&mut self) {
        for (storage, write) in self.wanted.as_slice()[..self.locked].iter().rev() {
            // SAFETY: the first `locked` storages were locked by [`Access::lock`], in that mode, and are unlocked here once.
            unsafe {
                if *write {
                    storage.lock.unlock_exclusive();
                } else {
                    storage.lock.unlock_shared();
                }
            }
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
mod tests {
    use super::*;

    fn locks<'a>(reads: &[&'a Storage], writes: &[&'a Storage]) -> Result<Access<'a>> {
        let mut access = Access::new();
        reads.iter().for_each(|storage| access.add(storage, false));
        writes.iter().for_each(|storage| access.add(storage, true));
        access.lock()?;
        Ok(access)
    }

    #[test]
    fn slices_exclude_writers_and_kernels() {
        let storage = Storage::allocate(16, Device::CPU).unwrap();
        let reader = storage.borrow().unwrap();
        let second = storage.borrow().unwrap();
        assert!(storage.borrow_mut().is_err());
        assert!(locks(&[&storage], &[]).is_ok());
        assert!(locks(&[], &[&storage]).is_err());
        assert!(storage.grow(1024).is_err());
        drop((reader, second));
        let writer = storage.borrow_mut().unwrap();
        assert!(locks(&[&storage], &[]).is_err());
        drop(writer);
        assert_eq!(storage.version(), 1);
        storage.grow(4096).unwrap();
        assert_eq!(storage.nbytes(), 4096);
    }

    #[test]
    fn one_storage_as_input_and_output_is_locked_once() {
        let storage = Storage::allocate(16, Device::CPU).unwrap();
        drop(locks(&[&storage, &storage], &[&storage]).unwrap());
        drop(locks(&[], &[&storage]).unwrap());
    }

    #[test]
    fn a_vector_becomes_a_storage_without_a_copy() {
        let values = vec![1.0f32, 2.0];
        let address = values.as_ptr() as usize;
        let storage = Storage::from_vec(values);
        assert_eq!(storage.data_ptr() as usize, address);
        assert_eq!(storage.nbytes(), 8);
        assert!(storage.grow(100).is_err());
    }
}
