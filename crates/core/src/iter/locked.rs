//! [`Locked`]: the operands' memory, locked for a running kernel.

use smallvec::SmallVec;

use super::TensorIter;
use crate::storage::Access;
use crate::{Ref, Result, Storage, check};

/// The locks on the storages of a plan, and where each operand's first element lies. Unlocked on drop.
pub struct Locked<'a> {
    pointers: SmallVec<[*mut u8; 4]>,
    _access: Option<Access<'a>>,
}

impl Locked<'_> {
    /// The address of each operand's first element, outputs first. Valid for the plan's walk while this lives.
    #[inline]
    pub fn pointers(&self) -> &[*mut u8] {
        &self.pointers
    }
}

impl TensorIter {
    /// Locks what the kernel reads and writes. Outputs that the plan alone owns need no lock.
    ///
    /// The plan's offsets lie within the operands' memory: it is what was planned with ([`super::Operand::metadata`] checks),
    /// and storages never shrink.
    ///
    /// # Errors
    /// When a cast is due, when a tensor was changed since it was planned, or when a slice of one is out.
    #[inline]
    pub fn lock(&self) -> Result<Locked<'_>> {
        let (mut reads, mut writes) = (SmallVec::<[&Storage; 4]>::new(), SmallVec::<[&Storage; 4]>::new());
        let mut metas = SmallVec::<[_; 4]>::new();
        for operand in &self.operands {
            let meta = operand.metadata()?;
            check!(
                meta.dtype == operand.dtype,
                "Found dtype {} but expected {}",
                meta.dtype.cpp_name(),
                operand.dtype.cpp_name()
            );
            // Nobody else can reach a tensor and a storage that have one owner: the plan.
            let private = operand.fresh && Ref::use_count(&operand.tensor) == 1 && meta.storage.use_count() == 1;
            if !private {
                if operand.is_output { writes.push(&meta.storage) } else { reads.push(&meta.storage) }
            }
            metas.push(meta);
        }
        let access = Access::lock(&reads, &writes)?;
        // Under the lock: a storage that grows moves its bytes.
        let pointers = metas
            .iter()
            .map(|meta| {
                meta.storage.data_ptr().wrapping_add((meta.offset as usize).wrapping_mul(meta.dtype.itemsize()))
            })
            .collect();
        Ok(Locked { pointers, _access: Some(access) })
    }
}
