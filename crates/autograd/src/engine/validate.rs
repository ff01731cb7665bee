//! Gradients must look like what they are gradients of: sums, casts and real parts happen here, and here alone.

use tensor_aten::{Tensor, ops};
use tensor_core::strides::show;
use tensor_core::{Result, bail};

use crate::formulas;
use crate::node::{Edge, Grads, InputMeta, Node};

/// Makes each gradient that a node computed fit the input it flows to.
pub(super) fn all(node: &Node, outputs: &mut Grads) -> Result<()> {
    let edges = node.next_edges();
    if outputs.len() != edges.len() {
        bail!(
            Runtime,
            "Function {} returned an invalid number of gradients - expected {}, but got {}",
            node.name(),
            edges.len(),
            outputs.len()
        );
    }
    for (i, edge) in edges.iter().enumerate() {
        if let Some(grad) = outputs.take(i)
            && edge.node().is_some()
        {
            outputs.set(i, gradient(edge, grad, i, Some(node))?);
        }
    }
    Ok(())
}

/// Makes one gradient fit the input that an edge leads to.
pub(super) fn gradient(edge: &Edge, grad: Tensor, index: usize, from: Option<&Node>) -> Result<Tensor> {
    let Some(to) = edge.node() else { return Ok(grad) };
    let meta = {
        let state = to.state();
        let Some(meta) = state.metadata.get(edge.input_nr()) else { return Ok(grad) };
        if grad.sizes() == meta.sizes.as_slice() && grad.dtype() == meta.dtype && grad.device() == meta.device {
            return Ok(grad);
        }
        meta.clone()
    };
    adapt(&meta, grad, index, from)
}

#[cold]
fn adapt(meta: &InputMeta, mut grad: Tensor, index: usize, from: Option<&Node>) -> Result<Tensor> {
    let returned = || from.map_or_else(String::new, |node| format!("Function {} returned an ", node.name()));
    if grad.sizes() != meta.sizes.as_slice() {
        if !formulas::is_expandable(&meta.sizes, grad.sizes()) {
            bail!(
                Runtime,
                "{}invalid gradient at index {index} - got {} but expected shape compatible with {}",
                returned(),
                show(grad.sizes()),
                show(&meta.sizes)
            );
        }
        grad = formulas::sum_to_size(&grad, &meta.sizes)?;
    }
    if grad.dtype() != meta.dtype {
        if grad.is_complex() && !meta.dtype.is_complex() {
            grad = ops::real(&grad)?;
        }
        if !grad.dtype().is_differentiable() {
            bail!(
                Runtime,
                "{}invalid gradient at index {index} - expected a floating point or complex dtype but got {}",
                returned(),
                grad.dtype()
            );
        }
        grad = formulas::cast(&grad, meta.dtype)?;
    }
    if grad.device() != meta.device {
        if grad.dim() != 0 {
            bail!(
                Runtime,
                "{}invalid gradient at index {index} - expected device {} but got {}",
                returned(),
                meta.device,
                grad.device()
            );
        }
        grad = formulas::to_device(&grad, meta.device)?;
    }
    Ok(grad)
}
