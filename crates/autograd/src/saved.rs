//! [`SavedVariable`]: a tensor that a node keeps for its backward. It notices when the elements were changed since, and
//! never owns the node that owns it.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_aten::{Tensor, ops};
use tensor_core::strides::show;
use tensor_core::{Error, Result, bail, check, tls};

use crate::hooks::type_name;
use crate::meta;
use crate::node::{Link, NodeRef, forward_name};
use crate::view::WeakNode;

/// What a pack hook made of a tensor.
pub type Packed = Box<dyn Any + Send + Sync>;

/// The functions of `saved_tensors_hooks`: what is stored in a saved tensor's place, and how it is found again.
pub struct SavedTensorHooks {
    pack: Box<dyn Fn(&Tensor) -> Result<Packed> + Send + Sync>,
    unpack: Box<dyn Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync>,
}

impl SavedTensorHooks {
    /// A pair of hooks. `unpack` gets what `pack` returned, and must return a tensor with the same elements.
    pub fn new(
        pack: impl Fn(&Tensor) -> Result<Packed> + Send + Sync + 'static,
        unpack: impl Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        Self { pack: Box::new(pack), unpack: Box::new(unpack) }
    }
}

thread_local! {
    static DEFAULT_HOOKS: RefCell<Vec<Arc<SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
}

/// Ends `saved_tensors_hooks` when dropped.
#[must_use = "the hooks end when their guard is dropped"]
pub struct HooksGuard(std::marker::PhantomData<*const ()>);

/// Until the guard is dropped, what this thread's operators save for backward passes through these hooks
/// (`torch.autograd.graph.saved_tensors_hooks`). Of nested ones the innermost counts.
pub fn saved_tensors_hooks(hooks: SavedTensorHooks) -> HooksGuard {
    DEFAULT_HOOKS.with_borrow_mut(|stack| stack.push(Arc::new(hooks)));
    HooksGuard(std::marker::PhantomData)
}

impl Drop for HooksGuard {
    fn drop(&mut self) {
        // The hooks' captured values are dropped after the list is free again.
        let ended = DEFAULT_HOOKS.try_with(|stack| stack.try_borrow_mut().ok().and_then(|mut stack| stack.pop()));
        drop(ended);
    }
}

/// The hooks of this thread, to carry them to another.
pub(crate) fn hooks_of_thread() -> Vec<Arc<SavedTensorHooks>> {
    DEFAULT_HOOKS.with_borrow(Clone::clone)
}

/// Takes over the hooks of another thread; for a thread that has none of its own.
pub(crate) fn adopt_hooks(hooks: Vec<Arc<SavedTensorHooks>>) {
    DEFAULT_HOOKS.set(hooks);
}

#[inline]
fn default_hooks() -> Option<Arc<SavedTensorHooks>> {
    DEFAULT_HOOKS.with_borrow(|stack| stack.last().cloned())
}

/// A tensor kept for backward.
pub struct SavedVariable(Mutex<State>);

enum State {
    /// not needed, or an absent argument
    Absent,
    /// freed after a backward
    Released,
    /// the tensor itself
    Input { tensor: Tensor, version: u32 },
    /// the elements of an output of the node that keeps this: its `grad_fn` comes back on unpacking
    Output { data: Tensor, version: u32, output_nr: u32, grad_fn: Option<Box<(WeakNode, usize)>> },
    /// what a pack hook made of it
    Packed(Arc<PackedState>),
}

struct PackedState {
    hooks: Arc<SavedTensorHooks>,
    packed: Packed,
    /// where gradients of the unpacked tensor flow; an output's node is known on unpacking
    grad_fn: Link,
    leaf: Option<Tensor>,
    output_nr: usize,
    is_output: bool,
}

const FREED: &str = "Trying to backward through the graph a second time (or directly access saved tensors after they have \
                     already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
                     autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or \
                     if you need to access saved tensors after calling backward.";

impl SavedVariable {
    const ABSENT: State = State::Absent;

    /// Keeps an input of the recorded operator.
    ///
    /// # Errors
    /// For inference tensors, and when a pack hook fails.
    #[inline]
    pub fn input(needed: bool, tensor: &Tensor) -> Result<Self> {
        if !needed {
            return Ok(Self(Mutex::new(Self::ABSENT)));
        }
        let version = version_to_save(tensor)?;
        if let Some(hooks) = default_hooks() {
            return pack(hooks, tensor, None);
        }
        Ok(Self(Mutex::new(State::Input { tensor: tensor.clone(), version })))
    }

    /// Keeps an input, past any pack hooks.
    ///
    /// # Errors
    /// For inference tensors.
    pub(crate) fn unpacked_input(tensor: &Tensor) -> Result<Self> {
        let version = version_to_save(tensor)?;
        Ok(Self(Mutex::new(State::Input { tensor: tensor.clone(), version })))
    }

    /// Keeps an input that may be absent.
    ///
    /// # Errors
    /// As [`SavedVariable::input`].
    #[inline]
    pub fn input_opt(needed: bool, tensor: Option<&Tensor>) -> Result<Self> {
        match tensor {
            Some(tensor) => Self::input(needed, tensor),
            None => Ok(Self(Mutex::new(Self::ABSENT))),
        }
    }

    /// Keeps a copy of what an in-place operator is about to write.
    ///
    /// # Errors
    /// As [`SavedVariable::input`], and when the copy fails.
    pub fn original(needed: bool, self_: &Tensor) -> Result<Self> {
        if !needed {
            return Ok(Self(Mutex::new(Self::ABSENT)));
        }
        Self::input(true, &ops::clone(self_, None)?)
    }

    /// Keeps an output of the recorded operator, without the node that made it.
    ///
    /// # Errors
    /// As [`SavedVariable::input`].
    #[inline]
    pub fn output(needed: bool, result: &Tensor, output_nr: usize) -> Result<Self> {
        if !needed {
            return Ok(Self(Mutex::new(Self::ABSENT)));
        }
        let version = version_to_save(result)?;
        if let Some(hooks) = default_hooks() {
            return pack(hooks, result, Some(output_nr));
        }
        let data = alias(result)?;
        Ok(Self(Mutex::new(State::Output { data, version, output_nr: output_nr as u32, grad_fn: None })))
    }

    /// The tensor. `node` is the one that keeps it: an output gets it back as its `grad_fn`.
    ///
    /// # Errors
    /// When it was freed, or changed in place since it was saved.
    #[inline]
    pub fn unpack(&self, node: &NodeRef) -> Result<Tensor> {
        match self.unpack_opt(node)? {
            Some(tensor) => Ok(tensor),
            None => bail!(Runtime, "{}: a tensor that was not saved is needed for backward", node.name()),
        }
    }

    /// The tensor, or nothing where the argument was absent.
    ///
    /// # Errors
    /// As [`SavedVariable::unpack`].
    pub fn unpack_opt(&self, node: &NodeRef) -> Result<Option<Tensor>> {
        let state = self.0.lock();
        match &*state {
            State::Absent => Ok(None),
            State::Released => Err(Error::runtime(FREED)),
            State::Input { tensor, version } => {
                let (tensor, version) = (tensor.clone(), *version);
                drop(state);
                if !is_at(&tensor, version) {
                    return Err(changed(&tensor, version, grad_fn_of(&tensor)));
                }
                Ok(Some(tensor))
            }
            State::Output { data, version, output_nr, grad_fn } => {
                let (data, version, output_nr) = (data.clone(), *version, *output_nr as usize);
                let rebased = grad_fn.clone();
                drop(state);
                // A written view that is gone took its node along: the operator's own node then stands for it.
                let (current, output_nr) = match rebased.and_then(|weak| Some((weak.0.upgrade()?, weak.1))) {
                    Some(rebased) => rebased,
                    None => (node.clone(), output_nr),
                };
                if !is_at(&data, version) {
                    return Err(changed(&data, version, Some((current, output_nr))));
                }
                if !tls::grad_enabled() {
                    return Ok(Some(data));
                }
                let fresh = alias(&data)?;
                drop(meta::set_gradient_edge(&fresh, &current, output_nr));
                Ok(Some(fresh))
            }
            State::Packed(packed) => {
                let packed = packed.clone();
                // The user's hook runs without the lock.
                drop(state);
                packed.unpack(node).map(Some)
            }
        }
    }

    /// An input that no node keeps.
    ///
    /// # Errors
    /// As [`SavedVariable::unpack`].
    pub(crate) fn unpack_input(&self) -> Result<Tensor> {
        match &*self.0.lock() {
            State::Input { tensor, version } if is_at(tensor, *version) => Ok(tensor.clone()),
            State::Input { tensor, version } => Err(changed(tensor, *version, None)),
            _ => Err(Error::runtime(FREED)),
        }
    }

    /// Drops what was kept.
    pub fn release(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Absent) {
            return;
        }
        let old = std::mem::replace(&mut *state, State::Released);
        drop(state);
        drop(old);
    }

    /// Says which output of which node the result is in truth: after an in-place operator wrote through a view, or when one
    /// node gathered several.
    pub(crate) fn set_grad_fn(&self, node: WeakNode, output_nr: usize) {
        if let State::Output { grad_fn, .. } = &mut *self.0.lock() {
            *grad_fn = Some(Box::new((node, output_nr)));
        }
    }
}

impl PackedState {
    fn unpack(&self, node: &NodeRef) -> Result<Tensor> {
        let data = (self.hooks.unpack)(&*self.packed)?;
        if let Some(leaf) = &self.leaf {
            // A leaf keeps its identity, so that a second derivative reaches it.
            if data.is_same(leaf) || !meta::requires_grad(leaf) {
                return Ok(data);
            }
            let edge = meta::gradient_edge(leaf)?;
            let fresh = alias(&data)?;
            if let Some(node) = edge.node() {
                drop(meta::set_gradient_edge(&fresh, node, edge.input_nr()));
            }
            return Ok(fresh);
        }
        let owner = if self.is_output { Some(node) } else { self.grad_fn.get() };
        let Some(owner) = owner else { return Ok(data) };
        let fresh = alias(&data)?;
        drop(meta::set_gradient_edge(&fresh, owner, self.output_nr));
        Ok(fresh)
    }
}

#[cold]
fn pack(hooks: Arc<SavedTensorHooks>, tensor: &Tensor, output_nr: Option<usize>) -> Result<SavedVariable> {
    let data = alias(tensor)?;
    let before = tensor.version()?;
    let packed = {
        let _no_grad = tls::grad_mode(false);
        (hooks.pack)(&data)?
    };
    check!(
        tensor.version()? == before,
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be \
         modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to \
         perform in-place operations on the input to a pack hook."
    );
    let edge = if output_nr.is_some() { None } else { meta::grad_fn(tensor)? };
    let leaf = (output_nr.is_none() && edge.is_none() && meta::requires_grad(tensor)).then(|| tensor.clone());
    Ok(SavedVariable(Mutex::new(State::Packed(Arc::new(PackedState {
        hooks,
        packed,
        grad_fn: Link::new(edge),
        leaf,
        output_nr: output_nr.unwrap_or_else(|| meta::output_nr(tensor)),
        is_output: output_nr.is_some(),
    })))))
}

#[inline]
fn is_at(tensor: &Tensor, version: u32) -> bool {
    matches!(tensor.version(), Ok(now) if now == version)
}

#[inline]
fn version_to_save(tensor: &Tensor) -> Result<u32> {
    match tensor.version() {
        Ok(version) => Ok(version),
        Err(_) => bail!(
            Runtime,
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
             computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it \
             in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
        ),
    }
}

/// The same elements and version, without autograd.
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    let m = tensor.as_impl().metadata();
    tensor.view_of_storage(&m.sizes, &m.strides, m.offset)
}

fn grad_fn_of(tensor: &Tensor) -> Option<(NodeRef, usize)> {
    let node = meta::grad_fn(tensor).ok()??;
    Some((node, meta::output_nr(tensor)))
}

#[cold]
fn changed(tensor: &Tensor, expected: u32, made_by: Option<(NodeRef, usize)>) -> Error {
    let now = match tensor.version() {
        Ok(now) => now,
        Err(error) => return error,
    };
    let origin = made_by
        .map_or_else(String::new, |(node, nr)| format!(", which is output {nr} of {},", forward_name(node.name())));
    Error::runtime(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.{} \
         {}]{origin} is at version {now}; expected version {expected} instead. Hint: enable anomaly detection to find the \
         operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
        type_name(tensor),
        show(tensor.sizes()),
    ))
}

/// A list of tensors kept for backward.
pub struct SavedList(Vec<SavedVariable>);

impl SavedList {
    /// Keeps the tensors of a list argument.
    ///
    /// # Errors
    /// As [`SavedVariable::input`].
    pub fn inputs(needed: bool, tensors: &[&Tensor]) -> Result<Self> {
        tensors.iter().map(|tensor| SavedVariable::input(needed, tensor)).collect::<Result<_>>().map(Self)
    }

    /// Keeps the tensors of a list argument with absent ones.
    ///
    /// # Errors
    /// As [`SavedVariable::input`].
    pub fn inputs_opt(needed: bool, tensors: &[Option<&Tensor>]) -> Result<Self> {
        tensors.iter().map(|tensor| SavedVariable::input_opt(needed, *tensor)).collect::<Result<_>>().map(Self)
    }

    /// Keeps the outputs of the recorded operator.
    ///
    /// # Errors
    /// As [`SavedVariable::input`].
    pub fn outputs(needed: bool, results: &[Tensor]) -> Result<Self> {
        let save = |(i, result)| SavedVariable::output(needed, result, i);
        results.iter().enumerate().map(save).collect::<Result<_>>().map(Self)
    }

    /// The tensors.
    ///
    /// # Errors
    /// As [`SavedVariable::unpack`].
    pub fn unpack(&self, node: &NodeRef) -> Result<Vec<Tensor>> {
        self.0.iter().map(|saved| saved.unpack(node)).collect()
    }

    /// The tensors, with the absent ones.
    ///
    /// # Errors
    /// As [`SavedVariable::unpack`].
    pub fn unpack_opt(&self, node: &NodeRef) -> Result<Vec<Option<Tensor>>> {
        self.0.iter().map(|saved| saved.unpack_opt(node)).collect()
    }

    /// Drops what was kept.
    pub fn release(&self) {
        self.0.iter().for_each(SavedVariable::release);
    }
}
