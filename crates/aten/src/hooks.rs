//! What autograd registers, so that `backward`, `grad` and the like are methods of `Tensor` in a crate that knows nothing
//! of graphs (PyTorch's `VariableHooksInterface`).

use std::sync::Arc;

use tensor_core::{Result, bail};

use crate::Tensor;

/// A node of the autograd graph, as users see it.
pub trait GradFn: Send + Sync {
    /// `AddBackward0`
    fn name(&self) -> String;
    /// The nodes that gradients flow to next, with the index of the input there; `None` where none flows.
    fn next_functions(&self) -> Vec<Option<(Arc<dyn GradFn>, usize)>>;
    /// The node itself, for the crate that made it.
    fn as_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync>;
}

/// Removes a hook from where it was registered. Dropping the handle leaves the hook in place.
pub struct HookHandle(Box<dyn Fn() + Send + Sync>);

impl HookHandle {
    /// A handle that calls `remove`, which must do nothing when called again.
    pub fn new(remove: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(remove))
    }

    /// Removes the hook; it will not run again.
    pub fn remove(&self) {
        (self.0)();
    }
}

/// A function that sees the gradient of a tensor; what it returns replaces it.
pub type TensorHook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;

/// A function that runs after the gradient of a leaf was accumulated.
pub type PostAccumulateHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// The functions of an autograd engine.
pub struct AutogradHooks {
    /// `Tensor::requires_grad`, for tensors with autograd state whose own flag is off: views follow their base
    pub requires_grad: fn(&Tensor) -> bool,
    /// `Tensor::requires_grad_`
    pub requires_grad_: fn(&Tensor, bool) -> Result<()>,
    /// `Tensor::grad`
    pub grad: fn(&Tensor) -> Option<Tensor>,
    /// `Tensor::set_grad`
    pub set_grad: fn(&Tensor, Option<Tensor>) -> Result<()>,
    /// `Tensor::grad_fn`
    pub grad_fn: fn(&Tensor) -> Result<Option<Arc<dyn GradFn>>>,
    /// `Tensor::is_leaf`
    pub is_leaf: fn(&Tensor) -> bool,
    /// `Tensor::output_nr`
    pub output_nr: fn(&Tensor) -> usize,
    /// `Tensor::is_view`
    pub is_view: fn(&Tensor) -> bool,
    /// `Tensor::retain_grad`
    pub retain_grad: fn(&Tensor) -> Result<()>,
    /// `Tensor::retains_grad`
    pub retains_grad: fn(&Tensor) -> bool,
    /// `Tensor::base`
    pub base: fn(&Tensor) -> Option<Tensor>,
    /// `Tensor::data`
    pub data: fn(&Tensor) -> Tensor,
    /// `Tensor::register_hook`
    pub register_hook: fn(&Tensor, TensorHook) -> Result<HookHandle>,
    /// `Tensor::register_post_accumulate_grad_hook`
    pub register_post_accumulate_grad_hook: fn(&Tensor, PostAccumulateHook) -> Result<HookHandle>,
    /// `Tensor::backward`: root, gradient, retain_graph, create_graph, inputs
    pub backward: fn(&Tensor, Option<&Tensor>, Option<bool>, bool, Option<&[&Tensor]>) -> Result<()>,
}

inventory::collect!(AutogradHooks);

/// The linked autograd engine.
///
/// # Errors
/// When none is linked.
pub fn autograd() -> Result<&'static AutogradHooks> {
    match inventory::iter::<AutogradHooks>.into_iter().next() {
        Some(hooks) => Ok(hooks),
        None => bail!(Runtime, "no autograd engine is linked into this program: depend on the crate `tensor`"),
    }
}

/// What autograd says of a tensor whose own flag is off.
pub(crate) fn view_requires_grad(tensor: &Tensor) -> bool {
    autograd().is_ok_and(|hooks| (hooks.requires_grad)(tensor))
}

impl Tensor {
    /// Says whether gradients are wanted for this leaf (`Tensor.requires_grad_`). Returns the tensor itself.
    ///
    /// # Errors
    /// For dtypes without gradients, and to take it from a tensor that is no leaf.
    pub fn requires_grad_(&self, requires_grad: bool) -> Result<&Self> {
        (autograd()?.requires_grad_)(self, requires_grad)?;
        Ok(self)
    }

    /// The accumulated gradient, if any (`Tensor.grad`).
    pub fn grad(&self) -> Option<Self> {
        autograd().ok().and_then(|hooks| (hooks.grad)(self))
    }

    /// Replaces the accumulated gradient.
    ///
    /// # Errors
    /// When its shape, dtype or device is not the tensor's.
    pub fn set_grad(&self, grad: Option<Self>) -> Result<()> {
        (autograd()?.set_grad)(self, grad)
    }

    /// The node that made this tensor, if the graph recorded one (`Tensor.grad_fn`).
    ///
    /// # Errors
    /// When a view's base was changed in a way that lost it.
    pub fn grad_fn(&self) -> Result<Option<Arc<dyn GradFn>>> {
        match autograd() {
            Ok(hooks) => (hooks.grad_fn)(self),
            Err(_) => Ok(None),
        }
    }

    /// True if no recorded operator made this tensor (`Tensor.is_leaf`).
    pub fn is_leaf(&self) -> bool {
        autograd().map_or(true, |hooks| (hooks.is_leaf)(self))
    }

    /// Which output of its node this tensor is (`Tensor.output_nr`).
    pub fn output_nr(&self) -> usize {
        autograd().map_or(0, |hooks| (hooks.output_nr)(self))
    }

    /// True for a differentiable view of another tensor (`Tensor._is_view()`).
    pub fn is_view(&self) -> bool {
        autograd().is_ok_and(|hooks| (hooks.is_view)(self))
    }

    /// Keeps the gradient of a tensor that is no leaf (`Tensor.retain_grad`).
    ///
    /// # Errors
    /// When the tensor does not require a gradient.
    pub fn retain_grad(&self) -> Result<()> {
        (autograd()?.retain_grad)(self)
    }

    /// True after `retain_grad` (`Tensor.retains_grad`).
    pub fn retains_grad(&self) -> bool {
        autograd().is_ok_and(|hooks| (hooks.retains_grad)(self))
    }

    /// The tensor that this one is a differentiable view of (`Tensor._base`).
    pub fn base(&self) -> Option<Self> {
        autograd().ok().and_then(|hooks| (hooks.base)(self))
    }

    /// The same elements with a version of their own and no graph (`Tensor.data`): writes through it are not noticed.
    pub fn data(&self) -> Self {
        autograd().map_or_else(|_| self.clone(), |hooks| (hooks.data)(self))
    }

    /// Registers a function that sees this tensor's gradient in every backward; what it returns replaces the gradient.
    ///
    /// # Errors
    /// When the tensor does not require a gradient.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Self) -> Result<Option<Self>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        (autograd()?.register_hook)(self, Arc::new(hook))
    }

    /// Registers a function that runs after this leaf's gradient was accumulated.
    ///
    /// # Errors
    /// When the tensor does not require a gradient or is no leaf.
    pub fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Self) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        (autograd()?.register_post_accumulate_grad_hook)(self, Arc::new(hook))
    }

    /// Accumulates the gradients of this scalar into the leaves of its graph (`Tensor.backward()`).
    ///
    /// # Errors
    /// When the tensor has more than one element, requires no gradient, or its graph was freed.
    pub fn backward(&self) -> Result<()> {
        (autograd()?.backward)(self, None, None, false, None)
    }

    /// `Tensor.backward(gradient, retain_graph, create_graph, inputs)`.
    ///
    /// # Errors
    /// As [`Tensor::backward`], and when the gradient does not have this tensor's shape.
    pub fn backward_opt(
        &self,
        gradient: Option<&Tensor>,
        retain_graph: Option<bool>,
        create_graph: bool,
        inputs: Option<&[&Tensor]>,
    ) -> Result<()> {
        (autograd()?.backward)(self, gradient, retain_graph, create_graph, inputs)
    }
}
