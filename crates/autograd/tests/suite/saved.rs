//! What nodes keep: freed after a pass, checked for changes, packed by hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tensor_aten::{Tensor, ops};
use tensor_autograd::saved::{SavedTensorHooks, saved_tensors_hooks};
use tensor_core::{Error, Result};

use crate::{grad_of, leaf, message, plain};

#[test]
fn a_second_backward_needs_retain_graph() -> Result<()> {
    let x = leaf(&[1.0])?;
    let y = ops::mul(&x, &x)?;
    y.backward_opt(None, Some(true), false, None)?;
    y.backward()?;
    assert_eq!(grad_of(&x), [4.0]);
    assert!(
        message(y.backward()).starts_with("Trying to backward through the graph a second time (or directly access")
    );
    Ok(())
}

#[test]
fn changed_tensors_are_found_out() -> Result<()> {
    let (x, one) = (leaf(&[1.0, 2.0, 3.0])?, plain(&[1.0])?);
    let y = ops::exp(&x)?;
    ops::add_(&y, &one, 1)?;
    let text = |made_by: &str| {
        format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: \
             [torch.DoubleTensor [3]]{made_by} is at version 1; expected version 0 instead. Hint: enable anomaly detection \
             to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, \
             check_nan=False)."
        )
    };
    assert_eq!(message(ops::sum(&y, None)?.backward()), text(", which is output 0 of Exp,"));
    let w = plain(&[1.0, 1.0, 1.0])?;
    let z = ops::mul(&x, &w)?;
    ops::add_(&w, &one, 1)?;
    assert_eq!(message(ops::sum(&z, None)?.backward()), text(""));
    let y = ops::mul(&x, &plain(&[2.0])?)?;
    let z = ops::mul(&y, &y)?;
    ops::add_(&y, &one, 1)?;
    assert_eq!(message(ops::sum(&z, None)?.backward()), text(", which is output 0 of Add,"));
    Ok(())
}

fn negating_hooks(packed: &Arc<AtomicUsize>) -> SavedTensorHooks {
    let packed = packed.clone();
    SavedTensorHooks::new(
        move |tensor| {
            packed.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(ops::neg(tensor)?))
        },
        |stored| match stored.downcast_ref::<Tensor>() {
            Some(tensor) => ops::neg(tensor),
            None => Err(Error::runtime("not a tensor")),
        },
    )
}

#[test]
fn pack_hooks_store_something_else() -> Result<()> {
    let packed = Arc::new(AtomicUsize::new(0));
    let x = leaf(&[2.0, 3.0])?;
    let z = {
        let _hooks = saved_tensors_hooks(negating_hooks(&packed));
        let y = ops::exp(&ops::mul(&x, &x)?)?;
        ops::sum(&ops::mul(&y, &x)?, None)?
    };
    assert_eq!(packed.load(Ordering::Relaxed), 5);
    z.backward_opt(None, None, true, None)?;
    assert_eq!(packed.load(Ordering::Relaxed), 5);
    let d = |x: f64| (x * x).exp() * (1.0 + 2.0 * x * x);
    let close = |a: Vec<f64>, b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs());
    assert!(close(grad_of(&x), [d(2.0), d(3.0)]));
    // The unpacked leaf still leads to x, and the unpacked result to its node.
    let Some(grad) = x.grad() else { return Ok(()) };
    x.set_grad(None)?;
    ops::sum(&grad, None)?.backward()?;
    let dd = |x: f64| (x * x).exp() * (6.0 * x + 4.0 * x * x * x);
    assert!(close(grad_of(&x), [dd(2.0), dd(3.0)]), "{:?}", grad_of(&x));
    Ok(())
}
