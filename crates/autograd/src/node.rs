//! [`Node`]: a recorded operator, with the edges along which its gradients flow. How nodes are recorded is in
//! [`crate::record`], how they run in [`crate::engine`].

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_aten::hooks::GradFn;
use tensor_core::strides::Dims;
use tensor_core::{DType, Device, Result, bail};

use crate::bury::bury;
use crate::hooks::NodeHooks;
use crate::saved::SavedVariable;

/// A shared node.
pub type NodeRef = Arc<Node>;

/// What a node computes: from the gradients of its outputs those of its inputs.
pub trait Function: Send + Sync {
    /// The name as PyTorch's: `MulBackward0`.
    fn name(&self) -> &'static str;

    /// One gradient an edge, from one an output (undefined where nothing arrived). `need[i]` says whether edge `i` exists
    /// and this pass wants it; what is not needed may stay undefined. The engine sums to the input's shape, takes the real
    /// part for real inputs and casts.
    ///
    /// # Errors
    /// Whatever fails in the formula.
    fn apply(&self, node: &NodeRef, grads: Grads, need: &[bool]) -> Result<Grads>;

    /// Drops what was saved. Later unpacks are errors.
    fn release(&self) {}

    /// The saved result of a node that an in-place operator may record.
    fn saved_result(&self) -> Option<&SavedVariable> {
        None
    }

    /// The leaf whose gradient this node accumulates.
    fn variable(&self) -> Option<&Tensor> {
        None
    }
}

/// Where a gradient flows next: an input of a node, or nowhere.
#[derive(Clone, Default)]
pub struct Edge {
    node: Link,
    input_nr: u32,
}

impl Edge {
    /// The edge to input `input_nr` of a node.
    #[inline]
    pub fn new(node: NodeRef, input_nr: usize) -> Self {
        Self { node: Link(Some(node)), input_nr: input_nr as u32 }
    }

    /// The node at the end.
    #[inline]
    pub fn node(&self) -> Option<&NodeRef> {
        self.node.get()
    }

    /// Which of the node's inputs.
    #[inline]
    pub fn input_nr(&self) -> usize {
        self.input_nr as usize
    }
}

/// The owner of a node within a graph: dropped without recursion.
#[derive(Clone, Default)]
pub(crate) struct Link(Option<NodeRef>);

impl Link {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn new(node: Option<NodeRef>) -> Self {
        Self(node)
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&NodeRef> {
        self.0.as_ref()
    }
}

impl Drop for Link {
    #[inline]
    fn drop(&mut self) {
        if let Some(node) = self.0.take() {
            bury(node);
        }
    }
}

/// What one output of the recorded operator looked like: what its gradient must look like.
#[derive(Clone)]
pub(crate) struct InputMeta {
    pub(crate) sizes: Dims,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) metadata: SmallVec<[InputMeta; 1]>,
    pub(crate) hooks: Option<Box<NodeHooks>>,
}

impl State {
    /// Takes down the next output. Its sizes are written where they stay: a list that is moved is stored and loaded in
    /// different widths, which makes the loads wait.
    #[inline]
    pub(crate) fn note(&mut self, output: &Tensor) {
        let m = output.as_impl().metadata();
        self.metadata.push(InputMeta { sizes: Dims::new(), dtype: m.dtype, device: output.device() });
        if let Some(meta) = self.metadata.last_mut() {
            for &size in &m.sizes {
                meta.sizes.push(size);
            }
        }
    }

    /// [`State::note`] of several outputs.
    #[inline]
    pub(crate) fn note_all<'a>(&mut self, outputs: impl Iterator<Item = &'a Tensor>) {
        for output in outputs {
            self.note(output);
        }
    }
}

/// A recorded operator. Its edges never change, so that a running backward can borrow the whole graph.
pub struct Node<F: ?Sized = dyn Function> {
    sequence_nr: u64,
    topological_nr: u64,
    /// Where the running backward that owns the slots keeps this node. A hint: always checked against the task.
    pub(crate) slot: AtomicU32,
    edges: SmallVec<[Edge; 2]>,
    state: Mutex<State>,
    function: F,
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

impl<F: Function + 'static> Node<F> {
    /// A node with the thread's next sequence number.
    #[inline]
    pub(crate) fn recorded(edges: SmallVec<[Edge; 2]>, outputs: &[&Tensor], function: F) -> NodeRef {
        let sequence_nr = SEQUENCE.get();
        SEQUENCE.set(sequence_nr + 1);
        Self::with_sequence(sequence_nr, edges, outputs, function)
    }

    /// A node whose first outputs are these.
    #[inline]
    pub(crate) fn with_sequence(
        sequence_nr: u64,
        edges: SmallVec<[Edge; 2]>,
        outputs: &[&Tensor],
        function: F,
    ) -> NodeRef {
        let longest = edges.iter().filter_map(Edge::node).map(|next| next.topological_nr + 1).max();
        let mut node = Node {
            sequence_nr,
            topological_nr: longest.unwrap_or(0),
            slot: AtomicU32::new(u32::MAX),
            edges,
            state: Mutex::new(State::default()),
            function,
        };
        // Before the node is shared, so that its lock need not be taken.
        node.state.get_mut().note_all(outputs.iter().copied());
        Arc::new(node)
    }
}

impl Node {
    /// The name of the node: `MulBackward0`.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.function.name()
    }

    /// The order of recording on the thread that recorded it; later nodes run first in backward.
    #[inline]
    pub fn sequence_nr(&self) -> u64 {
        self.sequence_nr
    }

    /// The longest path to a leaf.
    #[inline]
    pub fn topological_nr(&self) -> u64 {
        self.topological_nr
    }

    /// Where gradients flow: one edge a differentiable input of the operator.
    #[inline]
    pub fn next_edges(&self) -> &[Edge] {
        &self.edges
    }

    /// What the node computes.
    #[inline]
    pub fn function(&self) -> &dyn Function {
        &self.function
    }

    /// How many gradients the node takes: one an output of the operator.
    pub fn num_inputs(&self) -> usize {
        self.state.lock().metadata.len()
    }

    #[inline]
    pub(crate) fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The operator's name in error messages: `Exp` for `ExpBackward0`.
pub(crate) fn forward_name(name: &str) -> &str {
    match name.rfind("Backward") {
        Some(at) if name[at + "Backward".len()..].bytes().all(|b| b.is_ascii_digit()) => &name[..at],
        _ => name,
    }
}

/// A list of gradients, some of them undefined.
#[derive(Default, Clone)]
pub struct Grads(SmallVec<[Option<Tensor>; 2]>);

impl Grads {
    /// `n` undefined gradients.
    #[inline]
    pub fn none(n: usize) -> Self {
        let mut grads = Self::default();
        grads.resize(n);
        grads
    }

    /// True if none is defined.
    #[inline]
    pub fn all_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Gradient `i`; nothing if undefined or out of range.
    #[inline]
    pub fn at(&self, i: usize) -> Option<&Tensor> {
        self.0.get(i).and_then(Option::as_ref)
    }

    /// Gradient `i`, or zeros as the node's output `i` if undefined.
    ///
    /// # Errors
    /// When the node has no such output, or the zeros cannot be made.
    pub fn or_zeros(&self, i: usize, node: &NodeRef) -> Result<Tensor> {
        if let Some(Some(grad)) = self.0.get(i) {
            return Ok(grad.clone());
        }
        let meta = node.state().metadata.get(i).cloned();
        match meta {
            Some(meta) => crate::formulas::zeros(&meta.sizes, meta.dtype, meta.device),
            None => bail!(Runtime, "{} has no output {i}", node.name()),
        }
    }

    /// Sets gradient `i`; out of range it is ignored.
    #[inline]
    pub fn set(&mut self, i: usize, grad: impl Into<Option<Tensor>>) {
        if let Some(slot) = self.0.get_mut(i) {
            *slot = grad.into();
        }
    }

    /// Sets gradients from `first` on.
    pub fn set_list<G: Into<Option<Tensor>>>(&mut self, first: usize, grads: impl IntoIterator<Item = G>) {
        for (i, grad) in grads.into_iter().enumerate() {
            self.set(first + i, grad);
        }
    }

    /// Takes gradient `i` out.
    #[inline]
    pub fn take(&mut self, i: usize) -> Option<Tensor> {
        self.0.get_mut(i).and_then(Option::take)
    }

    #[inline]
    pub(crate) fn resize(&mut self, n: usize) {
        // Not `SmallVec::resize`, which clones what it fills up with.
        self.0.truncate(n);
        while self.0.len() < n {
            self.0.push(None);
        }
    }
}

impl Deref for Grads {
    type Target = [Option<Tensor>];
    #[inline]
    fn deref(&self) -> &[Option<Tensor>] {
        &self.0
    }
}

impl DerefMut for Grads {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Option<Tensor>] {
        &mut self.0
    }
}

impl<G: Into<Option<Tensor>>> FromIterator<G> for Grads {
    fn from_iter<I: IntoIterator<Item = G>>(iter: I) -> Self {
        Self(iter.into_iter().map(Into::into).collect())
    }
}

impl IntoIterator for Grads {
    type Item = Option<Tensor>;
    type IntoIter = smallvec::IntoIter<[Option<Tensor>; 2]>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A node as `Tensor::grad_fn` shows it.
pub struct Handle(NodeRef);

impl Handle {
    /// The handle of a node.
    pub fn of(node: NodeRef) -> Arc<dyn GradFn> {
        Arc::new(Self(node))
    }

    /// The node.
    pub fn node(&self) -> &NodeRef {
        &self.0
    }
}

impl GradFn for Handle {
    fn name(&self) -> String {
        self.0.name().to_owned()
    }

    fn next_functions(&self) -> Vec<Option<(Arc<dyn GradFn>, usize)>> {
        let next = |edge: &Edge| edge.node().map(|node| (Self::of(node.clone()), edge.input_nr()));
        self.0.next_edges().iter().map(next).collect()
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync> {
        self
    }
}

/// The node of a tensor, for the functions of this crate that take nodes.
///
/// # Errors
/// When a view's base was changed in a way that lost it.
pub fn grad_fn(tensor: &Tensor) -> Result<Option<NodeRef>> {
    crate::meta::grad_fn(tensor)
}
