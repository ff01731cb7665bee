//! The engine on real operators: orders, errors, in-place writes.

use tensor_backends_cpu as _;

#[path = "suite/checkpoint.rs"]
mod checkpoint;
#[path = "suite/engine.rs"]
mod engine;
#[path = "suite/function.rs"]
mod function;
#[path = "suite/gradcheck.rs"]
mod gradcheck;
#[path = "suite/hooks.rs"]
mod hooks;
#[path = "suite/inplace.rs"]
mod inplace;
#[path = "suite/lists.rs"]
mod lists;
#[path = "suite/programs.rs"]
mod programs;
#[path = "suite/saved.rs"]
mod saved;
#[path = "suite/sums.rs"]
mod sums;

use tensor_aten::Tensor;
use tensor_core::Result;

/// A leaf that requires a gradient.
fn leaf(values: &[f64]) -> Result<Tensor> {
    let x = plain(values)?;
    x.requires_grad_(true)?;
    Ok(x)
}

/// A 1-d tensor without a gradient.
fn plain(values: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(values, &[values.len() as i64])
}

/// The elements.
fn values(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().unwrap_or_default()
}

/// The gradient's elements.
fn grad_of(x: &Tensor) -> Vec<f64> {
    x.grad().map_or_else(Vec::new, |grad| values(&grad))
}

/// The name of the node that made a tensor.
fn node_name(x: &Tensor) -> String {
    x.grad_fn().ok().flatten().map_or_else(|| "None".to_owned(), |node| node.name())
}

/// The message of an error.
fn message<T>(result: Result<T>) -> String {
    result.err().map_or_else(|| "no error".to_owned(), |error| error.message().to_owned())
}
