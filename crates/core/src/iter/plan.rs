//! [`IterConfig::build`]: from operands and rules to a plan. Every check comes before the first allocation or resize.

use smallvec::{SmallVec, smallvec};

use super::config::{IterConfig, Seen};
use super::layout::{self, Order, Voter};
use super::{ByteStrides, Operand, TensorIter};
use crate::strides::{self, Dims};
use crate::tensor_impl::Metadata;
use crate::{DType, Device, MemoryFormat, Ref, Result, TensorImpl, check, overlap, storage};

/// An operand while the plan is being made.
pub(super) struct Draft<'a> {
    pub seen: Option<Seen<'a>>,
    /// The planner gives it the plan's shape.
    pub resize: bool,
    /// What the kernel sees.
    pub dtype: DType,
}

impl Draft<'_> {
    /// What it looks like, unless the planner has yet to decide that.
    fn settled(&self) -> Option<&Metadata> {
        self.seen.filter(|_| !self.resize).map(|seen| seen.meta)
    }
}

/// The layout of outputs that the planner allocates or resizes.
enum Layout {
    /// Every operand is one run of elements in this order: there is one dimension to walk.
    Dense(Dims),
    /// In the order in which the operands lie best in memory.
    Ordered(Order),
}

/// Gives a tensor a new shape, growing its storage where needed (`at::native::resize_output`).
///
/// # Errors
/// When the sizes overflow, or the storage cannot grow.
pub fn resize_output(tensor: &TensorImpl, sizes: &[i64], strides: &[i64]) -> Result<()> {
    strides::numel(sizes)?;
    let old = tensor.metadata();
    let needed = strides::storage_bytes(sizes, strides, old.dtype.itemsize(), old.offset)?;
    old.storage.grow(needed)?;
    tensor.set_metadata(old.storage.clone(), old.dtype, Dims::from_slice(sizes), Dims::from_slice(strides), old.offset)
}

impl<'a> IterConfig<'a> {
    #[inline]
    pub(super) fn plan(self) -> Result<TensorIter> {
        match self.trivial() {
            Some(first) => self.plan_trivial(first),
            None => self.plan_general(),
        }
    }

    /// An operand that stands for all: they have one shape, dtype and device and are row-major, so that there is nothing to
    /// promote, to broadcast or to order.
    #[inline]
    fn trivial(&self) -> Option<Seen<'a>> {
        let flags = &self.flags;
        let first = (*self.operands.get(self.num_outputs).or(self.operands.first())?)?;
        let meta = first.meta;
        let general = flags.is_reduction
            || self.static_shape.is_some()
            || self.static_device.is_some()
            || self.numbers.is_some()
            || (flags.promote_integer_inputs_to_float && meta.dtype.is_integral(true));
        if general {
            return None;
        }
        let device = meta.storage.device();
        for (i, seen) in self.operands.iter().enumerate() {
            match seen {
                Some(Seen { meta: m, tensor }) => {
                    let same = m.dtype == meta.dtype
                        && m.is_contiguous()
                        && m.sizes == meta.sizes
                        && m.storage.device() == device
                        && !(m.sizes.is_empty() && tensor.is_wrapped_number());
                    if !same {
                        return None;
                    }
                }
                None if i < self.num_outputs => {}
                None => return None,
            }
        }
        Some(first)
    }

    #[inline]
    fn plan_trivial(self, first: Seen<'a>) -> Result<TensorIter> {
        self.check_overlap()?;
        let Metadata { dtype, numel, ref sizes, ref storage, .. } = *first.meta;
        let device = storage.device();
        let mut iter = TensorIter {
            operands: SmallVec::new(),
            num_outputs: self.num_outputs,
            shape: smallvec![numel],
            sizes: Dims::from_slice(sizes),
            numel,
            common_dtype: dtype,
            device,
            is_reduction: false,
            static_shape: false,
            params: SmallVec::new(),
        };
        for seen in &self.operands {
            let mut operand = match seen {
                Some(Seen { tensor, meta }) => {
                    Operand::new((*tensor).clone(), *meta, dtype, iter.operands.len() < self.num_outputs)
                }
                None => fresh(
                    Dims::from_slice(sizes),
                    strides::contiguous(sizes),
                    self.static_dtype.unwrap_or(dtype),
                    device,
                )?,
            };
            operand.strides.push(operand.dtype.itemsize() as isize);
            iter.operands.push(operand);
        }
        Ok(iter)
    }

    pub(super) fn plan_general(self) -> Result<TensorIter> {
        check!(
            self.operands[self.num_outputs..].iter().all(Option::is_some),
            "an operation needs its inputs to be defined"
        );
        self.check_overlap()?;
        let sizes = self.broadcast()?;
        let numel = strides::numel(&sizes)?;
        let mut drafts = self.drafts(&sizes)?;
        let all_scalars = self.operands.iter().flatten().all(|seen| seen.meta.sizes.is_empty());
        let types = self.types(&mut drafts, all_scalars)?;
        let (layout, strides) = self.layout(&drafts, &sizes)?;
        self.check_static_shape(&drafts)?;

        let operands = self.operands_of(&drafts, &sizes, &layout, types.device)?;
        let common_dtype = types.common.unwrap_or_else(|| {
            let first = drafts.get(self.num_outputs).or(drafts.first());
            first.map_or(crate::promotion::default_dtype(), |draft| draft.dtype)
        });
        let mut iter = TensorIter {
            operands,
            num_outputs: self.num_outputs,
            shape: Dims::new(),
            sizes,
            numel,
            common_dtype,
            device: types.device,
            is_reduction: self.flags.is_reduction,
            static_shape: self.static_shape.is_some(),
            params: SmallVec::new(),
        };
        match layout {
            Layout::Dense(_) => iter.lay_flat(),
            Layout::Ordered(order) => iter.lay_out(&order, strides)?,
        }
        Ok(iter)
    }

    #[inline]
    fn check_overlap(&self) -> Result<()> {
        if !self.flags.check_mem_overlap {
            return Ok(());
        }
        let (outputs, inputs) = self.operands.split_at(self.num_outputs);
        for out in outputs.iter().flatten() {
            overlap::check_internal(out.meta)?;
            for input in inputs.iter().flatten() {
                if !Ref::ptr_eq(out.tensor, input.tensor) {
                    overlap::check_partial(out.meta, input.meta)?;
                }
            }
        }
        Ok(())
    }

    /// The shape to walk. Outputs that may be resized do not take part.
    fn broadcast(&self) -> Result<Dims> {
        if let Some(shape) = self.static_shape {
            return Ok(Dims::from_slice(shape));
        }
        let skip = if self.flags.resize_outputs { self.num_outputs } else { 0 };
        let mut shapes = self.operands[skip..].iter().flatten().map(|seen| &seen.meta.sizes);
        let Some(first) = shapes.next() else {
            // Only outputs: the first one's shape, as nothing says otherwise.
            let out = self.operands.iter().flatten().next();
            return Ok(out.map_or_else(Dims::new, |seen| Dims::from_slice(&seen.meta.sizes)));
        };
        let mut shape = Dims::from_slice(first);
        for sizes in shapes {
            if *sizes != shape {
                shape = strides::broadcast(&shape, sizes)?;
            }
        }
        Ok(shape)
    }

    fn drafts(&self, sizes: &Dims) -> Result<SmallVec<[Draft<'a>; 4]>> {
        let inputs = &self.operands[self.num_outputs..];
        let in_place = |out: &Seen<'_>| inputs.iter().flatten().any(|input| Ref::ptr_eq(out.tensor, input.tensor));
        let mut drafts: SmallVec<[Draft<'a>; 4]> = SmallVec::new();
        for (i, seen) in self.operands.iter().enumerate() {
            let is_output = i < self.num_outputs;
            let mut resize = false;
            if let Some(out) = seen.as_ref().filter(|out| {
                is_output && self.static_shape.is_none() && out.meta.sizes != *sizes && !self.flags.is_reduction
            }) {
                resize = self.flags.resize_outputs && !in_place(out);
                check!(
                    resize,
                    "output with shape {} doesn't match the broadcast shape {}",
                    strides::show(&out.meta.sizes),
                    strides::show(sizes)
                );
            }
            // The dtype is settled by `types`.
            drafts.push(Draft { seen: *seen, resize, dtype: DType::F32 });
        }
        Ok(drafts)
    }

    /// Where the strides of an operand do not come from its own sizes, they are checked against its memory.
    fn check_static_shape(&self, drafts: &[Draft<'_>]) -> Result<()> {
        let Some(shape) = self.static_shape else { return Ok(()) };
        for meta in drafts.iter().filter_map(Draft::settled) {
            check!(
                meta.strides.len() == shape.len(),
                "expected an operand with {} dimensions, got {}",
                shape.len(),
                meta.strides.len()
            );
            storage::check_in_bounds(&meta.storage, shape, &meta.strides, meta.dtype.itemsize(), meta.offset)?;
        }
        Ok(())
    }

    /// The layout of the outputs to come, and the byte strides of the operands that are there.
    fn layout(&self, drafts: &[Draft<'_>], sizes: &Dims) -> Result<(Layout, SmallVec<[ByteStrides; 4]>)> {
        let seen: SmallVec<[(Option<&Metadata>, Dims); 4]> = drafts
            .iter()
            .map(|draft| match draft.settled() {
                Some(meta) => (Some(meta), layout::seen_strides(meta, draft.dtype)),
                None => (None, Dims::new()),
            })
            .collect();
        let settled = || seen.iter().filter_map(|(meta, strides)| meta.map(|meta| (meta, strides)));
        let flat = !self.flags.is_reduction && self.static_shape.is_none() && settled().all(|(m, _)| m.sizes == *sizes);
        if flat && let Some(dense) = dense_layout(sizes, settled().map(|(_, strides)| strides)) {
            return Ok((Layout::Dense(dense), SmallVec::new()));
        }
        let mut all: SmallVec<[ByteStrides; 4]> = SmallVec::new();
        for (draft, (meta, strides)) in drafts.iter().zip(&seen) {
            all.push(match meta {
                Some(meta) => {
                    let itemsize = draft.dtype.itemsize();
                    layout::broadcast_strides(sizes, &meta.sizes, strides, itemsize, self.static_shape.is_some())?
                }
                None => ByteStrides::new(),
            });
        }
        let voters: SmallVec<[Voter<'_>; 4]> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| seen[*i].0.is_some())
            .map(|(i, strides)| Voter { strides, reduced: self.flags.is_reduction && i < self.num_outputs })
            .collect();
        let order = layout::order(sizes, &voters);
        drop(voters);
        Ok((Layout::Ordered(order), all))
    }

    /// The operands of the plan, without strides; outputs are allocated or resized.
    fn operands_of(
        &self,
        drafts: &[Draft<'_>],
        sizes: &Dims,
        layout: &Layout,
        device: Device,
    ) -> Result<SmallVec<[Operand; 4]>> {
        let missing = drafts[..self.num_outputs].iter().any(|draft| draft.settled().is_none());
        let strides = if missing { layout.output_strides(sizes) } else { Dims::new() };
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        for (i, draft) in drafts.iter().enumerate() {
            operands.push(match draft.seen {
                None => fresh(
                    Dims::from_slice(sizes),
                    Dims::from_slice(&strides),
                    draft.dtype,
                    self.static_device.unwrap_or(device),
                )?,
                Some(Seen { tensor, .. }) if draft.resize => {
                    resize_output(tensor, sizes, &strides)?;
                    let meta = tensor.metadata();
                    check!(
                        meta.sizes == *sizes,
                        "a tensor's metadata was changed by another thread during an operation"
                    );
                    let mut operand = Operand::new(tensor.clone(), meta, draft.dtype, true);
                    operand.resized = true;
                    operand
                }
                Some(Seen { tensor, meta }) => Operand::new(tensor.clone(), meta, draft.dtype, i < self.num_outputs),
            });
        }
        Ok(operands)
    }
}

/// An output that the planner allocates.
#[inline]
fn fresh(sizes: Dims, strides: Dims, dtype: DType, device: Device) -> Result<Operand> {
    let tensor = TensorImpl::empty(sizes, strides, dtype, device)?;
    let meta = std::ptr::from_ref(tensor.metadata());
    let mut operand = Operand::new(tensor, meta, dtype, true);
    operand.fresh = true;
    Ok(operand)
}

/// The strides that operands of one shape share, if each is one run of elements in the same order.
fn dense_layout<'s>(sizes: &[i64], all: impl Iterator<Item = &'s Dims> + Clone) -> Option<Dims> {
    if all.clone().all(|strides| strides::is_contiguous(sizes, strides)) {
        return Some(strides::contiguous(sizes));
    }
    let format = MemoryFormat::ChannelsLast;
    if all.clone().all(|strides| strides::is_channels_last(sizes, strides, format)) {
        return strides::of_format(sizes, format).ok();
    }
    let last = all.clone().last()?;
    let mut all = all;
    (strides::is_non_overlapping_and_dense(sizes, last) && all.all(|strides| strides == last)).then(|| last.clone())
}

impl Layout {
    /// The strides, in elements, of outputs of this layout.
    fn output_strides(&self, sizes: &[i64]) -> Dims {
        match self {
            Self::Dense(strides) => Dims::from_slice(strides),
            Self::Ordered(order) if order.iter().rev().copied().eq(0..sizes.len()) => strides::contiguous(sizes),
            Self::Ordered(order) => {
                let mut strides = Dims::from_elem(0, sizes.len());
                let mut next = 1i64;
                for &dim in order {
                    strides[dim] = next;
                    next = next.wrapping_mul(sizes[dim]);
                }
                strides
            }
        }
    }
}

impl TensorIter {
    /// One dimension: every operand is one run of elements in the same order.
    fn lay_flat(&mut self) {
        self.shape = smallvec![self.numel];
        for operand in &mut self.operands {
            operand.strides = smallvec![operand.dtype.itemsize() as isize];
        }
    }

    /// Takes the dimensions in an order, with the byte strides of the operands that had them, and merges what can be.
    fn lay_out(&mut self, order: &Order, strides: SmallVec<[ByteStrides; 4]>) -> Result<()> {
        self.shape = order.iter().map(|&dim| self.sizes[dim]).collect();
        for (operand, mut strides) in self.operands.iter_mut().zip(strides) {
            if operand.fresh || operand.resized {
                let meta = operand.metadata()?;
                let seen = layout::seen_strides(meta, operand.dtype);
                strides = layout::broadcast_strides(&self.sizes, &meta.sizes, &seen, operand.dtype.itemsize(), false)?;
            }
            operand.strides = order.iter().map(|&dim| strides[dim]).collect();
        }
        self.merge();
        Ok(())
    }
}
