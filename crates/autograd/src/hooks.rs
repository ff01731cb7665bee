//! Hooks: user functions that see, and may replace, gradients. Where they run is decided in [`crate::engine`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_aten::hooks::HookHandle;
use tensor_core::{Result, bail, check};

use crate::meta;
use crate::node::{Grads, Node};

pub use tensor_aten::hooks::{PostAccumulateHook, TensorHook};

/// A node's pre-hook: sees the gradients of the node's outputs; what it returns replaces them.
pub type PreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;

/// A node's post-hook: sees what the node computed and what it was given; what it returns replaces the former.
pub type PostHook =
    Arc<dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;

/// A list of hooks that handles remove from.
pub(crate) struct HookList<H>(Arc<Mutex<Vec<(u64, H)>>>);

impl<H> Default for HookList<H> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<H: Clone + Send + Sync + 'static> HookList<H> {
    pub(crate) fn add(&self, hook: H) -> HookHandle {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().push((id, hook));
        let list: Weak<Mutex<Vec<(u64, H)>>> = Arc::downgrade(&self.0);
        HookHandle::new(move || {
            let Some(list) = list.upgrade() else { return };
            let removed = {
                let mut list = list.lock();
                list.iter().position(|(hook, _)| *hook == id).map(|at| list.remove(at))
            };
            // A hook's captured values are dropped without the lock.
            drop(removed);
        })
    }

    /// The hooks of this moment, in the order of registration.
    pub(crate) fn snapshot(&self) -> Vec<H> {
        self.0.lock().iter().map(|(_, hook)| hook.clone()).collect()
    }
}

/// Where `retain_grad` stores the gradient of a tensor that is no leaf.
pub(crate) type GradCell = Arc<Mutex<Option<Tensor>>>;

/// The hooks of a node.
#[derive(Default)]
pub(crate) struct NodeHooks {
    /// of the tensors that are its outputs: output number, hook
    pub(crate) tensor: HookList<(usize, TensorHook)>,
    /// of `retain_grad`: output number, cell
    pub(crate) retained: Vec<(usize, Weak<Mutex<Option<Tensor>>>)>,
    pub(crate) pre: HookList<PreHook>,
    pub(crate) post: HookList<PostHook>,
}

/// The hooks of a node as they are when it runs.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) tensor: Vec<(usize, TensorHook)>,
    pub(crate) retained: Vec<(usize, GradCell)>,
    pub(crate) pre: Vec<PreHook>,
    pub(crate) post: Vec<PostHook>,
}

impl NodeHooks {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            tensor: self.tensor.snapshot(),
            retained: self.retained.iter().filter_map(|(nr, cell)| Some((*nr, cell.upgrade()?))).collect(),
            pre: self.pre.snapshot(),
            post: self.post.snapshot(),
        }
    }
}

impl Node {
    /// Registers a hook that runs before the node (`Node.register_prehook`).
    pub fn register_prehook(&self, hook: PreHook) -> HookHandle {
        self.state().hooks.get_or_insert_default().pre.add(hook)
    }

    /// Registers a hook that runs after the node (`Node.register_hook`).
    pub fn register_hook(&self, hook: PostHook) -> HookHandle {
        self.state().hooks.get_or_insert_default().post.add(hook)
    }

    /// Moves the `retain_grad` of one output to another node, as an in-place operator must.
    pub(crate) fn move_retained(from: &Node, from_nr: usize, to: &Node, to_nr: usize) {
        let cell = {
            let mut state = from.state();
            let Some(hooks) = state.hooks.as_mut() else { return };
            let found = hooks.retained.iter().position(|(nr, _)| *nr == from_nr);
            found.map(|at| hooks.retained.remove(at).1)
        };
        if let Some(cell) = cell {
            to.state().hooks.get_or_insert_default().retained.push((to_nr, cell));
        }
    }
}

/// `Tensor.register_hook`
///
/// # Errors
/// When the tensor requires no gradient.
pub(crate) fn register_hook(tensor: &Tensor, hook: TensorHook) -> Result<HookHandle> {
    check!(meta::requires_grad(tensor), "cannot register a hook on a tensor that doesn't require gradient");
    match meta::grad_fn(tensor)? {
        Some(node) => Ok(node.state().hooks.get_or_insert_default().tensor.add((meta::output_nr(tensor), hook))),
        None => Ok(meta::of_or_init(tensor).lock().extra().hooks.add(hook)),
    }
}

/// `Tensor.register_post_accumulate_grad_hook`
///
/// # Errors
/// When the tensor requires no gradient or is no leaf.
pub(crate) fn register_post_accumulate_grad_hook(tensor: &Tensor, hook: PostAccumulateHook) -> Result<HookHandle> {
    check!(meta::requires_grad(tensor), "cannot register a hook on a tensor that doesn't require gradient");
    check!(meta::grad_fn(tensor)?.is_none(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
    Ok(meta::of_or_init(tensor).lock().extra().post_accumulate.add(hook))
}

/// Runs tensor hooks over one gradient.
pub(crate) fn run_tensor_hook(hook: &TensorHook, grad: &mut Option<Tensor>) -> Result<()> {
    let Some(current) = grad.as_ref() else { return Ok(()) };
    if let Some(new) = hook(current)? {
        check_replacement(current, &new)?;
        *grad = Some(new);
    }
    Ok(())
}

/// What a hook returns must look like the gradient that it replaces.
fn check_replacement(old: &Tensor, new: &Tensor) -> Result<()> {
    check!(
        old.dtype() == new.dtype(),
        "hook '<closure>' has changed the type of value (was torch.{} got torch.{})",
        type_name(old),
        type_name(new)
    );
    check!(old.device() == new.device(), "hook '<closure>' has changed the device of value");
    check!(old.sizes() == new.sizes(), "hook '<closure>' has changed the size of value");
    Ok(())
}

/// `FloatTensor`, `cuda.LongTensor`
pub(crate) fn type_name(tensor: &Tensor) -> String {
    let device = tensor.device();
    let prefix = if device.is_cpu() { String::new() } else { format!("{}.", device.kind().name()) };
    format!("{prefix}{}Tensor", tensor.dtype().cpp_name())
}

/// Puts what a node's hook returned in the place of `grads`.
pub(crate) fn replace(grads: &mut Grads, new: Vec<Option<Tensor>>) -> Result<()> {
    if new.len() != grads.len() {
        bail!(
            Runtime,
            "hook '<closure>' has returned an incorrect number of values (got {}, but expected {})",
            new.len(),
            grads.len()
        );
    }
    for (slot, new) in grads.iter_mut().zip(new) {
        if let (Some(old), Some(new)) = (slot.as_ref(), new.as_ref()) {
            check_replacement(old, new)?;
        }
        *slot = new;
    }
    Ok(())
}
