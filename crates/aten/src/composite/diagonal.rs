//! Diagonals: views of them, matrices made of them, traces.

use tensor_core::promotion::can_cast;
use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Device, Layout, MemoryFormat, Result, bail, check};

use crate::{Tensor, ops};

/// Two different dimensions, counted from the start.
fn plane(dim1: i64, dim2: i64, ndim: usize) -> Result<(usize, usize)> {
    let (a, b) = (wrap_dim(dim1, ndim)?, wrap_dim(dim2, ndim)?);
    check!(a != b, "diagonal dimensions cannot be identical {dim1}, {dim2}");
    Ok((a, b))
}

/// A diagonal of each plane of two dimensions, as the last dimension: a view.
pub fn diagonal(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let m = self_.as_impl().metadata();
    let (a, b) = plane(dim1, dim2, m.sizes.len())?;
    let (rows, columns) = (m.sizes[a], m.sizes[b]);
    let (down, right) = (offset.saturating_neg().max(0), offset.max(0));
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right)).max(0);
    let start = if length == 0 { m.offset } else { m.offset + down * m.strides[a] + right * m.strides[b] };
    let stride = m.strides[a] + m.strides[b];
    let without = |list: &Dims| -> Dims {
        list.iter().enumerate().filter(|&(d, _)| d != a && d != b).map(|(_, &value)| value).collect()
    };
    let (mut sizes, mut strides) = (without(&m.sizes), without(&m.strides));
    sizes.push(length);
    strides.push(stride);
    self_.view_of_storage(&sizes, &strides, start)
}

/// `diagonal` of the last two dimensions.
pub fn linalg_diagonal(a: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    ops::diagonal(a, offset, dim1, dim2)
}

/// Gradient of `diagonal`: zeros, with the gradient on the diagonal.
pub fn diagonal_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Tensor> {
    let result = ops::new_zeros(grad_output, input_sizes, None, None, None, None)?;
    ops::copy_(&diagonal(&result, offset, dim1, dim2)?, grad_output, false)?;
    Ok(result)
}

/// Zeros with the last dimension of `self` on a diagonal of a new plane.
pub fn diag_embed(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let mut sizes = Dims::from_slice(self_.sizes());
    let (a, b) = plane(dim1, dim2, sizes.len() + 1)?;
    let Some(last) = sizes.pop() else {
        bail!(Index, "Dimension specified as -1 but tensor has no dimensions");
    };
    let Some(side) = offset.checked_abs().and_then(|offset| offset.checked_add(last)) else {
        bail!(Runtime, "numel: integer multiplication overflow");
    };
    sizes.insert(a.min(b), side);
    sizes.insert(a.max(b), side);
    let result = ops::new_zeros(self_, &sizes, None, None, None, None)?;
    ops::copy_(&diagonal(&result, offset, a as i64, b as i64)?, self_, false)?;
    Ok(result)
}

/// A diagonal of a matrix, or the matrix with a vector on a diagonal.
pub fn diag(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    match self_.dim() {
        1 => ops::diag_embed(self_, diagonal, 0, 1),
        2 => ops::diagonal_copy(self_, diagonal, 0, 1),
        ndim => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {ndim}D"),
    }
}

/// `diag` into a tensor.
pub fn diag_out(self_: &Tensor, diagonal: i64, out: &Tensor) -> Result<()> {
    match self_.dim() {
        1 => {
            check!(
                can_cast(self_.dtype(), out.dtype()),
                "diag: result type {} can't be cast to the desired out= type {}",
                self_.dtype().cpp_name(),
                out.dtype().cpp_name()
            );
            check!(
                self_.dtype() == out.dtype(),
                "Expected out tensor to have dtype {}, but got {} instead",
                self_.dtype().c_name(),
                out.dtype().c_name()
            );
            ops::diag_embed_out(self_, diagonal, 0, 1, out).map(drop)
        }
        2 => ops::diagonal_copy_out(self_, diagonal, 0, 1, out).map(drop),
        ndim => bail!(Runtime, "diag(): Supports 1D or 2D tensors. Got {ndim}D"),
    }
}

/// The matrix with the flattened `self` on a diagonal.
pub fn diagflat(self_: &Tensor, offset: i64) -> Result<Tensor> {
    let flat = ops::view(&ops::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])?;
    ops::diag(&flat, offset)
}

/// A diagonal of each plane replaced by `src`.
pub fn diagonal_scatter(self_: &Tensor, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    super::view_copy::scattered(self_, src, |x| diagonal(x, offset, dim1, dim2))
}

/// The sum of a matrix's diagonal; integers sum as int64.
pub fn trace(self_: &Tensor) -> Result<Tensor> {
    check!(self_.dim() == 2, "trace: expected a matrix, but got tensor with dim {}", self_.dim());
    if self_.dtype() == DType::Bool {
        bail!(NotImplemented, "\"trace\" not implemented for 'Bool'");
    }
    ops::sum(&diagonal(self_, 0, 0, 1)?, None)
}

/// Gradient of `trace`: the unit matrix, times the gradient.
pub fn trace_backward(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let &[n, m] = sizes else { bail!(Runtime, "expected matrix input") };
    let zeros = ops::new_zeros(grad, &[n * m], None, None, None, None)?;
    let places =
        ops::arange_start_step(0, n.min(m) * (m + 1), m + 1, Some(DType::I64), None, Some(grad.device()), None)?;
    ops::view(&ops::index_fill_int_tensor(&zeros, 0, &places, grad)?, sizes)
}

/// The positions of a triangle of a matrix: a row of rows and a row of columns.
fn triangle_indices(
    name: &str,
    rows: i64,
    columns: i64,
    within: impl Fn(i64) -> std::ops::Range<i64>,
    (dtype, layout, device): (Option<DType>, Option<Layout>, Option<Device>),
) -> Result<Tensor> {
    check!(rows >= 0, "row must be non-negative, got{rows}");
    check!(columns >= 0, "col must be non-negative, got{columns}");
    check!(
        layout.is_none_or(|layout| layout == Layout::Strided),
        "only support layout=torch.strided, got {}",
        layout.unwrap_or_default()
    );
    let dtype = dtype.unwrap_or(DType::I64);
    if !dtype.is_integral(false) {
        bail!(NotImplemented, "\"{name}\" not implemented for '{}'", dtype.cpp_name());
    }
    let all = || (0..rows).flat_map(|i| within(i).map(move |j| (i, j)));
    let list: Vec<i64> = all().map(|(i, _)| i).chain(all().map(|(_, j)| j)).collect();
    let sizes = [2, list.len() as i64 / 2];
    let made = Tensor::from_slice(&list, &sizes)?;
    let device = device.unwrap_or(Device::CPU);
    if dtype == DType::I64 && device.is_cpu() {
        return Ok(made);
    }
    if device.is_meta() {
        return Tensor::new_dense(&sizes, dtype, device);
    }
    ops::_to_copy(&made, Some(dtype), None, Some(device), None, false, None)
}

/// The positions of the lower triangle of a matrix, row by row.
pub fn tril_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let within = |i: i64| 0..i.saturating_add(offset).saturating_add(1).clamp(0, col.max(0));
    triangle_indices("tril_indices", row, col, within, (dtype, layout, device))
}

/// The positions of the upper triangle of a matrix, row by row.
pub fn triu_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let within = |i: i64| i.saturating_add(offset).clamp(0, col.max(0))..col;
    triangle_indices("triu_indices", row, col, within, (dtype, layout, device))
}
