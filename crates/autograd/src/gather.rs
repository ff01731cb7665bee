//! [`gather`]: operators over lists of tensors, whose bodies call the operator of one tensor for each. What those record
//! becomes one node with an output a tensor, as upstream has it; lists that are written in place keep a node a tensor.

use std::sync::Arc;

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::Result;

use crate::meta;
use crate::node::{Edge, Function, Grads, Link, Node, NodeRef};
use crate::record;

/// The nodes of the tensors, one an output: nothing where none was recorded.
struct Gathered {
    name: &'static str,
    parts: Vec<Link>,
}

impl Function for Gathered {
    fn name(&self) -> &'static str {
        self.name
    }

    fn apply(&self, _: &NodeRef, mut grads: Grads, need: &[bool]) -> Result<Grads> {
        let mut out = Grads::none(need.len());
        let mut first = 0;
        for (i, part) in self.parts.iter().enumerate() {
            let Some(part) = part.get() else { continue };
            let edges = part.next_edges().len();
            let wanted = need.get(first..first + edges).unwrap_or_default();
            if let Some(grad) = grads.take(i)
                && wanted.contains(&true)
            {
                out.set_list(first, part.function().apply(part, Grads::from_iter([grad]), wanted)?);
            }
            first += edges;
        }
        Ok(out)
    }

    fn release(&self) {
        self.parts.iter().filter_map(Link::get).for_each(|part| part.function().release());
    }
}

/// Makes the results of an operator over lists, each recorded by itself, the outputs of one node of that name. Nothing happens
/// if none is recorded.
pub fn gather(name: &'static str, outputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let parts: Vec<Link> = outputs.iter().map(|x| meta::grad_fn(x).map(Link::new)).collect::<Result<_>>()?;
    if parts.iter().all(|part| part.get().is_none()) {
        return Ok(outputs);
    }
    let edges: SmallVec<[Edge; 2]> =
        parts.iter().filter_map(Link::get).flat_map(|part| part.next_edges().iter().cloned()).collect();
    let node = Node::recorded(edges, &[], Gathered { name, parts: parts.clone() });
    record::set_history_list(&node, &outputs);
    // A saved result belongs to the new node, so that a second derivative finds the tensor that the caller holds.
    for (i, part) in parts.iter().enumerate() {
        if let Some(saved) = part.get().and_then(|part| part.function().saved_result()) {
            saved.set_grad_fn(Arc::downgrade(&node), i);
        }
    }
    Ok(outputs)
}
