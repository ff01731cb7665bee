//! Joins that are made of `cat` and `stack`, and grids of vectors.

use smallvec::SmallVec;
use tensor_core::promotion::ResultType;
use tensor_core::strides::{Dims, show, wrap_dim};
use tensor_core::{Result, bail, check};

use crate::{Tensor, ops};

fn references(tensors: &[Tensor]) -> SmallVec<[&Tensor; 8]> {
    tensors.iter().collect()
}

/// `cat` under another name.
pub fn concat(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    ops::cat(tensors, dim)
}

/// `cat` into a tensor, under another name.
pub fn concat_out(tensors: &[&Tensor], dim: i64, out: &Tensor) -> Result<()> {
    ops::cat_out(tensors, dim, out).map(drop)
}

/// `cat` under another name.
pub fn concatenate(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    ops::cat(tensors, dim)
}

/// `cat` into a tensor, under another name.
pub fn concatenate_out(tensors: &[&Tensor], dim: i64, out: &Tensor) -> Result<()> {
    ops::cat_out(tensors, dim, out).map(drop)
}

/// The tensors and the dimension that `hstack` joins.
fn side_by_side(tensors: &[&Tensor]) -> Result<(Vec<Tensor>, i64)> {
    check!(!tensors.is_empty(), "hstack expects a non-empty TensorList");
    let raised = ops::atleast_1d_sequence(tensors)?;
    let dim = if raised[0].dim() == 1 { 0 } else { 1 };
    Ok((raised, dim))
}

/// The tensors left to right: along dimension 1, or the only one.
pub fn hstack(tensors: &[&Tensor]) -> Result<Tensor> {
    let (raised, dim) = side_by_side(tensors)?;
    ops::cat(&references(&raised), dim)
}

/// `hstack` into a tensor.
pub fn hstack_out(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    let (raised, dim) = side_by_side(tensors)?;
    ops::cat_out(&references(&raised), dim, out).map(drop)
}

/// The tensors top to bottom: along dimension 0, vectors as rows.
pub fn vstack(tensors: &[&Tensor]) -> Result<Tensor> {
    check!(!tensors.is_empty(), "vstack expects a non-empty TensorList");
    ops::cat(&references(&ops::atleast_2d_sequence(tensors)?), 0)
}

/// `vstack` into a tensor.
pub fn vstack_out(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    check!(!tensors.is_empty(), "vstack expects a non-empty TensorList");
    ops::cat_out(&references(&ops::atleast_2d_sequence(tensors)?), 0, out).map(drop)
}

/// `vstack` under another name.
pub fn row_stack(tensors: &[&Tensor]) -> Result<Tensor> {
    ops::vstack(tensors)
}

/// `vstack` into a tensor, under another name.
pub fn row_stack_out(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    ops::vstack_out(tensors, out).map(drop)
}

/// The tensors front to back: along dimension 2.
pub fn dstack(tensors: &[&Tensor]) -> Result<Tensor> {
    check!(!tensors.is_empty(), "dstack expects a non-empty TensorList");
    ops::cat(&references(&ops::atleast_3d_sequence(tensors)?), 2)
}

/// `dstack` into a tensor.
pub fn dstack_out(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    check!(!tensors.is_empty(), "dstack expects a non-empty TensorList");
    ops::cat_out(&references(&ops::atleast_3d_sequence(tensors)?), 2, out).map(drop)
}

/// Vectors as columns of one row each element; matrices as they are.
fn columns(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    check!(!tensors.is_empty(), "column_stack expects a non-empty TensorList");
    let column = |x: &&Tensor| if x.dim() <= 1 { ops::reshape(x, &[x.numel(), 1]) } else { Ok(Tensor::clone(x)) };
    tensors.iter().map(column).collect()
}

/// Vectors as columns, matrices left to right.
pub fn column_stack(tensors: &[&Tensor]) -> Result<Tensor> {
    ops::hstack(&references(&columns(tensors)?))
}

/// `column_stack` into a tensor.
pub fn column_stack_out(tensors: &[&Tensor], out: &Tensor) -> Result<()> {
    ops::hstack_out(&references(&columns(tensors)?), out).map(drop)
}

/// The matrices along the diagonal of a larger one, zeros elsewhere.
pub fn block_diag(tensors: &[&Tensor]) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return ops::empty_memory_format(&[1, 0], None, None, None, None, None);
    };
    let common = tensors.iter().fold(ResultType::default(), |common, x| common.tensor(x.as_impl())).finish();
    let mut sizes = [0, 0];
    let mut blocks: SmallVec<[[i64; 2]; 8]> = SmallVec::new();
    for (i, x) in tensors.iter().enumerate() {
        check!(
            x.device() == first.device(),
            "torch.block_diag: input tensors must all be on the same device. Input 0 is on device {} and input {i} is on \
             device {}",
            first.device(),
            x.device()
        );
        let block = match *x.sizes() {
            [] => [1, 1],
            [n] => [1, n],
            [n, m] => [n, m],
            _ => bail!(
                Runtime,
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} dimensions",
                x.dim()
            ),
        };
        sizes = [sizes[0] + block[0], sizes[1] + block[1]];
        blocks.push(block);
    }
    let result = ops::zeros(&sizes, Some(common), None, Some(first.device()), None)?;
    let (mut row, mut column) = (0, 0);
    for (x, [n, m]) in tensors.iter().zip(blocks) {
        let place = result.view_of_storage(
            &[n, m],
            &[sizes[1].max(1), 1],
            if n * m == 0 { 0 } else { row * sizes[1] + column },
        )?;
        ops::copy_(&place, x, false)?;
        (row, column) = (row + n, column + m);
    }
    Ok(result)
}

/// The grids of some vectors: each expanded along the dimensions of the others.
pub fn meshgrid(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    ops::meshgrid_indexing(tensors, "ij")
}

/// `meshgrid` whose first two dimensions follow matrices (`ij`) or coordinates (`xy`).
pub fn meshgrid_indexing(tensors: &[&Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    let Some(first) = tensors.first() else { bail!(Runtime, "meshgrid expects a non-empty TensorList") };
    for x in tensors {
        check!(
            x.dim() <= 1,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {}",
            show(x.sizes())
        );
        check!(x.dtype() == first.dtype(), "meshgrid expects all tensors to have the same dtype");
        check!(x.device() == first.device(), "meshgrid expects all tensors to have the same device");
    }
    check!(
        matches!(indexing, "ij" | "xy"),
        "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}"
    );
    // Where each vector's dimension goes: coordinates name columns first.
    let place = |i: usize| if indexing == "xy" && tensors.len() >= 2 && i < 2 { 1 - i } else { i };
    let shape: Dims = (0..tensors.len()).map(|i| tensors[place(i)].numel()).collect();
    tensors
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let mut own = Dims::from_elem(1, tensors.len());
            own[place(i)] = -1;
            ops::expand(&ops::view(x, &own)?, &shape, false)
        })
        .collect()
}

/// All tuples of an element of each vector, a row each.
pub fn cartesian_prod(tensors: &[&Tensor]) -> Result<Tensor> {
    for x in tensors {
        check!(x.dim() == 1, "Expect a 1D vector, but got shape {}", show(x.sizes()));
    }
    if let [only] = tensors {
        return Ok(Tensor::clone(only));
    }
    let columns = ops::meshgrid_indexing(tensors, "ij")?
        .iter()
        .map(|grid| ops::flatten_using_ints(grid, 0, -1))
        .collect::<Result<Vec<_>>>()?;
    ops::stack(&references(&columns), 1)
}

/// All ways to take `r` elements of a vector, in order, a row each.
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    check!(self_.dim() == 1, "Expect a 1D vector, but got shape {}", show(self_.sizes()));
    check!(r >= 0, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return ops::new_empty(self_, &[0], None, None, None, None);
    }
    let n = self_.numel();
    let mut positions: Vec<i64> = Vec::new();
    let gap = i64::from(!with_replacement);
    // The next row raises the last position that can be raised, and sets those after it as low as they may be.
    let mut row: Vec<i64> = (0..r).map(|i| i * gap).collect();
    let highest = |i: i64| n - 1 - (r - 1 - i) * gap;
    while row.iter().zip(0..).all(|(&at, i)| at <= highest(i)) {
        positions.extend_from_slice(&row);
        let Some(raised) = (0..r).rev().find(|&i| row[i as usize] < highest(i)) else { break };
        let from = row[raised as usize] + 1;
        for i in raised..r {
            row[i as usize] = from + (i - raised) * gap;
        }
    }
    let rows = positions.len() as i64 / r;
    let index = Tensor::from_slice(&positions, &[rows, r])?;
    let index = if self_.device().is_cpu() {
        index
    } else {
        ops::_to_copy(&index, None, None, Some(self_.device()), None, false, None)?
    };
    ops::index(self_, &[Some(&index)])
}

/// Splits each tensor into chunks of `dim`, padded with zeros to the same size, and joins those of all, flattened, chunk by
/// chunk.
pub fn _chunk_cat(tensors: &[&Tensor], dim: i64, num_chunks: i64) -> Result<Tensor> {
    check!(num_chunks >= 1, "_chunk_cat expects positive num_chunks");
    let [first, ..] = tensors else { bail!(Runtime, "_chunk_cat expects a non-empty input tensor list") };
    for x in tensors {
        check!(x.numel() > 0, "_chunk_cat expects non-empty tensor");
        check!(x.dtype() == first.dtype(), "_chunk_cat expects all input tensors with the same dtype");
        check!(x.device() == first.device(), "_chunk_cat expects all input tensors on the same device");
    }
    let alike = tensors.iter().all(|x| x.dim() == first.dim());
    check!(dim >= 0 || alike, "_chunk_cat expects non-negative dim when input tensors have different ndims");
    let d = if alike { wrap_dim(dim, first.dim())? } else { dim as usize };
    let mut parts = Vec::with_capacity(tensors.len());
    for x in tensors {
        check!(d < x.dim(), "_chunk_cat expects dim < ndim for all input tensors");
        check!(
            x.sizes()[..d] == first.sizes()[..d],
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
        );
        let missing = (-x.sizes()[d]).rem_euclid(num_chunks);
        let mut pads = vec![0; 2 * (x.dim() - d)];
        if let Some(last) = pads.last_mut() {
            *last = missing;
        }
        let padded = if missing > 0 { ops::constant_pad_nd(x, &pads, 0)? } else { Tensor::clone(x) };
        let mut shape = Dims::from_slice(&x.sizes()[..d]);
        shape.extend_from_slice(&[num_chunks, -1]);
        parts.push(ops::reshape(&padded, &shape)?);
    }
    ops::cat(&parts.iter().collect::<Vec<_>>(), d as i64 + 1)
}
