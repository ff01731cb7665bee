//! Parts that are computed again in backward.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor_aten::{Tensor, ops};
use tensor_autograd::{checkpoint, grad};
use tensor_core::Result;

use crate::{grad_of, leaf, message, plain, values};

/// `exp(x * w) * x`, counting its runs.
fn body(w: &Tensor, runs: &Arc<AtomicUsize>) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static {
    let (w, runs) = (w.clone(), runs.clone());
    move |inputs| {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(vec![ops::mul(&ops::exp(&ops::mul(&inputs[0], &w)?)?, &inputs[0])?])
    }
}

#[test]
fn gradients_are_those_of_the_plain_run() -> Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let (x, w) = (leaf(&[0.5, 1.0])?, leaf(&[2.0, 3.0])?);
    let f = body(&w, &runs);
    ops::sum(&f(std::slice::from_ref(&x))?[0], None)?.backward()?;
    let expected = (grad_of(&x), grad_of(&w));
    x.set_grad(None)?;
    w.set_grad(None)?;
    let y = checkpoint(f, &[&x])?.remove(0);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    ops::sum(&y, None)?.backward()?;
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!((grad_of(&x), grad_of(&w)), expected);
    Ok(())
}

#[test]
fn nested_and_twice_differentiated() -> Result<()> {
    let x = leaf(&[0.5])?;
    let cube = |x: &Tensor| ops::mul(&ops::mul(x, x)?, x);
    let outer = move |inputs: &[Tensor]| {
        let inner = checkpoint(move |inputs: &[Tensor]| Ok(vec![cube(&inputs[0])?]), &[&inputs[0]])?.remove(0);
        Ok(vec![ops::mul(&inner, &inputs[0])?])
    };
    let y = checkpoint(outer, &[&x])?.remove(0);
    let first = grad(&[&y], &[&x], None, None, true, false)?.remove(0).unwrap_or(x.clone());
    assert!((values(&first)[0] - 4.0 * 0.125).abs() < 1e-12);
    let second = grad(&[&first], &[&x], None, None, false, false)?.remove(0).unwrap_or(x.clone());
    assert!((values(&second)[0] - 12.0 * 0.25).abs() < 1e-12);
    Ok(())
}

#[test]
fn inputs_that_changed_are_found_out() -> Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let w = leaf(&[1.0])?;
    let x = plain(&[1.0])?;
    let y = checkpoint(body(&w, &runs), &[&x])?.remove(0);
    ops::add_(&x, &plain(&[1.0])?, 1)?;
    assert!(message(y.backward()).contains("modified by an inplace operation"));
    Ok(())
}

#[test]
fn another_number_of_saved_tensors_is_an_error() -> Result<()> {
    let x = leaf(&[1.0])?;
    let runs = AtomicUsize::new(0);
    let y = checkpoint(
        move |inputs| {
            let first = runs.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(vec![if first { ops::exp(&inputs[0])? } else { ops::add(&inputs[0], &inputs[0], 1)? }])
        },
        &[&x],
    )?
    .remove(0);
    assert!(message(y.backward()).contains("A different number of tensors was saved"));
    Ok(())
}
