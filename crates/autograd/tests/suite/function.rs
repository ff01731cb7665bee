//! Functions that users write: what they save, mark and return.

use tensor_aten::{Tensor, ops};
use tensor_autograd::{BackwardContext, Context, Function, grad};
use tensor_core::Result;

use crate::{grad_of, leaf, message, node_name, plain, values};

/// `x * factor`, with a gradient that is ten times too large, so that one sees whose it is.
struct Scale {
    factor: f64,
}

impl Function for Scale {
    fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ctx.keep(self.factor);
        Ok(vec![ops::mul(inputs[0], &plain(&[self.factor])?)?])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let factor = ctx.kept::<f64>().copied().unwrap_or(0.0);
        let Some(grad) = &grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(ops::mul(grad, &plain(&[10.0 * factor])?)?)])
    }
}

#[test]
fn its_backward_is_used() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = Scale { factor: 3.0 }.apply(&[&x])?.remove(0);
    assert_eq!((values(&y), node_name(&y).as_str()), (vec![3.0, 6.0], "ScaleBackward"));
    ops::sum(&y, None)?.backward()?;
    assert_eq!(grad_of(&x), [30.0, 30.0]);
    let constant = Scale { factor: 3.0 }.apply(&[&plain(&[1.0])?])?.remove(0);
    assert!(!constant.requires_grad());
    Ok(())
}

/// `exp`, saving its result.
struct Exp;

impl Function for Exp {
    fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let result = ops::exp(inputs[0])?;
        ctx.save_for_backward(&[&result]);
        Ok(vec![result])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let result = &ctx.saved_tensors()?[0];
        let Some(grad) = &grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(ops::mul(grad, result)?)])
    }
}

#[test]
fn saved_results_have_second_derivatives() -> Result<()> {
    let x = leaf(&[0.5])?;
    let mut y = Exp.apply(&[&x])?.remove(0);
    for _ in 0..3 {
        let first = grad(&[&y], &[&x], None, None, true, false)?;
        y = first.into_iter().flatten().next().unwrap_or_else(|| x.clone());
        assert!((values(&y)[0] - 0.5f64.exp()).abs() < 1e-12 && y.requires_grad());
    }
    Ok(())
}

#[test]
fn saved_tensors_are_freed_and_checked() -> Result<()> {
    let x = leaf(&[1.0])?;
    let y = Exp.apply(&[&x])?.remove(0);
    y.backward()?;
    assert!(message(y.backward()).starts_with("Trying to backward through the graph a second time"));
    let y = Exp.apply(&[&x])?.remove(0);
    ops::add_(&y, &plain(&[1.0])?, 1)?;
    assert!(message(y.backward()).contains("which is output 0 of Exp, is at version 1; expected version 0 instead."));
    Ok(())
}

/// What a test makes a function do.
#[derive(Default)]
struct Odd {
    write: bool,
    mark: bool,
    hide: bool,
    results: usize,
    once: bool,
}

impl Function for Odd {
    fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if self.write {
            ops::mul_(inputs[0], &plain(&[2.0])?)?;
            ctx.mark_dirty(&[inputs[0]]);
        }
        if self.hide {
            return Ok(vec![ops::mul(inputs[0], inputs[0])?]);
        }
        if self.mark {
            let count = ops::mul(inputs[0], inputs[0])?;
            ctx.mark_non_differentiable(&[&count]);
            return Ok(vec![inputs[0].clone(), count]);
        }
        Ok(vec![inputs[0].clone()])
    }

    fn backward(&self, _ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let mut out = vec![None; self.results.max(1)];
        out[0] = match &grads[0] {
            Some(grad) => Some(ops::mul(grad, grad)?),
            None => None,
        };
        Ok(out)
    }

    fn once_differentiable(&self) -> bool {
        self.once
    }
}

#[test]
fn inputs_written_in_place_are_rebased() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &plain(&[1.0, 1.0])?)?;
    let z = Odd { write: true, ..Odd::default() }.apply(&[&y])?.remove(0);
    assert!(z.is_same(&y));
    assert_eq!((values(&y), node_name(&y).as_str()), (vec![2.0, 4.0], "OddBackward"));
    assert_eq!(
        message(Odd { write: true, hide: true, ..Odd::default() }.apply(&[&y])),
        "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified \
         inplace must all be outputs of the Function."
    );
    assert_eq!(
        message(Odd { write: true, ..Odd::default() }.apply(&[&x])),
        "a leaf Variable that requires grad has been used in an in-place operation."
    );
    let view = ops::slice(&y, 0, Some(0), Some(1), 1)?;
    Odd { write: true, ..Odd::default() }.apply(&[&view])?;
    assert_eq!((node_name(&y), node_name(&view)), ("torch::autograd::CopySlices".into(), "AsStridedBackward0".into()));
    Ok(())
}

#[test]
fn inputs_returned_as_they_are_become_views() -> Result<()> {
    let x = leaf(&[3.0])?;
    let outputs = Odd { mark: true, ..Odd::default() }.apply(&[&x])?;
    assert!(!outputs[0].is_same(&x) && outputs[0].requires_grad() && !outputs[1].requires_grad());
    assert!(x.is_leaf() && outputs[0].data_ptr() == x.data_ptr());
    assert!(
        message(ops::mul_(&outputs[0], &plain(&[1.0])?)).contains("This view was created inside a custom Function"),
        "{}",
        node_name(&outputs[0])
    );
    let two = plain(&[2.0])?;
    outputs[0].backward_opt(Some(&two), None, false, None)?;
    assert_eq!(grad_of(&x), [4.0]);
    Ok(())
}

#[test]
fn the_number_of_gradients_is_checked() -> Result<()> {
    let x = leaf(&[1.0])?;
    let y = Odd { results: 3, ..Odd::default() }.apply(&[&x])?.remove(0);
    y.backward()?;
    assert_eq!(grad_of(&x), [1.0]);
    let y = Odd::default().apply(&[&x, &x])?.remove(0);
    assert_eq!(
        message(y.backward()),
        "function OddBackward returned an incorrect number of gradients (expected 2, got 1)"
    );
    Ok(())
}

#[test]
fn a_second_derivative_can_be_refused() -> Result<()> {
    let x = leaf(&[1.0])?;
    let y = Odd { once: true, ..Odd::default() }.apply(&[&ops::mul(&x, &x)?])?.remove(0);
    let one = leaf(&[1.0])?;
    let first = grad(&[&y], &[&x], Some(&[Some(&one)]), None, true, false)?;
    let first = first.into_iter().flatten().next().unwrap_or(x);
    assert_eq!(
        message(first.backward()),
        "trying to differentiate twice a function that was marked with @once_differentiable"
    );
    Ok(())
}
