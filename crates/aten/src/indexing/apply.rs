//! An index applied to a tensor: views for its basic parts (`select`, `slice`, `unsqueeze`), then one `index` or
//! `index_put_` for its tensors. Every step is a dispatched operator, so that gradients flow.

use smallvec::SmallVec;
use tensor_core::{DType, Device, Result, Scalar, check_index, check_value, strides};

use super::{Slice, TensorIndex};
use crate::arithmetic::Right;
use crate::{Tensor, ops};

/// The tensors of an index, each at the dimension that it gathers from.
type Gathers = SmallVec<[Option<Tensor>; 4]>;

/// `x[index]`
pub(super) fn get(x: &Tensor, index: &[TensorIndex<'_>]) -> Result<Tensor> {
    match index {
        // A lone slice is recorded even where it takes everything.
        [TensorIndex::Slice(slice)] => return take_slice(x, 0, *slice),
        [TensorIndex::Ellipsis] => return ops::alias(x),
        _ => {}
    }
    let (view, gathers) = walk(x, index)?;
    if gathers.is_empty() {
        return if view.is_same(x) { ops::alias(&view) } else { Ok(view) };
    }
    ops::index(&view, &references(&gathers))
}

/// `x[index] = value`
pub(super) fn set(x: &Tensor, index: &[TensorIndex<'_>], value: Right<'_>) -> Result<()> {
    match index {
        [TensorIndex::Bool(false)] => return Ok(()),
        [TensorIndex::Bool(true)] => return write(&ops::unsqueeze(x, 0)?, value),
        _ => {}
    }
    let (view, gathers) = walk(x, index)?;
    if gathers.is_empty() {
        return write(&view, value);
    }
    let value = match value {
        Right::Tensor(value) => without_leading_ones(&value)?,
        Right::Number(value) => {
            if fill_mask(&view, &gathers, value)? || fill_positions(&view, &gathers, value)? {
                return Ok(());
            }
            ops::full(&[], value, Some(view.dtype()), None, Some(view.device()), None)?
        }
    };
    ops::index_put_(&view, &references(&gathers), &value, false).map(drop)
}

/// Applies the basic parts of an index, and notes its tensors.
fn walk(x: &Tensor, index: &[TensorIndex<'_>]) -> Result<(Tensor, Gathers)> {
    let specified: usize = index.iter().map(dims_of).sum();
    // Of a lone position or slice, what takes it says what is wrong.
    let alone = matches!(index, [TensorIndex::Int(_) | TensorIndex::Slice(_)]);
    let dims = x.dim();
    check_index!(alone || specified <= dims, "too many indices for tensor of dimension {dims}");
    let mut gathers = Gathers::new();
    let mut view = x.clone();
    let mut dim = 0;
    for (part, item) in index.iter().enumerate() {
        // How many dimensions without a tensor this part leaves behind.
        let mut passed = 0;
        match item {
            TensorIndex::Int(at) => view = select(&view, dim, *at, part)?,
            TensorIndex::Slice(slice) => {
                if !takes_all(&view, dim, *slice) {
                    view = take_slice(&view, dim, *slice)?;
                }
                passed = 1;
            }
            TensorIndex::Ellipsis => passed = dims.saturating_sub(specified),
            TensorIndex::None => {
                view = ops::unsqueeze(&view, dim as i64)?;
                passed = 1;
            }
            TensorIndex::Bool(value) => {
                view = ops::unsqueeze(&view, dim as i64)?;
                dim += note(&mut gathers, dim, one_or_none(*value, view.device())?);
            }
            TensorIndex::Tensor(tensor) if tensor.dim() == 0 && tensor.dtype().is_integral(true) => {
                let value = ops::item(tensor)?;
                if is_mask(tensor) {
                    view = ops::unsqueeze(&view, dim as i64)?;
                    dim += note(&mut gathers, dim, one_or_none(value.to_bool(), view.device())?);
                } else {
                    view = select(&view, dim, value.to_i64(), part)?;
                }
            }
            TensorIndex::Tensor(tensor) => dim += note(&mut gathers, dim, Tensor::clone(tensor)),
        }
        if !gathers.is_empty() {
            gathers.extend(std::iter::repeat_n(None, passed));
        }
        dim += passed;
    }
    while gathers.last().is_some_and(Option::is_none) {
        gathers.pop();
    }
    Ok((view, gathers))
}

/// How many of the tensor's dimensions a part of an index speaks of.
fn dims_of(item: &TensorIndex<'_>) -> usize {
    match item {
        TensorIndex::Tensor(tensor) if is_mask(tensor) => tensor.dim(),
        TensorIndex::Tensor(_) | TensorIndex::Int(_) | TensorIndex::Slice(_) => 1,
        TensorIndex::None | TensorIndex::Ellipsis | TensorIndex::Bool(_) => 0,
    }
}

fn is_mask(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), DType::Bool | DType::U8)
}

/// Notes a tensor that gathers from a dimension, and says how many dimensions it takes up.
fn note(gathers: &mut Gathers, dim: usize, tensor: Tensor) -> usize {
    if gathers.is_empty() {
        gathers.resize(dim, None);
    }
    let dims = if is_mask(&tensor) { tensor.dim() } else { 1 };
    gathers.push(Some(tensor));
    dims
}

/// What a truth value gathers from a dimension of size 1.
fn one_or_none(value: bool, device: Device) -> Result<Tensor> {
    ops::full(&[value as i64], 0i64, Some(DType::I64), None, Some(device), None)
}

fn select(x: &Tensor, dim: usize, at: i64, part: usize) -> Result<Tensor> {
    let sizes = x.sizes();
    check_index!(
        !sizes.is_empty(),
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim \
         tensor to a number"
    );
    let size = sizes[strides::wrap_dim(dim as i64, sizes.len())?];
    check_index!(at >= -size && at < size, "index {at} is out of bounds for dimension {part} with size {size}");
    ops::select_int(x, dim as i64, at)
}

fn take_slice(x: &Tensor, dim: usize, slice: Slice) -> Result<Tensor> {
    check_value!(slice.step > 0, "step must be greater than zero");
    check_index!(x.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
    ops::slice(x, dim as i64, slice.start, slice.stop, slice.step)
}

fn takes_all(x: &Tensor, dim: usize, slice: Slice) -> bool {
    let Some(&size) = x.sizes().get(dim) else { return false };
    slice.start.unwrap_or(0) == 0 && slice.stop.is_none_or(|stop| stop >= size) && slice.step == 1
}

fn references(gathers: &Gathers) -> SmallVec<[Option<&Tensor>; 4]> {
    gathers.iter().map(Option::as_ref).collect()
}

/// Writes a value over a whole view.
fn write(view: &Tensor, value: Right<'_>) -> Result<()> {
    let value = match value {
        Right::Number(value) => return ops::fill_scalar_(view, value).map(drop),
        Right::Tensor(value) => value,
    };
    if value.sizes() == view.sizes() {
        ops::copy_(view, &value, false)?;
    } else if value.dim() == 0 && value.device().is_cpu() {
        ops::fill_(view, &value)?;
    } else {
        let value = ops::expand(&without_leading_ones(&value)?, view.sizes(), true)?;
        ops::copy_(view, &value, false)?;
    }
    Ok(())
}

fn without_leading_ones(x: &Tensor) -> Result<Tensor> {
    let sizes = x.sizes();
    let ones = sizes.iter().take_while(|&&size| size == 1).count();
    if ones == 0 { Ok(x.clone()) } else { ops::view(x, &sizes[ones..]) }
}

/// `masked_fill_`, where the one tensor is a mask.
fn fill_mask(view: &Tensor, gathers: &Gathers, value: Scalar) -> Result<bool> {
    let Some((Some(mask), before)) = gathers.split_last() else { return Ok(false) };
    if !is_mask(mask) || mask.device() != view.device() || before.iter().any(Option::is_some) {
        return Ok(false);
    }
    for (d, &size) in mask.sizes().iter().enumerate() {
        let at = before.len() + d;
        check_index!(
            view.sizes().get(at) == Some(&size),
            "The shape of the mask {} at index {d} does not match the shape of the indexed tensor {} at index {at}",
            strides::show(mask.sizes()),
            strides::show(view.sizes())
        );
    }
    let mut mask = mask.clone();
    for _ in before.len() + mask.dim()..view.dim() {
        mask = ops::unsqueeze(&mask, -1)?;
    }
    ops::masked_fill_scalar_(view, &mask, value)?;
    Ok(true)
}

/// `index_fill_`, where the one tensor holds positions.
fn fill_positions(view: &Tensor, gathers: &Gathers, value: Scalar) -> Result<bool> {
    let Some((Some(index), before)) = gathers.split_last() else { return Ok(false) };
    if index.dtype() != DType::I64
        || index.device() != view.device()
        || before.iter().any(Option::is_some)
        || (index.dim() > 1 && !index.is_contiguous())
    {
        return Ok(false);
    }
    let flat;
    let index = if index.dim() > 1 {
        flat = ops::view(index, &[-1])?;
        &flat
    } else {
        index
    };
    ops::index_fill_int_scalar_(view, before.len() as i64, index, value)?;
    Ok(true)
}
