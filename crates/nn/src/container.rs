//! [`Sequential`], and lists of modules: a `Vec` of modules is PyTorch's `ModuleList`.

use std::fmt;

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::module::print;
use crate::{Forward, Layer, Module, Visitor};

/// Layers one after the other (`torch.nn.Sequential`), named by their numbers or by given names.
///
/// ```
/// # use tensor_nn::{self as nn, Forward, Module};
/// # use tensor_backends_cpu as _;
/// # fn main() -> tensor_core::Result<()> {
/// let net = nn::sequential![nn::Linear::new(2, 3)?, nn::ReLU, nn::Linear::new(3, 1)?];
/// assert_eq!(
///     net.to_string(),
///     "Sequential(
///   (0): Linear(in_features=2, out_features=3, bias=True)
///   (1): ReLU()
///   (2): Linear(in_features=3, out_features=1, bias=True)
/// )"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<(String, Box<dyn Layer>)>,
}

impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more layer, named by its number.
    pub fn push(self, layer: impl Layer + 'static) -> Self {
        let name = self.layers.len().to_string();
        self.push_named(name, layer)
    }

    /// With one more layer of a name.
    pub fn push_named(mut self, name: impl Into<String>, layer: impl Layer + 'static) -> Self {
        self.layers.push((name.into(), Box::new(layer)));
        self
    }

    /// The layer of a number.
    pub fn get(&self, index: usize) -> Option<&dyn Layer> {
        self.layers.get(index).map(|(_, layer)| &**layer)
    }

    /// The layers in order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Layer> {
        self.layers.iter().map(|(_, layer)| &**layer)
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl Module for Sequential {
    fn name(&self) -> &'static str {
        "Sequential"
    }

    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        for (name, layer) in &self.layers {
            visitor.module(name, &**layer);
        }
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.iter().try_fold(input.clone(), |x, layer| layer.forward(&x))
    }
}

impl fmt::Display for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repr())
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repr())
    }
}

/// Makes a [`Sequential`] of layers: `sequential![Linear::new(4, 8)?, ReLU, Linear::new(8, 2)?]`.
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => { $crate::Sequential::new()$(.push($layer))* };
}

/// A list of modules named by their numbers (`torch.nn.ModuleList`).
impl<M: Module> Module for Vec<M> {
    fn name(&self) -> &'static str {
        "ModuleList"
    }

    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        for (i, module) in self.iter().enumerate() {
            visitor.module(&i.to_string(), module);
        }
    }

    /// Neighbours that print alike stand in one line: `(0-2): 3 x Linear(..)`.
    fn repr(&self) -> String {
        let texts: Vec<String> = self.iter().map(Module::repr).collect();
        let mut children = Vec::new();
        let mut first = 0;
        for group in texts.chunk_by(|a, b| a == b) {
            let last = first + group.len() - 1;
            let line = match group {
                [one] => (first.to_string(), one.clone()),
                [one, ..] => (format!("{first}-{last}"), format!("{} x {one}", group.len())),
                [] => continue,
            };
            children.push(line);
            first = last + 1;
        }
        print(self.name(), "", &children)
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        (**self).visit(visitor);
    }

    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }

    fn repr(&self) -> String {
        (**self).repr()
    }
}

impl<F: Forward + ?Sized> Forward for Box<F> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        (**self).forward(input)
    }
}
