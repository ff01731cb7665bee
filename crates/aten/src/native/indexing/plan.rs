//! Advanced indexing brought into one form: [`IndexPlan`], which kernels read (`index`) and write (`index_put`) through.

use smallvec::SmallVec;
use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, Error, ErrorKind, Result, check_index};

use crate::{Tensor, ops};

/// Some dimensions with their strides, in elements.
pub struct Axes {
    /// the sizes
    pub sizes: Dims,
    /// the strides
    pub strides: Dims,
}

/// Which indices are within a dimension.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// true if negative indices count from the end
    pub wrap: bool,
    /// the error of an index that is not: the index, the number of its dimension, the size of that
    pub refuse: fn(i64, usize, i64) -> Error,
    /// the number that the dimension of the first index tensor has in the error
    pub first: usize,
}

fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::new(ErrorKind::Index, format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// The elements of a tensor that index tensors name, in the order of the result: dimensions before the indexed ones, those
/// of the index tensors, dimensions after.
///
/// Element (b, i, a) lies at `offset(before, b) + sum over k of indices[k][i] * indexed.strides[k] + offset(after, a)` of
/// `flat`. Kernels check the indices, and add the size to negative ones where `bounds` lets them.
pub struct IndexPlan {
    /// the indexed tensor's memory, from its first to its last element: 1-d, stride 1
    pub flat: Tensor,
    /// dimensions before the indexed ones
    pub before: Axes,
    /// the indexed dimensions, one an index tensor
    pub indexed: Axes,
    /// dimensions after the indexed ones
    pub after: Axes,
    /// i64 tensors of one shape
    pub indices: SmallVec<[Tensor; 4]>,
    /// which indices there are
    pub bounds: Bounds,
}

impl IndexPlan {
    /// The shape of the index tensors.
    pub fn index_sizes(&self) -> &[i64] {
        self.indices.first().map_or(&[], Tensor::sizes)
    }

    /// The shape of the result.
    pub fn sizes(&self) -> Dims {
        [&self.before.sizes[..], self.index_sizes(), &self.after.sizes].concat().into()
    }

    /// The strides of the indexed tensor for the result's dimensions, 0 where index tensors decide.
    pub fn strides(&self) -> Dims {
        let zeros = Dims::from_elem(0, self.index_sizes().len());
        [&self.before.strides[..], &zeros, &self.after.strides].concat().into()
    }
}

/// The memory of a tensor from its first to its last element, as a 1-d tensor.
///
/// # Errors
/// When the tensor does not lie within its storage.
pub fn flat(x: &Tensor) -> Result<Tensor> {
    let span = if x.numel() == 0 {
        0
    } else {
        1 + x.sizes().iter().zip(x.strides()).map(|(&size, &stride)| (size - 1) * stride).sum::<i64>()
    };
    x.view_of_storage(&[span], &[1], x.storage_offset())
}

/// True for the dtypes of masks.
pub fn is_mask(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::U8)
}

/// Refuses a mask whose dimension `d` has another size than dimension `at` of the indexed tensor.
pub fn check_mask(x: &Tensor, mask: &Tensor, d: usize, at: usize) -> Result<()> {
    check_index!(
        mask.sizes()[d] == x.size(at as i64)?,
        "The shape of the mask {} at index {d} does not match the shape of the indexed tensor {} at index {at}",
        show(mask.sizes()),
        show(x.sizes())
    );
    Ok(())
}

/// Index tensors as i64, masks replaced by the positions of their true elements, one tensor a dimension of the mask.
fn positions(x: &Tensor, indices: &[Option<&Tensor>]) -> Result<SmallVec<[Option<Tensor>; 4]>> {
    let mut list = SmallVec::new();
    for index in indices {
        match index {
            None => list.push(None),
            Some(mask) if is_mask(mask.dtype()) => {
                for d in 0..mask.dim() {
                    check_mask(x, mask, d, list.len() + d)?;
                }
                let nonzero = ops::nonzero(mask)?;
                for d in 0..mask.dim() {
                    list.push(Some(crate::composite::view::select_int(&nonzero, 1, d as i64)?));
                }
            }
            Some(index) if index.dtype() == DType::I64 => list.push(Some(Tensor::clone(index))),
            Some(index) => list.push(Some(super::as_i64(index)?)),
        }
    }
    Ok(list)
}

/// Index tensors expanded to the shape that they broadcast to.
fn broadcast(list: &mut [Option<Tensor>]) -> Result<()> {
    let mut shape = Dims::new();
    for index in list.iter().flatten() {
        let Ok(common) = strides::broadcast(&shape, index.sizes()) else {
            let shapes: Vec<String> = list.iter().flatten().map(|index| show(index.sizes()).to_string()).collect();
            tensor_core::bail!(
                Index,
                "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
                shapes.join(", ")
            );
        };
        shape = common;
    }
    for index in list.iter_mut().flatten() {
        if index.sizes() != shape.as_slice() {
            let (sizes, strides) = strides::expand(index.sizes(), index.strides(), &shape)?;
            *index = index.view_of_storage(&sizes, &strides, index.storage_offset())?;
        }
    }
    Ok(())
}

/// Plans `x[indices]`.
///
/// # Errors
/// `IndexError` for index tensors of a dtype that does not index, masks of another shape than the dimensions that they
/// mask, more index tensors than dimensions, and shapes that do not broadcast.
pub fn plan(x: &Tensor, indices: &[Option<&Tensor>]) -> Result<IndexPlan> {
    for index in indices.iter().flatten() {
        check_index!(
            matches!(index.dtype(), DType::I64 | DType::I32) || is_mask(index.dtype()),
            "tensors used as indices must be long, int, byte or bool tensors"
        );
    }
    let mut list = positions(x, indices)?;
    check_index!(
        list.len() <= x.dim(),
        "Dimension out of range (expected to be in range of [{}, {}], but got {})",
        -(x.dim().max(1) as i64),
        x.dim().max(1) - 1,
        x.dim()
    );
    broadcast(&mut list)?;
    list.resize(x.dim(), None);

    // Index tensors that are not side by side move to the front.
    let named: SmallVec<[usize; 5]> = (0..x.dim()).filter(|&d| list[d].is_some()).collect();
    let adjacent = named.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let first = if adjacent { named.first().copied().unwrap_or(x.dim()) } else { 0 };
    let axes = |dims: &mut dyn Iterator<Item = usize>| {
        let (mut sizes, mut strides) = (Dims::new(), Dims::new());
        for d in dims {
            sizes.push(x.sizes()[d]);
            strides.push(x.strides()[d]);
        }
        Axes { sizes, strides }
    };
    let rest = |d: &usize| list[*d].is_none();
    let plan = IndexPlan {
        flat: flat(x)?,
        before: axes(&mut (0..first).filter(rest)),
        indexed: axes(&mut named.iter().copied()),
        after: axes(&mut (first..x.dim()).filter(rest)),
        indices: named.iter().filter_map(|&d| list[d].clone()).collect(),
        bounds: Bounds { wrap: true, refuse: out_of_bounds, first: 0 },
    };
    check_index!(
        !plan.indexed.sizes.contains(&0) || plan.index_sizes().contains(&0),
        "index is out of bounds for dimension with size 0"
    );
    Ok(plan)
}
