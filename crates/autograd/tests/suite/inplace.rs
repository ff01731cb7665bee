//! Writes in place: through leaves, views and bases, and what they do to the graph.

use tensor_aten::{Tensor, ops};
use tensor_autograd::{inference_mode, no_grad};
use tensor_core::Result;

use crate::{grad_of, leaf, message, node_name, plain};

fn first(x: &Tensor) -> Result<Tensor> {
    ops::slice(x, 0, Some(0), Some(1), 1)
}

#[test]
fn leaves_and_their_views_refuse() -> Result<()> {
    let (x, one) = (leaf(&[1.0, 2.0])?, plain(&[1.0])?);
    assert_eq!(
        message(ops::add_(&x, &one, 1)),
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    assert_eq!(
        message(ops::add_(&first(&x)?, &one, 1)),
        "a view of a leaf Variable that requires grad is being used in an in-place operation."
    );
    assert_eq!(crate::values(&x), [1.0, 2.0]);
    no_grad(|| ops::add_(&x, &one, 1))?;
    assert_eq!(crate::values(&x), [2.0, 3.0]);
    Ok(())
}

#[test]
fn a_write_through_a_view_rebases_the_base() -> Result<()> {
    let x = leaf(&[1.0, 2.0, 3.0])?;
    let y = ops::mul(&x, &x)?;
    let view = first(&y)?;
    let other = first(&y)?;
    assert_eq!((node_name(&y), node_name(&other)), ("MulBackward0".into(), "SliceBackward0".into()));
    ops::mul_(&view, &plain(&[10.0])?)?;
    assert_eq!((node_name(&y), node_name(&view)), ("torch::autograd::CopySlices".into(), "AsStridedBackward0".into()));
    assert_eq!(node_name(&other), "AsStridedBackward0");
    ops::sum(&y, None)?.backward()?;
    assert_eq!(grad_of(&x), [20.0, 4.0, 6.0]);
    Ok(())
}

#[test]
fn gradients_flow_through_the_written_view_and_its_siblings() -> Result<()> {
    let (x, w) = (leaf(&[1.0, 2.0])?, leaf(&[5.0])?);
    let y = ops::mul(&x, &plain(&[1.0, 1.0])?)?;
    let (view, other) = (first(&y)?, first(&y)?);
    ops::mul_(&view, &w)?;
    let z = ops::add(&ops::sum(&view, None)?, &ops::sum(&other, None)?, 1)?;
    z.backward()?;
    assert_eq!(grad_of(&x), [10.0, 0.0]);
    assert_eq!(grad_of(&w), [2.0]);
    Ok(())
}

#[test]
fn a_view_of_a_base_that_began_to_need_a_gradient() -> Result<()> {
    let w = leaf(&[3.0, 4.0])?;
    let base = plain(&[1.0, 2.0])?;
    let view = first(&base)?;
    assert!(!view.requires_grad() && view.is_view());
    ops::mul_(&base, &w)?;
    assert!(view.requires_grad());
    assert_eq!(node_name(&view), "AsStridedBackward0");
    ops::sum(&ops::mul(&view, &view)?, None)?.backward()?;
    assert_eq!(grad_of(&w), [6.0, 0.0]);
    Ok(())
}

#[test]
fn a_saved_result_follows_the_views_node() -> Result<()> {
    let x = leaf(&[0.0, 1.0])?;
    let y = ops::mul(&x, &plain(&[1.0, 1.0])?)?;
    let view = first(&y)?;
    ops::exp_(&view)?;
    ops::sum(&y, None)?.backward_opt(None, None, true, None)?;
    assert_eq!(grad_of(&x), [1.0, 1.0]);
    let Some(grad) = x.grad() else { return Ok(()) };
    x.set_grad(None)?;
    ops::sum(&grad, None)?.backward()?;
    assert_eq!(grad_of(&x), [1.0, 0.0]);
    Ok(())
}

#[test]
fn a_base_written_in_place_gives_its_views_new_nodes() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &plain(&[1.0, 1.0])?)?;
    let view = first(&y)?;
    ops::mul_(&y, &plain(&[7.0, 7.0])?)?;
    ops::sum(&view, None)?.backward()?;
    assert_eq!(grad_of(&x), [7.0, 0.0]);
    Ok(())
}

#[test]
fn views_of_views_share_the_root() -> Result<()> {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0])?;
    let y = ops::mul(&x, &plain(&[1.0; 4])?)?;
    let square = ops::view(&y, &[2, 2])?;
    let row = ops::select_int(&square, 0, 1)?;
    assert!(row.base().is_some_and(|base| base.is_same(&y)));
    ops::mul_(&row, &plain(&[10.0, 100.0])?)?;
    assert_eq!(node_name(&square), "AsStridedBackward0");
    ops::sum(&square, None)?.backward()?;
    assert_eq!(grad_of(&x), [1.0, 1.0, 10.0, 100.0]);
    Ok(())
}

#[test]
fn a_change_of_shape_in_place_leaves_other_names_alone() -> Result<()> {
    let x = leaf(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?;
    let y = ops::mul(&x, &plain(&[1.0; 6])?)?;
    let view = ops::view(&y, &[2, 3])?;
    ops::t_(&view)?;
    assert_eq!((node_name(&view), node_name(&y)), ("TBackward1".into(), "MulBackward0".into()));
    let weights = ops::view(&plain(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])?, &[3, 2])?;
    ops::sum(&ops::mul(&view, &weights)?, None)?.backward()?;
    assert_eq!(grad_of(&x), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    Ok(())
}

#[test]
fn detaching_in_place_forgets_the_graph() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    let view = first(&y)?;
    assert!(message(ops::detach_(&view)).starts_with("Can't detach views in-place. Use detach() instead."));
    ops::detach_(&y)?;
    assert!(y.is_leaf() && !y.requires_grad() && y.grad_fn()?.is_none());
    ops::detach_(&x)?;
    assert!(!x.requires_grad());
    Ok(())
}

#[test]
fn recorded_tensors_are_not_resized() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    assert_eq!(message(ops::resize_(&x, &[1], None)), "cannot resize variables that require grad");
    assert_eq!(message(ops::resize_(&ops::mul(&x, &x)?, &[1], None)), "cannot resize variables that require grad");
    Ok(())
}

#[test]
fn views_with_a_history_of_their_own_refuse() -> Result<()> {
    let (x, one) = (leaf(&[1.0, 2.0])?, plain(&[1.0])?);
    let y = ops::mul(&x, &x)?;
    let parts = ops::unbind_int(&y, 0)?;
    assert_eq!(
        message(ops::add_(&parts[0], &ops::select_int(&one, 0, 0)?, 1)),
        "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns \
         multiple views. Such functions do not allow the output views to be modified inplace. You should replace the \
         inplace operation by an out-of-place one."
    );
    ops::add_(&y, &one, 1)?;
    assert_eq!(
        message(ops::mul(&parts[1], &one)),
        "Output 1 of Unbind is a view and its base or another view of its base has been modified inplace. This view is the \
         output of a function that returns multiple views. Such functions do not allow the output views to be modified \
         inplace. You should replace the inplace operation by an out-of-place one."
    );
    let made_without = no_grad(|| first(&y))?;
    assert_eq!(
        message(ops::add_(&made_without, &one, 1)),
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case \
         is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace \
         either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want \
         the inplace to be tracked)."
    );
    Ok(())
}

#[test]
fn inference_tensors_are_not_saved() -> Result<()> {
    let x = leaf(&[1.0])?;
    let constant = inference_mode(|| ops::add(&plain(&[1.0])?, &plain(&[1.0])?, 1))?;
    assert!(constant.is_inference());
    assert!(message(ops::mul(&constant, &x)).starts_with("Inference tensors cannot be saved for backward."));
    assert!(ops::add(&constant, &x, 1)?.requires_grad());
    Ok(())
}

#[test]
fn out_arguments_refuse_gradients() -> Result<()> {
    let (x, out) = (leaf(&[1.0])?, plain(&[0.0])?);
    assert_eq!(
        message(ops::add_out(&x, &x, 1, &out)),
        "add(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires \
         grad."
    );
    Ok(())
}
