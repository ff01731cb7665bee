//! [`TensorIter::locked`]: the operands' memory, locked while a kernel runs.

use smallvec::SmallVec;

use super::TensorIter;
use crate::storage::Access;
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
        let mut access = Access::new();
        // By index: adapters of iterators are calls in the crates of kernels.
        let (operands, tensors) = (self.plan.operands.as_slice(), self.plan.tensors.as_slice());
        let count = operands.len().min(tensors.len());
        for i in 0..count {
            let (operand, tensor) = (&operands[i], &tensors[i]);
            let meta = tensor.metadata();
            // Nobody else can reach a tensor and a storage that have one owner: the plan.
            let private = operand.fresh && Ref::use_count(tensor) == 1 && meta.storage.use_count() == 1;
            if !private {
                access.add(&meta.storage, operand.is_output);
            }
        }
        access.lock()?;
        // Under the lock: a storage that grows moves its bytes.
        let mut pointers = SmallVec::<[*mut u8; 4]>::new();
        for i in 0..count {
            let (operand, meta) = (&operands[i], tensors[i].metadata());
            // A tensor never goes back to older metadata: what was planned with is what was locked.
            check!(
                std::ptr::from_ref(meta) as usize == operand.planned,
                "a tensor's metadata was changed by another thread during an operation"
            );
            check!(
                meta.dtype == operand.dtype,
                "Found dtype {} but expected {}",
                meta.dtype.cpp_name(),
                operand.dtype.cpp_name()
            );
            let offset = (meta.offset as usize).wrapping_mul(meta.dtype.itemsize());
            pointers.push(meta.storage.data_ptr().wrapping_add(offset));
        }
        Ok(kernel(&pointers))
    }
}
