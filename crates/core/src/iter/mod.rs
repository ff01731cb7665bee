//! The planner of element-wise operators and reductions: PyTorch's TensorIterator without its loops.
//!
//! [`IterConfig`] names operands and rules; [`IterConfig::build`] broadcasts shapes, promotes dtypes, checks devices and memory
//! overlap, allocates or resizes outputs, orders and merges dimensions. The resulting [`TensorIter`] says how to walk.
//! Kernels and the loops around them live in the backends; this module never touches an element.
//!
//! Dimension 0 of a plan is the innermost one, and there is always at least one: a 0-dim operation has the shape `[1]`.

mod config;
mod layout;
mod locked;
mod plan;
mod types;
mod walk;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::{fmt, mem};

use smallvec::SmallVec;

pub use config::IterConfig;
pub use plan::resize_output;

use crate::strides::{self, Dims};
use crate::tensor_impl::Metadata;
use crate::{DType, Device, Ref, Result, Scalar, TensorImpl, TensorRef, check};

/// What a plan knows of a tensor beside the tensor itself ([`TensorIter::tensor`]).
#[derive(Clone, Copy)]
pub struct Operand {
    /// the dtype that the kernel sees; while it is not the tensor's, a cast is due ([`TensorIter::casts`])
    pub dtype: DType,
    /// true if the kernel writes it
    pub is_output: bool,
    /// true if the plan is its only owner, so that it needs no lock while the kernel runs
    pub fresh: bool,
    /// true if the planner gave the tensor a new shape
    pub resized: bool,
    /// The metadata that was planned with, by address. Blocks live as long as their tensor, so it names one block.
    planned: usize,
}

/// A cast that is due before the kernel runs: see [`TensorIter::casts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// the operand
    pub index: usize,
    /// the dtype of the operand's tensor
    pub from: DType,
    /// the dtype that the kernel sees: the temporary's
    pub to: DType,
    /// true if the temporary is written, and copied to the tensor after the kernel
    pub is_output: bool,
}

/// A planned operation: operands with the strides of one shape that walks them all.
pub struct TensorIter {
    plan: Room,
}

/// Where a plan lies: large, and handed on from the planner to the kernel's caller, so it stays where it was made; and its
/// thread's next plan is made there as well, so that its empty lists are not written anew for every operator.
struct Room(Option<Box<Plan>>);

thread_local! {
    static SPARE: Cell<Option<Box<Plan>>> = const { Cell::new(None) };
}

impl Room {
    /// A plan with empty lists.
    #[inline]
    fn take() -> Self {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        Self(Some(spare.unwrap_or_else(Plan::empty)))
    }
}

impl Deref for Room {
    type Target = Plan;
    #[inline(always)]
    fn deref(&self) -> &Plan {
        self.0.as_deref().unwrap_or_else(|| unreachable!("a plan is given up by its drop alone"))
    }
}

impl DerefMut for Room {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Plan {
        self.0.as_deref_mut().unwrap_or_else(|| unreachable!("a plan is given up by its drop alone"))
    }
}

impl Drop for Room {
    #[inline]
    fn drop(&mut self) {
        self.clear();
        // Lists that few operators are as long as do not stay.
        if !self.tensors.spilled() {
            let plan = self.0.take();
            let _ = SPARE.try_with(|spare| spare.set(plan));
        }
    }
}

struct Plan {
    operands: SmallVec<[Operand; 4]>,
    /// What the kernel reads or writes, one an operand.
    tensors: SmallVec<[TensorRef; 4]>,
    /// The outputs that the caller gets, where the tensor is a temporary of another dtype; empty without any.
    originals: Vec<Option<TensorRef>>,
    num_outputs: usize,
    /// Merged, innermost first.
    shape: Dims,
    /// In bytes: operand by operand, each with the dimensions of `shape`.
    strides: SmallVec<[isize; 12]>,
    /// As the user sees it.
    sizes: Dims,
    numel: i64,
    common_dtype: DType,
    device: Device,
    is_reduction: bool,
    static_shape: bool,
    params: SmallVec<[Scalar; 2]>,
}

impl Plan {
    #[cold]
    fn empty() -> Box<Self> {
        Box::new(Self {
            operands: SmallVec::new(),
            tensors: SmallVec::new(),
            originals: Vec::new(),
            num_outputs: 0,
            shape: Dims::new(),
            strides: SmallVec::new(),
            sizes: Dims::new(),
            numel: 0,
            common_dtype: DType::F32,
            device: Device::CPU,
            is_reduction: false,
            static_shape: false,
            params: SmallVec::new(),
        })
    }

    /// Empties the lists.
    #[inline]
    fn clear(&mut self) {
        self.operands.clear();
        self.tensors.clear();
        self.originals.clear();
        self.shape.clear();
        self.strides.clear();
        self.sizes.clear();
        self.params.clear();
    }
}

impl TensorIter {
    /// The merged shape, innermost dimension first.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.plan.shape
    }

    /// The number of merged dimensions, at least 1.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.plan.shape.len()
    }

    /// The number of steps of the walk: the elements of the broadcast shape.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.plan.numel
    }

    /// The broadcast shape, as the user sees it: outermost dimension first, nothing merged.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        &self.plan.sizes
    }

    /// The dtype that the inputs promote to; without promotion the first input's, without inputs the first output's.
    #[inline]
    pub fn common_dtype(&self) -> DType {
        self.plan.common_dtype
    }

    /// The dtype that the kernel sees of an operand.
    #[inline]
    pub fn dtype(&self, i: usize) -> DType {
        self.plan.operands[i].dtype
    }

    /// Where the operation runs.
    #[inline]
    pub fn device(&self) -> Device {
        self.plan.device
    }

    /// True for a reduction: [`TensorIter::num_reduce_dims`] inner dimensions are summed over.
    #[inline]
    pub fn is_reduction(&self) -> bool {
        self.plan.is_reduction
    }

    /// How many inner dimensions the first output does not move along.
    pub fn num_reduce_dims(&self) -> usize {
        if self.plan.operands.is_empty() {
            0
        } else {
            self.strides(0).iter().take_while(|&&stride| stride == 0).count()
        }
    }

    /// How many of the operands are outputs. They come first.
    #[inline]
    pub fn num_outputs(&self) -> usize {
        self.plan.num_outputs
    }

    /// Outputs, then inputs.
    #[inline]
    pub fn operands(&self) -> &[Operand] {
        &self.plan.operands
    }

    /// Operand `i`, outputs first.
    ///
    /// # Panics
    /// When there are not that many.
    #[inline]
    pub fn operand(&self, i: usize) -> &Operand {
        &self.plan.operands[i]
    }

    /// Input `i`.
    ///
    /// # Panics
    /// When there are not that many.
    #[inline]
    pub fn input(&self, i: usize) -> &Operand {
        &self.plan.operands[self.plan.num_outputs + i]
    }

    /// What the kernel reads or writes as operand `i`, outputs first.
    ///
    /// # Panics
    /// When there are not that many operands.
    #[inline]
    pub fn tensor(&self, i: usize) -> &TensorRef {
        &self.plan.tensors[i]
    }

    /// The output that the caller gets, where operand `i` is a temporary of another dtype.
    #[inline]
    pub fn original(&self, i: usize) -> Option<&TensorRef> {
        self.plan.originals.get(i)?.as_ref()
    }

    /// What the tensor of operand `i` looked like when it was planned.
    ///
    /// # Errors
    /// When another thread has changed the tensor's shape or storage since.
    ///
    /// # Panics
    /// When there are not that many operands.
    #[inline]
    pub fn metadata(&self, i: usize) -> Result<&Metadata> {
        let meta = self.plan.tensors[i].metadata();
        check!(
            std::ptr::from_ref(meta) as usize == self.plan.operands[i].planned,
            "a tensor's metadata was changed by another thread during an operation"
        );
        Ok(meta)
    }

    /// Output `i`, as the caller of the operator gets it.
    ///
    /// # Panics
    /// When there are not that many operands.
    #[inline]
    pub fn output(&self, i: usize) -> &TensorRef {
        self.original(i).unwrap_or_else(|| self.tensor(i))
    }

    /// The outputs, without another count of their references.
    pub fn into_outputs(mut self) -> impl Iterator<Item = TensorRef> {
        let outputs = self.plan.num_outputs;
        let (tensors, mut originals) = (mem::take(&mut self.plan.tensors), mem::take(&mut self.plan.originals));
        let outputs = tensors.into_iter().take(outputs).enumerate();
        outputs.map(move |(i, tensor)| originals.get_mut(i).and_then(Option::take).unwrap_or(tensor))
    }

    /// The first output, without another count of its references; `None` if the plan has no operands.
    #[inline]
    pub fn into_output(mut self) -> Option<TensorRef> {
        if self.plan.tensors.is_empty() {
            return None;
        }
        let first = self.plan.tensors.swap_remove(0);
        Some(self.plan.originals.first_mut().and_then(Option::take).unwrap_or(first))
    }

    /// Bytes from one index of each merged dimension to the next for operand `i`, innermost first; 0 where broadcast.
    ///
    /// # Panics
    /// When there are not that many operands.
    #[inline]
    pub fn strides(&self, i: usize) -> &[isize] {
        let ndim = self.plan.shape.len();
        &self.plan.strides[i * ndim..(i + 1) * ndim]
    }

    /// Bytes between neighbours of operand `i` in the innermost dimension.
    #[inline]
    pub fn strides0(&self, i: usize) -> isize {
        self.strides(i)[0]
    }

    /// Bytes between neighbours of operand `i` in the second dimension; 0 where there is none.
    #[inline]
    pub fn strides1(&self, i: usize) -> isize {
        self.strides(i).get(1).copied().unwrap_or(0)
    }

    /// True if every operand is one run of elements without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        if self.plan.shape.len() != 1 {
            return false;
        }
        // By index: every kernel asks, and adapters of iterators are calls in their crates.
        let (operands, strides) = (self.plan.operands.as_slice(), self.plan.strides.as_slice());
        for i in 0..operands.len().min(strides.len()) {
            if operands[i].dtype.itemsize() as isize != strides[i] {
                return false;
            }
        }
        true
    }

    /// Sets the numbers that the kernel takes beside its operands.
    #[inline]
    pub fn set_params(&mut self, params: &[Scalar]) {
        self.plan.params.clear();
        for param in params {
            self.plan.params.push(*param);
        }
    }

    /// The numbers of [`TensorIter::set_params`].
    #[inline]
    pub fn params(&self) -> &[Scalar] {
        &self.plan.params
    }

    /// Number `i` of [`TensorIter::set_params`]; 0 where none was set.
    #[inline]
    pub fn param(&self, i: usize) -> Scalar {
        self.plan.params.get(i).copied().unwrap_or(Scalar::Int(0))
    }

    /// The casts that are due: operands whose tensor has another dtype than the kernel sees.
    ///
    /// For each, give [`TensorIter::set_operand`] a [`TensorIter::temporary`], filled first if it is an input. Once the kernel
    /// has run, copy each output's `tensor` to its `original`. Nothing is to be done on the meta device.
    pub fn casts(&self) -> SmallVec<[Cast; 4]> {
        let tensors = self.plan.operands.iter().zip(&self.plan.tensors).enumerate();
        let due = tensors.filter(|(_, (operand, tensor))| tensor.dtype() != operand.dtype);
        due.map(|(index, (operand, tensor))| Cast {
            index,
            from: tensor.dtype(),
            to: operand.dtype,
            is_output: operand.is_output,
        })
        .collect()
    }

    /// True if no cast is due: the kernel may run.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.plan.operands.iter().zip(&self.plan.tensors).all(|(operand, tensor)| tensor.dtype() == operand.dtype)
    }

    /// A fresh tensor for a cast of operand `i`: its shape, the dtype that the kernel sees, the order of its dimensions.
    ///
    /// # Errors
    /// When there is no such operand, or not enough memory.
    pub fn temporary(&self, i: usize) -> Result<TensorRef> {
        check!(i < self.plan.operands.len(), "the operation has no operand {i}");
        let (operand, meta) = (self.plan.operands[i], self.metadata(i)?);
        let strides = strides::dense_like(&meta.sizes, &meta.strides);
        TensorImpl::empty(Dims::from_slice(&meta.sizes), strides, operand.dtype, meta.storage.device())
    }

    /// Replaces the tensor of operand `i` and plans the walk anew. A replaced output is kept as its `original`.
    ///
    /// # Errors
    /// When the tensor has another shape than the one that it replaces, or not the dtype that the kernel sees.
    pub fn set_operand(&mut self, i: usize, tensor: TensorRef) -> Result<()> {
        check!(i < self.plan.operands.len(), "the operation has no operand {i}");
        let (operand, meta) = (self.plan.operands[i], tensor.metadata());
        check!(
            meta.dtype == operand.dtype,
            "Found dtype {} but expected {}",
            meta.dtype.cpp_name(),
            operand.dtype.cpp_name()
        );
        let old = &self.metadata(i)?.sizes;
        check!(
            meta.sizes == *old,
            "an operand of shape {} cannot be replaced by one of shape {}",
            strides::show(old),
            strides::show(&meta.sizes)
        );
        let planned = std::ptr::from_ref(meta) as usize;
        let fresh = Ref::use_count(&tensor) == 1 && meta.storage.use_count() == 1;
        let plan = &mut *self.plan;
        plan.operands[i] = Operand { planned, fresh, ..operand };
        let old = mem::replace(&mut plan.tensors[i], tensor);
        if operand.is_output {
            plan.originals.resize(plan.num_outputs, None);
            plan.originals[i].get_or_insert(old);
        }
        self.replan()
    }
}

impl fmt::Debug for TensorIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands =
            self.plan.operands.iter().enumerate().map(|(i, operand)| (operand.dtype.name(), self.strides(i)));
        f.debug_struct("TensorIter")
            .field("sizes", &self.plan.sizes)
            .field("shape", &self.plan.shape)
            .field("operands", &operands.collect::<SmallVec<[_; 4]>>())
            .field("device", &self.plan.device)
            .finish_non_exhaustive()
    }
}
