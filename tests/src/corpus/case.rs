//! One recorded call, program or random sequence, as the files spell them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::value::{TensorRef, Value};

/// The exception that a call must raise.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Expected {
    /// Python's exception class.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub message: String,
}

/// A contiguous tensor, given by the array of its elements.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Dense {
    /// The array's key.
    pub key: String,
    /// The element type's Python name.
    pub dtype: String,
    /// The sizes.
    pub size: Vec<i64>,
}

/// One call with everything that it must do.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// A name that no other case of the corpus has.
    pub id: String,
    /// What the case is about.
    pub tags: Vec<String>,
    /// Array keys of the storages; none where the contents are not specified.
    pub storages: Vec<Option<String>>,
    /// How many of the storages exist before the call.
    pub inputs: usize,
    /// Every argument of the schema.
    pub args: Vec<Option<Value>>,
    /// The returned values; none in an error case.
    pub outputs: Option<Vec<Option<Value>>>,
    /// The storages that the call writes, with their contents after it.
    #[serde(default)]
    pub mutated: BTreeMap<usize, Option<String>>,
    /// The relative tolerance.
    #[serde(default)]
    pub rtol: f64,
    /// The absolute tolerance.
    #[serde(default)]
    pub atol: f64,
    /// The gradients of a second run.
    pub grad: Option<Grad>,
    /// The exception that the call must raise.
    pub error: Option<Expected>,
}

impl Case {
    /// True if the case carries a tag.
    pub fn tagged(&self, tag: &str) -> bool {
        self.tags.iter().any(|t| t == tag)
    }
}

/// A backward run of a call.
#[derive(Clone, Debug, Deserialize)]
pub struct Grad {
    /// Paths of the leaves: argument, or argument and element.
    pub inputs: Vec<Vec<usize>>,
    /// The node's name behind each output.
    pub grad_fn: Vec<Option<String>>,
    /// The vectors of the vector-Jacobian product.
    pub cotangents: Vec<Option<Dense>>,
    /// The leaves' gradients.
    pub grads: Vec<Option<Dense>>,
    /// The relative tolerance.
    #[serde(default)]
    pub rtol: f64,
    /// The absolute tolerance.
    #[serde(default)]
    pub atol: f64,
    /// Second derivatives.
    pub double: Option<Double>,
}

/// A double backward run.
#[derive(Clone, Debug, Deserialize)]
pub struct Double {
    /// What the first gradients are multiplied with.
    pub weights: Vec<Option<Dense>>,
    /// The gradients of that sum: of the leaves, then of the cotangents.
    pub grads: Vec<Option<Dense>>,
}

/// A program: steps over named variables.
#[derive(Clone, Debug, Deserialize)]
pub struct Program {
    /// What the program shows.
    pub name: String,
    /// Its steps.
    pub steps: Vec<ProgramStep>,
}

/// A step of a program, with the exception that it must raise, if any.
#[derive(Clone, Debug, Deserialize)]
pub struct ProgramStep {
    /// The step.
    #[serde(flatten)]
    pub action: Action,
    /// The exception.
    pub error: Option<Expected>,
}

/// What a program step does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[allow(missing_docs)] // the steps of the format, one for one
pub enum Action {
    Leaf {
        var: String,
        value: Dense,
        requires_grad: bool,
    },
    Call {
        op: String,
        args: Vec<Option<Value>>,
        vars: Vec<String>,
    },
    Backward(Backward),
    Grad(Backward),
    GradMode {
        enabled: bool,
    },
    #[serde(rename = "requires_grad_")]
    RequiresGrad {
        var: String,
        value: bool,
    },
    RetainGrad {
        var: String,
    },
    ZeroGrad {
        var: String,
    },
    Expect {
        var: String,
        attr: String,
        #[serde(default)]
        value: Json,
    },
}

/// The arguments of `torch.autograd.backward` and `torch.autograd.grad`.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)] // Python's argument names
pub struct Backward {
    pub outputs: Vec<String>,
    pub grads: Option<Vec<Option<String>>>,
    pub retain_graph: Option<bool>,
    #[serde(default)]
    pub create_graph: bool,
    pub inputs: Option<Vec<String>>,
    #[serde(default)]
    pub allow_unused: bool,
    #[serde(default)]
    pub vars: Vec<String>,
}

/// A random sequence: a seed, and draws one after the other.
#[derive(Clone, Debug, Deserialize)]
pub struct Sequence {
    /// The seed.
    pub seed: u64,
    /// The draws.
    pub steps: Vec<Draw>,
}

/// One draw of a sequence.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
#[allow(missing_docs)] // the steps of the format, one for one
pub enum Draw {
    Call { op: String, storages: Vec<String>, args: Vec<Option<Value>>, outputs: Vec<Json> },
    Init { name: String, size: Vec<i64>, dtype: String, kwargs: Map<String, Json>, value: Dense },
    Module { name: String, args: Vec<Json>, kwargs: Map<String, Json>, parameters: BTreeMap<String, Dense> },
}

/// A tensor and what `repr` gives for it.
#[derive(Clone, Debug, Deserialize)]
pub struct Printed {
    /// The view.
    pub tensor: TensorRef,
    /// The storage's bytes in hexadecimal.
    pub storage_hex: String,
    /// Whether the tensor is a leaf that requires a gradient.
    pub requires_grad: bool,
    /// The node's name at the end of the text.
    pub grad_fn: Option<String>,
    /// Arguments of `set_printoptions`.
    #[serde(default)]
    pub options: Option<Map<String, Json>>,
    /// The text.
    pub repr: String,
}
