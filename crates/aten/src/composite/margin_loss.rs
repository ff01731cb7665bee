//! Margin losses without what their gradients need.

use tensor_core::Result;

use crate::{Tensor, ops};

/// The loss of several classes.
pub fn multilabel_margin_loss(self_: &Tensor, target: &Tensor, reduction: i64) -> Result<Tensor> {
    Ok(ops::multilabel_margin_loss_forward(self_, target, reduction)?.0)
}

/// The loss of several classes, into a tensor of its dtype.
pub fn multilabel_margin_loss_out(self_: &Tensor, target: &Tensor, reduction: i64, out: &Tensor) -> Result<()> {
    let marks = ops::empty_like(self_, None, None, None, None, None)?;
    ops::multilabel_margin_loss_forward_output(self_, target, reduction, out, &marks).map(drop)
}
