//! [`TensorIter::locked`]: the operands' memory, locked while a kernel runs.

use smallvec::SmallVec;

use super::TensorIter;
use crate::storage::Access;
use crate::tensor_impl::Metadata;
use crate::{Ref, Result, check};

impl TensorIter {
    /// Runs `kernel` under the locks on what it reads and writes, with the address of each operand's first element, outputs
    /// first: valid for the plan's walk until it returns. Outputs that the plan alone owns need no lock.
    ///
    /// The plan's offsets lie within the operands' memory: it is what was planned with ([`TensorIter::metadata`] checks),
    /// and storages never shrink. `kernel` runs no operators.
    ///
    /// # Errors
    /// When a cast is due, when a tensor was changed since it was planned, or when a slice of one is out.
    #[inline(always)]
    pub fn locked<R>(&self, kernel: impl FnOnce(&[*mut u8]) -> R) -> Result<R> {
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
        let _access = Access::lock_all(shared)?;
        // Under the lock: a storage that grows moves its bytes.
        let mut pointers = SmallVec::<[*mut u8; 4]>::new();
        for meta in &metas {
            let offset = (meta.offset as usize).wrapping_mul(meta.dtype.itemsize());
            pointers.push(meta.storage.data_ptr().wrapping_add(offset));
        }
        Ok(kernel(&pointers))
    }
}
