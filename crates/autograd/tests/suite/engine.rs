//! Values, accumulation, `inputs=`, double backward, and the errors of `backward` and `grad`.

use tensor_aten::ops;
use tensor_autograd::{backward, grad, no_grad};
use tensor_core::{DType, Result};

use crate::{grad_of, leaf, message, node_name, plain, values};

#[test]
fn gradients_of_a_small_graph() -> Result<()> {
    let (x, w) = (leaf(&[1.0, 2.0, 3.0])?, leaf(&[4.0, 5.0, 6.0])?);
    let y = ops::add(&ops::mul(&x, &w)?, &x, 2)?;
    assert_eq!(node_name(&y), "AddBackward0");
    ops::sum(&y, None)?.backward()?;
    assert_eq!(grad_of(&x), [6.0, 7.0, 8.0]);
    assert_eq!(grad_of(&w), [1.0, 2.0, 3.0]);
    assert!(y.grad_fn()?.is_some_and(|node| node.next_functions().len() == 2));
    Ok(())
}

#[test]
fn gradients_accumulate_over_passes() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    for _ in 0..3 {
        ops::sum(&ops::mul(&x, &x)?, None)?.backward()?;
    }
    assert_eq!(grad_of(&x), [6.0, 12.0]);
    x.set_grad(None)?;
    assert!(x.grad().is_none());
    Ok(())
}

#[test]
fn broadcast_gradients_are_summed_to_the_inputs_shape() -> Result<()> {
    let x = leaf(&[1.0, 2.0, 3.0])?;
    let column = ops::view(&leaf(&[10.0, 20.0])?, &[2, 1])?;
    column.retain_grad()?;
    ops::sum(&ops::mul(&x, &column)?, None)?.backward()?;
    assert_eq!(grad_of(&x), [30.0, 30.0, 30.0]);
    assert_eq!(column.grad().map(|g| g.sizes().to_vec()), Some(vec![2, 1]));
    assert_eq!(grad_of(&column), [6.0, 6.0]);
    Ok(())
}

#[test]
fn gradients_take_the_inputs_dtype() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let half = ops::_to_copy(&x, Some(DType::F32), None, None, None, false, None)?;
    ops::sum(&ops::mul(&half, &x)?, None)?.backward()?;
    assert_eq!(x.grad().map(|g| g.dtype()), Some(DType::F64));
    assert_eq!(grad_of(&x), [2.0, 4.0]);
    Ok(())
}

#[test]
fn grad_returns_without_touching_leaves() -> Result<()> {
    let (x, w, unused) = (leaf(&[1.0, 2.0])?, leaf(&[3.0, 4.0])?, leaf(&[0.0])?);
    let y = ops::sum(&ops::mul(&x, &w)?, None)?;
    let grads = grad(&[&y], &[&w, &unused], None, Some(true), false, true)?;
    assert_eq!(grads[0].as_ref().map(values), Some(vec![1.0, 2.0]));
    assert!(grads[1].is_none() && x.grad().is_none() && w.grad().is_none());
    let error = message(grad(&[&y], &[&unused], None, None, false, false));
    assert_eq!(
        error,
        "The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True if this is \
         the desired behavior."
    );
    Ok(())
}

#[test]
fn grad_of_intermediate_tensors() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::exp(&x)?;
    let z = ops::sum(&ops::mul(&y, &y)?, None)?;
    let grads = grad(&[&z], &[&y, &x], None, None, false, false)?;
    let e: Vec<f64> = values(&y);
    assert_eq!(grads[0].as_ref().map(values), Some(e.iter().map(|e| 2.0 * e).collect()));
    assert_eq!(grads[1].as_ref().map(values), Some(e.iter().map(|e| 2.0 * e * e).collect()));
    Ok(())
}

#[test]
fn inputs_limit_where_gradients_go() -> Result<()> {
    let (x, w) = (leaf(&[1.0, 2.0])?, leaf(&[3.0, 4.0])?);
    let hidden = ops::mul(&x, &w)?;
    let y = ops::sum(&ops::mul(&hidden, &hidden)?, None)?;
    backward(&[&y], None, None, false, Some(&[&w, &hidden]))?;
    assert!(x.grad().is_none());
    assert_eq!(grad_of(&w), [6.0, 32.0]);
    assert_eq!(grad_of(&hidden), [6.0, 16.0]);
    Ok(())
}

#[test]
fn second_derivatives() -> Result<()> {
    let x = leaf(&[2.0, 3.0])?;
    let cube = ops::mul(&ops::mul(&x, &x)?, &x)?;
    let first = grad(&[&ops::sum(&cube, None)?], &[&x], None, None, true, false)?;
    let first = first.into_iter().flatten().next().unwrap_or(x.clone());
    assert_eq!(values(&first), [12.0, 27.0]);
    assert!(first.requires_grad());
    let second = grad(&[&ops::sum(&first, None)?], &[&x], None, None, true, false)?;
    let second = second.into_iter().flatten().next().unwrap_or(x.clone());
    assert_eq!(values(&second), [12.0, 18.0]);
    ops::sum(&second, None)?.backward()?;
    assert_eq!(grad_of(&x), [6.0, 6.0]);
    Ok(())
}

#[test]
fn several_roots_one_of_which_leads_to_another() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    let z = ops::mul(&y, &y)?;
    let ones = plain(&[1.0, 1.0])?;
    backward(&[&y, &z], Some(&[Some(&ones), Some(&ones)]), None, false, None)?;
    assert_eq!(grad_of(&x), [2.0 + 4.0, 4.0 + 32.0]);
    Ok(())
}

#[test]
fn a_backward_inside_a_backward() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    let inner = leaf(&[5.0])?;
    let seen = inner.clone();
    y.register_hook(move |_| {
        tensor_autograd::enable_grad(|| ops::mul(&seen, &seen)?.backward())?;
        Ok(None)
    })?;
    ops::sum(&y, None)?.backward()?;
    assert_eq!((grad_of(&x), grad_of(&inner)), (vec![2.0, 4.0], vec![10.0]));
    Ok(())
}

#[test]
fn nothing_is_recorded_without_grad_mode() -> Result<()> {
    let x = leaf(&[1.0])?;
    let y = no_grad(|| ops::mul(&x, &x))?;
    assert!(!y.requires_grad() && y.grad_fn()?.is_none() && y.is_leaf());
    Ok(())
}

#[test]
fn detached_tensors_share_elements_and_version() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    let detached = ops::detach(&y)?;
    assert!(!detached.requires_grad() && !detached.is_view());
    let before = y.version()?;
    ops::add_(&detached, &detached, 1)?;
    assert_eq!(y.version()?, before + 1);
    let data = y.data();
    ops::add_(&data, &data, 1)?;
    assert_eq!(y.version()?, before + 1);
    assert_eq!(values(&y), [4.0, 16.0]);
    Ok(())
}

#[test]
fn the_first_gradient_is_stolen_and_later_ones_are_added_in_place() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let given = plain(&[1.0, 1.0])?;
    ops::mul(&x, &plain(&[2.0, 2.0])?)?.backward_opt(Some(&given), None, false, None)?;
    let first = x.grad().map(|g| g.data_ptr());
    x.backward_opt(Some(&given), None, false, None)?;
    assert_eq!(x.grad().map(|g| g.data_ptr()), first);
    assert_eq!(grad_of(&x), [3.0, 3.0]);
    assert_eq!(values(&given), [1.0, 1.0]);
    Ok(())
}

#[test]
fn errors_have_pytorchs_words() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::mul(&x, &x)?;
    assert_eq!(message(y.backward()), "grad can be implicitly created only for scalar outputs");
    assert_eq!(
        message(ops::sum(&plain(&[1.0])?, None)?.backward()),
        "element 0 of tensors does not require grad and does not have a grad_fn"
    );
    assert_eq!(
        message(y.backward_opt(Some(&plain(&[1.0])?), None, false, None)),
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([1]) and output[0] has a shape of torch.Size([2])."
    );
    assert_eq!(
        message(y.backward_opt(None, None, false, Some(&[]))),
        "`inputs` argument to `backward()` cannot be empty."
    );
    assert_eq!(message(grad(&[&y], &[], None, None, false, false)), "`inputs` argument to `grad()` cannot be empty.");
    assert_eq!(message(plain(&[1.0])?.retain_grad()), "can't retain_grad on Tensor that has requires_grad=False");
    assert_eq!(message(x.set_grad(Some(x.clone()))), "can't assign Variable as its own grad");
    assert_eq!(
        message(x.set_grad(Some(plain(&[1.0])?))),
        "attempting to assign a gradient of size '[1]' to a tensor of size '[2]'. Please ensure that the gradient and the \
         tensor are the same size"
    );
    assert_eq!(
        message(y.requires_grad_(false).map(drop)),
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph \
         that doesn't require differentiation use var_no_grad = var.detach()."
    );
    let ints = tensor_aten::Tensor::from_slice(&[1i64], &[1])?;
    assert_eq!(
        message(ints.requires_grad_(true).map(drop)),
        "only Tensors of floating point dtype can require gradients"
    );
    Ok(())
}

#[test]
fn threads_that_share_a_graph() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = ops::sum(&ops::mul(&ops::exp(&x)?, &x)?, None)?;
    let passes = std::thread::scope(|scope| {
        let pass = || (0..50).map(|_| grad(&[&y], &[&x], None, Some(true), false, false)).collect::<Result<Vec<_>>>();
        let running: Vec<_> = (0..4).map(|_| scope.spawn(pass)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Ok(Vec::new()))).collect::<Result<Vec<_>>>()
    })?;
    let expected: Vec<f64> = [1.0f64, 2.0].iter().map(|x| x.exp() * (1.0 + x)).collect();
    for pass in passes.iter().flatten() {
        let got = pass[0].as_ref().map(values).unwrap_or_default();
        assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
    }
    assert_eq!(passes.iter().map(Vec::len).sum::<usize>(), 200);
    Ok(())
}

#[test]
fn backwards_nest_deeper_than_a_stack() -> Result<()> {
    fn nested(x: &tensor_aten::Tensor, depth: usize) -> Result<()> {
        let y = tensor_autograd::enable_grad(|| ops::mul(x, x))?;
        if depth > 0 {
            let inner = x.clone();
            y.register_hook(move |_| nested(&inner, depth - 1).map(|()| None))?;
        }
        y.backward()
    }
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let x = leaf(&[1.0])?;
        nested(&x, 300)?;
        Ok(grad_of(&x))
    });
    let thread = thread.map_err(|error| tensor_core::Error::runtime(error.to_string()))?;
    let grad = thread.join().unwrap_or_else(|_| Err(tensor_core::Error::runtime("the thread panicked")))?;
    assert_eq!(grad, [602.0]);
    Ok(())
}
