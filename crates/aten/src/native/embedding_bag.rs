//! Sums, means and largest elements of rows of a table, a bag of indices at a time.

use tensor_core::{DType, MemoryFormat, Result, check};

use crate::kernels::{self, Bags};
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

pub(crate) const SUM: i64 = 0;
pub(crate) const MEAN: i64 = 1;
pub(crate) const MAX: i64 = 2;

fn type_name(dtype: DType) -> String {
    if dtype == DType::Bool { "CPUBoolType".to_owned() } else { format!("torch.{}Tensor", dtype.cpp_name()) }
}

/// Refuses indices that are no integers.
pub(crate) fn check_index(x: &Tensor) -> Result<()> {
    check!(
        matches!(x.dtype(), DType::I64 | DType::I32),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {} instead \
         (while checking arguments for embedding_bag)",
        type_name(x.dtype())
    );
    Ok(())
}

/// Refuses a table or gradient that is no floating one.
pub(crate) fn check_floating(x: &Tensor, name: &str) -> Result<()> {
    check!(
        matches!(x.dtype(), DType::F16 | DType::BF16 | DType::F32 | DType::F64),
        "Expected tensor for argument #1 '{name}' to have one of the following scalar types: Half, BFloat16, Float, Double; \
         but got {} instead (while checking arguments for embedding_bag)",
        type_name(x.dtype())
    );
    Ok(())
}

/// A contiguous vector of i64.
pub(crate) fn vector(x: &Tensor) -> Result<Tensor> {
    let x = ops::to_dtype(x, DType::I64, false, false, None)?;
    ops::view(&ops::contiguous(&x, MemoryFormat::Contiguous)?, &[x.numel()])
}

/// Where bags start, and where the last one ends.
fn starts(offsets: &Tensor, indices: i64, include_last_offset: bool) -> Result<Vec<i64>> {
    let mut starts = vector(offsets)?.to_vec::<i64>()?;
    if let Some(first) = starts.first() {
        check!(
            *first == 0,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got \
             {first}"
        );
    }
    if let Some(last) = starts.last() {
        check!(
            *last <= indices,
            "offsets[-1] can not be greater than input's length {indices} but got offsets[-1] of {last}"
        );
    }
    if include_last_offset {
        check!(!starts.is_empty(), "include_last_offset: number of offset should be at least 1");
        starts.pop();
    }
    starts.push(indices);
    let sorted = starts.windows(2).all(|pair| pair[0] <= pair[1]);
    check!(sorted, "embedding_bag: offsets must not decrease, but got {starts:?}");
    Ok(starts)
}

/// True where PyTorch needs no bag of each index.
fn is_fast(weight: &Tensor, weights: Option<&Tensor>, mode: i64, padding_idx: i64) -> bool {
    let step = |x: &Tensor, d: usize| x.strides().get(d).copied() == Some(1);
    mode == SUM
        && weight.dtype() != DType::F64
        && step(weight, 1)
        && padding_idx < 0
        && weights.is_none_or(|weights| step(weights, 0))
}

type Four = (Tensor, Tensor, Tensor, Tensor);

/// What the operators' arguments are, beside the three tensors.
struct Options<'a> {
    mode: i64,
    weights: Option<&'a Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
    /// for a gradient: sizes of bags are kept in any mode
    kept: bool,
}

fn bags(out: Out<'_>, weight: &Tensor, indices: &Tensor, offsets: &Tensor, options: &Options<'_>) -> Result<Four> {
    let Options { mode, weights, include_last_offset, padding_idx, kept } = *options;
    check!((SUM..=MAX).contains(&mode), "`mode` must be sum, mean, or max.");
    check!(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension {}", weight.dim());
    check_index(indices)?;
    check_index(offsets)?;
    check_floating(weight, "weight")?;
    let n = indices.numel();
    let wide = if indices.dtype() == offsets.dtype() { indices.dtype() } else { DType::I64 };
    if let Some(weights) = weights {
        check!(mode == SUM, "embedding_bag: per_sample_weights only supported with mode='sum'");
        check!(
            weights.dtype() == weight.dtype(),
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but \
             type {} does not equal {} (while checking arguments for embedding_bag)",
            type_name(weight.dtype()),
            type_name(weights.dtype())
        );
        check!(
            weights.dim() == 1 && weights.numel() == n,
            "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.  (Could this error \
             message be improved?  If so, please report an enhancement request to PyTorch.)"
        );
    }
    let meta = weight.is_meta();
    let count = offsets.numel() - i64::from(include_last_offset);
    check!(count >= 0, "include_last_offset: number of offset should be at least 1");
    let starts = if meta { Vec::new() } else { starts(offsets, n, include_last_offset)? };
    let flat = if meta { indices.clone() } else { vector(indices)? };
    let (rows, width) = (weight.sizes()[0], weight.sizes()[1]);
    if !meta {
        let bad = flat.to_vec::<i64>()?.into_iter().find(|&i| i < 0 || i >= rows);
        match bad {
            Some(i) if mode == MAX => {
                tensor_core::bail!(
                    Runtime,
                    "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {i}"
                )
            }
            Some(_) => tensor_core::bail!(
                Runtime,
                "Expected i < index_size to be true, but got false.  (Could this error message be improved?  If so, please \
                 report an enhancement request to PyTorch.)"
            ),
            None => {}
        }
    }
    let fast = is_fast(weight, weights, mode, padding_idx);
    let sizes = if kept || mode != SUM { count } else { offsets.numel() };
    let device = weight.device();
    let inputs: Vec<&Tensor> = [Some(weight), Some(indices), Some(offsets), weights].into_iter().flatten().collect();
    let output = out.prepare(0, Spec::like(&[count, width], weight), &inputs)?;
    let offset2bag = out.prepare(1, Spec::dense(&[if fast { 0 } else { n }], wide, device), &inputs)?;
    let bag_size = out.prepare(2, Spec::dense(&[sizes], wide, device), &inputs)?;
    let shape = if mode == MAX { vec![count, width] } else { vec![sizes] };
    let largest = out.prepare(3, Spec::dense(&shape, wide, device), &inputs)?;
    if !meta {
        let kernel = kernels::embedding_bag(device)?.embedding_bag.get(weight.dtype(), "embedding_bag")?;
        let dense = weights.map(|weights| ops::contiguous(weights, MemoryFormat::Contiguous)).transpose()?;
        let places = Tensor::new_strided(
            [count, width].as_slice().into(),
            tensor_core::strides::contiguous(&[count, width]),
            DType::I64,
            device,
        )?;
        let bags = Bags { starts: &starts, indices: &flat, weights: dense.as_ref(), mode, padding_idx };
        kernel(&output.tensor, &places, &ops::contiguous(weight, MemoryFormat::Contiguous)?, bags)?;
        fill(&offset2bag, if fast { Vec::new() } else { bag_of_each(&starts) })?;
        let listed = flat.to_vec::<i64>()?;
        let counted = |pair: &[i64]| {
            let bag = &listed[pair[0] as usize..pair[1] as usize];
            bag.iter().filter(|&&i| padding_idx < 0 || i != padding_idx).count() as i64
        };
        let counts = match mode {
            SUM => vec![0; sizes as usize],
            _ => starts.windows(2).map(counted).collect(),
        };
        if mode == MAX {
            ops::copy_(&largest.tensor, &places, false)?;
        } else {
            fill(&largest, counts.clone())?;
        }
        fill(&bag_size, counts)?;
    }
    Ok((output.finish()?, offset2bag.finish()?, bag_size.finish()?, largest.finish()?))
}

fn fill(slot: &Slot, values: Vec<i64>) -> Result<()> {
    let sizes = [values.len() as i64];
    ops::copy_(&slot.tensor, &Tensor::from_vec(values, &sizes)?, false).map(drop)
}

/// The bag of each index.
pub(crate) fn bag_of_each(starts: &[i64]) -> Vec<i64> {
    let bag = |(b, pair): (usize, &[i64])| std::iter::repeat_n(b as i64, (pair[1] - pair[0]) as usize);
    starts.windows(2).enumerate().flat_map(bag).collect()
}

/// The rows of each bag summed, averaged or their largest elements; the bag of each index, sizes of bags, and the rows of the
/// largest elements.
#[allow(clippy::too_many_arguments)]
pub fn _embedding_bag(
    out: Out<'_>,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _scale_grad_by_freq: bool,
    mode: i64,
    _sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<Four> {
    let options = Options { mode, weights: per_sample_weights, include_last_offset, padding_idx, kept: true };
    bags(out, weight, indices, offsets, &options)
}

/// [`_embedding_bag`] without what only its gradient needs.
#[allow(clippy::too_many_arguments)]
pub fn _embedding_bag_forward_only(
    out: Out<'_>,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _scale_grad_by_freq: bool,
    mode: i64,
    _sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<Four> {
    let options = Options { mode, weights: per_sample_weights, include_last_offset, padding_idx, kept: false };
    bags(out, weight, indices, offsets, &options)
}
