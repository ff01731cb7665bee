//! The engine: runs the nodes of a graph from its roots to its leaves.
//!
//! The calling thread runs everything. Kernels of accelerators are asynchronous, so one thread keeps their queues full.
//! A backward inside a backward (in a hook, in a custom function) runs nested on the same thread; beyond a depth it moves
//! to a fresh thread's stack. The graph is borrowed, not cloned: edges never change and the roots are held here.

mod graph;
mod input_buffer;
pub(crate) mod sums;
mod validate;

use std::cell::Cell;

use tensor_aten::{Tensor, ops};
use tensor_core::strides::show;
use tensor_core::{Error, Result, bail, check, tls};

use crate::meta;
use crate::modes;
use crate::node::{Edge, Grads, NodeRef};
use crate::{hooks, node, saved};
use graph::Graph;

/// Accumulates into the leaves of their graphs the gradients of some tensors (`torch.autograd.backward`).
///
/// `grads` are the gradients with respect to the tensors themselves; `None` stands for one, of scalars only.
/// `retain_graph` defaults to `create_graph`. With `inputs`, gradients are accumulated into those tensors alone.
///
/// # Errors
/// When a tensor requires no gradient, a shape does not match, the graph was freed, or a node fails.
pub fn backward(
    tensors: &[&Tensor],
    grads: Option<&[Option<&Tensor>]>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[&Tensor]>,
) -> Result<()> {
    check!(inputs.is_none_or(|inputs| !inputs.is_empty()), "`inputs` argument to `backward()` cannot be empty.");
    let roots = Roots::of(tensors, grads)?;
    let mut targets = Vec::new();
    for input in inputs.unwrap_or_default() {
        check!(meta::requires_grad(input), "One of the differentiated Tensors does not require grad");
        meta::retain_grad(input)?;
        targets.push(target(input)?);
    }
    let options = Options { keep_graph: retain_graph.unwrap_or(create_graph), create_graph, accumulate: true };
    run(roots, inputs.map(|_| targets.as_slice()), options).map(drop)
}

/// The gradients of some outputs with respect to some inputs, without touching any leaf (`torch.autograd.grad`).
/// `None` for inputs that the outputs do not depend on, which are errors unless `allow_unused`.
///
/// # Errors
/// As [`backward`], and for unused inputs.
pub fn grad(
    outputs: &[&Tensor],
    inputs: &[&Tensor],
    grad_outputs: Option<&[Option<&Tensor>]>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    check!(!inputs.is_empty(), "`inputs` argument to `grad()` cannot be empty.");
    let roots = Roots::of(outputs, grad_outputs)?;
    let mut targets = Vec::with_capacity(inputs.len());
    for input in inputs {
        check!(meta::requires_grad(input), "One of the differentiated Tensors does not require grad");
        targets.push(target(input)?);
    }
    let options = Options { keep_graph: retain_graph.unwrap_or(create_graph), create_graph, accumulate: false };
    let grads = run(roots, Some(&targets), options)?;
    for (i, grad) in grads.iter().enumerate() {
        check!(
            allow_unused || grad.is_some(),
            "The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if \
             this is the desired behavior."
        );
    }
    Ok(grads)
}

/// Where the gradient of an input arrives. A leaf without a live accumulator is in no graph: its edge leads nowhere.
fn target(input: &Tensor) -> Result<Edge> {
    Ok(match meta::grad_fn(input)? {
        Some(node) => Edge::new(node, meta::output_nr(input)),
        None => meta::live_accumulator(input).map_or_else(Edge::default, |node| Edge::new(node, 0)),
    })
}

#[derive(Clone, Copy)]
struct Options {
    keep_graph: bool,
    create_graph: bool,
    /// gradients go into leaves; else those of the targets are returned
    accumulate: bool,
}

/// Where a backward starts.
struct Roots {
    edges: Vec<Edge>,
    grads: Vec<Option<Tensor>>,
}

impl Roots {
    fn of(tensors: &[&Tensor], grads: Option<&[Option<&Tensor>]>) -> Result<Self> {
        if let Some(grads) = grads {
            check!(grads.len() == tensors.len(), "got {} tensors and {} gradients", tensors.len(), grads.len());
        }
        let mut roots = Self { edges: Vec::with_capacity(tensors.len()), grads: Vec::with_capacity(tensors.len()) };
        for (i, tensor) in tensors.iter().enumerate() {
            let grad = match grads.and_then(|grads| grads[i]) {
                Some(grad) => Some(given(i, tensor, grad)?),
                None if meta::requires_grad(tensor) => Some(implicit(tensor)?),
                None => None,
            };
            roots.grads.push(grad);
        }
        for (i, tensor) in tensors.iter().enumerate() {
            let edge = meta::gradient_edge(tensor)?;
            check!(edge.node().is_some(), "element {i} of tensors does not require grad and does not have a grad_fn");
            roots.edges.push(edge);
        }
        Ok(roots)
    }
}

fn given(i: usize, output: &Tensor, grad: &Tensor) -> Result<Tensor> {
    check!(
        grad.sizes() == output.sizes(),
        "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({}) and output[{i}] has a shape of torch.Size({}).",
        show(grad.sizes()),
        show(output.sizes())
    );
    check!(
        grad.is_complex() == output.is_complex(),
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: \
         grad_output[{i}] has a dtype of {} and output[{i}] has a dtype of {}.",
        grad.dtype(),
        output.dtype()
    );
    Ok(grad.clone())
}

fn implicit(output: &Tensor) -> Result<Tensor> {
    check!(output.numel() == 1, "grad can be implicitly created only for scalar outputs");
    check!(
        output.is_floating_point(),
        "grad can be implicitly created only for real scalar outputs but got {}",
        output.dtype()
    );
    let _no_grad = tls::grad_mode(false);
    ops::ones_like(output, None, None, None, None, None)
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Nested backwards that share a stack.
const MAX_DEPTH: usize = 20;

struct Depth;

impl Depth {
    fn enter() -> (Self, usize) {
        let depth = DEPTH.get() + 1;
        DEPTH.set(depth);
        (Self, depth)
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

fn run(roots: Roots, targets: Option<&[Edge]>, options: Options) -> Result<Vec<Option<Tensor>>> {
    let (_depth, depth) = Depth::enter();
    if depth <= MAX_DEPTH {
        return sums::aside(|| execute(&roots.edges, roots.grads, targets, options));
    }
    let modes = tls::snapshot();
    let saved_hooks = saved::hooks_of_thread();
    std::thread::scope(|scope| {
        let nested = std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, move || {
            let _modes = tls::restore(modes);
            saved::adopt_hooks(saved_hooks);
            execute(&roots.edges, roots.grads, targets, options)
        });
        match nested.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(Error::runtime(format!("backward: no thread for a nested backward: {error}"))),
        }
    })
}

fn execute(
    roots: &[Edge],
    grads: Vec<Option<Tensor>>,
    targets: Option<&[Edge]>,
    options: Options,
) -> Result<Vec<Option<Tensor>>> {
    let _mode = tls::grad_mode(options.create_graph);
    let mut graph = Graph::of(roots, targets, options.accumulate);
    let mut captured = vec![None; targets.map_or(0, <[Edge]>::len)];
    for (i, (edge, grad)) in roots.iter().zip(grads).enumerate() {
        let grad = match grad {
            Some(grad) => Some(validate::gradient(edge, grad, i, None)?),
            None => None,
        };
        graph.deliver(edge, grad)?;
    }
    while let Some(task) = graph.next() {
        let outputs = evaluate(&mut graph, task, options, &mut captured)?;
        if let Some(outputs) = outputs {
            let edges = graph.node(task).next_edges();
            for (edge, grad) in edges.iter().zip(outputs) {
                graph.deliver(edge, grad)?;
            }
        }
    }
    Ok(captured)
}

/// Runs one node with its hooks. Nothing for a node that was only reached to capture a gradient.
fn evaluate<'a>(
    graph: &mut Graph<'a>,
    task: usize,
    options: Options,
    captured: &mut [Option<Tensor>],
) -> Result<Option<Grads>> {
    let node: &'a NodeRef = graph.node(task);
    let mut inputs = graph.take_inputs(task);
    let hooks = {
        let state = node.state();
        inputs.resize(state.metadata.len());
        state.hooks.as_ref().map(|hooks| hooks.snapshot())
    };
    if let Some(variable) = node.function().variable() {
        for hook in meta::leaf_hooks(variable) {
            if let Some(grad) = inputs.first_mut() {
                hooks::run_tensor_hook(&hook, grad)?;
            }
        }
    }
    let hooks = hooks.as_ref();
    for (nr, hook) in hooks.iter().flat_map(|hooks| &hooks.tensor) {
        if let Some(grad) = inputs.get_mut(*nr) {
            hooks::run_tensor_hook(hook, grad)?;
        }
    }
    for (nr, cell) in hooks.iter().flat_map(|hooks| &hooks.retained) {
        if let Some(Some(grad)) = inputs.get(*nr) {
            retain(cell, grad)?;
        }
    }
    graph.capture(task, &inputs, captured);
    if !graph.runs(task) {
        return Ok(None);
    }
    for hook in hooks.iter().flat_map(|hooks| &hooks.pre) {
        if let Some(new) = hook(&inputs)? {
            hooks::replace(&mut inputs, new)?;
        }
    }
    let need = graph.needs(node);
    let seen = hooks.filter(|hooks| !hooks.post.is_empty()).map(|_| inputs.clone());
    // A post-hook sees the gradient itself, and a recorded one is a tensor of its own.
    let lent = if options.create_graph || seen.is_some() { None } else { graph.lend(node) };
    let (outputs, lent) = sums::lend(lent, || node.function().apply(node, inputs, &need));
    let mut outputs = outputs?;
    if let Some(sum) = lent {
        graph.give_back(node, sum);
    }
    validate::all(node, &mut outputs)?;
    if let Some(seen) = seen {
        for hook in hooks.iter().flat_map(|hooks| &hooks.post) {
            if let Some(new) = hook(&outputs, &seen)? {
                hooks::replace(&mut outputs, new)?;
            }
        }
    }
    if !options.keep_graph {
        node.function().release();
    }
    if modes::checks_nan() {
        check_nan(node, &outputs)?;
    }
    Ok(Some(outputs))
}

/// `retain_grad` of a tensor that is no leaf.
fn retain(cell: &hooks::GradCell, grad: &Tensor) -> Result<()> {
    let current = cell.lock().clone();
    let sum = match current {
        None => ops::clone(grad, None)?,
        Some(current) => ops::add(&current, grad, 1)?,
    };
    let old = cell.lock().replace(sum);
    drop(old);
    Ok(())
}

#[cold]
fn check_nan(node: &node::Node, outputs: &[Option<Tensor>]) -> Result<()> {
    let _no_grad = tls::grad_mode(false);
    for (i, output) in outputs.iter().enumerate() {
        if let Some(output) = output
            && !output.is_meta()
            && ops::item(&ops::any(&ops::isnan(output)?)?)?.to_bool()
        {
            bail!(Runtime, "Function '{}' returned nan values in its {i}th output.", node.name());
        }
    }
    Ok(())
}
