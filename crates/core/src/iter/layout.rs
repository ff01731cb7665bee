//! The order of a plan's dimensions: byte strides, reordering, merging. PyTorch's rules, ties included, since the layout of
//! fresh outputs follows from them.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::{ByteStrides, TensorIter};
use crate::strides::{self, Dims};
use crate::tensor_impl::Metadata;
use crate::{DType, Result, check};

/// Dimensions, innermost first.
pub(super) type Order = SmallVec<[usize; 5]>;

/// The strides, in elements, that the kernel sees of a tensor: those of a dense copy where it must be cast.
pub(super) fn seen_strides(meta: &Metadata, dtype: DType) -> Dims {
    if meta.dtype == dtype { Dims::from_slice(&meta.strides) } else { strides::dense_like(&meta.sizes, &meta.strides) }
}

/// Byte strides along `shape`, outermost first; 0 where a dimension is broadcast.
pub(super) fn broadcast_strides(
    shape: &[i64],
    sizes: &[i64],
    strides: &[i64],
    itemsize: usize,
    static_shape: bool,
) -> Result<ByteStrides> {
    let bytes = |stride: i64| (stride as isize).wrapping_mul(itemsize as isize);
    if static_shape {
        check!(
            strides.len() == shape.len(),
            "expected an operand with {} dimensions, got {}",
            shape.len(),
            strides.len()
        );
        return Ok(strides.iter().map(|&stride| bytes(stride)).collect());
    }
    check!(sizes.len() <= shape.len(), "an operand has more dimensions than the operation");
    let lead = shape.len() - sizes.len();
    let mut out = ByteStrides::from_elem(0, shape.len());
    for (i, (&size, &stride)) in sizes.iter().zip(strides).enumerate() {
        if size == shape[lead + i] {
            out[lead + i] = bytes(stride);
        } else {
            check!(
                size == 1,
                "output with shape {} doesn't match the broadcast shape {}",
                strides::show(sizes),
                strides::show(shape)
            );
        }
    }
    Ok(out)
}

/// What votes on the order of the dimensions: byte strides, outermost first, and whether it is a reduction's output.
pub(super) struct Voter<'a> {
    pub strides: &'a [isize],
    pub reduced: bool,
}

/// The order of dimensions in which the operands lie best in memory; the first operand that can tell decides.
pub(super) fn order(shape: &[i64], voters: &[Voter<'_>]) -> Order {
    strides::order_dims(shape.len(), |a, b| {
        for voter in voters {
            let (x, y) = (voter.strides[a], voter.strides[b]);
            if voter.reduced && (x == 0) != (y == 0) {
                // Reduced dimensions go inside.
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

impl TensorIter {
    /// Plans the walk anew from the operands' tensors.
    pub(super) fn replan(&mut self) -> Result<()> {
        let mut all: SmallVec<[ByteStrides; 4]> = SmallVec::new();
        for operand in &self.operands {
            let meta = operand.metadata()?;
            let strides = seen_strides(meta, operand.dtype);
            all.push(broadcast_strides(
                &self.sizes,
                &meta.sizes,
                &strides,
                operand.dtype.itemsize(),
                self.static_shape,
            )?);
        }
        let voters: SmallVec<[Voter<'_>; 4]> = self
            .operands
            .iter()
            .zip(&all)
            .map(|(operand, strides)| Voter { strides, reduced: operand.is_output && self.is_reduction })
            .collect();
        let order = order(&self.sizes, &voters);
        self.shape = order.iter().map(|&dim| self.sizes[dim]).collect();
        for (operand, strides) in self.operands.iter_mut().zip(&all) {
            operand.strides = order.iter().map(|&dim| strides[dim]).collect();
        }
        self.merge();
        Ok(())
    }

    /// Merges neighbouring dimensions that every operand walks as one.
    pub(super) fn merge(&mut self) {
        let Self { shape, operands, .. } = self;
        if shape.is_empty() {
            shape.push(1);
            for operand in operands.iter_mut() {
                operand.strides.push(operand.dtype.itemsize() as isize);
            }
            return;
        }
        let mut last = 0;
        for dim in 1..shape.len() {
            let (inner, outer) = (shape[last], shape[dim]);
            let merges = inner == 1
                || outer == 1
                || operands.iter().all(|o| o.strides[last].wrapping_mul(inner as isize) == o.strides[dim]);
            if merges && inner != 1 {
                shape[last] = shape[last].wrapping_mul(outer);
                continue;
            }
            // A dimension of size 1 is replaced by the next; one that cannot be merged starts a new one.
            last += usize::from(!merges);
            shape[last] = outer;
            for operand in operands.iter_mut() {
                operand.strides[last] = operand.strides[dim];
            }
        }
        shape.truncate(last + 1);
        for operand in operands.iter_mut() {
            operand.strides.truncate(last + 1);
        }
    }
}
