//! Which hook runs when, and what its result changes.

use std::sync::{Arc, Mutex, PoisonError};

use tensor_aten::{Tensor, ops};
use tensor_autograd::{detect_anomaly, node};
use tensor_core::Result;

use crate::{grad_of, leaf, message, plain, values};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[test]
fn the_order_at_an_intermediate_tensor() -> Result<()> {
    let log = Log::default();
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    y.retain_grad()?;
    let (l, kept) = (log.clone(), y.clone());
    y.register_hook(move |grad| {
        l.note(&format!("tensor, retained {}", kept.grad().is_some()));
        ops::mul(grad, grad).map(Some)
    })?;
    let Some(node) = node::grad_fn(&y)? else { return Ok(()) };
    let (l, kept) = (log.clone(), y.clone());
    node.register_prehook(Arc::new(move |_| {
        l.note(&format!("pre, retained {}", kept.grad().is_some()));
        Ok(None)
    }));
    let l = log.clone();
    node.register_hook(Arc::new(move |inputs, outputs| {
        l.note(&format!("post {} {}", inputs.len(), outputs.len()));
        Ok(None)
    }));
    let three = plain(&[3.0, 3.0])?;
    ops::sum(&ops::mul(&y, &three)?, None)?.backward()?;
    assert_eq!(log.lines(), ["tensor, retained false", "pre, retained true", "post 2 1"]);
    assert_eq!(grad_of(&y), [9.0, 9.0]);
    assert_eq!(grad_of(&x), [18.0, 36.0]);
    Ok(())
}

#[test]
fn the_order_at_a_leaf() -> Result<()> {
    let log = Log::default();
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    let next = node::grad_fn(&y)?.and_then(|node| node.next_edges()[0].node().cloned());
    let Some(accumulator) = next else { return Ok(()) };
    let l = log.clone();
    x.register_hook(move |_| {
        l.note("tensor");
        Ok(None)
    })?;
    let l = log.clone();
    accumulator.register_prehook(Arc::new(move |_| {
        l.note("pre");
        Ok(None)
    }));
    let l = log.clone();
    accumulator.register_hook(Arc::new(move |_, _| {
        l.note("post");
        Ok(None)
    }));
    let l = log.clone();
    x.register_post_accumulate_grad_hook(move |x| {
        l.note(&format!("accumulated {:?}", grad_of(x)));
        Ok(())
    })?;
    ops::sum(&y, None)?.backward()?;
    assert_eq!(log.lines(), ["tensor", "pre", "accumulated [2.0, 4.0]", "post"]);
    Ok(())
}

#[test]
fn hooks_replace_gradients_until_removed() -> Result<()> {
    let x = leaf(&[1.0, 1.0])?;
    let ten = plain(&[10.0, 10.0])?;
    let handle = x.register_hook(move |grad| ops::mul(grad, &ten).map(Some))?;
    let pass = |x: &Tensor| ops::sum(&ops::mul(x, x)?, None)?.backward();
    pass(&x)?;
    assert_eq!(grad_of(&x), [20.0, 20.0]);
    handle.remove();
    handle.remove();
    pass(&x)?;
    assert_eq!(grad_of(&x), [22.0, 22.0]);
    Ok(())
}

#[test]
fn a_failing_hook_fails_the_pass() -> Result<()> {
    let x = leaf(&[1.0, 1.0])?;
    x.register_hook(|grad| ops::view(grad, &[3]).map(Some))?;
    let error = message(ops::sum(&ops::mul(&x, &x)?, None)?.backward());
    assert_eq!(error, "shape '[3]' is invalid for input of size 2");
    Ok(())
}

#[test]
fn hooks_may_not_change_the_shape() -> Result<()> {
    let x = leaf(&[1.0, 1.0])?;
    x.register_hook(|grad| ops::view(grad, &[2, 1]).map(Some))?;
    let error = message(ops::sum(&ops::mul(&x, &x)?, None)?.backward());
    assert!(error.contains("has changed the size of value"), "{error}");
    Ok(())
}

#[test]
fn hooks_need_a_gradient_and_leaves() -> Result<()> {
    let x = leaf(&[1.0])?;
    assert_eq!(
        message(plain(&[1.0])?.register_hook(|_| Ok(None))),
        "cannot register a hook on a tensor that doesn't require gradient"
    );
    assert_eq!(
        message(ops::mul(&x, &x)?.register_post_accumulate_grad_hook(|_| Ok(()))),
        "post accumulate grad hooks cannot be registered on non-leaf tensors"
    );
    Ok(())
}

#[test]
fn retained_gradients_survive_an_in_place_write() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    y.retain_grad()?;
    ops::mul_(&y, &plain(&[3.0, 3.0])?)?;
    ops::sum(&y, None)?.backward()?;
    assert_eq!(grad_of(&y), [1.0, 1.0]);
    assert_eq!(grad_of(&x), [6.0, 12.0]);
    Ok(())
}

#[test]
fn anomaly_mode_names_the_node() -> Result<()> {
    let x = leaf(&[0.0])?;
    let infinite = plain(&[f64::INFINITY])?;
    let y = ops::mul(&ops::mul(&x, &infinite)?, &plain(&[0.0])?)?;
    let _anomaly = detect_anomaly(true);
    assert_eq!(message(y.backward()), "Function 'MulBackward0' returned nan values in its 0th output.");
    assert_eq!(values(&infinite), [f64::INFINITY]);
    Ok(())
}
