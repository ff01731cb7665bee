//! Checks the gradients of a call: node names, first derivatives, second derivatives.

use tensor_aten::{IValue, Tensor};
use tensor_core::DType;

use super::Variant;
use super::call::{self, Built, Context, check_optional, dense, elements, show};
use super::outputs::Agreement;
use crate::bridge::{self, Mode};
use crate::compare::Tolerance;
use crate::corpus::case::Double;
use crate::corpus::{Case, Dense, Result, case::Grad};

/// Runs the call on leaves that require gradients and checks what flows back.
///
/// Where the outputs agree up to a gauge alone, so would the gradients: then only their dtypes and sizes are compared.
pub(super) fn check(context: &Context<'_>, case: &Case, want: &Grad, agreement: Agreement) -> Result<()> {
    let tolerance = match agreement {
        Agreement::Whole => Tolerance { rtol: want.rtol, atol: want.atol },
        Agreement::UpToGauge => Tolerance::ANY,
    };
    let (leaves, outputs) = forward(context, case, &want.inputs).map_err(|e| format!("grad: {e}"))?;
    let names = outputs.iter().map(bridge::grad_fn).collect::<tensor_core::Result<Vec<_>>>().map_err(show)?;
    if names != want.grad_fn {
        return Err(format!("grad_fn: {}, want {}", list(&names), list(&want.grad_fn)));
    }
    let vectors = Vectors::of(context, want, &outputs)?;
    let grads = bridge::grad(&vectors.pick(&outputs), &leaves, Some(&vectors.values), unused(false))
        .map_err(|e| format!("grad: {}", show(e)))?;
    compare(context, &grads, &want.grads, tolerance).map_err(|e| format!("grad {e}"))?;
    match &want.double {
        Some(double) => second(context, case, want, double, tolerance).map_err(|e| format!("double backward: {e}")),
        None => Ok(()),
    }
}

fn unused(create_graph: bool) -> Mode {
    Mode { create_graph, allow_unused: true, ..Mode::default() }
}

fn list(names: &[Option<String>]) -> String {
    let names: Vec<&str> = names.iter().map(|n| n.as_deref().unwrap_or("None")).collect();
    format!("[{}]", names.join(", "))
}

/// The cotangents, and which outputs they belong to.
struct Vectors {
    at: Vec<usize>,
    values: Vec<Option<Tensor>>,
}

impl Vectors {
    fn of(context: &Context<'_>, want: &Grad, outputs: &[Tensor]) -> Result<Self> {
        let at: Vec<usize> = (0..want.cotangents.len()).filter(|&i| want.cotangents[i].is_some()).collect();
        let found: Vec<usize> = (0..outputs.len()).filter(|&i| outputs[i].requires_grad()).collect();
        if found != at {
            return Err(format!("grad: outputs {found:?} require grad, want {at:?}"));
        }
        let values = want.cotangents.iter().flatten();
        Ok(Self { at, values: values.map(|d| dense(context.file, d).map(Some)).collect::<Result<_>>()? })
    }

    fn pick(&self, outputs: &[Tensor]) -> Vec<Tensor> {
        self.at.iter().filter_map(|&i| outputs.get(i).cloned()).collect()
    }
}

/// Calls the operator with leaves at the given paths. Gives the leaves and all output tensors in one list.
fn forward(context: &Context<'_>, case: &Case, paths: &[Vec<usize>]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let Built { storages, mut args } = context.build(case, Variant::Recorded)?;
    let mut leaves = Vec::with_capacity(paths.len());
    for path in paths {
        let writes = path.first().and_then(|&i| context.arguments.get(i)).is_some_and(|a| a.writes);
        let slot = slot(&mut args, path).ok_or_else(|| format!("no tensor at {path:?}"))?;
        let leaf = bridge::leaf(slot).map_err(show)?;
        *slot = if writes {
            bridge::call_tensor("aten::clone", vec![(&leaf).into(), IValue::None]).map_err(show)?
        } else {
            leaf.clone()
        };
        leaves.push(leaf);
    }
    let returned = bridge::call(context.op, args).map_err(show)?;
    drop(storages);
    let mut outputs = Vec::new();
    for value in returned {
        match value {
            IValue::Tensor(t) => outputs.push(t),
            IValue::TensorList(list) => outputs.extend(list.into_iter().flatten()),
            _ => {}
        }
    }
    Ok((leaves, outputs))
}

fn slot<'a>(args: &'a mut [IValue], path: &[usize]) -> Option<&'a mut Tensor> {
    match (args.get_mut(*path.first()?)?, path.get(1)) {
        (IValue::Tensor(t), None) => Some(t),
        (IValue::TensorList(list), Some(&j)) => list.get_mut(j)?.as_mut(),
        _ => None,
    }
}

fn compare(context: &Context<'_>, got: &[Option<Tensor>], want: &[Option<Dense>], tolerance: Tolerance) -> Result<()> {
    if got.len() != want.len() {
        return Err(format!("{} gradients, want {}", got.len(), want.len()));
    }
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        check_optional(context.file, got.as_ref(), want.as_ref(), tolerance).map_err(|e| format!("{k}: {e}"))?;
    }
    Ok(())
}

/// The gradients of `sum_m sum(grads[m] * weights[m])` with respect to the leaves and the cotangents.
fn second(context: &Context<'_>, case: &Case, want: &Grad, double: &Double, tolerance: Tolerance) -> Result<()> {
    let (leaves, outputs) = forward(context, case, &want.inputs)?;
    let vectors = Vectors::of(context, want, &outputs)?;
    for vector in vectors.values.iter().flatten() {
        vector.requires_grad_(true).map_err(show)?;
    }
    let grads = bridge::grad(&vectors.pick(&outputs), &leaves, Some(&vectors.values), unused(true)).map_err(show)?;
    let mut sum: Option<Tensor> = None;
    for (grad, weight) in grads.into_iter().zip(&double.weights) {
        let Some(weight) = weight else { continue };
        let grad = grad.ok_or("a gradient is None that has a weight")?;
        let term = weighted(context, grad, weight)?;
        sum = Some(match sum {
            Some(sum) => op("aten::add.Tensor", vec![sum.into(), term.into(), IValue::Int(1)])?,
            None => term,
        });
    }
    let sum = sum.ok_or("no gradient has a weight")?;
    let mut inputs = leaves;
    inputs.extend(vectors.values.into_iter().flatten());
    let found = bridge::grad(&[sum], &inputs, None, unused(false)).map_err(show)?;
    compare(context, &found, &double.grads, tolerance)
}

fn op(name: &str, args: Vec<IValue>) -> Result<Tensor> {
    bridge::call_tensor(name, args).map_err(show)
}

/// `sum(grad * weight)`; for complex gradients the real part of `sum(grad * conj(weight))`.
fn weighted(context: &Context<'_>, grad: Tensor, weight: &Dense) -> Result<Tensor> {
    let complex = grad.dtype().is_complex();
    let weight = if complex { conjugate(context, weight)? } else { call::dense(context.file, weight)? };
    let mut product = op("aten::mul.Tensor", vec![grad.into(), weight.into()])?;
    if complex {
        product = op("aten::real", vec![product.into()])?;
    }
    op("aten::sum", vec![product.into(), IValue::None])
}

/// The conjugate of a recorded tensor, as values of its own.
fn conjugate(context: &Context<'_>, weight: &Dense) -> Result<Tensor> {
    let plain = call::dense(context.file, weight)?;
    let values = elements(&plain)?.into_iter().map(tensor_core::Scalar::conj);
    let bytes: Vec<u8> = if plain.dtype() == DType::C64 {
        values.flat_map(|v| [v.to_complex().re as f32, v.to_complex().im as f32]).flat_map(f32::to_le_bytes).collect()
    } else {
        values.flat_map(|v| [v.to_complex().re, v.to_complex().im]).flat_map(f64::to_le_bytes).collect()
    };
    bridge::dense(&bytes, plain.dtype(), plain.sizes()).map_err(show)
}
