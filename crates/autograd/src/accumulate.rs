//! [`AccumulateGrad`]: the node of a leaf, which adds what arrives to the leaf's gradient.

use smallvec::SmallVec;
use tensor_aten::{Tensor, ops};
use tensor_core::{Result, tls};

use crate::formulas;
use crate::hooks::PostAccumulateHook;
use crate::meta;
use crate::node::{Function, Grads, Node, NodeRef};
use crate::{saved, view};

struct AccumulateGrad {
    variable: Tensor,
}

/// The accumulator of a leaf. It runs before every other node.
pub(crate) fn node(variable: Tensor) -> NodeRef {
    let output = variable.clone();
    Node::with_sequence(u64::MAX, SmallVec::new(), &[&output], AccumulateGrad { variable })
}

impl Function for AccumulateGrad {
    fn name(&self) -> &'static str {
        "torch::autograd::AccumulateGrad"
    }

    fn apply(&self, _node: &NodeRef, mut grads: Grads, _need: &[bool]) -> Result<Grads> {
        if let Some(grad) = grads.take(0) {
            accumulate(&self.variable, grad)?;
            for hook in post_accumulate_hooks(&self.variable) {
                hook(&self.variable)?;
            }
        }
        Ok(Grads::none(0))
    }

    fn variable(&self) -> Option<&Tensor> {
        Some(&self.variable)
    }
}

fn post_accumulate_hooks(variable: &Tensor) -> Vec<PostAccumulateHook> {
    let Some(meta) = meta::of(variable) else { return Vec::new() };
    let inner = meta.lock();
    inner.owned.extra.as_ref().map_or_else(Vec::new, |extra| extra.post_accumulate.snapshot())
}

/// Adds a gradient to a leaf's. Without `create_graph` the first one is stolen if nobody else holds it and its layout is
/// the leaf's, and later ones are added in place.
fn accumulate(variable: &Tensor, new: Tensor) -> Result<()> {
    let recording = tls::grad_enabled();
    loop {
        let current = meta::grad(variable);
        let stored = match &current {
            None => {
                let free = !recording && view::is_unshared(&new) && obeys_layout_contract(&new, variable);
                let stored = if free { steal(&new)? } else { None };
                let stored = stored.map_or_else(|| with_layout_of(variable, &new), Ok)?;
                meta::exchange_grad(variable, None, stored)
            }
            Some(current) if !recording => {
                // The kernel's storage lock makes this one step for other threads that accumulate.
                ops::add_(current, &new, 1)?;
                return Ok(());
            }
            Some(current) => meta::exchange_grad(variable, Some(current), ops::add(current, &new, 1)?),
        };
        // Else another thread stored its gradient in between: add to that one.
        if stored {
            return Ok(());
        }
    }
}

/// A gradient as a leaf keeps it: without the base that a view owns. Nothing for a view of a part, which would keep the whole.
fn steal(grad: &Tensor) -> Result<Option<Tensor>> {
    if meta::of(grad).is_none() {
        return Ok(Some(grad.clone()));
    }
    let bytes = grad.numel() as usize * grad.dtype().itemsize();
    if grad.storage().nbytes() > bytes { Ok(None) } else { saved::alias(grad).map(Some) }
}

/// A gradient has its leaf's strides if those are dense, else it is row-major.
fn obeys_layout_contract(grad: &Tensor, variable: &Tensor) -> bool {
    if !variable.is_non_overlapping_and_dense() {
        return grad.is_contiguous();
    }
    let strides = grad.strides().iter().zip(variable.strides());
    grad.sizes().iter().zip(strides).all(|(&size, (&have, &want))| if size == 1 { have != 0 } else { have == want })
}

fn with_layout_of(variable: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if !variable.is_non_overlapping_and_dense() {
        return ops::clone(grad, Some(tensor_core::MemoryFormat::Contiguous));
    }
    let copy = formulas::empty_strided(variable.sizes(), variable.strides(), grad.dtype(), grad.device())?;
    ops::copy_(&copy, grad, false)?;
    Ok(copy)
}
