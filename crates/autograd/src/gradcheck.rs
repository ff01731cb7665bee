//! [`gradcheck`] and [`gradgradcheck`]: analytical gradients against central differences.
//!
//! A complex element counts as two real ones, as input and as output, so that one rule serves both: the gradient of a real
//! number with respect to `a + bi` is its derivative in `a` plus `i` times its derivative in `b`.

use tensor_aten::{Tensor, ops};
use tensor_core::{Complex64, DType, Error, Result, bail, check, tls};

use crate::engine;
use crate::formulas;
use crate::meta;

/// The steps and tolerances of a check. The default is PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct GradCheck {
    /// the step of the differences
    pub eps: f64,
    /// the absolute tolerance
    pub atol: f64,
    /// the relative tolerance
    pub rtol: f64,
}

impl Default for GradCheck {
    fn default() -> Self {
        Self { eps: 1e-6, atol: 1e-5, rtol: 1e-3 }
    }
}

/// Checks the gradients of `f`'s outputs with respect to those `inputs` that require one (`torch.autograd.gradcheck`).
/// These must be `float64` or `complex128`.
///
/// # Errors
/// When a gradient differs from the differences, with both; when `f` or its backward fails.
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor], options: GradCheck) -> Result<()> {
    let checked: Vec<usize> = (0..inputs.len()).filter(|&i| meta::requires_grad(&inputs[i])).collect();
    if checked.is_empty() {
        bail!(
            Value,
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        );
    }
    for &i in &checked {
        check!(
            matches!(inputs[i].dtype(), DType::F64 | DType::C128),
            "gradcheck: input {i} requires gradient and is not a double precision floating point or complex"
        );
    }
    let _grad = tls::grad_mode(true);
    let outputs = f(inputs)?;
    for (o, output) in outputs.iter().enumerate() {
        if !meta::requires_grad(output) {
            continue;
        }
        let analytical = analytical(output, inputs, &checked)?;
        for (&i, analytical) in checked.iter().zip(analytical) {
            let numerical = numerical(&f, inputs, i, o, options.eps)?;
            compare(&numerical, &analytical, o, i, options)?;
        }
    }
    Ok(())
}

/// Checks the gradients of the gradients (`torch.autograd.gradgradcheck`).
///
/// # Errors
/// As [`gradcheck`].
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradCheck,
) -> Result<()> {
    let _grad = tls::grad_mode(true);
    let mut all = inputs.to_vec();
    for (i, output) in f(inputs)?.iter().enumerate().filter(|(_, output)| meta::requires_grad(output)) {
        let grad = from_parts(&pseudo_random(parts_of(output), i as u64), output.sizes(), output.dtype())?;
        all.push(grad.requires_grad_(true)?.clone());
    }
    let count = inputs.len();
    let first = move |all: &[Tensor]| {
        let (inputs, grads) = all.split_at(count);
        let outputs: Vec<Tensor> = f(inputs)?.into_iter().filter(meta::requires_grad).collect();
        let wanted: Vec<&Tensor> = inputs.iter().filter(|input| meta::requires_grad(input)).collect();
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let grads: Vec<Option<&Tensor>> = grads.iter().map(Some).collect();
        let _grad = tls::grad_mode(true);
        let found = engine::grad(&outputs, &wanted, Some(&grads), None, true, true)?;
        Ok(found.into_iter().flatten().collect())
    };
    gradcheck(first, &all, options)
}

/// Numbers between 0.5 and 1.5 that are the same in every run.
fn pseudo_random(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.5 + (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// How many real numbers a tensor holds.
fn parts_of(tensor: &Tensor) -> usize {
    tensor.numel() as usize * if tensor.is_complex() { 2 } else { 1 }
}

/// The real numbers of a tensor, in row-major order.
fn parts(tensor: &Tensor) -> Result<Vec<f64>> {
    let _no_grad = tls::grad_mode(false);
    if tensor.is_complex() {
        let values = formulas::cast(tensor, DType::C128)?.to_vec::<Complex64>()?;
        Ok(values.into_iter().flat_map(|c| [c.re, c.im]).collect())
    } else {
        formulas::cast(tensor, DType::F64)?.to_vec()
    }
}

/// A tensor of some real numbers.
fn from_parts(parts: &[f64], sizes: &[i64], dtype: DType) -> Result<Tensor> {
    let _no_grad = tls::grad_mode(false);
    let whole = if dtype.is_complex() {
        let values: Vec<Complex64> = parts.chunks_exact(2).map(|pair| Complex64::new(pair[0], pair[1])).collect();
        Tensor::from_vec(values, sizes)?
    } else {
        Tensor::from_slice(parts, sizes)?
    };
    formulas::cast(&whole, dtype)
}

/// For each checked input, the Jacobian: a row a number of the output, a column a number of the input.
fn analytical(output: &Tensor, inputs: &[Tensor], checked: &[usize]) -> Result<Vec<Vec<Vec<f64>>>> {
    let wanted: Vec<&Tensor> = checked.iter().map(|&i| &inputs[i]).collect();
    let mut jacobians: Vec<Vec<Vec<f64>>> = vec![Vec::new(); checked.len()];
    let count = parts_of(output);
    for row in 0..count {
        let mut one_hot = vec![0.0; count];
        one_hot[row] = 1.0;
        let grad = from_parts(&one_hot, output.sizes(), output.dtype())?;
        let grads = engine::grad(&[output], &wanted, Some(&[Some(&grad)]), Some(true), false, true)?;
        for ((jacobian, grad), input) in jacobians.iter_mut().zip(grads).zip(&wanted) {
            jacobian.push(match grad {
                Some(grad) => {
                    check!(
                        grad.sizes() == input.sizes() && grad.dtype() == input.dtype(),
                        "grad has incorrect shape or dtype: {} {}, expected {} {}",
                        tensor_core::strides::show(grad.sizes()),
                        grad.dtype(),
                        tensor_core::strides::show(input.sizes()),
                        input.dtype()
                    );
                    parts(&grad)?
                }
                None => vec![0.0; parts_of(input)],
            });
        }
    }
    Ok(jacobians)
}

/// The Jacobian of output `o` with respect to input `i`, by central differences; the same layout.
fn numerical(
    f: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    i: usize,
    o: usize,
    eps: f64,
) -> Result<Vec<Vec<f64>>> {
    let input = &inputs[i];
    let original = parts(input)?;
    // Every call sees fresh tensors, so that `f` may write them.
    let evaluate = |column: usize, step: f64| -> Result<Vec<f64>> {
        let mut moved = original.clone();
        moved[column] += step;
        let mut all = Vec::with_capacity(inputs.len());
        for (j, other) in inputs.iter().enumerate() {
            let value =
                if j == i { from_parts(&moved, input.sizes(), input.dtype())? } else { ops::clone(other, None)? };
            let value = ops::detach(&value)?;
            all.push(value.requires_grad_(meta::requires_grad(other))?.clone());
        }
        let outputs = f(&all)?;
        let Some(output) = outputs.get(o) else {
            bail!(Runtime, "gradcheck: the function returned {} outputs where it returned more before", outputs.len());
        };
        parts(output)
    };
    let mut columns = Vec::with_capacity(original.len());
    for column in 0..original.len() {
        let (above, below) = (evaluate(column, eps)?, evaluate(column, -eps)?);
        columns.push(above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * eps)).collect::<Vec<f64>>());
    }
    let rows = columns.first().map_or(0, Vec::len);
    Ok((0..rows).map(|row| columns.iter().map(|column| column[row]).collect()).collect())
}

fn compare(numerical: &[Vec<f64>], analytical: &[Vec<f64>], o: usize, i: usize, options: GradCheck) -> Result<()> {
    let close = |(n, a): (&f64, &f64)| n == a || (n - a).abs() <= options.atol + options.rtol * n.abs();
    let agrees = numerical.iter().zip(analytical).all(|(n, a)| n.iter().zip(a).all(close));
    if agrees {
        return Ok(());
    }
    let show = |rows: &[Vec<f64>]| {
        let rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
        rows.join(",\n ")
    };
    Err(Error::runtime(format!(
        "Jacobian mismatch for output {o} with respect to input {i},\nnumerical:[{}]\nanalytical:[{}]\n",
        show(numerical),
        show(analytical)
    )))
}
