//! [`Sequential`].

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::{Forward, Layer, Module, Visitor};

/// Layers one after the other (`torch.nn.Sequential`), named by their numbers or by given names.
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

    fn visit(&self, visitor: &mut dyn Visitor) {
        for (name, layer) in &self.layers {
            let module: &dyn Module = &**layer;
            visitor.module(name, module);
        }
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.layers.iter().try_fold(input.clone(), |x, (_, layer)| layer.forward(&x))
    }
}

/// Makes a [`Sequential`] of layers: `sequential![Linear::new(4, 8)?, ReLU, Linear::new(8, 2)?]`.
#[macro_export]
macro_rules! sequential {
    ($($layer:expr),* $(,)?) => { $crate::Sequential::new()$(.push($layer))* };
}
