//! [`IterConfig::build`]: from operands and rules to a plan. Every check comes before the first allocation or resize.

use smallvec::SmallVec;

use super::config::{IterConfig, Seen};
use super::layout::{Table, dense_layout, seen_strides, strides_in_order};
use super::{Operand, Room, TensorIter};
use crate::promotion::default_dtype;
use crate::strides::{self, Dims};
use crate::tensor_impl::Metadata;
use crate::{DType, Device, Ref, Result, TensorImpl, TensorRef, check, overlap, storage};

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
    pub(super) fn plan(&self) -> Result<TensorIter> {
        match self.trivial() {
            Some(first) => self.plan_trivial(first),
            None => self.plan_general(),
        }
    }

    /// An operand that stands for all: they have one dtype and device, and one shape in which they are row-major or a
    /// single number, so that there is nothing to promote or to order.
    #[inline]
    fn trivial(&self) -> Option<Seen<'a>> {
        let flags = &self.flags;
        let operands = self.operands.as_slice();
        let inputs = &operands[self.num_outputs..];
        let mut first = (*inputs.first().or(operands.first())?)?;
        if first.meta.sizes.is_empty()
            && let Some(other) = inputs.iter().flatten().find(|seen| !seen.meta.sizes.is_empty())
        {
            first = *other;
        }
        let meta = first.meta;
        let general = flags.is_reduction
            || self.static_shape.is_some()
            || self.static_device.is_some()
            || self.numbers.is_some()
            || (flags.promote_integer_inputs_to_float && meta.dtype.is_integral(true));
        if general {
            return None;
        }
        let (device, is_number) = (meta.storage.device(), meta.sizes.is_empty());
        let mut numbers = false;
        for (i, seen) in operands.iter().enumerate() {
            let is_output = i < self.num_outputs;
            let Some(Seen { meta: m, tensor }) = seen else { if is_output { continue } else { return None } };
            let cast = is_output && self.static_dtype.is_some_and(|dtype| dtype != m.dtype);
            if m.dtype != meta.dtype || m.storage.device() != device || cast {
                return None;
            }
            if strides::same(&m.sizes, &meta.sizes) {
                // A wrapped number's dtype counts only beside tensors with dimensions.
                if !m.is_contiguous() || (is_number && tensor.is_wrapped_number()) {
                    return None;
                }
            } else if m.sizes.is_empty() && !is_output {
                numbers = true;
            } else {
                return None;
            }
        }
        let plain = !numbers || (meta.numel > 0 && strides::is_row_major(&meta.sizes, &meta.strides));
        plain.then_some(first)
    }

    #[inline]
    fn plan_trivial(&self, first: Seen<'a>) -> Result<TensorIter> {
        self.check_overlap()?;
        let Metadata { dtype, numel, ref sizes, ref storage, .. } = *first.meta;
        let device = storage.device();
        let mut iter = TensorIter::new(self, sizes, numel, dtype, device);
        iter.plan.shape.push(numel);
        for (i, seen) in self.operands.iter().enumerate() {
            match seen {
                Some(Seen { tensor, meta }) => {
                    iter.push((*tensor).clone(), *meta, dtype, i < self.num_outputs);
                    let broadcast = meta.sizes.is_empty() && !sizes.is_empty();
                    iter.plan.strides.push(if broadcast { 0 } else { dtype.itemsize() as isize });
                }
                None => {
                    let dtype = self.static_dtype.unwrap_or(dtype);
                    iter.plan.strides.push(dtype.itemsize() as isize);
                    iter.push_new(TensorImpl::empty_contiguous_like(first.meta, dtype)?, dtype);
                }
            }
        }
        Ok(iter)
    }

    pub(super) fn plan_general(&self) -> Result<TensorIter> {
        check!(
            self.operands[self.num_outputs..].iter().all(Option::is_some),
            "an operation needs its inputs to be defined"
        );
        self.check_overlap()?;
        let sizes = self.broadcast()?;
        let numel = strides::numel(&sizes)?;
        let mut drafts = self.drafts(&sizes)?;
        let all_scalars = self.operands[self.num_outputs..].iter().flatten().all(|seen| seen.meta.sizes.is_empty());
        let types = self.types(&mut drafts, all_scalars)?;
        self.check_static_shape(&drafts)?;
        let common_dtype = types.common.unwrap_or_else(|| {
            let first = drafts.get(self.num_outputs).or(drafts.first());
            first.map_or(default_dtype(), |draft| draft.dtype)
        });
        let mut iter = TensorIter::new(self, &sizes, numel, common_dtype, types.device);
        if let Some(strides) = self.dense(&drafts, &iter.plan.sizes) {
            self.push_operands(&mut iter, &drafts, || Dims::from_slice(&strides))?;
            iter.lay_flat();
            return Ok(iter);
        }

        let mut table = self.table(&drafts, &iter.plan.sizes)?;
        let order = table.order(&iter.plan.sizes, if self.flags.is_reduction { self.num_outputs } else { 0 });
        let sizes = Dims::from_slice(&iter.plan.sizes);
        self.push_operands(&mut iter, &drafts, || strides_in_order(&sizes, &order))?;
        for (i, operand) in iter.plan.operands.iter().enumerate().take(self.num_outputs) {
            if operand.fresh || operand.resized {
                let meta = iter.metadata(i)?;
                table.fill(i, &sizes, &sizes, &seen_strides(meta, operand.dtype), operand.dtype.itemsize())?;
            }
        }
        iter.lay_out(&order, &table);
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

    /// The layout of the outputs to come, if the operands that are there are one run of elements in the same order.
    fn dense(&self, drafts: &[Draft<'_>], sizes: &Dims) -> Option<Dims> {
        let settled = || drafts.iter().filter_map(|draft| draft.settled().map(|meta| (meta, draft.dtype)));
        let general =
            self.flags.is_reduction || self.static_shape.is_some() || settled().any(|(m, _)| m.sizes != *sizes);
        if general {
            return None;
        }
        let strides: SmallVec<[_; 4]> = settled().map(|(meta, dtype)| seen_strides(meta, dtype)).collect();
        dense_layout(sizes, strides.iter().map(|strides| &**strides))
    }

    /// The byte strides of the operands that are there.
    fn table(&self, drafts: &[Draft<'_>], sizes: &Dims) -> Result<Table> {
        let mut table = Table::new(sizes.len());
        for draft in drafts {
            match draft.settled() {
                Some(meta) => {
                    let own = if self.static_shape.is_some() { sizes } else { &meta.sizes };
                    table.push(sizes, own, &seen_strides(meta, draft.dtype), draft.dtype.itemsize())?;
                }
                None => table.push_open(),
            }
        }
        Ok(table)
    }

    /// The operands of the plan, without strides; outputs are allocated or resized to a layout.
    fn push_operands(&self, iter: &mut TensorIter, drafts: &[Draft<'_>], layout: impl Fn() -> Dims) -> Result<()> {
        for (i, draft) in drafts.iter().enumerate() {
            match draft.seen {
                None => {
                    let device = self.static_device.unwrap_or(iter.plan.device);
                    let sizes = Dims::from_slice(&iter.plan.sizes);
                    iter.push_fresh(&sizes, &layout(), draft.dtype, device)?;
                }
                Some(Seen { tensor, .. }) if draft.resize => {
                    resize_output(tensor, &iter.plan.sizes, &layout())?;
                    let meta = tensor.metadata();
                    check!(
                        meta.sizes == iter.plan.sizes,
                        "a tensor's metadata was changed by another thread during an operation"
                    );
                    iter.push_operand(tensor.clone(), meta, draft.dtype, true, false, true);
                }
                Some(Seen { tensor, meta }) => iter.push(tensor.clone(), meta, draft.dtype, i < self.num_outputs),
            }
        }
        Ok(())
    }
}

/// Plans in the making.
impl TensorIter {
    #[inline]
    fn new(config: &IterConfig<'_>, sizes: &[i64], numel: i64, common_dtype: DType, device: Device) -> Self {
        let mut room = Room::take();
        let plan = &mut *room;
        plan.num_outputs = config.num_outputs;
        // Not as one list: what is built on the stack is stored and loaded in different widths, which makes the loads wait.
        for &size in sizes {
            plan.sizes.push(size);
        }
        plan.numel = numel;
        plan.common_dtype = common_dtype;
        plan.device = device;
        plan.is_reduction = config.flags.is_reduction;
        plan.static_shape = config.static_shape.is_some();
        Self { plan: room }
    }

    #[inline(always)]
    fn push(&mut self, tensor: TensorRef, meta: *const Metadata, dtype: DType, is_output: bool) {
        self.push_operand(tensor, meta, dtype, is_output, false, false);
    }

    #[inline(always)]
    fn push_operand(
        &mut self,
        tensor: TensorRef,
        meta: *const Metadata,
        dtype: DType,
        is_output: bool,
        fresh: bool,
        resized: bool,
    ) {
        let planned = meta as usize;
        self.plan.operands.push(Operand { dtype, is_output, fresh, resized, planned });
        self.plan.tensors.push(tensor);
    }

    /// Pushes an output that the planner allocates.
    #[inline]
    fn push_fresh(&mut self, sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<()> {
        self.push_new(TensorImpl::empty_of(sizes, strides, dtype, device)?, dtype);
        Ok(())
    }

    #[inline(always)]
    fn push_new(&mut self, tensor: TensorRef, dtype: DType) {
        let meta = std::ptr::from_ref(tensor.metadata());
        self.push_operand(tensor, meta, dtype, true, true, false);
    }
}
