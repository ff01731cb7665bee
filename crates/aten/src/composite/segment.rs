//! Reductions of segments of a dimension.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, Scalar, bail, check};

use crate::kernels::{self, SegmentReduction, Segments};
use crate::{Tensor, ops};

fn reduction(name: &str) -> Result<SegmentReduction> {
    Ok(match name {
        "max" => SegmentReduction::Max,
        "min" => SegmentReduction::Min,
        "mean" => SegmentReduction::Mean,
        "sum" => SegmentReduction::Sum,
        "prod" => SegmentReduction::Prod,
        other => bail!(Runtime, "unsupported reduction {other}"),
    })
}

/// The bounds of the segments: i64 (outer, segments + 1), from the lengths or the offsets of each outer position.
fn bounds(
    data: &Tensor,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    trusted: bool,
) -> Result<(Tensor, Dims)> {
    let axis = wrap_dim(axis, data.dim())?;
    let (name, given) = match (offsets, lengths) {
        (Some(offsets), _) => ("offsets", offsets),
        (None, Some(lengths)) => ("lengths", lengths),
        (None, None) => bail!(Runtime, "segment_reduce(): Either lengths or offsets must be defined."),
    };
    check!(
        given.dim() == axis + 1 && given.dim() <= data.dim(),
        "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
    );
    check!(
        given.sizes()[..axis] == data.sizes()[..axis],
        "segment_reduce(): Expected {name} and data to have the same sizes before axis"
    );
    check!(
        given.dtype().is_integral(false),
        "\"_segment_reduce_cpu\" not implemented for '{}'",
        given.dtype().cpp_name()
    );
    let given = ops::to_dtype(&ops::contiguous(given, MemoryFormat::Contiguous)?, DType::I64, false, false, None)?;
    let size = data.sizes()[axis];
    let outer: i64 = given.sizes()[..axis].iter().product();
    let last = given.sizes()[axis];
    let given = ops::view(&given, &[outer, last])?;
    if offsets.is_some() {
        return Ok((given, segment_shape(data, axis, last - 1)));
    }
    if !trusted && given.numel() > 0 && !given.is_meta() {
        check!(ops::item(&ops::min(&given)?)?.to_i64() >= 0, "lengths contains negative value!");
        let sums = ops::sum_dim_int_list(&given, Some(&[-1]), false, None)?;
        check!(
            ops::item(&ops::all(&ops::eq_scalar(&sums, size)?)?)?.to_bool(),
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
        );
    }
    let zero = ops::zeros(&[outer, 1], Some(DType::I64), None, Some(data.device()), None)?;
    let ends = ops::cat(&[&zero, &ops::cumsum(&given, 1, None)?], 1)?;
    Ok((ends, segment_shape(data, axis, last)))
}

fn segment_shape(data: &Tensor, axis: usize, segments: i64) -> Dims {
    let mut shape = Dims::from_slice(data.sizes());
    shape[axis] = segments.max(0);
    shape
}

/// A tensor as (outer, along, inner).
fn matrix(x: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = wrap_dim(axis, x.dim())?;
    let dense = ops::contiguous(x, MemoryFormat::Contiguous)?;
    let product = |sizes: &[i64]| sizes.iter().product::<i64>();
    let sizes = dense.sizes();
    ops::view(&dense, &[product(&sizes[..axis]), sizes[axis], product(&sizes[axis + 1..])])
}

/// Reduces segments of a dimension, given by lengths or offsets.
#[allow(clippy::too_many_arguments)]
pub fn segment_reduce(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    trusted: bool,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    check!(indices.is_none(), "segment_reduce(): indices based reduction is not supported yet.");
    let reduction = reduction(reduce)?;
    let (bounds, shape) = bounds(data, lengths, offsets, axis, trusted)?;
    let result = Tensor::new_dense(&shape, data.dtype(), data.device())?;
    if data.is_meta() {
        return Ok(result);
    }
    let kernel = kernels::segment(data.device())?.segment_reduce.get(data.dtype(), "_segment_reduce_cpu")?;
    let segments = Segments { bounds: &bounds, reduction, initial: initial.map(Scalar::to_f64) };
    kernel(&matrix(&result, axis)?, &matrix(data, axis)?, segments)?;
    Ok(result)
}

/// Gradient of [`segment_reduce`].
#[allow(clippy::too_many_arguments)]
pub fn _segment_reduce_backward(
    grad: &Tensor,
    output: &Tensor,
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let reduction = reduction(reduce)?;
    let (bounds, shape) = bounds(data, lengths, offsets, axis, true)?;
    check!(
        grad.sizes() == &shape[..] && output.sizes() == &shape[..],
        "segment_reduce(): Expected grad and output to have the shape of the result"
    );
    check!(
        grad.dtype() == data.dtype() && output.dtype() == data.dtype(),
        "segment_reduce(): Expected grad, output and data to have the same dtype"
    );
    let result = ops::zeros(data.sizes(), Some(data.dtype()), None, Some(data.device()), None)?;
    if data.is_meta() {
        return Ok(result);
    }
    let kernel = kernels::segment(data.device())?.segment_reduce_backward.get(data.dtype(), "_segment_reduce_cpu")?;
    let segments = Segments { bounds: &bounds, reduction, initial: initial.map(Scalar::to_f64) };
    let [grad, output, data] = [matrix(grad, axis)?, matrix(output, axis)?, matrix(data, axis)?];
    kernel(&matrix(&result, axis)?, [&grad, &output, &data], segments)?;
    Ok(result)
}
