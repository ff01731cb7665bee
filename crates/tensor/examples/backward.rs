//! A gradient, and the graph that it came through: (x^2).sum(), backward, grad = 2x.

use std::iter::successors;

use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    let x = tensor!([1.0, 2.0, 3.0], TensorOptions::new().requires_grad(true))?;
    let y = x.pow(2.0)?.sum()?;
    println!("{y}");
    assert_eq!(y.to_string(), "tensor(14., grad_fn=<SumBackward0>)");

    // Each node knows where gradients flow next.
    let chain =
        successors(y.grad_fn()?, |node| node.next_functions().into_iter().flatten().next().map(|(node, _)| node));
    let names: Vec<String> = chain.map(|node| class(&node.name()).to_owned()).collect();
    println!("{}", names.join(" -> "));
    assert_eq!(names, ["SumBackward0", "PowBackward0", "AccumulateGrad"]);

    y.backward()?;
    if let Some(grad) = x.grad() {
        println!("x.grad = {grad}");
        assert_eq!(grad.to_vec::<f32>()?, (&x * 2.0)?.to_vec::<f32>()?);
    }
    assert!(x.grad().is_some());
    Ok(())
}

/// The last part of a node's name: `AccumulateGrad` of `torch::autograd::AccumulateGrad`.
fn class(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}
