//! The order of a plan's dimensions: byte strides, reordering, merging. PyTorch's rules, ties included, since the layout of
//! fresh outputs follows from them.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::SmallVec;

use super::TensorIter;
use crate::strides::{self, Dims};
use crate::tensor_impl::Metadata;
use crate::{DType, MemoryFormat, Result, check};

/// Dimensions, innermost first.
pub(super) type Order = SmallVec<[usize; 5]>;

/// The strides, in elements, that the kernel sees of a tensor: those of a dense copy where it must be cast.
#[inline]
pub(super) fn seen_strides(meta: &Metadata, dtype: DType) -> Cow<'_, [i64]> {
    if meta.dtype == dtype || meta.is_non_overlapping_and_dense() {
        Cow::Borrowed(&meta.strides)
    } else {
        Cow::Owned(strides::dense_like(&meta.sizes, &meta.strides).into_vec())
    }
}

/// The strides that operands of one shape share, if each is one run of elements in the same order.
pub(super) fn dense_layout<'s>(sizes: &[i64], all: impl Iterator<Item = &'s [i64]> + Clone) -> Option<Dims> {
    let every = |test: &dyn Fn(&[i64]) -> bool| all.clone().all(test);
    if every(&|strides| strides::is_contiguous(sizes, strides)) {
        return Some(strides::contiguous(sizes));
    }
    let format = MemoryFormat::ChannelsLast;
    if every(&|strides| strides::is_channels_last(sizes, strides, format)) {
        return strides::of_format(sizes, format).ok();
    }
    let last = all.clone().last()?;
    (strides::is_non_overlapping_and_dense(sizes, last) && every(&|strides| strides == last))
        .then(|| Dims::from_slice(last))
}

/// The strides, in elements, of a dense output whose dimensions lie in an order.
pub(super) fn strides_in_order(sizes: &[i64], order: &Order) -> Dims {
    if order.iter().rev().copied().eq(0..sizes.len()) {
        return strides::contiguous(sizes);
    }
    let mut strides = Dims::from_elem(0, sizes.len());
    let mut next = 1i64;
    for &dim in order {
        strides[dim] = next;
        next = next.wrapping_mul(sizes[dim]);
    }
    strides
}

/// The byte strides of every operand along the broadcast shape, outermost first; 0 where a dimension is broadcast.
pub(super) struct Table {
    ndim: usize,
    strides: SmallVec<[isize; 20]>,
    /// Whether each operand has a say in the order: not so if the planner gives it its layout.
    votes: SmallVec<[bool; 8]>,
}

impl Table {
    pub(super) fn new(ndim: usize) -> Self {
        Self { ndim, strides: SmallVec::new(), votes: SmallVec::new() }
    }

    /// The next operand, whose layout is the planner's to choose: see [`Table::fill`].
    pub(super) fn push_open(&mut self) {
        self.strides.resize(self.strides.len() + self.ndim, 0);
        self.votes.push(false);
    }

    /// The next operand: its sizes and strides in elements, which broadcast to `shape`.
    pub(super) fn push(&mut self, shape: &[i64], sizes: &[i64], strides: &[i64], itemsize: usize) -> Result<()> {
        self.push_open();
        self.votes.pop();
        self.votes.push(true);
        self.fill(self.votes.len() - 1, shape, sizes, strides, itemsize)
    }

    /// Sets the strides of operand `i`.
    pub(super) fn fill(
        &mut self,
        i: usize,
        shape: &[i64],
        sizes: &[i64],
        strides: &[i64],
        itemsize: usize,
    ) -> Result<()> {
        check!(sizes.len() <= self.ndim, "an operand has more dimensions than the operation");
        let lead = self.ndim - sizes.len();
        let row = &mut self.strides[i * self.ndim + lead..(i + 1) * self.ndim];
        for (((to, &size), &stride), &whole) in row.iter_mut().zip(sizes).zip(strides).zip(&shape[lead..]) {
            if size == whole {
                *to = (stride as isize).wrapping_mul(itemsize as isize);
            } else {
                check!(
                    size == 1,
                    "output with shape {} doesn't match the broadcast shape {}",
                    strides::show(sizes),
                    strides::show(shape)
                );
                *to = 0;
            }
        }
        Ok(())
    }

    #[inline]
    fn at(&self, i: usize, dim: usize) -> isize {
        self.strides[i * self.ndim + dim]
    }

    /// The order of dimensions in which the operands lie best in memory: the first one that can tell decides. The first
    /// `reduced` operands are a reduction's outputs, whose broadcast dimensions go inside.
    pub(super) fn order(&self, shape: &[i64], reduced: usize) -> Order {
        strides::order_dims(self.ndim, |a, b| {
            for (i, _) in self.votes.iter().enumerate().filter(|(_, votes)| **votes) {
                let (x, y) = (self.at(i, a), self.at(i, b));
                if i < reduced && (x == 0) != (y == 0) {
                    return if y == 0 { Ordering::Greater } else { Ordering::Less };
                }
                if x == 0 || y == 0 {
                    continue;
                }
                match x.cmp(&y) {
                    Ordering::Equal if shape[a] > shape[b] => return Ordering::Greater,
                    Ordering::Equal => {}
                    decided => return decided,
                }
            }
            Ordering::Equal
        })
    }
}

impl TensorIter {
    /// Plans the walk anew from the operands' tensors.
    pub(super) fn replan(&mut self) -> Result<()> {
        let mut table = Table::new(self.plan.sizes.len());
        for (i, operand) in self.plan.operands.iter().enumerate() {
            let meta = self.metadata(i)?;
            let sizes = if self.plan.static_shape { &self.plan.sizes } else { &meta.sizes };
            table.push(&self.plan.sizes, sizes, &seen_strides(meta, operand.dtype), operand.dtype.itemsize())?;
        }
        let order = table.order(&self.plan.sizes, if self.plan.is_reduction { self.plan.num_outputs } else { 0 });
        self.lay_out(&order, &table);
        Ok(())
    }

    /// One dimension: every operand is one run of elements in the same order.
    #[inline]
    pub(super) fn lay_flat(&mut self) {
        let plan = &mut *self.plan;
        plan.shape.clear();
        plan.shape.push(plan.numel);
        plan.strides.clear();
        plan.strides.extend(plan.operands.iter().map(|operand| operand.dtype.itemsize() as isize));
    }

    /// Takes the dimensions in an order, and merges neighbours that every operand walks as one.
    pub(super) fn lay_out(&mut self, order: &Order, table: &Table) {
        let Some((&first, rest)) = order.split_first() else { return self.lay_flat() };
        let plan = &mut *self.plan;
        plan.shape.clear();
        plan.shape.push(plan.sizes[first]);
        // The dimension that each merged one takes its strides from.
        let mut from = Order::new();
        from.push(first);
        let (mut last, mut size) = (first, plan.sizes[first]);
        for &dim in rest {
            let outer = plan.sizes[dim];
            if outer == 1 {
                continue;
            }
            let at = from.len() - 1;
            let as_one = |i| table.at(i, last).wrapping_mul(size as isize) == table.at(i, dim);
            if size == 1 {
                (last, size) = (dim, outer);
                (from[at], plan.shape[at]) = (last, size);
            } else if (0..plan.operands.len()).all(as_one) {
                size = size.wrapping_mul(outer);
                plan.shape[at] = size;
            } else {
                (last, size) = (dim, outer);
                from.push(last);
                plan.shape.push(size);
            }
        }
        plan.strides.clear();
        for i in 0..plan.operands.len() {
            plan.strides.extend(from.iter().map(|&dim| table.at(i, dim)));
        }
    }
}
