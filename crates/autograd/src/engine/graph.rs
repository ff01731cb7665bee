//! The bookkeeping of one backward: which nodes it reaches, how many gradients each waits for, which one is next.

use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::input_buffer;
use crate::node::{Edge, Grads, NodeRef};

struct Task<'a> {
    node: &'a NodeRef,
    /// gradients still to arrive
    waits: u32,
    /// the pass runs this node
    runs: bool,
    /// the pass wants a gradient that arrives here
    captures: bool,
    inputs: Grads,
}

impl Task<'_> {
    /// Gradients that arrive here are of use.
    fn wanted(&self) -> bool {
        self.runs || self.captures
    }
}

/// The part of a graph that one backward reaches.
pub(super) struct Graph<'a> {
    tasks: Vec<Task<'a>>,
    index: Index,
    ready: BinaryHeap<(u64, u32)>,
    /// task, input number, place among the targets
    captures: Vec<(usize, usize, usize)>,
}

impl<'a> Graph<'a> {
    /// Counts, from the roots on, the gradients that each node will get. With targets, only nodes on a way to one run.
    pub(super) fn of(roots: &'a [Edge], targets: Option<&'a [Edge]>, accumulate: bool) -> Self {
        let index = Index::new();
        let mut graph = Self { tasks: Vec::new(), index, ready: BinaryHeap::new(), captures: Vec::new() };
        // Nodes nearer to the leaves than every target lead to none.
        let nearest = targets
            .map(|targets| targets.iter().filter_map(Edge::node).map(|n| n.topological_nr()).min().unwrap_or(0))
            .unwrap_or(0);
        for root in roots {
            graph.count(root);
        }
        let mut at = 0;
        while at < graph.tasks.len() {
            let node = graph.tasks[at].node;
            if node.topological_nr() >= nearest {
                node.next_edges().iter().for_each(|edge| graph.count(edge));
            }
            at += 1;
        }
        if let Some(targets) = targets {
            graph.restrict(targets, accumulate);
        }
        graph
    }

    fn count(&mut self, edge: &'a Edge) {
        let Some(node) = edge.node() else { return };
        match self.find(node) {
            Some(task) => self.tasks[task].waits += 1,
            None => {
                self.index.insert(node, self.tasks.len());
                self.tasks.push(Task { node, waits: 1, runs: true, captures: false, inputs: Grads::default() });
            }
        }
    }

    #[inline]
    fn find(&self, node: &NodeRef) -> Option<usize> {
        let task = self.index.get(node)?;
        // Slots are hints: a stale one points to another node, or to none.
        self.tasks.get(task).is_some_and(|task| Arc::ptr_eq(task.node, node)).then_some(task)
    }

    /// Marks what leads to a target.
    fn restrict(&mut self, targets: &[Edge], accumulate: bool) {
        for task in &mut self.tasks {
            task.runs = false;
        }
        for (place, target) in targets.iter().enumerate() {
            let Some(task) = target.node().and_then(|node| self.find(node)) else { continue };
            if accumulate {
                self.tasks[task].runs = true;
            } else {
                self.tasks[task].captures = true;
                self.captures.push((task, target.input_nr(), place));
            }
        }
        for task in self.in_topological_order().into_iter().rev() {
            let node = self.tasks[task].node;
            let leads = node.next_edges().iter().filter_map(Edge::node).filter_map(|next| self.find(next));
            let leads = leads.into_iter().any(|next| self.tasks[next].wanted());
            self.tasks[task].runs |= leads;
        }
    }

    /// Every task, each before those that its edges lead to.
    fn in_topological_order(&self) -> Vec<usize> {
        let mut waits: Vec<u32> = vec![0; self.tasks.len()];
        let next = |task: usize| self.tasks[task].node.next_edges().iter().filter_map(Edge::node);
        for task in 0..self.tasks.len() {
            for next in next(task).filter_map(|node| self.find(node)) {
                waits[next] += 1;
            }
        }
        let mut order: Vec<usize> = (0..self.tasks.len()).filter(|&task| waits[task] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            for next in next(order[at]).filter_map(|node| self.find(node)) {
                waits[next] -= 1;
                if waits[next] == 0 {
                    order.push(next);
                }
            }
            at += 1;
        }
        order
    }

    /// A gradient arrives at the end of an edge.
    #[inline]
    pub(super) fn deliver(&mut self, edge: &Edge, grad: Option<Tensor>) -> Result<()> {
        let Some(node) = edge.node() else { return Ok(()) };
        let Some(at) = self.find(node) else { return Ok(()) };
        let task = &mut self.tasks[at];
        task.waits = task.waits.saturating_sub(1);
        if !task.wanted() {
            return Ok(());
        }
        if let Some(grad) = grad {
            let nr = edge.input_nr();
            if task.inputs.len() <= nr {
                task.inputs.resize(nr + 1);
            }
            input_buffer::add(&mut task.inputs[nr], grad)?;
        }
        if task.waits == 0 {
            self.ready.push((node.sequence_nr(), at as u32));
        }
        Ok(())
    }

    /// Takes out the sum of what has arrived where a node's first edge leads, if nobody else holds it.
    #[inline]
    pub(super) fn lend(&mut self, node: &NodeRef) -> Option<Tensor> {
        self.waiting(node)?.take_if(|sum| input_buffer::is_ours(sum))
    }

    /// Puts a sum back that was lent.
    pub(super) fn give_back(&mut self, node: &NodeRef, sum: Tensor) {
        if let Some(slot) = self.waiting(node) {
            *slot = Some(sum);
        }
    }

    #[inline]
    fn waiting(&mut self, node: &NodeRef) -> Option<&mut Option<Tensor>> {
        let edge = node.next_edges().first()?;
        let task = self.find(edge.node()?)?;
        self.tasks[task].inputs.get_mut(edge.input_nr())
    }

    /// The next node to run: the one recorded last among those that have all their gradients.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        self.ready.pop().map(|(_, task)| task as usize)
    }

    #[inline]
    pub(super) fn node(&self, task: usize) -> &'a NodeRef {
        self.tasks[task].node
    }

    #[inline]
    pub(super) fn runs(&self, task: usize) -> bool {
        self.tasks[task].runs
    }

    #[inline]
    pub(super) fn take_inputs(&mut self, task: usize) -> Grads {
        std::mem::take(&mut self.tasks[task].inputs)
    }

    /// For each edge of a node, whether the pass wants its gradient.
    #[inline]
    pub(super) fn needs(&self, node: &NodeRef) -> SmallVec<[bool; 4]> {
        let wanted = |edge: &Edge| {
            let task = edge.node().and_then(|next| self.find(next));
            task.is_some_and(|task| self.tasks[task].wanted())
        };
        node.next_edges().iter().map(wanted).collect()
    }

    /// Notes the gradients that arrived here for targets.
    #[inline]
    pub(super) fn capture(&self, task: usize, inputs: &[Option<Tensor>], captured: &mut [Option<Tensor>]) {
        if self.tasks[task].captures {
            for (_, nr, place) in self.captures.iter().filter(|(at, ..)| *at == task) {
                captured[*place] = inputs.get(*nr).cloned().flatten();
            }
        }
    }
}

/// From a node to its task. One backward of the process at a time owns the nodes' slots; others (nested ones, other
/// threads) use a map.
enum Index {
    Slots(#[allow(dead_code, reason = "held to be given back")] Claim),
    Map(HashMap<usize, u32, BuildHasherDefault<AddressHasher>>),
}

static CLAIMED: AtomicBool = AtomicBool::new(false);

struct Claim;

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.store(false, Ordering::Release);
    }
}

impl Index {
    fn new() -> Self {
        match CLAIMED.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Self::Slots(Claim),
            Err(_) => Self::Map(HashMap::default()),
        }
    }

    #[inline]
    fn get(&self, node: &NodeRef) -> Option<usize> {
        match self {
            Self::Slots(_) => Some(node.slot.load(Ordering::Relaxed) as usize),
            Self::Map(map) => map.get(&address(node)).map(|task| *task as usize),
        }
    }

    #[inline]
    fn insert(&mut self, node: &NodeRef, task: usize) {
        match self {
            Self::Slots(_) => node.slot.store(task as u32, Ordering::Relaxed),
            Self::Map(map) => {
                map.insert(address(node), task as u32);
            }
        }
    }
}

fn address(node: &NodeRef) -> usize {
    Arc::as_ptr(node).cast::<()>() as usize
}

/// Addresses are already distinct: one multiplication spreads them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte as usize);
        }
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        let mixed = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
