//! Bags of rows: the choice of a form, the gradients, and tables whose rows are held to a norm.

use tensor_core::{DType, MemoryFormat, Result, bail, check};

use crate::native::embedding_bag::{MAX, MEAN, SUM, bag_of_each, check_floating, check_index, vector};
use crate::{Tensor, ops};

type Four = (Tensor, Tensor, Tensor, Tensor);

/// Bags of rows, in the order of PyTorch's arguments.
#[allow(clippy::too_many_arguments)]
pub fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<Four> {
    embedding_bag_padding_idx(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        None,
    )
}

/// [`embedding_bag`] where one index counts nowhere.
#[allow(clippy::too_many_arguments)]
pub fn embedding_bag_padding_idx(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<Four> {
    let padding_idx = match padding_idx {
        Some(index) => {
            let rows = weight.size(0)?;
            check!(
                index >= -rows && index < rows,
                "padding_idx must be within the number of embeddings, {} through {}, but got {index}",
                -rows,
                rows - 1
            );
            if index < 0 { index + rows } else { index }
        }
        None => -1,
    };
    let differentiable = weight.requires_grad() || per_sample_weights.is_some_and(Tensor::requires_grad);
    let bags = if differentiable { ops::_embedding_bag } else { ops::_embedding_bag_forward_only };
    bags(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
}

/// The bag of each index: as it was kept, or from the offsets.
fn bags_of(indices: &Tensor, offsets: &Tensor, offset2bag: &Tensor) -> Result<Tensor> {
    if offset2bag.numel() > 0 || offsets.is_meta() || indices.numel() == 0 {
        return vector(offset2bag);
    }
    let mut starts = vector(offsets)?.to_vec::<i64>()?;
    let n = indices.numel();
    check!(
        starts.windows(2).all(|pair| pair[0] <= pair[1]) && starts.first().is_none_or(|&first| first == 0),
        "embedding_bag: offsets must start at 0 and not decrease, but got {starts:?}"
    );
    starts.retain(|&start| start <= n);
    starts.push(n);
    let bags = bag_of_each(&starts);
    check!(bags.len() as i64 == n, "embedding_bag: {n} indices are in no bag");
    Tensor::from_vec(bags, &[n])
}

/// Gradient of bags with respect to the table.
#[allow(clippy::too_many_arguments)]
pub fn _embedding_bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    check_index(indices)?;
    check_index(offsets)?;
    let bags = bags_of(indices, offsets, offset2bag)?;
    if sparse {
        return ops::_embedding_bag_sparse_backward(
            grad,
            indices,
            offsets,
            &bags,
            bag_size,
            num_weights,
            scale_grad_by_freq,
            mode,
            per_sample_weights,
            padding_idx,
        );
    }
    ops::_embedding_bag_dense_backward(
        grad,
        indices,
        &bags,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )
}

/// The gradient of a table as a sparse tensor, which there are not.
#[allow(clippy::too_many_arguments)]
pub fn _embedding_bag_sparse_backward(
    _grad: &Tensor,
    _indices: &Tensor,
    _offsets: &Tensor,
    _offset2bag: &Tensor,
    _bag_size: &Tensor,
    _num_weights: i64,
    _scale_grad_by_freq: bool,
    _mode: i64,
    _per_sample_weights: Option<&Tensor>,
    _padding_idx: i64,
) -> Result<Tensor> {
    bail!(NotImplemented, "embedding_bag: sparse gradients are not supported")
}

/// Rows of (n) numbers, as a column.
fn column(x: &Tensor) -> Result<Tensor> {
    ops::unsqueeze(x, 1)
}

/// The gradient of a table, as a tensor of all its rows.
#[allow(clippy::too_many_arguments)]
pub fn _embedding_bag_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    check_floating(grad, "grad_")?;
    let flat = vector(indices)?;
    match mode {
        SUM | MEAN => {
            let rows = ops::index_select(grad, 0, &vector(offset2bag)?)?;
            let rows = match per_sample_weights {
                Some(weights) => ops::mul(&rows, &column(weights)?)?,
                None if mode == MEAN => {
                    let sizes = ops::index_select(&vector(bag_size)?, 0, &vector(offset2bag)?)?;
                    let sizes = ops::to_dtype(&ops::clamp_min(&sizes, 1)?, grad.dtype(), false, false, None)?;
                    ops::div(&rows, &column(&sizes)?)?
                }
                None => rows,
            };
            ops::embedding_dense_backward(&rows, &flat, num_weights, padding_idx, scale_grad_by_freq)
        }
        MAX => {
            check!(!scale_grad_by_freq, "embedding_bag: scale_grad_by_freq is not supported with mode='max'");
            let counted = column(&ops::ne_scalar(&vector(bag_size)?, 0)?)?;
            let kept = ops::mul(grad, &ops::to_dtype(&counted, grad.dtype(), false, false, None)?)?;
            let zeros = ops::new_zeros(grad, &[num_weights, grad.size(1)?], None, None, None, None)?;
            let places = ops::to_dtype(maximum_indices, DType::I64, false, false, None)?;
            ops::scatter_add(&zeros, 0, &places, &kept)
        }
        _ => bail!(Runtime, "`mode` must be sum, mean, or max."),
    }
}

/// Gradient of bags with respect to the weights of single indices.
pub fn _embedding_bag_per_sample_weights_backward(
    grad: &Tensor,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    mode: i64,
    padding_idx: i64,
) -> Result<Tensor> {
    check!(mode == SUM, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
    check!(grad.dim() == 2 && weight.dim() == 2, "embedding_bag: gradient and table have two dimensions");
    check!(grad.size(1)? == weight.size(1)?, "embedding_bag: gradient and table have rows of one length");
    if !(grad.is_floating_point() || grad.is_meta()) {
        bail!(
            NotImplemented,
            "\"_embedding_bag_per_sample_weights_backward_cpu\" not implemented for '{}'",
            grad.dtype().cpp_name()
        );
    }
    check_index(indices)?;
    if grad.is_meta() {
        return ops::new_empty(grad, &[indices.numel()], None, None, None, None);
    }
    let (flat, bags) = (vector(indices)?, bags_of(indices, offsets, offset2bag)?);
    let wide = if grad.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let rows = |x: &Tensor, at: &Tensor| ops::to_dtype(&ops::index_select(x, 0, at)?, wide, false, false, None);
    let products = ops::mul(&rows(grad, &bags)?, &rows(weight, &flat)?)?;
    let sums = ops::sum_dim_int_list(&products, Some(&[1]), false, None)?;
    let sums = ops::to_dtype(&sums, grad.dtype(), false, false, None)?;
    if padding_idx < 0 { Ok(sums) } else { ops::masked_fill_scalar(&sums, &ops::eq_scalar(&flat, padding_idx)?, 0) }
}

/// Scales rows of `self` that indices name down to a norm, in place.
pub fn embedding_renorm_(self_: &Tensor, indices: &Tensor, max_norm: f64, norm_type: f64) -> Result<()> {
    check!(
        self_.dim() == 2,
        "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' (while checking arguments for \
         embedding_renorm_)",
        self_.dim()
    );
    check!(
        matches!(indices.dtype(), DType::I64 | DType::I32),
        "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got {} instead \
         (while checking arguments for embedding_renorm_)",
        if indices.dtype() == DType::Bool {
            "CPUBoolType".to_owned()
        } else {
            format!("torch.{}Tensor", indices.dtype().cpp_name())
        }
    );
    if !(self_.is_floating_point() || self_.is_complex()) {
        bail!(
            NotImplemented,
            "norm(): input dtype should be either floating point or complex. Got {} instead.",
            self_.dtype().cpp_name()
        );
    }
    if self_.is_meta() {
        return Ok(());
    }
    let rows = self_.size(0)?;
    let mut wanted = vector(indices)?.to_vec::<i64>()?;
    for index in &mut wanted {
        let at = *index;
        tensor_core::check_index!(
            at >= -rows && at < rows,
            "select(): index {at} out of range for tensor of size {} at dimension 0",
            tensor_core::strides::show(self_.sizes())
        );
        *index = if at < 0 { at + rows } else { at };
    }
    wanted.sort_unstable();
    wanted.dedup();
    let count = wanted.len() as i64;
    let wanted = Tensor::from_vec(wanted, &[count])?;
    let chosen = ops::index_select(self_, 0, &wanted)?;
    let half = matches!(self_.dtype(), DType::F16 | DType::BF16);
    let wide = |x: &Tensor, dtype: DType| ops::to_dtype(x, dtype, false, false, None);
    let norm = ops::linalg_vector_norm(&chosen, norm_type, Some(&[1]), true, None)?;
    let norm = wide(&norm, DType::F64)?;
    let factor =
        ops::div(&ops::full_like(&norm, max_norm, None, None, None, None, None)?, &ops::add_scalar(&norm, 1e-7, 1)?)?;
    let one = ops::ones_like(&norm, None, None, None, None, None)?;
    let factor = ops::where_self(&ops::gt_scalar(&norm, max_norm)?, &factor, &one)?;
    let scaled = if half { wide(&chosen, DType::F32)? } else { chosen };
    let real = if scaled.is_complex() { ops::real(&scaled)?.dtype() } else { scaled.dtype() };
    let scaled = wide(&ops::mul(&scaled, &wide(&factor, real)?)?, self_.dtype())?;
    let scaled = ops::contiguous(&scaled, MemoryFormat::Contiguous)?;
    ops::index_copy_(self_, 0, &wanted, &scaled).map(drop)
}
