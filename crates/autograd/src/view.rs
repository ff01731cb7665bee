//! Views and in-place operators: a view remembers its base, and a write through one name changes the graph of all of them.
//!
//! A write through a view makes the *base* the output of a [`CopySlices`], and the view an `as_strided` of the base. Other
//! views of the base find out by its version when their `grad_fn` is next asked for.

use std::sync::{Arc, Weak};

use tensor_aten::{Tensor, ops};
use tensor_core::strides::Dims;
use tensor_core::{Error, Ref, Result, bail, check, tls};

use crate::formulas;
use crate::meta::{self, AutogradMeta};
use crate::node::{Function, Grads, Link, Node, NodeRef, forward_name};
use crate::record::Replay;

/// How a view came to be: all but `Default` forbid writes through it that autograd would have to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Default,
    CustomFunction,
    MultiOutputNode,
    NoGradMode,
    InferenceMode,
}

impl Creation {
    /// That of a view which is made now.
    pub(crate) fn now() -> Self {
        if tls::inference_enabled() {
            Self::InferenceMode
        } else if tls::grad_enabled() {
            Self::Default
        } else {
            Self::NoGradMode
        }
    }
}

/// What a view knows of its base.
pub(crate) struct ViewInfo {
    /// the root: never a view itself
    pub(crate) base: Tensor,
    /// makes the view from the base, where `as_strided` cannot
    pub(crate) replay: Option<Replay>,
    pub(crate) creation: Creation,
    /// the version for which the view's `grad_fn` is right
    pub(crate) attr_version: u32,
}

/// A view by its geometry: what `as_strided` needs.
#[derive(Clone)]
pub(crate) struct Geometry {
    pub(crate) sizes: Dims,
    pub(crate) strides: Dims,
    pub(crate) offset: i64,
}

impl Geometry {
    pub(crate) fn of(tensor: &Tensor) -> Self {
        let m = tensor.as_impl().metadata();
        Self { sizes: m.sizes.clone(), strides: m.strides.clone(), offset: m.offset }
    }

    fn replay(self) -> Replay {
        Arc::new(move |base| ops::as_strided(base, &self.sizes, &self.strides, Some(self.offset)))
    }
}

/// Makes `view` a differentiable view of `base`, or of the root that `base` is a view of.
pub(crate) fn mark(base: &Tensor, view: &Tensor, replay: Option<Replay>, creation: Creation) {
    if base.is_same(view) {
        return;
    }
    match meta::of(base) {
        // The states of both ways are not merged: they would be built in memory and moved.
        None => attach(view, base.clone(), replay, creation),
        Some(meta) => mark_below(base, meta, view, replay, creation),
    }
}

/// [`mark`] where the base may be a view itself.
fn mark_below(base: &Tensor, meta: &AutogradMeta, view: &Tensor, replay: Option<Replay>, creation: Creation) {
    let chain = {
        let inner = meta.lock();
        inner.owned.view.as_ref().map(|info| (info.base.clone(), info.replay.clone(), info.creation))
    };
    let Some((root, outer, parent)) = chain else { return attach(view, base.clone(), replay, creation) };
    let replay = match (outer, replay) {
        (None, None) => None,
        (outer, inner) => {
            let outer = outer.unwrap_or_else(|| Geometry::of(base).replay());
            let inner = inner.unwrap_or_else(|| Geometry::of(view).replay());
            Some(Arc::new(move |root: &Tensor| inner(&outer(root)?)) as Replay)
        }
    };
    attach(view, root, replay, if creation == Creation::Default { parent } else { creation });
}

/// Gives a view what it knows of its base, which is no view.
#[inline(always)]
fn attach(view: &Tensor, base: Tensor, replay: Option<Replay>, creation: Creation) {
    let mut info = Some(ViewInfo { base, replay, creation, attr_version: view.version().unwrap_or(0) });
    let meta = meta::of_or_init_with(view, |inner| inner.owned.view = info.take());
    // A view that autograd knows already, as what an in-place operator returns.
    if let Some(info) = info {
        let old = meta.lock().owned.view.replace(info);
        drop(old);
    }
}

/// The base of a view.
pub(crate) fn base(tensor: &Tensor) -> Option<Tensor> {
    meta::of(tensor)?.lock().owned.view.as_ref().map(|view| view.base.clone())
}

/// Whether nobody but the holder of `tensor` can see its elements. A view made on the way, as of a transposed product, owns
/// its base alone.
pub(crate) fn is_unshared(tensor: &Tensor) -> bool {
    if Ref::use_count(tensor.as_impl()) != 1 || tensor.as_impl().requires_grad() {
        return false;
    }
    let owners = tensor.storage().use_count();
    owners == 1
        || meta::of(tensor).is_some_and(|meta| {
            let inner = meta.lock();
            let base = inner.owned.view.as_ref().map(|view| view.base.as_impl());
            base.is_some_and(|base| owners == 2 && Ref::use_count(base) == 1 && !base.requires_grad())
        })
}

/// Restricts writes through a view that exists.
pub(crate) fn set_creation(tensor: &Tensor, creation: Creation) {
    if let Some(meta) = meta::of(tensor)
        && let Some(view) = meta.lock().owned.view.as_mut()
    {
        view.creation = creation;
    }
}

/// The `grad_fn` of a view, made anew if its elements were written since.
pub(crate) fn grad_fn(tensor: &Tensor, meta: &AutogradMeta) -> Result<Option<NodeRef>> {
    let version = tensor.version().unwrap_or(0);
    let (base, replay) = {
        let inner = meta.lock();
        let current = inner.grad_fn.get();
        let Some(view) = inner.owned.view.as_ref() else { return Ok(current.cloned()) };
        if view.attr_version == version || (current.is_none() && !view.base.as_impl().requires_grad()) {
            return Ok(current.cloned());
        }
        (view.base.clone(), view.replay.clone())
    };
    check_creation(meta, true)?;
    let (node, output_nr) = match replay {
        Some(replay) => {
            let _grad = tls::grad_mode(true);
            let again = replay(&base)?;
            (meta::grad_fn(&again)?, meta::output_nr(&again))
        }
        None => (Some(AsStrided::node(&base, tensor)?), 0),
    };
    let mut inner = meta.lock();
    let stale = inner.owned.view.as_mut().is_some_and(|view| {
        let stale = view.attr_version != version;
        view.attr_version = version;
        stale
    });
    if stale {
        inner.output_nr = output_nr as u32;
        tensor.as_impl().set_requires_grad(node.is_some() || inner.leaf_requires_grad);
        let old = std::mem::replace(&mut inner.grad_fn, Link::new(node));
        let now = inner.grad_fn.get().cloned();
        drop(inner);
        drop(old);
        return Ok(now);
    }
    Ok(inner.grad_fn.get().cloned())
}

/// Checks that a view may be written: directly, or indirectly through its base or another view of it.
///
/// # Errors
/// With PyTorch's text, unless it was created with gradients on by an operator of one output.
pub(crate) fn check_creation(meta: &AutogradMeta, indirect: bool) -> Result<()> {
    let (creation, node, output_nr) = {
        let inner = meta.lock();
        let Some(view) = inner.owned.view.as_ref() else { return Ok(()) };
        if view.creation == Creation::Default {
            return Ok(());
        }
        (view.creation, inner.grad_fn.get().cloned(), inner.output_nr)
    };
    Err(creation_error(creation, node.as_deref().map(Node::name), output_nr, indirect))
}

#[cold]
fn creation_error(creation: Creation, node: Option<&str>, output_nr: u32, indirect: bool) -> Error {
    let modified = if indirect { "its base or another view of its base has been" } else { "is being" };
    let head = match (creation, node) {
        (Creation::CustomFunction | Creation::MultiOutputNode, Some(name)) => {
            format!("Output {output_nr} of {} is a view and {modified} modified inplace.", forward_name(name))
        }
        (_, node) => {
            let prefix = match node {
                Some(name) => {
                    format!("Output {output_nr} of {} is a view of a view which was created in", forward_name(name))
                }
                None => "A view was created in".to_owned(),
            };
            if creation == Creation::InferenceMode {
                format!("{prefix} inference mode and {modified} modified inplace in normal mode.")
            } else {
                format!("{prefix} no_grad mode and {modified} modified inplace with grad mode enabled.")
            }
        }
    };
    let both = |block: &str| {
        format!(
            " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving \
             both the view and the inplace either both inside the {block} block (if you don't want the inplace to be \
             tracked) or both outside (if you want the inplace to be tracked)."
        )
    };
    let tail = match creation {
        Creation::MultiOutputNode => " This view is the output of a function that returns multiple views. Such functions \
                                      do not allow the output views to be modified inplace. You should replace the inplace \
                                      operation by an out-of-place one."
            .to_owned(),
        Creation::CustomFunction => " This view was created inside a custom Function (or because an input was returned \
                                     as-is) and the autograd logic to handle view+inplace would override the custom \
                                     backward associated with the custom Function, leading to incorrect gradients. This \
                                     behavior is forbidden. You can fix this by cloning the output of the custom Function."
            .to_owned(),
        Creation::InferenceMode => both("inference_mode"),
        Creation::NoGradMode | Creation::Default => both("no_grad"),
    };
    Error::runtime(head + &tail)
}

/// Records a write through a view: the base becomes the output of a [`CopySlices`] around `node`.
pub(crate) fn rebase(tensor: &Tensor, meta: &AutogradMeta, node: &NodeRef) -> Result<()> {
    let (base, replay) = {
        let inner = meta.lock();
        match inner.owned.view.as_ref() {
            Some(view) => (view.base.clone(), view.replay.clone()),
            None => bail!(Runtime, "rebase_history: expected a view"),
        }
    };
    check!(node.num_inputs() == 1, "Functions which modify views in-place must return a single Variable");
    let first = meta::gradient_edge(&base)?;
    let rest = node.next_edges().iter().skip(1).cloned();
    let edges = std::iter::once(first).chain(rest).collect();
    let function = CopySlices { base: Geometry::of(&base), view: Geometry::of(tensor), replay, inner: node.clone() };
    let copy = Node::recorded(edges, &[&base], function);
    let old_nr = meta::output_nr(&base);
    let old = meta::set_gradient_edge(&base, &copy, 0);
    if let Some(old) = old.get() {
        Node::move_retained(old, old_nr, &copy, 0);
    }
    let regenerated = meta::grad_fn(tensor)?;
    if let (Some(saved), Some(now)) = (node.function().saved_result(), regenerated) {
        saved.set_grad_fn(Arc::downgrade(&now), 0);
    }
    Ok(())
}

/// The node of a base that was written through a view: `grad` flows to the base except where the view lies; there it goes
/// through the operator that wrote.
struct CopySlices {
    base: Geometry,
    view: Geometry,
    replay: Option<Replay>,
    inner: NodeRef,
}

impl Function for CopySlices {
    fn name(&self) -> &'static str {
        "torch::autograd::CopySlices"
    }

    fn apply(&self, _node: &NodeRef, mut grads: Grads, need: &[bool]) -> Result<Grads> {
        let mut out = Grads::none(need.len());
        let Some(grad) = grads.take(0) else { return Ok(out) };
        let dtype = grad.dtype();
        let result = formulas::empty_strided(&self.base.sizes, &self.base.strides, dtype, grad.device())?;
        ops::copy_(&result, &grad, false)?;
        let slice = match &self.replay {
            Some(replay) => replay(&result)?,
            None => {
                let offset = self.view.offset - self.base.offset;
                ops::as_strided(&result, &self.view.sizes, &self.view.strides, Some(offset))?
            }
        };
        let inner_grads = Grads::from_iter([ops::clone(&slice, None)?]);
        let mut inner = self.inner.function().apply(&self.inner, inner_grads, need)?;
        for (i, &needed) in need.iter().enumerate().skip(1) {
            if needed {
                out.set(i, inner.take(i));
            }
        }
        if need.first() == Some(&true) {
            // An undefined gradient stands for zeros.
            match inner.take(0) {
                Some(grad) => ops::copy_(&slice, &grad, false)?,
                None => ops::zero_(&slice)?,
            };
            out.set(0, result);
        }
        Ok(out)
    }

    fn release(&self) {
        self.inner.function().release();
    }
}

impl Drop for CopySlices {
    fn drop(&mut self) {
        // The inner node's edges lead on; handing it over keeps the drop flat.
        drop(Link::new(Some(self.inner.clone())));
    }
}

/// The node of a view whose base was written: an `as_strided` of the base as it is now.
struct AsStrided {
    base: Geometry,
    view: Geometry,
}

impl AsStrided {
    fn node(base: &Tensor, view: &Tensor) -> Result<NodeRef> {
        let edges = std::iter::once(meta::gradient_edge(base)?).collect();
        let function = Self { base: Geometry::of(base), view: Geometry::of(view) };
        Ok(Node::recorded(edges, &[view], function))
    }
}

impl Function for AsStrided {
    fn name(&self) -> &'static str {
        "AsStridedBackward0"
    }

    fn apply(&self, _node: &NodeRef, mut grads: Grads, need: &[bool]) -> Result<Grads> {
        let mut out = Grads::none(need.len());
        if let Some(grad) = grads.take(0)
            && need.first() == Some(&true)
        {
            let Self { base, view } = self;
            let offset = Some(view.offset);
            let (sizes, strides) = (&view.sizes, &view.strides);
            let grad =
                formulas::as_strided_backward(&grad, &base.sizes, &base.strides, base.offset, sizes, strides, offset)?;
            out.set(0, grad);
        }
        Ok(out)
    }
}

/// A weak reference to a view's node, where a saved result needs it without owning it.
pub(crate) type WeakNode = Weak<Node>;
