//! Sums of the gradients that reach one input of a node.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, tls};

use crate::view;

/// Adds a gradient to what has arrived: in place if nobody else can see the sum so far.
#[inline]
pub(super) fn add(slot: &mut Option<Tensor>, grad: Tensor) -> Result<()> {
    let Some(old) = slot.take() else {
        *slot = Some(grad);
        return Ok(());
    };
    *slot = Some(if !tls::grad_enabled() && is_ours(&old) && fits(&old, &grad) {
        ops::add_(&old, &grad, 1)?;
        old
    } else {
        ops::add(&old, &grad, 1)?
    });
    Ok(())
}

/// Whether a sum may be written: nobody else sees it, and nothing is recorded of it.
pub(super) fn is_ours(tensor: &Tensor) -> bool {
    view::is_unshared(tensor) && tensor.is_non_overlapping_and_dense()
}

fn fits(sum: &Tensor, grad: &Tensor) -> bool {
    sum.sizes() == grad.sizes() && sum.dtype() == grad.dtype() && sum.device() == grad.device()
}
