//! Derivative formulas: Rust expressions over a schema's names, lowered to statements, one `let` a step.
//!
//! A formula such as `grad * (1 - result * result)` is parsed by `syn`, typed from the schema, and becomes
//! ```text
//! let t0 = ops::mul(&result, &result)?;
//! let t1 = ops::rsub_scalar(&t0, 1, 1)?;
//! let t2 = ops::mul(grad, &t1)?;
//! ```
//! together with the list of what must be saved for it: tensors, or only their sizes, dtype and the like.
//!
//! # The language
//!
//! | written | means |
//! |---|---|
//! | `self`, `other`, `dim` | an argument of the schema |
//! | `grad` | the gradient of the only differentiable output |
//! | `grads[i]`, `grad_NAME` | that of the i-th differentiable output, of the output so named: zeros if undefined where an operator takes it, `Option<&Tensor>` in calls of `formulas` |
//! | `grads` | all of them |
//! | `result`, `result1`, `indices` | an output, by number or by its name in the schema |
//! | `grad_input_mask` | which of a multi-input formula's inputs need a gradient |
//! | `+ - * /`, `-x`, `!x`, `== != < <= > >=`, `& \|` | operators of tensors and numbers; on numbers plain arithmetic, `&& \|\|` on booleans |
//! | `x.exp()`, `exp(x)`, `x.sum(dim, true)` | an operator: by its `ops` name or its base name (`where_self`: keywords are no names), then the first overload that fits; trailing defaults may be left out |
//! | `f(grad, dim)` | any other name is a function of `autograd::formulas`; `formulas::f(..)` forces that |
//! | `scalar::f(..)`, `dims::f(..)` | such functions that return a `Scalar`, a `Vec<i64>` |
//! | `x.sizes() x.strides() x.storage_offset() x.dim() x.numel() x.size(0) x.dtype() x.device() x.options() x.len() x.is_some()` | saves that value alone |
//! | `if c { a } else { b }`, `[a, b]`, `(a, b)`, `Some(x)`, `None`, `f(x).0` | as in Rust |
//!
//! Nothing here knows of nodes or wrappers: those are [`crate::autograd`]'s.

mod arithmetic;
mod lower;
mod saved;
mod value;

use std::collections::HashMap;

use crate::names;
use crate::schema::{Form, Schema};

pub use saved::{Source, Use, What};
pub use value::{Kind, Shape};

/// The operators that formulas may call: the functional overloads of all entries.
#[derive(Default)]
pub struct Operators {
    by_stem: HashMap<String, Schema>,
    by_base: HashMap<String, Vec<String>>,
}

impl Operators {
    /// Collects the functional ones of some schemas.
    pub fn new<'a>(schemas: impl IntoIterator<Item = &'a Schema>) -> Self {
        let mut operators = Self::default();
        for schema in schemas.into_iter().filter(|schema| schema.form() == Form::Functional) {
            let stem = names::stem(schema);
            operators.by_base.entry(schema.name.clone()).or_default().push(stem.clone());
            operators.by_stem.insert(stem, schema.clone());
        }
        operators
    }

    /// What a name may mean: the operator of that stem first, then the other overloads of its base in their order.
    fn candidates(&self, name: &str) -> Vec<(&str, &Schema)> {
        let base = self.by_stem.get(name).map_or(name, |schema| schema.name.as_str());
        let overloads = self.by_base.get(base).into_iter().flatten().map(String::as_str).filter(|stem| *stem != name);
        std::iter::once(name)
            .chain(overloads)
            .filter_map(|stem| self.by_stem.get_key_value(stem))
            .map(|(stem, schema)| (stem.as_str(), schema))
            .collect()
    }
}

/// What the names of a formula stand for.
pub struct Scope<'a> {
    /// The operator whose derivative it is: the functional form, or the in-place one where there is no other.
    pub schema: &'a Schema,
    /// For each return of the schema, whether a gradient flows through it.
    pub differentiable: &'a [bool],
    /// What can be called.
    pub operators: &'a Operators,
    /// For each input of this formula, the condition (Rust text) that its gradient is needed.
    pub mask: &'a [String],
}

impl Scope<'_> {
    /// How many gradients the node gets; `None` if its one output is a list.
    fn gradients(&self) -> Option<usize> {
        let list = self.schema.returns.iter().any(|ret| ret.ty.list.is_some());
        if list { None } else { Some(self.differentiable.iter().filter(|on| **on).count()) }
    }
}

/// A lowered formula.
#[derive(Debug, Default)]
pub struct Lowered {
    /// What it reads from the node, in order of appearance.
    pub uses: Vec<Use>,
    /// `let` statements.
    pub statements: Vec<String>,
    /// The gradients, one an input of the formula; or one expression that yields a tuple of them.
    pub results: Vec<String>,
    /// True if `grad` is named: the only gradient, as `&Tensor`.
    pub uses_grad: bool,
    /// True if the statements name the node.
    pub uses_node: bool,
}

/// Lowers one formula for a number of inputs.
///
/// # Errors
/// When the text is no expression of the language, names something unknown, or types do not fit.
pub fn lower(scope: &Scope<'_>, text: &str, inputs: usize) -> Result<Lowered, String> {
    let expr: syn::Expr = syn::parse_str(text).map_err(|e| format!("cannot parse '{text}': {e}"))?;
    lower::formula(scope, &expr, inputs)
}

#[cfg(test)]
#[path = "formula/tests.rs"]
mod tests;
