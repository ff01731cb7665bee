//! [`Module`]: a tree of parameters and buffers with PyTorch's names, and what can be asked of it. What its members are is
//! in [`crate::member`], its tensors by name in [`crate::state_dict`].

use std::fmt;

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::state_dict::{self, IncompatibleKeys, StateDict};
use crate::{Buffer, Parameter, Training, Visitor};

/// A tree of parameters and buffers (`torch.nn.Module`).
///
/// Derive it for a struct whose fields are its members; [`Forward`] is the computation. By hand, [`Module::visit`] shows
/// the members, and everything else follows from it.
pub trait Module: Send + Sync {
    /// The name of the type, `"Linear"`.
    fn name(&self) -> &'static str;

    /// Shows the members in the order of their declaration.
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// The settings, as they stand between the parentheses of the printed module.
    fn extra_repr(&self) -> String {
        String::new()
    }

    /// The module as PyTorch prints it.
    fn repr(&self) -> String {
        let children: Vec<_> = self.named_children().into_iter().map(|(name, child)| (name, child.repr())).collect();
        print(self.name(), &self.extra_repr(), &children)
    }

    /// Every parameter of the tree with its path, `"0.weight"`. One that is shared is named once.
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let mut parameters: Vec<(String, Parameter)> = Vec::new();
        walk(self, |path, tensor| {
            if let Stored::Parameter(parameter) = tensor
                && !parameters.iter().any(|(_, seen)| seen.is_same(parameter))
            {
                parameters.push((path, parameter.clone()));
            }
        });
        parameters
    }

    /// Every parameter of the tree, each once.
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, parameter)| parameter).collect()
    }

    /// How many numbers there are to train.
    fn num_parameters(&self) -> i64 {
        self.parameters().iter().map(|parameter| parameter.numel()).sum()
    }

    /// Every buffer of the tree with its path. One that is shared is named once.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut buffers: Vec<(String, Buffer)> = Vec::new();
        walk(self, |path, tensor| {
            if let Stored::Buffer(buffer) = tensor
                && !buffers.iter().any(|(_, seen)| seen.is_same(buffer))
            {
                buffers.push((path, buffer.clone()));
            }
        });
        buffers
    }

    /// Every buffer of the tree, each once.
    fn buffers(&self) -> Vec<Buffer> {
        self.named_buffers().into_iter().map(|(_, buffer)| buffer).collect()
    }

    /// The modules directly below with their names.
    fn named_children(&self) -> Vec<(String, &dyn Module)> {
        let mut children = Children(Vec::new());
        self.visit(&mut children);
        children.0
    }

    /// The modules below, at any depth, with their paths, each before its own children.
    fn named_modules(&self) -> Vec<(String, &dyn Module)> {
        let mut modules = Vec::new();
        for (name, child) in self.named_children() {
            modules.push((name.clone(), child));
            modules.extend(child.named_modules().into_iter().map(|(path, module)| (format!("{name}.{path}"), module)));
        }
        modules
    }

    /// Training mode for the whole tree: dropout drops, batch normalisation uses the batch's own statistics.
    fn train(&self) {
        self.set_training(true);
    }

    /// Evaluation mode for the whole tree.
    fn eval(&self) {
        self.set_training(false);
    }

    /// Training or evaluation mode for the whole tree (`train(mode)`).
    fn set_training(&self, mode: bool) {
        self.visit(&mut SetTraining(mode));
    }

    /// Says whether gradients are wanted for the parameters: `false` freezes them.
    ///
    /// # Errors
    /// When no autograd engine is linked.
    fn requires_grad_(&self, requires_grad: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.tensor().requires_grad_(requires_grad).map(drop))
    }

    /// Drops the gradients of every parameter (`zero_grad(set_to_none=True)`).
    ///
    /// # Errors
    /// When no autograd engine is linked.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// The tensors of the tree by path, parameters and buffers: detached, sharing memory with the module.
    ///
    /// # Errors
    /// When an operator fails.
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = Vec::new();
        walk(self, |path, tensor| state.push((path, tensor.tensor().clone())));
        state.into_iter().map(|(path, tensor)| Ok((path, tensor.detach()?))).collect()
    }

    /// Copies the tensors of a state into the module's own. Names and shapes must be the same.
    ///
    /// # Errors
    /// `RuntimeError` with PyTorch's list of missing and unexpected names and of shapes that differ; nothing is copied then.
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        self.load_state_dict_opt(state, true).map(drop)
    }

    /// [`Module::load_state_dict`]; without `strict`, missing and unexpected names are let pass, and told.
    ///
    /// # Errors
    /// As [`Module::load_state_dict`].
    fn load_state_dict_opt(&self, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
        state_dict::load(self.name(), &self.state_dict()?, state, strict)
    }
}

impl fmt::Display for dyn Module + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repr())
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

/// A module of one input and one output: what [`Sequential`](crate::Sequential) holds.
pub trait Layer: Module + Forward {}
impl<M: Module + Forward + ?Sized> Layer for M {}

/// A module's text from those of its children.
pub(crate) fn print(name: &str, extra: &str, children: &[(String, String)]) -> String {
    if children.is_empty() {
        return format!("{name}({extra})");
    }
    let mut text = format!("{name}(\n");
    let lines = (!extra.is_empty()).then(|| extra.to_owned());
    let lines = lines.into_iter().chain(children.iter().map(|(name, child)| format!("({name}): {child}")));
    for line in lines {
        text += &format!("  {}\n", line.replace('\n', "\n  "));
    }
    text + ")"
}

/// A tensor of a module.
enum Stored<'a> {
    Parameter(&'a Parameter),
    Buffer(&'a Buffer),
}

impl Stored<'_> {
    fn tensor(&self) -> &Tensor {
        match self {
            Self::Parameter(parameter) => parameter,
            Self::Buffer(buffer) => buffer,
        }
    }
}

/// Shows every tensor of a tree with its path, in PyTorch's order: a module's own parameters, its own buffers, then its
/// children.
fn walk<M: Module + ?Sized>(module: &M, mut each: impl FnMut(String, Stored<'_>)) {
    let mut own = Own::default();
    module.visit(&mut own);
    own.show("", &mut each);
}

/// What one module holds itself.
#[derive(Default)]
struct Own<'a> {
    tensors: Vec<(String, Stored<'a>)>,
    children: Vec<(String, &'a dyn Module)>,
}

impl Own<'_> {
    fn show(mut self, prefix: &str, each: &mut dyn FnMut(String, Stored<'_>)) {
        self.tensors.sort_by_key(|(_, tensor)| matches!(tensor, Stored::Buffer(_)));
        for (name, tensor) in self.tensors {
            each(format!("{prefix}{name}"), tensor);
        }
        for (name, child) in self.children {
            let mut own = Own::default();
            child.visit(&mut own);
            own.show(&format!("{prefix}{name}."), each);
        }
    }
}

impl<'a> Visitor<'a> for Own<'a> {
    fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        self.tensors.push((name.to_owned(), Stored::Parameter(parameter)));
    }
    fn buffer(&mut self, name: &str, buffer: &'a Buffer) {
        self.tensors.push((name.to_owned(), Stored::Buffer(buffer)));
    }
    fn module(&mut self, name: &str, module: &'a dyn Module) {
        self.children.push((name.to_owned(), module));
    }
}

/// The modules directly below.
struct Children<'a>(Vec<(String, &'a dyn Module)>);

impl<'a> Visitor<'a> for Children<'a> {
    fn module(&mut self, name: &str, module: &'a dyn Module) {
        self.0.push((name.to_owned(), module));
    }
}

struct SetTraining(bool);

impl<'a> Visitor<'a> for SetTraining {
    fn module(&mut self, _: &str, module: &'a dyn Module) {
        module.visit(self);
    }
    fn training(&mut self, training: &'a Training) {
        training.set(self.0);
    }
}
