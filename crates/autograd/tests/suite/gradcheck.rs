//! The checks accept right gradients and refuse wrong ones.

use tensor_aten::{Tensor, ops};
use tensor_autograd::{BackwardContext, Context, Function, GradCheck, gradcheck, gradgradcheck};
use tensor_core::{Complex64, Result};

use crate::{leaf, message, plain};

fn product(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let y = ops::mul(&ops::exp(&inputs[0])?, &inputs[1])?;
    Ok(vec![ops::mul(&y, &inputs[0])?, ops::sum(&y, None)?])
}

#[test]
fn right_gradients_pass() -> Result<()> {
    let inputs = [leaf(&[0.5, -1.0, 2.0])?, ops::view(&plain(&[1.5, -0.5])?, &[2, 1])?];
    inputs[1].requires_grad_(true)?;
    gradcheck(product, &inputs, GradCheck::default())?;
    gradgradcheck(product, &inputs, GradCheck::default())
}

#[test]
fn writes_through_views_pass() -> Result<()> {
    let f = |inputs: &[Tensor]| {
        let y = ops::mul(&inputs[0], &inputs[0])?;
        let row = ops::select_int(&y, 0, 1)?;
        ops::mul_(&row, &inputs[1])?;
        let square = ops::transpose_int(&y, 0, 1)?;
        ops::exp_(&ops::select_int(&square, 0, 0)?)?;
        Ok(vec![y])
    };
    let x = ops::view(&plain(&[0.1, 0.2, 0.3, 0.4])?, &[2, 2])?;
    let inputs = [x, leaf(&[1.5, -0.5])?];
    inputs[0].requires_grad_(true)?;
    gradcheck(f, &inputs, GradCheck::default())?;
    gradgradcheck(f, &inputs, GradCheck::default())
}

#[test]
fn overlapping_views_pass() -> Result<()> {
    let f = |inputs: &[Tensor]| {
        let windows = ops::as_strided(&inputs[0], &[3, 2, 2], &[1, 1, 0], Some(0))?;
        Ok(vec![ops::mul(&windows, &windows)?])
    };
    let inputs = [leaf(&[0.5, -1.0, 2.0, 0.25])?];
    gradcheck(f, &inputs, GradCheck::default())?;
    gradgradcheck(f, &inputs, GradCheck::default())
}

#[test]
fn complex_gradients_pass() -> Result<()> {
    let z = Tensor::from_slice(&[Complex64::new(0.5, -1.0), Complex64::new(2.0, 0.25)], &[2])?;
    z.requires_grad_(true)?;
    let inputs = [z, leaf(&[1.5, -0.5])?];
    gradcheck(
        |inputs| Ok(vec![ops::mul(&ops::mul(&inputs[0], &inputs[0])?, &inputs[1])?]),
        &inputs,
        GradCheck::default(),
    )
}

struct Wrong;

impl Function for Wrong {
    fn forward(&self, _ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![ops::mul(inputs[0], inputs[0])?])
    }

    fn backward(&self, _ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![grads[0].clone()])
    }
}

#[test]
fn wrong_gradients_do_not() -> Result<()> {
    let error = message(gradcheck(|inputs| Wrong.apply(&[&inputs[0]]), &[leaf(&[3.0])?], GradCheck::default()));
    assert!(error.starts_with("Jacobian mismatch for output 0 with respect to input 0,\nnumerical:[["), "{error}");
    assert!(error.ends_with("analytical:[[1.0]]\n"), "{error}");
    Ok(())
}
