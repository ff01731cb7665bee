//! Recording: what the generated wrappers call to put an operator into the graph. Checks come before any write.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tensor_aten::{Tensor, ops};
use tensor_core::strides::Dims;
use tensor_core::{DType, Device, Layout, Result, bail, check, tls};

pub use crate::gather::gather;
use crate::meta;
use crate::node::{Edge, Function, Grads, Node, NodeRef};
use crate::view::{self, Creation};

/// Makes a view from its base, where `as_strided` cannot (another dtype).
pub type Replay = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// True if grad mode is on and any of the tensors requires a gradient.
#[inline]
pub fn needs_grad(tensors: &[&Tensor]) -> bool {
    tls::grad_enabled() && tensors.iter().any(|tensor| meta::requires_grad(tensor))
}

/// [`needs_grad`] of optional tensors.
#[inline]
pub fn needs_grad_opt(tensors: &[Option<&Tensor>]) -> bool {
    tls::grad_enabled() && tensors.iter().flatten().any(|tensor| meta::requires_grad(tensor))
}

/// The edges of a node to be: in schema order, one a tensor argument, several a list.
#[derive(Default)]
pub struct Edges(SmallVec<[Edge; 2]>);

impl Edges {
    /// The edges of some tensors.
    ///
    /// # Errors
    /// When a view's `grad_fn` cannot be made anew.
    #[inline]
    pub fn of(tensors: &[&Tensor]) -> Result<Self> {
        let mut edges = Self::default();
        edges.add(tensors)?;
        Ok(edges)
    }

    /// The edges of some optional tensors; an absent one gets an edge that leads nowhere.
    ///
    /// # Errors
    /// As [`Edges::of`].
    pub fn of_opt(tensors: &[Option<&Tensor>]) -> Result<Self> {
        let mut edges = Self::default();
        edges.add_opt(tensors)?;
        Ok(edges)
    }

    /// Appends the edges of some tensors.
    ///
    /// # Errors
    /// As [`Edges::of`].
    #[inline]
    pub fn add(&mut self, tensors: &[&Tensor]) -> Result<()> {
        for tensor in tensors {
            self.0.push(meta::gradient_edge(tensor)?);
        }
        Ok(())
    }

    /// Appends the edges of some optional tensors.
    ///
    /// # Errors
    /// As [`Edges::of`].
    pub fn add_opt(&mut self, tensors: &[Option<&Tensor>]) -> Result<()> {
        for tensor in tensors {
            self.0.push(tensor.map_or_else(|| Ok(Edge::default()), meta::gradient_edge)?);
        }
        Ok(())
    }

    pub(crate) fn into_inner(self) -> SmallVec<[Edge; 2]> {
        self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if edge `i` leads somewhere.
    #[inline]
    pub fn needs(&self, i: usize) -> bool {
        self.0.get(i).is_some_and(|edge| edge.node().is_some())
    }

    /// True if one of some edges leads somewhere.
    pub fn any(&self, edges: Range<usize>) -> bool {
        self.0.iter().take(edges.end).skip(edges.start).any(|edge| edge.node().is_some())
    }
}

/// Makes a node with the next sequence number.
#[inline]
pub fn node<F: Function + 'static>(edges: Edges, function: F) -> NodeRef {
    Node::recorded(edges.0, &[], function)
}

/// Records an operator: a node whose outputs are some tensors, tensor `i` its output `i`. Tensors of integer dtype only take
/// up a number.
#[inline]
pub fn record<F: Function + 'static>(edges: Edges, function: F, outputs: &[&Tensor]) {
    let node = Node::recorded(edges.0, outputs, function);
    tie(&node, outputs.iter().copied());
}

/// [`record`] of an operator whose `output_mask` may leave results out. An absent one only takes up a number.
pub fn set_history_opt(node: &NodeRef, outputs: &[Option<&Tensor>]) {
    // Nothing ever arrives at the number of an absent result, so any metadata does.
    let Some(present) = outputs.iter().flatten().next() else { return };
    node.state().note_all(outputs.iter().map(|output| output.unwrap_or(present)));
    for (i, output) in outputs.iter().enumerate() {
        if let Some(output) = output.filter(|output| output.dtype().is_differentiable()) {
            drop(meta::set_gradient_edge(output, node, i));
        }
    }
}

/// [`record`] of an operator that returns a list.
pub fn set_history_list(node: &NodeRef, outputs: &[Tensor]) {
    node.state().note_all(outputs.iter());
    tie(node, outputs.iter());
}

/// Makes tensors that a node knows its outputs.
#[inline]
fn tie<'a>(node: &NodeRef, outputs: impl Iterator<Item = &'a Tensor>) {
    for (i, output) in outputs.enumerate() {
        if output.dtype().is_differentiable() {
            drop(meta::set_gradient_edge(output, node, i));
        }
    }
}

/// Checks that an in-place operator which will be recorded may write a tensor.
///
/// # Errors
/// For leaves that require a gradient, views of such leaves, and views whose creation forbids it.
#[inline]
pub fn check_inplace(self_: &Tensor) -> Result<()> {
    if !tls::grad_enabled() {
        return Ok(());
    }
    let requires_grad = meta::requires_grad(self_);
    if let Some(meta) = meta::of(self_) {
        view::check_creation(meta, false)?;
        if requires_grad && let Some(base) = view::base(self_) {
            check!(
                !meta::is_leaf(&base),
                "a view of a leaf Variable that requires grad is being used in an in-place operation."
            );
        }
    }
    check!(
        !requires_grad || meta::grad_fn(self_)?.is_some(),
        "a leaf Variable that requires grad is being used in an in-place operation."
    );
    Ok(())
}

/// Makes a tensor that was written in place the output of a node. For a view, the base gets a `CopySlices` around it.
///
/// # Errors
/// For a view, when the node has several outputs.
pub fn rebase_history(self_: &Tensor, node: &NodeRef) -> Result<()> {
    if let Some(meta) = meta::of(self_)
        && view::base(self_).is_some()
    {
        node.state().note(self_);
        return view::rebase(self_, meta, node);
    }
    retie(self_, node)
}

/// Makes a tensor whose sizes and strides were changed in place (`t_`) the output of a node. Its elements are as they were,
/// so other tensors that show them keep their history.
///
/// # Errors
/// None today; as [`rebase_history`], whose place it takes.
pub fn retie(self_: &Tensor, node: &NodeRef) -> Result<()> {
    node.state().note(self_);
    let old_nr = meta::output_nr(self_);
    let old = meta::set_gradient_edge(self_, node, 0);
    if let Some(old) = old.get() {
        Node::move_retained(old, old_nr, node, 0);
    }
    Ok(())
}

/// Makes `view` a differentiable view of `base`. Called with gradients off as well.
#[inline]
pub fn as_view(base: &Tensor, view: &Tensor, replay: Option<Replay>) {
    view::mark(base, view, replay, Creation::now());
}

/// Makes the outputs of a multi-output view operator differentiable views of `base`, which must not be written.
pub fn as_views(base: &Tensor, views: &[Tensor]) {
    let creation = match Creation::now() {
        Creation::Default => Creation::MultiOutputNode,
        other => other,
    };
    for view in views {
        view::mark(base, view, None, creation);
    }
}

/// Runs an in-place operator without a derivative of `self` (`eq_`, `normal_`): what was there gets a gradient of zeros.
///
/// # Errors
/// As [`check_inplace`] and the operator.
pub fn overwrite(self_: &Tensor, name: &'static str, write: impl FnOnce() -> Result<()>) -> Result<()> {
    if !needs_grad(&[self_]) {
        return write();
    }
    check_inplace(self_)?;
    let edges = Edges::of(&[self_])?;
    write()?;
    rebase_history(self_, &node(edges, Overwritten { name }))
}

struct Overwritten {
    name: &'static str,
}

impl Function for Overwritten {
    fn name(&self) -> &'static str {
        self.name
    }

    fn apply(&self, _node: &NodeRef, mut grads: Grads, need: &[bool]) -> Result<Grads> {
        let mut out = Grads::none(need.len());
        if let Some(grad) = grads.take(0) {
            out.set(0, ops::zeros_like(&grad, None, None, None, None, None)?);
        }
        Ok(out)
    }
}

/// Checks that an operator without a gradient that writes lists of tensors records nothing.
///
/// # Errors
/// When one of the tensors requires a gradient.
pub fn check_written(lists: &[&[&Tensor]], operator: &str) -> Result<()> {
    for tensors in lists {
        if needs_grad(tensors) {
            tensors.iter().try_for_each(|tensor| check_inplace(tensor))?;
            bail!(NotImplemented, "the derivative for '{operator}' is not implemented: call it under no_grad");
        }
    }
    Ok(())
}

/// Checks that an `out=` call records nothing.
///
/// # Errors
/// When one of the tensors requires a gradient.
pub fn check_out(tensors: &[&Tensor], operator: &'static str) -> Result<()> {
    check_out_of(needs_grad(tensors), operator)
}

/// [`check_out`] of optional tensors.
///
/// # Errors
/// As [`check_out`].
pub fn check_out_opt(tensors: &[Option<&Tensor>], operator: &'static str) -> Result<()> {
    check_out_of(needs_grad_opt(tensors), operator)
}

fn check_out_of(needed: bool, operator: &str) -> Result<()> {
    check!(
        !needed,
        "{operator}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments \
         requires grad."
    );
    Ok(())
}

/// What a formula asks of a tensor that it need not keep: its dtype, layout and device.
#[derive(Clone, Copy)]
pub struct Options {
    /// the element type
    pub dtype: DType,
    /// how the elements are arranged
    pub layout: Layout,
    /// where they lie
    pub device: Device,
}

impl Options {
    /// Those of a tensor.
    pub fn of(tensor: &Tensor) -> Self {
        Self { dtype: tensor.dtype(), layout: tensor.layout(), device: tensor.device() }
    }
}

/// The shapes of the tensors of a list.
pub fn sizes_of(tensors: &[&Tensor]) -> Vec<Dims> {
    tensors.iter().map(|tensor| Dims::from_slice(tensor.sizes())).collect()
}

/// The dtypes of the tensors of a list.
pub fn dtypes_of(tensors: &[&Tensor]) -> Vec<DType> {
    tensors.iter().map(|tensor| tensor.dtype()).collect()
}

/// Records that outputs of an operator have no derivative: a backward that reaches them is an error, and no gradient is
/// lost in silence. For operators that were registered without one.
///
/// # Errors
/// When a view's `grad_fn` cannot be made anew.
pub fn not_implemented(operator: &'static str, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<()> {
    if needs_grad(inputs) && outputs.iter().any(|output| output.dtype().is_differentiable()) {
        let node = node(Edges::of(inputs)?, NotImplemented { operator });
        set_history_list(&node, outputs);
    }
    Ok(())
}

struct NotImplemented {
    operator: &'static str,
}

impl Function for NotImplemented {
    fn name(&self) -> &'static str {
        "NotImplemented"
    }

    fn apply(&self, _node: &NodeRef, _grads: Grads, _need: &[bool]) -> Result<Grads> {
        bail!(NotImplemented, "derivative for '{}' is not implemented", self.operator);
    }
}
