//! Normalisation of rows: layer norm, group norm and their gradients.

use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, MemoryFormat, Result, check};

use super::matmul::write;
use crate::kernels::{self, RowNorm};
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

/// The dtype that kernels compute an element type in.
pub(super) fn compute_dtype(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// The dtype of parameters: that of `x`, or f32 if `x` is of half precision and the first of them is f32.
///
/// # Errors
/// When the first one has another dtype, or the others have another than it where it is f32.
pub(super) fn mixed_dtype(x: DType, parameters: &[Option<&Tensor>]) -> Result<DType> {
    let mut given = parameters.iter().flatten();
    if given.clone().next().is_none_or(|first| first.dtype() == x) {
        return Ok(x);
    }
    check!(given.all(|p| p.dtype() == DType::F32), "mixed dtype (CPU): expect parameter to have scalar type of Float");
    check!(compute_dtype(x) != x, "mixed dtype (CPU): all inputs must share same datatype.");
    Ok(DType::F32)
}

/// Refuses parameters of another dtype than the one that [`mixed_dtype`] gave.
pub(super) fn check_parameters(dtype: DType, parameters: &[Option<&Tensor>]) -> Result<()> {
    for parameter in parameters.iter().flatten() {
        let own = parameter.dtype();
        check!(own == dtype, "expected scalar type {} but found {}", dtype.cpp_name(), own.cpp_name());
    }
    Ok(())
}

/// [`mixed_dtype`] and [`check_parameters`].
pub(super) fn parameter_dtype(x: DType, parameters: &[Option<&Tensor>]) -> Result<DType> {
    let dtype = mixed_dtype(x, parameters)?;
    check_parameters(dtype, parameters)?;
    Ok(dtype)
}

/// A parameter as kernels read it.
pub(super) fn parameter(x: Option<&Tensor>, dtype: DType) -> Result<Option<Tensor>> {
    x.map(|x| if x.dtype() == dtype { Ok(x.clone()) } else { ops::to_dtype(x, dtype, false, false, None) }).transpose()
}

/// A result of a dtype that a kernel computes in another one: what the kernel fills, and where it goes.
pub(super) struct Computed {
    slot: Slot,
    /// what the kernel fills
    pub(super) tensor: Tensor,
}

impl Computed {
    pub(super) fn new(slot: Slot) -> Result<Self> {
        let (own, compute) = (slot.tensor.dtype(), compute_dtype(slot.tensor.dtype()));
        let tensor = if own == compute {
            slot.tensor.clone()
        } else {
            Tensor::new_dense(slot.tensor.sizes(), compute, slot.tensor.device())?
        };
        Ok(Self { slot, tensor })
    }

    pub(super) fn finish(self) -> Result<Tensor> {
        if !self.slot.is_meta() && !self.tensor.is_same(&self.slot.tensor) {
            write(&self.slot.tensor, &self.tensor)?;
        }
        self.slot.finish()
    }
}

/// A contiguous tensor under another shape.
pub(super) fn shaped(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    x.view_of_storage(sizes, &strides::contiguous(sizes), x.storage_offset())
}

fn dense(x: &Tensor) -> Result<Tensor> {
    ops::contiguous(x, MemoryFormat::Contiguous)
}

/// The numbers of rows and of elements in one.
fn check_inputs(
    x: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<(i64, i64)> {
    let ndim = normalized_shape.len();
    check!(
        ndim >= 1,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
         normalized_shape = {}",
        show(normalized_shape)
    );
    for (name, parameter) in [("weight", weight), ("bias", bias)] {
        if let Some(parameter) = parameter {
            check!(
                parameter.sizes() == normalized_shape,
                "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {} and normalized_shape = \
                 {}",
                show(parameter.sizes()),
                show(normalized_shape)
            );
        }
    }
    if !x.sizes().ends_with(normalized_shape) {
        let shape: Vec<String> = normalized_shape.iter().map(|size| format!(", {size}")).collect();
        tensor_core::bail!(
            Runtime,
            "Given normalized_shape={}, expected input with shape [*{}], but got input of size{}",
            show(normalized_shape),
            shape.concat(),
            show(x.sizes())
        );
    }
    let lead = &x.sizes()[..x.dim() - ndim];
    Ok((lead.iter().product(), normalized_shape.iter().product()))
}

/// Rows of the trailing dimensions with mean 0 and variance 1, scaled and shifted; with their moments.
pub fn native_layer_norm(
    out: Out<'_>,
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let stats = mixed_dtype(input.dtype(), &[weight, bias])?;
    let (m, n) = check_inputs(input, normalized_shape, weight, bias)?;
    let lead = input.dim() - normalized_shape.len();
    let stats_sizes: Dims =
        input.sizes().iter().enumerate().map(|(d, &size)| if d < lead { size } else { 1 }).collect();
    let kernel = match input.is_meta() {
        true => None,
        false => Some(kernels::layer_norm(input.device())?.norm.get(input.dtype(), "LayerNormKernelImpl")?),
    };
    check_parameters(stats, &[weight, bias])?;
    let inputs: Vec<&Tensor> = [Some(input), weight, bias].into_iter().flatten().collect();
    let result = out.prepare(0, Spec::like(input.sizes(), input), &inputs)?;
    let moments = |i| Computed::new(out.prepare(i, Spec::dense(&stats_sizes, stats, input.device()), &inputs)?);
    let (mean, rstd) = (moments(1)?, moments(2)?);
    if let Some(kernel) = kernel
        && m > 0
    {
        let compute = compute_dtype(input.dtype());
        let (weight, bias) = (parameter(weight, compute)?, parameter(bias, compute)?);
        let norm =
            RowNorm { groups: 1, weight: weight.as_ref(), bias: bias.as_ref(), mean: &mean.tensor, rstd: &rstd.tensor };
        kernel(&shaped(&result.tensor, &[m, n, 1])?, &shaped(&dense(input)?, &[m, n, 1])?, norm, eps)?;
    }
    Ok((result.finish()?, mean.finish()?, rstd.finish()?))
}

/// The gradients that a mask asks for: of input, weight and bias.
type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// Slots of masked gradients; `specs` gives each its shape and dtype.
pub(super) fn gradients(
    out: Out<'_>,
    mask: [bool; 3],
    specs: [Spec; 3],
    inputs: &[&Tensor],
) -> Result<[Option<Computed>; 3]> {
    let mut slots = [None, None, None];
    for (i, ((slot, spec), wanted)) in slots.iter_mut().zip(specs).zip(mask).enumerate() {
        if wanted {
            let prepared = out.prepare(i, spec, inputs)?;
            // The gradient of the input is rounded by the kernel itself.
            let tensor = prepared.tensor.clone();
            *slot = Some(if i == 0 { Computed { slot: prepared, tensor } } else { Computed::new(prepared)? });
        }
    }
    Ok(slots)
}

/// The finished gradients.
pub(super) fn finish(slots: [Option<Computed>; 3]) -> Result<Three> {
    let [input, weight, bias] = slots;
    let finish = |slot: Option<Computed>| slot.map(Computed::finish).transpose();
    Ok((finish(input)?, finish(weight)?, finish(bias)?))
}

/// Sums over nothing.
pub(super) fn fill_zeros(slots: &[Option<Computed>; 3]) -> Result<()> {
    for slot in slots.iter().flatten().filter(|slot| !slot.tensor.is_meta()) {
        crate::composite::fill::zero_(&slot.tensor)?;
    }
    Ok(())
}

/// Gradients of [`native_layer_norm`].
#[allow(clippy::too_many_arguments)]
pub fn native_layer_norm_backward(
    out: Out<'_>,
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: [bool; 3],
) -> Result<Three> {
    let (m, n) = check_inputs(input, normalized_shape, weight, bias)?;
    check_same(grad_out, input)?;
    let params = parameter_dtype(input.dtype(), &[weight, bias])?;
    check!(
        mean.numel() == m && rstd.numel() == m,
        "Expected mean and rstd to have {m} elements, but got {} and {}",
        mean.numel(),
        rstd.numel()
    );
    let kernel = match input.is_meta() {
        true => None,
        false => {
            Some(kernels::layer_norm(input.device())?.norm_backward.get(input.dtype(), "LayerNormBackwardKernelImpl")?)
        }
    };
    let spec = || Spec::dense(normalized_shape, params, input.device());
    let specs = [Spec::like(input.sizes(), input), spec(), spec()];
    let inputs: Vec<&Tensor> =
        [Some(grad_out), Some(input), weight, Some(mean), Some(rstd)].into_iter().flatten().collect();
    let slots = gradients(out, output_mask, specs, &inputs)?;
    if m == 0 || n == 0 {
        fill_zeros(&slots)?;
    } else if let Some(kernel) = kernel {
        let compute = compute_dtype(input.dtype());
        let weight = parameter(weight, compute)?;
        let stats = |x: &Tensor| -> Result<Tensor> { dense(&ops::to_dtype(x, compute, false, false, None)?) };
        let (mean, rstd) = (stats(mean)?, stats(rstd)?);
        let norm = RowNorm { groups: 1, weight: weight.as_ref(), bias: None, mean: &mean, rstd: &rstd };
        let rows = |x: &Tensor| shaped(x, &[m, n, 1]);
        let grad_input = slots[0].as_ref().map(|slot| rows(&slot.tensor)).transpose()?;
        let parameters = [1, 2].map(|i| slots[i].as_ref().map(|slot| &slot.tensor));
        let grads = [grad_input.as_ref(), parameters[0], parameters[1]];
        kernel(grads, &rows(&dense(grad_out)?)?, &rows(&dense(input)?)?, norm)?;
    }
    finish(slots)
}

/// A gradient has its tensor's shape and dtype.
pub(super) fn check_same(grad: &Tensor, input: &Tensor) -> Result<()> {
    check!(
        grad.sizes() == input.sizes(),
        "Expected grad_out to have the shape of input, {}, but got {}",
        show(input.sizes()),
        show(grad.sizes())
    );
    check!(
        grad.dtype() == input.dtype(),
        "expected scalar type {} but found {}",
        input.dtype().cpp_name(),
        grad.dtype().cpp_name()
    );
    Ok(())
}

/// A slot if it is row-major, else row-major memory for what goes there by [`put`].
fn workspace(slot: &Tensor) -> Result<Tensor> {
    if slot.is_contiguous() { Ok(slot.clone()) } else { Tensor::new_dense(slot.sizes(), slot.dtype(), slot.device()) }
}

fn put(slot: &Tensor, computed: &Tensor) -> Result<()> {
    if slot.is_same(computed) { Ok(()) } else { write(slot, computed) }
}

/// The rows of a group norm: (N x groups, channels of a group, HxW).
fn check_group_norm(
    input: &Tensor,
    parameters: [Option<&Tensor>; 2],
    (n, c, hxw): (i64, i64, i64),
    groups: i64,
) -> Result<[i64; 3]> {
    check!(groups > 0, "Expected num groups to be greater than 0, got {groups}");
    check!(
        c % groups == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={groups}",
        show(input.sizes())
    );
    for (name, parameter) in ["weight", "bias"].into_iter().zip(parameters) {
        if let Some(parameter) = parameter {
            check!(
                parameter.dim() == 1 && parameter.numel() == c,
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {} \
                 and input of shape {}",
                show(parameter.sizes()),
                show(input.sizes())
            );
        }
    }
    check!(
        n >= 0 && hxw >= 0 && input.numel() == n * c * hxw,
        "Expected an input of {n} x {c} x {hxw} elements, but got input of shape {}",
        show(input.sizes())
    );
    Ok([n * groups, c / groups, hxw])
}

/// Groups of channels of each image with mean 0 and variance 1, scaled and shifted by channel; with their moments.
#[allow(non_snake_case, clippy::too_many_arguments)]
pub fn native_group_norm(
    out: Out<'_>,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    N: i64,
    C: i64,
    HxW: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let rows = check_group_norm(input, [weight, bias], (N, C, HxW), group)?;
    let stats = parameter_dtype(input.dtype(), &[weight, bias])?;
    let kernel = match input.is_meta() {
        true => None,
        false => Some(kernels::layer_norm(input.device())?.norm.get(input.dtype(), "GroupNormKernelImpl")?),
    };
    let inputs: Vec<&Tensor> = [Some(input), weight, bias].into_iter().flatten().collect();
    let format = input.suggest_memory_format();
    let spec = Spec { strides: Some(strides::of_format(input.sizes(), format)?), ..Spec::like(input.sizes(), input) };
    let result = out.prepare(0, spec, &inputs)?;
    let moments = |i| Computed::new(out.prepare(i, Spec::dense(&[N, group], stats, input.device()), &inputs)?);
    let (mean, rstd) = (moments(1)?, moments(2)?);
    if let Some(kernel) = kernel
        && rows[0] > 0
    {
        let compute = compute_dtype(input.dtype());
        let (weight, bias) = (parameter(weight, compute)?, parameter(bias, compute)?);
        let norm = RowNorm {
            groups: group as usize,
            weight: weight.as_ref(),
            bias: bias.as_ref(),
            mean: &mean.tensor,
            rstd: &rstd.tensor,
        };
        let computed = workspace(&result.tensor)?;
        kernel(&shaped(&computed, &rows)?, &shaped(&dense(input)?, &rows)?, norm, eps)?;
        put(&result.tensor, &computed)?;
    }
    Ok((result.finish()?, mean.finish()?, rstd.finish()?))
}

/// Gradients of [`native_group_norm`].
#[allow(non_snake_case, clippy::too_many_arguments)]
pub fn native_group_norm_backward(
    out: Out<'_>,
    grad_out: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    N: i64,
    C: i64,
    HxW: i64,
    group: i64,
    output_mask: [bool; 3],
) -> Result<Three> {
    let rows = check_group_norm(input, [weight, None], (N, C, HxW), group)?;
    check_same(grad_out, input)?;
    let params = parameter_dtype(input.dtype(), &[weight])?;
    check!(
        mean.numel() == rows[0] && rstd.numel() == rows[0],
        "Expected mean and rstd to have {} elements, but got {} and {}",
        rows[0],
        mean.numel(),
        rstd.numel()
    );
    let kernel = match input.is_meta() {
        true => None,
        false => {
            Some(kernels::layer_norm(input.device())?.norm_backward.get(input.dtype(), "GroupNormBackwardKernelImpl")?)
        }
    };
    let spec = || Spec::dense(&[C], params, input.device());
    let format = input.suggest_memory_format();
    let own = Spec { strides: Some(strides::of_format(input.sizes(), format)?), ..Spec::like(input.sizes(), input) };
    let inputs: Vec<&Tensor> =
        [Some(grad_out), Some(input), weight, Some(mean), Some(rstd)].into_iter().flatten().collect();
    let slots = gradients(out, output_mask, [own, spec(), spec()], &inputs)?;
    if input.numel() == 0 {
        fill_zeros(&slots)?;
    } else if let Some(kernel) = kernel {
        let compute = compute_dtype(input.dtype());
        let weight = parameter(weight, compute)?;
        let stats = |x: &Tensor| -> Result<Tensor> { dense(&ops::to_dtype(x, compute, false, false, None)?) };
        let (mean, rstd) = (stats(mean)?, stats(rstd)?);
        let norm = RowNorm { groups: group as usize, weight: weight.as_ref(), bias: None, mean: &mean, rstd: &rstd };
        let computed = slots[0].as_ref().map(|slot| workspace(&slot.tensor)).transpose()?;
        let grad_input = computed.as_ref().map(|computed| shaped(computed, &rows)).transpose()?;
        let parameters = [1, 2].map(|i| slots[i].as_ref().map(|slot| &slot.tensor));
        let grads = [grad_input.as_ref(), parameters[0], parameters[1]];
        kernel(grads, &shaped(&dense(grad_out)?, &rows)?, &shaped(&dense(input)?, &rows)?, norm)?;
        if let (Some(slot), Some(computed)) = (&slots[0], &computed) {
            put(&slot.tensor, computed)?;
        }
    }
    finish(slots)
}
