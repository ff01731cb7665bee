//! [`Module`]: a tree of parameters and buffers with PyTorch's names, and what can be asked of it.

use std::fmt::Write as _;

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::strides::show;
use tensor_core::{Result, check};

use crate::{Buffer, Parameter, Training};

/// Is told of a module's members, in the order of their declaration.
pub trait Visitor {
    /// A parameter; `None` where the module has none of that name.
    fn parameter(&mut self, name: &str, parameter: Option<&Parameter>);
    /// A buffer; `None` where the module has none of that name.
    fn buffer(&mut self, name: &str, buffer: Option<&Buffer>);
    /// A child.
    fn module(&mut self, name: &str, module: &dyn Module);
    /// The mode of the module itself.
    fn training(&mut self, training: &Training);
}

/// A field of a module: tells a visitor what it is. Settings (numbers, strings) tell nothing.
pub trait Member {
    /// Shows itself under a name.
    fn visit(&self, name: &str, visitor: &mut dyn Visitor);
}

/// A tree of parameters and buffers (`torch.nn.Module`). Derive it; [`Forward`] is the computation.
pub trait Module: Send + Sync {
    /// The name of the type, `"Linear"`.
    fn name(&self) -> &'static str;

    /// Shows the members in the order of their declaration.
    fn visit(&self, visitor: &mut dyn Visitor);

    /// The settings, as they stand between the parentheses of the printed module.
    fn extra_repr(&self) -> String {
        String::new()
    }

    /// Every parameter of the tree with its path, `"0.weight"`. A parameter that is shared is named once.
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let mut found = Collect::default();
        self.visit(&mut found);
        let mut list: Vec<(String, Parameter)> = Vec::new();
        for (name, parameter) in found.parameters {
            if !list.iter().any(|(_, seen)| seen.is_same(&parameter)) {
                list.push((name, parameter));
            }
        }
        list
    }

    /// Every parameter of the tree.
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, parameter)| parameter).collect()
    }

    /// Every buffer of the tree with its path.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut found = Collect::default();
        self.visit(&mut found);
        found.buffers
    }

    /// The names and types of the direct children.
    fn named_children(&self) -> Vec<(String, &'static str)> {
        let mut found = Children(Vec::new());
        self.visit(&mut found);
        found.0
    }

    /// Sets the mode of the whole tree.
    fn train(&self, training: bool) {
        self.visit(&mut SetTraining(training));
    }

    /// Evaluation mode for the whole tree.
    fn eval(&self) {
        self.train(false);
    }

    /// Drops the gradients of every parameter (`zero_grad(set_to_none=True)`).
    ///
    /// # Errors
    /// When autograd is not linked.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// The tensors of the tree by path: parameters and buffers, sharing memory with the module (`state_dict`).
    fn state_dict(&self) -> StateDict {
        let mut found = Collect::default();
        self.visit(&mut found);
        StateDict(found.state)
    }

    /// Copies the tensors of a state into the module's own.
    ///
    /// # Errors
    /// `RuntimeError` with PyTorch's list of missing and unexpected names and of shapes that differ; nothing is copied then.
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        self.load_state_dict_opt(state, true)
    }

    /// [`Module::load_state_dict`]; without `strict`, missing and unexpected names are let pass.
    ///
    /// # Errors
    /// As [`Module::load_state_dict`].
    fn load_state_dict_opt(&self, state: &StateDict, strict: bool) -> Result<()> {
        let own = self.state_dict();
        let mut problems = String::new();
        let quoted = |names: &[&str]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        if strict {
            let unexpected: Vec<&str> = state.names().filter(|name| own.get(name).is_none()).collect();
            let missing: Vec<&str> = own.names().filter(|name| state.get(name).is_none()).collect();
            if !missing.is_empty() {
                let _ = write!(problems, "\n\tMissing key(s) in state_dict: {}. ", quoted(&missing));
            }
            if !unexpected.is_empty() {
                let _ = write!(problems, "\n\tUnexpected key(s) in state_dict: {}. ", quoted(&unexpected));
            }
        }
        let mut copies = Vec::new();
        for (name, target) in &own.0 {
            let Some(source) = state.get(name) else { continue };
            if source.sizes() != target.sizes() {
                let _ = write!(
                    problems,
                    "\n\tsize mismatch for {name}: copying a param with shape torch.Size({}) from checkpoint, the shape in \
                     current model is torch.Size({}).",
                    show(source.sizes()),
                    show(target.sizes())
                );
            }
            copies.push((target, source));
        }
        check!(problems.is_empty(), "Error(s) in loading state_dict for {}:{problems}", self.name());
        let _no_grad = no_grad();
        for (target, source) in copies {
            ops::copy_(target, source, false)?;
        }
        Ok(())
    }

    /// The module as PyTorch prints it.
    fn repr(&self) -> String {
        let mut children = Repr(Vec::new());
        self.visit(&mut children);
        let extra = self.extra_repr();
        if children.0.is_empty() {
            return format!("{}({extra})", self.name());
        }
        let mut text = format!("{}(\n", self.name());
        for (name, child) in children.0 {
            let _ = writeln!(text, "  ({name}): {}", child.replace('\n', "\n  "));
        }
        text.push(')');
        text
    }
}

/// The computation of a module of one input and one output.
pub trait Forward {
    /// The output for an input.
    ///
    /// # Errors
    /// When the input does not fit the module.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;
}

/// A module of one input and one output: what containers hold.
pub trait Layer: Module + Forward {}
impl<M: Module + Forward> Layer for M {}

/// Tensors by name, in order (`state_dict`). They share memory with the module that they came from.
#[derive(Clone, Default)]
pub struct StateDict(Vec<(String, Tensor)>);

impl StateDict {
    /// No tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a tensor by name; a known name keeps its place.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = tensor,
            None => self.0.push((name, tensor)),
        }
    }

    /// A tensor by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor)
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Names and tensors in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(iter: I) -> Self {
        let mut state = Self::new();
        for (name, tensor) in iter {
            state.insert(name, tensor);
        }
        state
    }
}

/// Gathers a tree's tensors under their paths.
#[derive(Default)]
struct Collect {
    prefix: String,
    parameters: Vec<(String, Parameter)>,
    buffers: Vec<(String, Buffer)>,
    state: Vec<(String, Tensor)>,
}

impl Visitor for Collect {
    fn parameter(&mut self, name: &str, parameter: Option<&Parameter>) {
        if let Some(parameter) = parameter {
            let path = format!("{}{name}", self.prefix);
            self.state.push((path.clone(), parameter.tensor().clone()));
            self.parameters.push((path, parameter.clone()));
        }
    }

    fn buffer(&mut self, name: &str, buffer: Option<&Buffer>) {
        if let Some(buffer) = buffer {
            let path = format!("{}{name}", self.prefix);
            self.state.push((path.clone(), Tensor::clone(buffer)));
            self.buffers.push((path, buffer.clone()));
        }
    }

    fn module(&mut self, name: &str, module: &dyn Module) {
        let outer = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        module.visit(self);
        self.prefix.truncate(outer);
    }

    fn training(&mut self, _: &Training) {}
}

struct SetTraining(bool);

impl Visitor for SetTraining {
    fn parameter(&mut self, _: &str, _: Option<&Parameter>) {}
    fn buffer(&mut self, _: &str, _: Option<&Buffer>) {}
    fn module(&mut self, _: &str, module: &dyn Module) {
        module.visit(self);
    }
    fn training(&mut self, training: &Training) {
        training.set(self.0);
    }
}

struct Children(Vec<(String, &'static str)>);

impl Visitor for Children {
    fn parameter(&mut self, _: &str, _: Option<&Parameter>) {}
    fn buffer(&mut self, _: &str, _: Option<&Buffer>) {}
    fn module(&mut self, name: &str, module: &dyn Module) {
        self.0.push((name.to_owned(), module.name()));
    }
    fn training(&mut self, _: &Training) {}
}

struct Repr(Vec<(String, String)>);

impl Visitor for Repr {
    fn parameter(&mut self, _: &str, _: Option<&Parameter>) {}
    fn buffer(&mut self, _: &str, _: Option<&Buffer>) {}
    fn module(&mut self, name: &str, module: &dyn Module) {
        self.0.push((name.to_owned(), module.repr()));
    }
    fn training(&mut self, _: &Training) {}
}

impl Member for Parameter {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.parameter(name, Some(self));
    }
}
impl Member for Option<Parameter> {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.parameter(name, self.as_ref());
    }
}
impl Member for Buffer {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.buffer(name, Some(self));
    }
}
impl Member for Option<Buffer> {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.buffer(name, self.as_ref());
    }
}
impl Member for Training {
    fn visit(&self, _: &str, visitor: &mut dyn Visitor) {
        visitor.training(self);
    }
}
impl<M: Module> Member for M {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.module(name, self);
    }
}
impl<M: Module> Member for Option<M> {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        if let Some(module) = self {
            visitor.module(name, module);
        }
    }
}
/// A list of modules is a child whose children are named by their numbers (`ModuleList`).
impl<M: Module> Member for Vec<M> {
    fn visit(&self, name: &str, visitor: &mut dyn Visitor) {
        for (i, module) in self.iter().enumerate() {
            visitor.module(&format!("{name}.{i}"), module);
        }
    }
}

macro_rules! settings {
    ($($ty:ty)*) => { $(
        impl Member for $ty {
            fn visit(&self, _: &str, _: &mut dyn Visitor) {}
        }
    )* };
}
settings!(bool i64 usize f64 String &'static str Option<f64> Option<i64> Option<usize>);

impl<T: Copy, const N: usize> Member for [T; N] {
    fn visit(&self, _: &str, _: &mut dyn Visitor) {}
}
