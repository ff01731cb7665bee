//! [`Function`]: operators whose backward users write (`torch.autograd.Function`).

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_core::{Result, bail, check, tls};

use crate::meta;
use crate::node::{self, Grads, Node, NodeRef};
use crate::record::{Edges, needs_grad};
use crate::saved::{self, SavedVariable};
use crate::view::{self, Creation};

/// An operator with a backward of its own. Arguments that are no tensors are fields of the implementor.
///
/// ```
/// use tensor_autograd::{BackwardContext, Context, Function};
/// use tensor_aten::{Tensor, ops};
/// use tensor_core::Result;
///
/// struct Square;
/// impl Function for Square {
///     fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
///         ctx.save_for_backward(inputs);
///         Ok(vec![ops::mul(inputs[0], inputs[0])?])
///     }
///     fn backward(&self, ctx: &BackwardContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let x = &ctx.saved_tensors()?[0];
///         let Some(grad) = &grads[0] else { return Ok(vec![None]) };
///         Ok(vec![Some(ops::mul(grad, &ops::add(x, x, 1)?)?)])
///     }
/// }
/// # fn use_it(x: &Tensor) -> Result<Vec<Tensor>> {
/// Square.apply(&[x])
/// # }
/// ```
pub trait Function: Send + Sync + 'static {
    /// Computes the outputs. Runs without recording.
    ///
    /// # Errors
    /// Whatever fails in it.
    fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// Computes one gradient an input from one an output; `None` stands for zeros. Recorded under `create_graph`.
    ///
    /// # Errors
    /// Whatever fails in it.
    fn backward(&self, ctx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

    /// The node's name; by default the type's with `Backward` behind it.
    fn name(&self) -> &'static str {
        node_name::<Self>()
    }

    /// True if `backward` may not be differentiated: a second derivative is then an error.
    fn once_differentiable(&self) -> bool {
        false
    }

    /// Runs `forward` and records this function for backward.
    ///
    /// # Errors
    /// Those of `forward`, and when what it marked contradicts what it returned.
    fn apply(self, inputs: &[&Tensor]) -> Result<Vec<Tensor>>
    where
        Self: Sized,
    {
        apply(self, inputs)
    }
}

/// `module::Square<T>` gives `SquareBackward`, made once a type.
fn node_name<F: ?Sized + 'static>() -> &'static str {
    static NAMES: OnceLock<Mutex<HashMap<TypeId, &'static str>>> = OnceLock::new();
    let mut names = NAMES.get_or_init(Mutex::default).lock();
    names.entry(TypeId::of::<F>()).or_insert_with(|| {
        let full = std::any::type_name::<F>();
        let path = full.split('<').next().unwrap_or(full);
        let last = path.rsplit("::").next().unwrap_or(path);
        String::leak(format!("{last}Backward"))
    })
}

/// What `forward` notes for `backward`.
pub struct Context {
    needs_input_grad: Vec<bool>,
    to_save: Vec<Option<Tensor>>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    materialize: bool,
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Context {
    /// Keeps inputs and outputs for backward, with a check that nobody changes them meanwhile.
    pub fn save_for_backward(&mut self, tensors: &[&Tensor]) {
        self.to_save = tensors.iter().map(|tensor| Some((*tensor).clone())).collect();
    }

    /// [`Context::save_for_backward`] with absent tensors.
    pub fn save_for_backward_opt(&mut self, tensors: &[Option<&Tensor>]) {
        self.to_save = tensors.iter().map(|tensor| tensor.cloned()).collect();
    }

    /// Keeps any other value for backward.
    pub fn keep(&mut self, value: impl Any + Send + Sync) {
        self.kept = Some(Box::new(value));
    }

    /// Says which inputs `forward` wrote in place. They must be among the outputs.
    pub fn mark_dirty(&mut self, tensors: &[&Tensor]) {
        self.dirty = tensors.iter().map(|tensor| (*tensor).clone()).collect();
    }

    /// Says which outputs carry no gradient.
    pub fn mark_non_differentiable(&mut self, tensors: &[&Tensor]) {
        self.non_differentiable = tensors.iter().map(|tensor| (*tensor).clone()).collect();
    }

    /// Says whether undefined gradients become zeros before `backward` sees them. They do by default.
    pub fn set_materialize_grads(&mut self, materialize: bool) {
        self.materialize = materialize;
    }

    /// For each input, whether its gradient will be wanted.
    pub fn needs_input_grad(&self) -> &[bool] {
        &self.needs_input_grad
    }
}

/// What `backward` finds.
pub struct BackwardContext<'a> {
    node: &'a NodeRef,
    saved: &'a [SavedVariable],
    kept: Option<&'a (dyn Any + Send + Sync)>,
    needs_input_grad: &'a [bool],
}

impl BackwardContext<'_> {
    /// What was kept by [`Context::save_for_backward`].
    ///
    /// # Errors
    /// When it was freed, or changed in place since; when one of the tensors was absent.
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        let _grad = tls::grad_mode(true);
        self.saved.iter().map(|saved| saved.unpack(self.node)).collect()
    }

    /// What was kept by [`Context::save_for_backward_opt`].
    ///
    /// # Errors
    /// As [`BackwardContext::saved_tensors`].
    pub fn saved_tensors_opt(&self) -> Result<Vec<Option<Tensor>>> {
        let _grad = tls::grad_mode(true);
        self.saved.iter().map(|saved| saved.unpack_opt(self.node)).collect()
    }

    /// What was kept by [`Context::keep`], if it has this type.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        self.kept?.downcast_ref()
    }

    /// For each input, whether this pass wants its gradient.
    pub fn needs_input_grad(&self) -> &[bool] {
        self.needs_input_grad
    }
}

struct Custom<F> {
    function: F,
    /// set when the outputs have their edges, so that a saved output does not own this node
    saved: Arc<OnceLock<Vec<SavedVariable>>>,
    kept: Option<Box<dyn Any + Send + Sync>>,
    materialize: bool,
}

impl<F: Function> node::Function for Custom<F> {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn apply(&self, node: &NodeRef, mut grads: Grads, need: &[bool]) -> Result<Grads> {
        if self.materialize {
            for i in 0..grads.len() {
                let grad = grads.or_zeros(i, node)?;
                grads.set(i, grad);
            }
        }
        let saved = self.saved.get().map_or(&[][..], Vec::as_slice);
        let ctx = BackwardContext { node, saved, kept: self.kept.as_deref(), needs_input_grad: need };
        let once = self.function.once_differentiable() && tls::grad_enabled();
        let mut result = {
            let _mode = tls::grad_mode(tls::grad_enabled() && !once);
            self.function.backward(&ctx, &grads)?
        };
        let expected = need.len();
        let found = result.len();
        if found > expected && result[expected..].iter().all(Option::is_none) {
            result.truncate(expected);
        }
        check!(
            result.len() == expected,
            "function {} returned an incorrect number of gradients (expected {expected}, got {found})",
            self.name()
        );
        if once {
            refuse_second_derivative(&grads, saved, node, &mut result)?;
        }
        Ok(Grads::from_iter(result))
    }

    fn release(&self) {
        self.saved.get().into_iter().flatten().for_each(SavedVariable::release);
    }
}

/// Makes gradients that depend on recorded tensors the outputs of a node that refuses.
fn refuse_second_derivative(
    grads: &Grads,
    saved: &[SavedVariable],
    node: &NodeRef,
    result: &mut [Option<Tensor>],
) -> Result<()> {
    let mut sources: Vec<Tensor> = grads.iter().flatten().cloned().collect();
    for saved in saved {
        sources.extend(saved.unpack_opt(node)?);
    }
    let sources: Vec<&Tensor> = sources.iter().collect();
    if !needs_grad(&sources) {
        return Ok(());
    }
    let refusal = Node::recorded(Edges::of(&sources)?.into_inner(), &[], Refusal);
    for (i, grad) in result.iter_mut().flatten().enumerate() {
        *grad = saved::alias(grad)?;
        refusal.state().note(grad);
        if grad.dtype().is_differentiable() {
            drop(meta::set_gradient_edge(grad, &refusal, i));
        }
    }
    Ok(())
}

struct Refusal;

impl node::Function for Refusal {
    fn name(&self) -> &'static str {
        "DelayedError"
    }

    fn apply(&self, _node: &NodeRef, _grads: Grads, _need: &[bool]) -> Result<Grads> {
        bail!(Runtime, "trying to differentiate twice a function that was marked with @once_differentiable")
    }
}

fn contains(list: &[Tensor], tensor: &Tensor) -> bool {
    list.iter().any(|other| other.is_same(tensor))
}

fn apply<F: Function>(function: F, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let recorded = needs_grad(inputs);
    let edges = if recorded { Edges::of(inputs)? } else { Edges::default() };
    let mut ctx = Context {
        needs_input_grad: inputs.iter().map(|input| recorded && meta::requires_grad(input)).collect(),
        to_save: Vec::new(),
        dirty: Vec::new(),
        non_differentiable: Vec::new(),
        materialize: true,
        kept: None,
    };
    let mut outputs = {
        let _no_grad = tls::grad_mode(false);
        function.forward(&mut ctx, inputs)?
    };
    check!(
        ctx.dirty.iter().all(|dirty| contains(&outputs, dirty)),
        "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified \
         inplace must all be outputs of the Function."
    );
    let Context { to_save, dirty, non_differentiable, materialize, kept, .. } = ctx;
    let kept_tensors = Arc::new(OnceLock::new());
    let node = recorded.then(|| {
        let custom = Custom { function, saved: kept_tensors.clone(), kept, materialize };
        Node::recorded(edges.into_inner(), &[], custom)
    });
    let originals = outputs.clone();
    wrap(node.as_ref(), inputs, &dirty, &non_differentiable, &mut outputs)?;
    if recorded {
        let save = |tensor: Option<Tensor>| {
            let Some(tensor) = tensor else { return SavedVariable::input_opt(false, None) };
            let place = outputs.iter().position(|output| output.is_same(&tensor));
            let replaced = originals.iter().position(|output| output.is_same(&tensor));
            match place.or(replaced) {
                Some(i) if !inputs.iter().any(|input| input.is_same(&tensor)) || contains(&dirty, &tensor) => {
                    SavedVariable::output(true, &tensor, i)
                }
                _ => SavedVariable::input(true, &tensor),
            }
        };
        let saved = to_save.into_iter().map(save).collect::<Result<Vec<_>>>()?;
        // Nobody else can have set it.
        let _ = kept_tensors.set(saved);
    }
    Ok(outputs)
}

/// Makes the outputs of a custom function those of its node, as PyTorch's `_process_backward_mode_ad` does.
fn wrap(
    node: Option<&NodeRef>,
    inputs: &[&Tensor],
    dirty: &[Tensor],
    non_differentiable: &[Tensor],
    outputs: &mut [Tensor],
) -> Result<()> {
    let count = outputs.len();
    let differentiable =
        |output: &Tensor| node.is_some() && output.dtype().is_differentiable() && !contains(non_differentiable, output);
    // Every check comes before the first change.
    for output in outputs.iter().filter(|output| differentiable(output) && contains(dirty, output)) {
        check!(
            !(meta::requires_grad(output) && meta::grad_fn(output)?.is_none()),
            "a leaf Variable that requires grad has been used in an in-place operation."
        );
        check!(
            count == 1 || view::base(output).is_none(),
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more \
             than one Tensor. This is not supported by the current autograd engine. You should either make sure the input \
             is not a view (using .clone() for example) or make your Function only return one Tensor (potentially \
             splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that \
             does the other operations). You can ask on the forum https://discuss.pytorch.org/ if you need help to do this \
             change."
        );
    }
    if let Some(node) = node {
        node.state().note_all(outputs.iter());
    }
    let many = outputs.iter().filter(|output| differentiable(output)).count() > 1;
    for (i, output) in outputs.iter_mut().enumerate() {
        let is_input = inputs.iter().any(|input| input.is_same(output));
        let is_dirty = contains(dirty, output);
        match node {
            Some(node) if differentiable(output) => {
                if is_dirty {
                    rebase(output, node, i)?;
                    continue;
                }
                // An input comes back as it was, or a tensor that already has a place in a graph.
                if is_input || meta::requires_grad(output) {
                    *output = view_of_self(output)?;
                }
                drop(meta::set_gradient_edge(output, node, i));
            }
            _ if is_input && !is_dirty => *output = view_of_self(output)?,
            _ if meta::requires_grad(output) && view::base(output).is_none() => *output = saved::alias(output)?,
            _ => continue,
        }
        view::set_creation(output, if many { Creation::MultiOutputNode } else { Creation::CustomFunction });
    }
    Ok(())
}

fn rebase(output: &Tensor, node: &NodeRef, i: usize) -> Result<()> {
    if let Some(meta) = meta::of(output)
        && view::base(output).is_some()
    {
        return view::rebase(output, meta, node);
    }
    let old_nr = meta::output_nr(output);
    let old = meta::set_gradient_edge(output, node, i);
    if let Some(old) = old.get() {
        Node::move_retained(old, old_nr, node, i);
    }
    Ok(())
}

/// An input returned as it was: a view of it, so that it can have another node.
fn view_of_self(tensor: &Tensor) -> Result<Tensor> {
    let alias = saved::alias(tensor)?;
    view::mark(tensor, &alias, None, Creation::CustomFunction);
    Ok(alias)
}
