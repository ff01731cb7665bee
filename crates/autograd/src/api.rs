//! What this crate registers with `tensor_aten::hooks`, so that `backward`, `grad` and the like are methods of `Tensor`.

use std::sync::Arc;

use tensor_aten::Tensor;
use tensor_aten::extension::NotDifferentiable;
use tensor_aten::hooks::{AutogradHooks, GradFn};
use tensor_core::Result;

use crate::node::Handle;
use crate::{engine, hooks, meta, record, view};

inventory::submit! {
    AutogradHooks {
        requires_grad: meta::requires_grad,
        requires_grad_: meta::set_requires_grad,
        grad: meta::grad,
        set_grad: meta::set_grad,
        grad_fn,
        is_leaf: meta::is_leaf,
        output_nr: meta::output_nr,
        is_view,
        retain_grad: meta::retain_grad,
        retains_grad: meta::retains_grad,
        base: view::base,
        data: meta::data,
        register_hook: hooks::register_hook,
        register_post_accumulate_grad_hook: hooks::register_post_accumulate_grad_hook,
        backward,
    }
}

// Operators of other crates that come without a derivative.
inventory::submit! { NotDifferentiable(record::not_implemented) }

fn grad_fn(tensor: &Tensor) -> Result<Option<Arc<dyn GradFn>>> {
    Ok(meta::grad_fn(tensor)?.map(Handle::of))
}

fn is_view(tensor: &Tensor) -> bool {
    view::base(tensor).is_some()
}

fn backward(
    tensor: &Tensor,
    gradient: Option<&Tensor>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[&Tensor]>,
) -> Result<()> {
    engine::backward(&[tensor], Some(&[gradient]), retain_graph, create_graph, inputs)
}
