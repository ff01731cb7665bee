//! The locks on storages: those of a running kernel, and the one of a single storage.

use std::sync::atomic::Ordering;

use parking_lot::lock_api::RawRwLock as _;
use smallvec::SmallVec;

use super::{Storage, StorageImpl};
use crate::{Error, Result, check};

impl StorageImpl {
    #[inline(always)]
    fn lock(&self, write: bool) {
        if write {
            self.lock.lock_exclusive();
        } else {
            self.lock.lock_shared();
        }
    }

    /// # Safety
    /// The caller holds a lock of this kind, and gives it up.
    #[inline(always)]
    unsafe fn unlock(&self, write: bool) {
        // SAFETY: forwarded from the caller.
        unsafe {
            if write {
                self.lock.unlock_exclusive();
            } else {
                self.lock.unlock_shared();
            }
        }
    }

    /// Under the lock: whether a slice is out that conflicts with a kernel.
    #[inline(always)]
    fn check_borrows(&self, write: bool) -> Result<()> {
        let borrowed = self.borrowed.load(Ordering::Acquire);
        if borrowed < 0 || (write && borrowed > 0) {
            return Err(borrow_conflict(write));
        }
        Ok(())
    }
}

/// The lock on one storage.
pub(super) struct Hold<'a> {
    storage: &'a StorageImpl,
    write: bool,
}

impl<'a> Hold<'a> {
    /// Takes the lock, as [`Access::lock`] does several.
    ///
    /// # Errors
    /// When a slice that conflicts is out ("storage is borrowed").
    #[inline(always)]
    pub(super) fn of(storage: &'a StorageImpl, write: bool) -> Result<Self> {
        storage.lock(write);
        let hold = Self { storage, write };
        storage.check_borrows(write)?;
        Ok(hold)
    }
}

impl Drop for Hold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: it was locked so when this was made.
        unsafe { self.storage.unlock(self.write) }
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
            storage.lock(write);
            *locked += 1;
            storage.check_borrows(write)?;
        }
        Ok(())
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
            unsafe { storage.unlock(*write) }
        }
    }
}
