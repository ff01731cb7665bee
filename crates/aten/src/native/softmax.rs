//! Softmax along a dimension, its logarithm and their gradients.

use tensor_core::strides::{show, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, check};

use crate::kernels::{self, Columns, ScanBackwardKernel, ScanKernel, SoftmaxKernels};
use crate::out::{Out, Slot, Spec, check_unchanged};
use crate::{Tensor, ops};

/// A contiguous tensor as (A, R, B) with dimension `d` in the middle, as (A, R) if that is the last one.
fn middle(x: &Tensor, d: usize) -> Result<Tensor> {
    let m = x.as_impl().metadata();
    check_unchanged(m.is_contiguous())?;
    let r = m.sizes.get(d).copied().unwrap_or(1);
    let (a, b) = (m.sizes.iter().take(d).product::<i64>(), m.sizes.iter().skip(d + 1).product::<i64>());
    if d + 1 >= m.sizes.len() {
        return Tensor::view_of(m, &[a, r], &[r, 1], m.offset);
    }
    Tensor::view_of(m, &[a, r, b], &[r * b, b, 1], m.offset)
}

fn dense(x: &Tensor) -> Result<Tensor> {
    ops::contiguous(x, MemoryFormat::Contiguous)
}

/// True unless `d` is the last dimension: upstream has kernels of other names for the others.
fn is_inner(x: &Tensor, d: usize) -> bool {
    d + 1 < x.dim()
}

fn forward(
    out: Out<'_>,
    x: &Tensor,
    dim: i64,
    half_to_float: bool,
    names: [&str; 2],
    pick: fn(&SoftmaxKernels) -> &Columns<ScanKernel>,
) -> Result<Tensor> {
    let d = wrap_dim(dim, x.dim())?;
    check!(!half_to_float || x.is_meta(), "softmax with half to float conversion is not supported on CPU");
    let dtype = if half_to_float { DType::F32 } else { x.dtype() };
    if x.is_meta() || x.numel() == 0 {
        return out.prepare(0, Spec::dense(x.sizes(), dtype, x.device()), &[x])?.finish();
    }
    let kernel = pick(kernels::softmax(x.device())?).get(dtype, names[usize::from(is_inner(x, d))])?;
    let slot = out.prepare(0, Spec::dense(x.sizes(), dtype, x.device()), &[x])?;
    let (into, x) = (middle(&slot.tensor, d)?, middle(&dense(x)?, d)?);
    check_unchanged(into.sizes() == x.sizes())?;
    kernel(&into, &x)?;
    slot.finish()
}

/// `exp(x) / sum(exp(x))` along a dimension.
pub fn _softmax(out: Out<'_>, self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    forward(out, self_, dim, half_to_float, ["softmax_lastdim_kernel_impl", "softmax_kernel_impl"], |k| &k.softmax)
}

/// `x - log(sum(exp(x)))` along a dimension.
pub fn _log_softmax(out: Out<'_>, self_: &Tensor, dim: i64, half_to_float: bool) -> Result<Tensor> {
    let names = ["log_softmax_lastdim_kernel_impl", "log_softmax_kernel_impl"];
    forward(out, self_, dim, half_to_float, names, |k| &k.log_softmax)
}

fn backward(
    out: Out<'_>,
    (grad, output): (&Tensor, &Tensor),
    dim: i64,
    input_dtype: DType,
    name: &str,
    names: [&str; 2],
    pick: fn(&SoftmaxKernels) -> &Columns<ScanBackwardKernel>,
) -> Result<Tensor> {
    check!(
        grad.sizes() == output.sizes(),
        "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; but {} does not equal \
         {} (while checking arguments for {name})",
        show(grad.sizes()),
        show(output.sizes())
    );
    let d = wrap_dim(dim, grad.dim())?;
    let prepare = || -> Result<Slot> { out.prepare(0, Spec::like(grad.sizes(), grad), &[grad, output]) };
    if grad.is_meta() || grad.numel() == 0 {
        return prepare()?.finish();
    }
    let kernel = pick(kernels::softmax(grad.device())?).get(grad.dtype(), names[usize::from(is_inner(grad, d))])?;
    let half = input_dtype == DType::F16 && grad.dtype() == DType::F32;
    for found in [output.dtype(), if half { input_dtype } else { output.dtype() }] {
        check!(
            found == grad.dtype(),
            "expected scalar type {} but found {}",
            grad.dtype().cpp_name(),
            found.cpp_name()
        );
    }
    let slot = prepare()?;
    let (into, grad, output) = (middle(&slot.tensor, d)?, middle(&dense(grad)?, d)?, middle(&dense(output)?, d)?);
    check_unchanged(into.sizes() == grad.sizes() && into.sizes() == output.sizes())?;
    kernel(&into, &grad, &output)?;
    slot.finish()
}

/// Gradient of [`_softmax`] from its result.
pub fn _softmax_backward_data(
    out: Out<'_>,
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
) -> Result<Tensor> {
    let names = ["softmax_backward_lastdim_kernel_impl", "softmax_backward_kernel_impl"];
    backward(out, (grad_output, output), dim, input_dtype, "softmax_backward", names, |k| &k.softmax_backward)
}

/// Gradient of [`_log_softmax`] from its result.
pub fn _log_softmax_backward_data(
    out: Out<'_>,
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: DType,
) -> Result<Tensor> {
    let names = ["log_softmax_backward_lastdim_kernel_impl", "log_softmax_backward_kernel_impl"];
    backward(out, (grad_output, output), dim, input_dtype, "log_softmax_backward", names, |k| &k.log_softmax_backward)
}
