//! The way back from a maximum: elements put where they were the largest, zeros elsewhere.

use tensor_core::strides::Dims;
use tensor_core::{DType, Result, check};

use super::{format_of, is_last, list, ordered, place, shape, spec, table};
use crate::Tensor;
use crate::kernels::PoolWindow;
use crate::out::Out;

fn check_inputs(x: &Tensor, indices: &Tensor, size: &[i64], dims: usize) -> Result<()> {
    let (count, names) = if dims == 2 { ("two", "height, width") } else { ("three", "depth, height, width") };
    check!(
        indices.dtype() == DType::I64,
        "elements in indices should be type int64 but got: {}",
        indices.dtype().cpp_name()
    );
    check!(
        size.len() == dims,
        "There should be exactly {count} elements ({names}) in output_size, but got {} elements.",
        size.len()
    );
    check!(
        x.dim() == dims + 1 || x.dim() == dims + 2,
        "Input to max_unpooling{dims}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
        dims + 1,
        dims + 2,
        x.dim()
    );
    check!(
        x.sizes() == indices.sizes(),
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with shape: {}",
        list(x.sizes()),
        list(indices.sizes())
    );
    let skip = x.dim() - dims - 1;
    if let Some(d) = (skip..x.dim()).find(|&d| d > 0 && x.sizes()[d] == 0) {
        check!(
            false,
            "max_unpooling{dims}d(): Expected input to have non-zero size for non-batch dimensions, but got {} with \
             dimension {d} being empty.",
            list(x.sizes())
        );
    }
    Ok(())
}

fn unpool(out: Out<'_>, x: &Tensor, indices: &Tensor, size: &[i64], dims: usize) -> Result<Tensor> {
    let error = if dims == 2 { "max_unpool2d" } else { "max_unpool3d" };
    if !x.is_meta() {
        table(x.device())?.unpool.get(x.dtype(), error)?;
    }
    let mut sizes = Dims::from_slice(&x.sizes()[..x.dim() - dims]);
    sizes.extend_from_slice(size);
    let format = format_of(x, dims, false);
    let slot = out.prepare(0, spec(&sizes, x.dtype(), x, format)?, &[x, indices])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let last = is_last(format);
        let shape = shape(&sizes, x.sizes(), dims, last, PoolWindow::Adaptive);
        let kernel = table(x.device())?.unpool.get(x.dtype(), error)?;
        kernel(&place(&slot, last)?, &ordered(x, last)?, &ordered(indices, last)?, &shape, false)?;
    }
    slot.finish()
}

/// The inverse of a maximum over two dimensions.
pub fn max_unpool2d(out: Out<'_>, self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_inputs(self_, indices, output_size, 2)?;
    unpool(out, self_, indices, output_size, 2)
}

/// The inverse of a maximum over three dimensions.
pub fn max_unpool3d(
    out: Out<'_>,
    self_: &Tensor,
    indices: &Tensor,
    output_size: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    check_inputs(self_, indices, output_size, 3)?;
    check!(
        stride.len() == 3,
        "There should be exactly three elements (depth, height, width) in stride, but got: {} elements.",
        stride.len()
    );
    check!(
        padding.len() == 3,
        "There should be exactly three elements (depth, height, width) in padding, but got: {} elements.",
        padding.len()
    );
    check!(stride.iter().all(|&s| s > 0), "strides should be greater than zero, but got stride: {}", list(stride));
    unpool(out, self_, indices, output_size, 3)
}
