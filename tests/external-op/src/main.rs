//! Calls the operator of this crate, by function and by name, and differentiates it. Prints what comes out; fails if that is
//! wrong, so that a build whose linker dropped a kernel is noticed.

use external_op::squared_relu;
use tensor::prelude::*;
use tensor::{IValue, check, dispatch};

fn main() -> Result<()> {
    let x = tensor!([-1.0, 2.0, 3.0])?;
    x.requires_grad_(true)?;
    let y = squared_relu(&x, 0.5)?;
    println!("{y}");
    y.sum()?.backward()?;
    let grad = x.grad();
    println!("{grad:?}");
    check!(y.to_vec::<f32>()? == [0.0, 2.0, 4.5], "wrong values: {y}");
    check!(matches!(&grad, Some(grad) if grad.to_vec::<f32>()? == [0.0, 2.0, 3.0]), "wrong gradient: {grad:?}");

    let boxed = dispatch::invoke("user::squared_relu", [(&x).into(), 1.0.into()])?;
    check!(matches!(&boxed[..], [IValue::Tensor(y)] if y.to_vec::<f32>()? == [0.0, 4.0, 9.0]), "wrong boxed call");
    println!("{}", dispatch::dump_computed("user::squared_relu")?);
    Ok(())
}
