//! [`Locked`]: the operands' memory, locked for a running kernel.

use smallvec::SmallVec;

use super::TensorIter;
use crate::storage::Access;
use crate::tensor_impl::Metadata;
use crate::{Ref, Result, check};

/// The locks on the storages of a plan, and where each operand's first element lies. Unlocked on drop.
pub struct Locked<'a> {
    pointers: SmallVec<[*mut u8; 4]>,
    _access: Access<'a>,
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
    /// The plan's offsets lie within the operands' memory: it is what was planned with ([`TensorIter::metadata`] checks),
    /// and storages never shrink.
    ///
    /// # Errors
    /// When a cast is due, when a tensor was changed since it was planned, or when a slice of one is out.
    #[inline(always)]
    pub fn lock(&self) -> Result<Locked<'_>> {
        // What was planned with, and not what another thread makes of a tensor from here on.
        let mut metas = SmallVec::<[&Metadata; 4]>::new();
        for (i, operand) in self.plan.operands.iter().enumerate() {
            let meta = self.metadata(i)?;
            check!(
                meta.dtype == operand.dtype,
                "Found dtype {} but expected {}",
                meta.dtype.cpp_name(),
                operand.dtype.cpp_name()
            );
            metas.push(meta);
        }
        let operands = self.plan.operands.iter().zip(&self.plan.tensors);
        let shared = operands.zip(&metas).filter_map(|((operand, tensor), meta)| {
            // Nobody else can reach a tensor and a storage that have one owner: the plan.
            let private = operand.fresh && Ref::use_count(tensor) == 1 && meta.storage.use_count() == 1;
            (!private).then_some((&meta.storage, operand.is_output))
        });
        let access = Access::lock_all(shared)?;
        // Under the lock: a storage that grows moves its bytes.
        let mut pointers = SmallVec::new();
        for meta in metas {
            let offset = (meta.offset as usize).wrapping_mul(meta.dtype.itemsize());
            pointers.push(meta.storage.data_ptr().wrapping_add(offset));
        }
        Ok(Locked { pointers, _access: access })
    }
}
