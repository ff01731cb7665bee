//! The cost of an operator on almost no data.

use tensor::prelude::*;

use super::{Job, Workload, unrecorded};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let inputs = workload.inputs()?;
    let a = inputs[0].clone();
    let b = inputs.last().unwrap_or(&a).clone();
    let n = workload.per;
    // As a user runs them: gradients are on, and wanted where a leaf asks for one.
    fn plain<T>(mut f: impl FnMut() -> Result<T> + 'static) -> Result<Option<Job>> {
        Ok(Some(Box::new(move || f().map(drop))))
    }
    match workload.op.as_str() {
        "add" => plain(move || &a + &b),
        "add_grad" => {
            a.requires_grad_(true)?;
            b.requires_grad_(true)?;
            plain(move || &a + &b)
        }
        "mul_scalar" => plain(move || &a * 2.0),
        "view" => plain(move || a.view(&[1024])),
        "transpose" => plain(move || a.transpose(0, 1)),
        "slice" => plain(move || a.i(4..20)),
        "expand" => plain(move || a.expand(&[32, 32])),
        "empty" => plain(|| Tensor::empty(&[1], ())),
        "zeros" => plain(|| Tensor::zeros(&[1024], ())),
        "item" => plain(move || a.item()),
        "matmul" => plain(move || a.matmul(&b)),
        "chain_fwd" => unrecorded(move || chain(&a, &b, n)),
        "chain_fwdbwd" => {
            a.requires_grad_(true)?;
            plain(move || {
                a.set_grad(None)?;
                chain(&a, &b, n)?.sum()?.backward()
            })
        }
        _ => Ok(None),
    }
}

/// `x + b + b + ..`
fn chain(a: &Tensor, b: &Tensor, n: u64) -> Result<Tensor> {
    let mut x = a.clone();
    for _ in 0..n {
        x = (&x + b)?;
    }
    Ok(x)
}
