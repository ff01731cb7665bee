//! [`AutogradMeta`]: what autograd keeps with a tensor, in the slot that `TensorImpl` has for it.
//!
//! Its lock is a leaf: no operator, user code or other lock is taken under it, and nothing is dropped under it that could
//! reach another tensor. `TensorImpl`'s flag mirrors [`Inner::own_requires_grad`], so that a call without gradients looks no further.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard, const_mutex};
use tensor_aten::Tensor;
use tensor_core::{Result, TensorImpl, bail, check};

use crate::accumulate;
use crate::bury::bury_owned;
use crate::hooks::{GradCell, HookList, PostAccumulateHook, TensorHook};
use crate::node::{Edge, Link, Node, NodeRef};
use crate::view::{self, ViewInfo};

/// The autograd state of one tensor.
pub(crate) struct AutogradMeta {
    inner: Mutex<Inner>,
}

impl Default for AutogradMeta {
    /// A constant, so that it is written where it stays.
    #[inline(always)]
    fn default() -> Self {
        Self { inner: const { const_mutex(Inner::NEW) } }
    }
}

pub(crate) struct Inner {
    pub(crate) grad_fn: Link,
    pub(crate) output_nr: u32,
    /// What the user asked of a leaf.
    pub(crate) leaf_requires_grad: bool,
    /// The leaf's node, alive while a graph uses it.
    pub(crate) accumulator: Option<Weak<Node>>,
    pub(crate) owned: Owned,
}

/// What a tensor owns that may lead to other tensors.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) grad: Option<Tensor>,
    pub(crate) view: Option<ViewInfo>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// What few tensors have.
#[derive(Default)]
pub(crate) struct Extra {
    /// hooks of a leaf; those of other tensors belong to their node
    pub(crate) hooks: HookList<TensorHook>,
    pub(crate) post_accumulate: HookList<PostAccumulateHook>,
    /// the gradient of a tensor that is no leaf, once `retain_grad` was called
    pub(crate) retained: Option<GradCell>,
}

impl Owned {
    /// Drops everything, where it lies.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.grad = None;
        self.view = None;
        self.extra = None;
    }
}

impl Inner {
    const NEW: Self = Self {
        grad_fn: Link::NONE,
        output_nr: 0,
        leaf_requires_grad: false,
        accumulator: None,
        owned: Owned { grad: None, view: None, extra: None },
    };

    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.owned.extra.get_or_insert_default()
    }

    /// True if the tensor itself requires a gradient; a view may do so through its base as well.
    pub(crate) fn own_requires_grad(&self) -> bool {
        self.leaf_requires_grad || self.grad_fn.get().is_some()
    }
}

impl AutogradMeta {
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// What the lock guards, for who has the state to himself.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut Inner {
        self.inner.get_mut()
    }
}

impl Drop for AutogradMeta {
    #[inline]
    fn drop(&mut self) {
        let owned = &mut self.inner.get_mut().owned;
        if owned.grad.is_some() || owned.view.is_some() || owned.extra.is_some() {
            bury_owned(owned);
        }
    }
}

/// The autograd state of a tensor, if it has any.
#[inline]
pub(crate) fn of(tensor: &Tensor) -> Option<&AutogradMeta> {
    tensor.as_impl().autograd()
}

/// The autograd state of a tensor.
#[inline]
pub(crate) fn of_or_init(tensor: &Tensor) -> &AutogradMeta {
    of_or_init_with(tensor, |_| ())
}

#[inline]
pub(crate) fn of_or_init_with(tensor: &Tensor, fill: impl FnOnce(&mut Inner)) -> &AutogradMeta {
    let kept = tensor.as_impl().autograd_or_init(|meta: &mut AutogradMeta| fill(meta.get_mut()));
    kept.unwrap_or_else(|| unreachable!("the autograd slot of a tensor belongs to this crate"))
}

/// True if a gradient flows to or through the tensor.
#[inline]
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    tensor.as_impl().requires_grad() || base_requires_grad(tensor)
}

/// A view of a base that requires a gradient does so too, whenever the base began to.
#[inline]
fn base_requires_grad(tensor: &Tensor) -> bool {
    let Some(meta) = of(tensor) else { return false };
    let inner = meta.lock();
    inner.owned.view.as_ref().is_some_and(|view| view.base.as_impl().requires_grad())
        && tensor.dtype().is_differentiable()
}

/// The node that made the tensor; a view whose elements were written through another name gets a new one.
///
/// # Errors
/// When the view forbids that.
#[inline]
pub(crate) fn grad_fn(tensor: &Tensor) -> Result<Option<NodeRef>> {
    let Some(meta) = of(tensor) else { return Ok(None) };
    {
        let inner = meta.lock();
        if inner.owned.view.is_none() {
            return Ok(inner.grad_fn.get().cloned());
        }
    }
    view::grad_fn(tensor, meta)
}

/// Which output of its node the tensor is.
pub(crate) fn output_nr(tensor: &Tensor) -> usize {
    of(tensor).map_or(0, |meta| meta.lock().output_nr as usize)
}

/// Where the gradient of a tensor flows (`gradient_edge`): its node, its leaf's accumulator, or nowhere.
///
/// # Errors
/// As [`grad_fn`].
#[inline]
pub(crate) fn gradient_edge(tensor: &Tensor) -> Result<Edge> {
    if !requires_grad(tensor) {
        return Ok(Edge::default());
    }
    let Some(meta) = of(tensor) else { return Ok(Edge::default()) };
    {
        let mut inner = meta.lock();
        if inner.owned.view.is_none() {
            return Ok(match inner.grad_fn.get() {
                Some(node) => Edge::new(node.clone(), inner.output_nr as usize),
                None => accumulator_edge(tensor, &mut inner),
            });
        }
    }
    let node = view::grad_fn(tensor, meta)?;
    let mut inner = meta.lock();
    Ok(match node {
        Some(node) => Edge::new(node, inner.output_nr as usize),
        None => accumulator_edge(tensor, &mut inner),
    })
}

fn accumulator_edge(tensor: &Tensor, inner: &mut Inner) -> Edge {
    if !inner.leaf_requires_grad {
        return Edge::default();
    }
    if let Some(node) = inner.accumulator.as_ref().and_then(Weak::upgrade) {
        return Edge::new(node, 0);
    }
    let node = accumulate::node(tensor.clone());
    inner.accumulator = Some(Arc::downgrade(&node));
    Edge::new(node, 0)
}

/// The leaf's accumulator, if a graph uses it.
pub(crate) fn live_accumulator(tensor: &Tensor) -> Option<NodeRef> {
    of(tensor)?.lock().accumulator.as_ref().and_then(Weak::upgrade)
}

/// Makes a tensor output `output_nr` of a node. Returns the node that it had.
#[inline]
pub(crate) fn set_gradient_edge(tensor: &Tensor, node: &NodeRef, output_nr: usize) -> Link {
    let mut fresh = false;
    let meta = of_or_init_with(tensor, |inner| {
        fresh = true;
        inner.grad_fn = Link::new(Some(node.clone()));
        inner.output_nr = output_nr as u32;
    });
    let old = if fresh {
        Link::default()
    } else {
        let version = tensor.version().unwrap_or(0);
        let mut inner = meta.lock();
        inner.output_nr = output_nr as u32;
        if let Some(view) = inner.owned.view.as_mut() {
            view.attr_version = version;
        }
        std::mem::replace(&mut inner.grad_fn, Link::new(Some(node.clone())))
    };
    tensor.as_impl().set_requires_grad(true);
    old
}

/// `Tensor.requires_grad_`
///
/// # Errors
/// For dtypes without gradients, and to take it from a tensor that is no leaf.
pub(crate) fn set_requires_grad(tensor: &Tensor, requires_grad: bool) -> Result<()> {
    let leaf = is_leaf(tensor);
    if !requires_grad && !leaf {
        bail!(
            Runtime,
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
             subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        );
    }
    check!(
        !requires_grad || tensor.dtype().is_differentiable(),
        "only Tensors of floating point dtype can require gradients"
    );
    check!(
        !requires_grad || !tensor.is_inference() || tensor_core::tls::inference_enabled(),
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
    );
    if !leaf || (!requires_grad && of(tensor).is_none()) {
        return Ok(());
    }
    let mut inner = of_or_init(tensor).lock();
    inner.leaf_requires_grad = requires_grad;
    tensor.as_impl().set_requires_grad(inner.own_requires_grad());
    Ok(())
}

/// `Tensor.is_leaf`
pub(crate) fn is_leaf(tensor: &Tensor) -> bool {
    !matches!(grad_fn(tensor), Ok(Some(_)) | Err(_))
}

/// `Tensor.grad`
pub(crate) fn grad(tensor: &Tensor) -> Option<Tensor> {
    let cell = {
        let inner = of(tensor)?.lock();
        match inner.owned.extra.as_ref().and_then(|extra| extra.retained.clone()) {
            Some(cell) => cell,
            None => return inner.owned.grad.clone(),
        }
    };
    cell.lock().clone()
}

/// `Tensor.grad = ..`, checked.
///
/// # Errors
/// When the gradient's shape, dtype or device is not the tensor's.
pub(crate) fn set_grad(tensor: &Tensor, grad: Option<Tensor>) -> Result<()> {
    if let Some(grad) = &grad {
        check!(!grad.is_same(tensor), "can't assign Variable as its own grad");
        check!(
            grad.dtype() == tensor.dtype(),
            "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match the \
             tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype attribute with a \
             specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and \
             its gradient may break downstream systems that assume they match.",
            grad.dtype().c_name(),
            tensor.dtype().cpp_name()
        );
        check!(
            grad.device().kind() == tensor.device().kind(),
            "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure that \
             the gradient and the tensor are on the same device",
            grad.device().kind().name(),
            tensor.device().kind().name()
        );
        check!(
            grad.device() == tensor.device(),
            "attempting to assign a gradient located on device with index '{}' to a tensor located on device with index \
             '{}'. Please ensure that the gradient and the tensor are on the same device",
            grad.device().index(),
            tensor.device().index()
        );
        check!(
            grad.sizes() == tensor.sizes(),
            "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the gradient and \
             the tensor are the same size",
            tensor_core::strides::show(grad.sizes()),
            tensor_core::strides::show(tensor.sizes())
        );
    }
    if grad.is_none() && of(tensor).is_none() {
        return Ok(());
    }
    let mut inner = of_or_init(tensor).lock();
    let cell = inner.owned.extra.as_ref().and_then(|extra| extra.retained.clone());
    let old = match cell {
        Some(cell) => {
            drop(inner);
            std::mem::replace(&mut *cell.lock(), grad)
        }
        None => {
            let old = std::mem::replace(&mut inner.owned.grad, grad);
            drop(inner);
            old
        }
    };
    drop(old);
    Ok(())
}

/// Stores a leaf's gradient if it still is `expected`. False if another thread was faster.
pub(crate) fn exchange_grad(tensor: &Tensor, expected: Option<&Tensor>, new: Tensor) -> bool {
    let mut inner = of_or_init(tensor).lock();
    let unchanged = match (inner.owned.grad.as_ref(), expected) {
        (None, None) => true,
        (Some(current), Some(expected)) => current.is_same(expected),
        _ => false,
    };
    if !unchanged {
        return false;
    }
    let old = inner.owned.grad.replace(new);
    drop(inner);
    drop(old);
    true
}

/// `Tensor.retain_grad`
///
/// # Errors
/// When the tensor requires no gradient.
pub(crate) fn retain_grad(tensor: &Tensor) -> Result<()> {
    check!(requires_grad(tensor), "can't retain_grad on Tensor that has requires_grad=False");
    let Some(node) = grad_fn(tensor)? else { return Ok(()) };
    let (cell, output_nr) = {
        let mut inner = of_or_init(tensor).lock();
        if inner.extra().retained.is_some() {
            return Ok(());
        }
        let cell = GradCell::new(Mutex::new(inner.owned.grad.take()));
        inner.extra().retained = Some(cell.clone());
        (cell, inner.output_nr as usize)
    };
    node.state().hooks.get_or_insert_default().retained.push((output_nr, Arc::downgrade(&cell)));
    Ok(())
}

/// `Tensor.retains_grad`
pub(crate) fn retains_grad(tensor: &Tensor) -> bool {
    of(tensor).is_some_and(|meta| meta.lock().owned.extra.as_ref().is_some_and(|extra| extra.retained.is_some()))
}

/// `Tensor.detach_`: forgets the node that made the tensor.
///
/// # Errors
/// For views.
pub(crate) fn detach_(tensor: &Tensor) -> Result<()> {
    let Some(meta) = of(tensor) else { return Ok(()) };
    let mut inner = meta.lock();
    if inner.owned.view.is_some() {
        bail!(
            Runtime,
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for \
             training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() \
             cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() function \
             in torch/optim/optimizer.py as the solution."
        );
    }
    inner.leaf_requires_grad = false;
    inner.output_nr = 0;
    let old = std::mem::take(&mut inner.grad_fn);
    let retained = inner.owned.extra.as_mut().and_then(|extra| extra.retained.take());
    tensor.as_impl().set_requires_grad(false);
    drop(inner);
    drop(old);
    if let Some(cell) = retained {
        let grad = cell.lock().take();
        meta.lock().owned.grad = grad;
    }
    Ok(())
}

/// `x.data`: the same elements, with a version of their own and no graph.
pub(crate) fn data(tensor: &Tensor) -> Tensor {
    Tensor::from_impl(TensorImpl::with_own_version(tensor.as_impl()))
}

/// The hooks of a leaf.
pub(crate) fn leaf_hooks(tensor: &Tensor) -> Vec<TensorHook> {
    let Some(meta) = of(tensor) else { return Vec::new() };
    let inner = meta.lock();
    inner.owned.extra.as_ref().map_or_else(Vec::new, |extra| extra.hooks.snapshot())
}
