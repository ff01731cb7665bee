//! Writes `crates/autograd/src/generated/FAMILY.rs`: a Node a derivative entry, and the wrappers at the Autograd keys.
//!
//! Formulas are lowered by [`crate::formula`]; reading the YAML and the schemas is not done here, nor is anything of the
//! engine: the generated code leans on the runtime below, so that hundreds of operators stay small and compile fast.
//!
//! # The runtime that generated code calls (`crates/autograd`)
//!
//! ```text
//! // crate::node
//! pub type NodeRef = ..;                         // shared, cheap to clone: Arc<Node> or Ref<Node>
//! pub trait Function: Send + Sync {
//!     fn name(&self) -> &'static str;            // "MulBackward0"
//!     /// One gradient an input edge. `grads`: one an output (differentiable outputs alone), undefined where nothing
//!     /// arrived. `need[i]`: whether edge i exists and this pass wants it. Generated code returns `Grads::none(n)` when
//!     /// all of `grads` are undefined; what is not needed stays undefined. The engine sums to the input's shape, takes the
//!     /// real part for real inputs, casts: formulas do none of that.
//!     fn apply(&self, node: &NodeRef, grads: Grads, need: &[bool]) -> Result<Grads>;
//!     fn release(&self) {}                       // drops what was saved; later unpacks raise the "second time" text
//!     /// The saved `result` of a node that an in-place operator may record: `rebase_history` of a view tells it the
//!     /// view's new grad_fn (weakly), which is not this node but CopySlices / AsStridedBackward0.
//!     fn saved_result(&self) -> Option<&SavedVariable> { None }
//! }
//! pub struct Grads(SmallVec<[Option<Tensor>; 2]>);   // Deref<Target = [Option<Tensor>]>
//! impl Grads {
//!     pub fn none(n: usize) -> Self;
//!     pub fn all_none(&self) -> bool;
//!     pub fn at(&self, i: usize) -> Option<&Tensor>;                      // None: undefined, or out of range
//!     pub fn or_zeros(&self, i: usize, node: &NodeRef) -> Result<Tensor>; // zeros as node's output i (its metadata) if undefined
//!     pub fn set(&mut self, i: usize, grad: impl Into<Option<Tensor>>);   // out of range: ignored
//!     pub fn set_list<G: Into<Option<Tensor>>>(&mut self, first: usize, grads: impl IntoIterator<Item = G>);
//! }
//!
//! // crate::saved; `needed == false` saves nothing. Err: "Inference tensors cannot be saved for backward. ..".
//! impl SavedVariable {                           // Send + Sync, interior mutability; pack hooks run on making
//!     pub fn input(needed: bool, tensor: &Tensor) -> Result<Self>;
//!     pub fn input_opt(needed: bool, tensor: Option<&Tensor>) -> Result<Self>;
//!     pub fn original(needed: bool, self_: &Tensor) -> Result<Self>;      // in-place: a clone of the value before the write
//!     pub fn output(needed: bool, result: &Tensor, output_nr: usize) -> Result<Self>;  // without its node (no cycle)
//!     pub fn unpack(&self, node: &NodeRef) -> Result<Tensor>;             // checks the version; an output gets `node` back
//!     pub fn unpack_opt(&self, node: &NodeRef) -> Result<Option<Tensor>>; // None: the argument was None
//!     pub fn release(&self);
//! }
//! impl SavedList {                               // the same for `Tensor[]` and `Tensor?[]`
//!     pub fn inputs(needed: bool, tensors: &[&Tensor]) -> Result<Self>;
//!     pub fn inputs_opt(needed: bool, tensors: &[Option<&Tensor>]) -> Result<Self>;
//!     pub fn outputs(needed: bool, results: &[Tensor]) -> Result<Self>;   // output_nr 0, 1, ..
//!     pub fn unpack(&self, node: &NodeRef) -> Result<Vec<Tensor>>;
//!     pub fn unpack_opt(&self, node: &NodeRef) -> Result<Vec<Option<Tensor>>>;
//!     pub fn release(&self);
//! }
//!
//! // crate::record
//! pub fn needs_grad(tensors: &[&Tensor]) -> bool;             // grad mode on and any requires grad; #[inline]
//! pub fn needs_grad_opt(tensors: &[Option<&Tensor>]) -> bool; // the same for optional ones
//! pub struct Edges;                                           // in schema order; one edge a tensor, a list gives several
//! impl Edges {
//!     pub fn of(tensors: &[&Tensor]) -> Result<Self>;         // Err: a view whose grad_fn cannot be made anew
//!     pub fn of_opt(tensors: &[Option<&Tensor>]) -> Result<Self>;
//!     pub fn add(&mut self, tensors: &[&Tensor]) -> Result<()>;
//!     pub fn add_opt(&mut self, tensors: &[Option<&Tensor>]) -> Result<()>;
//!     pub fn len(&self) -> usize;
//!     pub fn needs(&self, i: usize) -> bool;                  // edge i leads somewhere
//!     pub fn any(&self, edges: Range<usize>) -> bool;         // one of a list's edges does
//! }
//! pub fn node<F: Function + 'static>(edges: Edges, function: F) -> NodeRef;    // takes the next sequence number
//! pub fn record<F: Function + 'static>(edges: Edges, function: F, outputs: &[&Tensor]); // a node; output i gets (node, i);
//! pub fn set_history_opt(node: &NodeRef, outputs: &[Option<&Tensor>]); // results that an `output_mask` may leave out
//! pub fn set_history_list(node: &NodeRef, outputs: &[Tensor]); // outputs of integer dtype only take up a number
//! pub fn check_inplace(self_: &Tensor) -> Result<()>;         // "a leaf Variable that requires grad is being used in ..", views' creation
//! pub fn rebase_history(self_: &Tensor, node: &NodeRef) -> Result<()>;         // CopySlices on the base for a view
//! pub fn retie(self_: &Tensor, node: &NodeRef) -> Result<()>; // after `t_` and the like: only this tensor has a new history
//! pub fn as_view(base: &Tensor, view: &Tensor, replay: Option<Replay>);        // a differentiable view; called in no-grad mode too
//! pub fn as_views(base: &Tensor, views: &[Tensor]);           // multi-output views: CreationMeta::MultiOutputNode
//! pub type Replay = Arc<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;      // None: as_strided of the base will do
//! /// In-place forms of operators without a gradient (`eq_`, `normal_`): runs `write`; if grad mode is on and `self_` requires
//! /// grad, then check_inplace before, and after it a node of that name whose gradient of `self` is zeros.
//! /// Functional operators over lists whose body records tensor by tensor: one node of that name for all of it.
//! pub fn gather(name: &'static str, outputs: Vec<Tensor>) -> Result<Vec<Tensor>>;
//! pub fn overwrite(self_: &Tensor, name: &'static str, write: impl FnOnce() -> Result<()>) -> Result<()>;
//! pub fn check_out(tensors: &[&Tensor], operator: &'static str) -> Result<()>; // "add(): functions with out=... arguments don't
//! pub fn check_out_opt(tensors: &[Option<&Tensor>], operator: ..) -> Result<()>; // support automatic differentiation, .."
//! pub struct Options { pub dtype: DType, pub layout: Layout, pub device: Device }  // Copy
//! impl Options { pub fn of(tensor: &Tensor) -> Self; }
//! pub fn sizes_of(tensors: &[&Tensor]) -> Vec<Dims>;          // Dims is tensor_core::strides::Dims
//! pub fn dtypes_of(tensors: &[&Tensor]) -> Vec<DType>;
//!
//! // crate::formulas: `pub fn NAME(args) -> Result<R>`, reached by any call in a formula that names no operator.
//! //   arguments: &Tensor, Option<&Tensor>, &[Tensor], &[Option<Tensor>], i64, &[i64], f64, bool, Scalar, &str, DType,
//! //   Option<..> of these, [bool; N] (grad_input_mask), &Options, &[Dims], &[DType];
//! //   `grad` is &Tensor; with several differentiable outputs `grads[i]` is Option<&Tensor> (zeros where an operator
//! //   takes it); a bare `grads` is &[Option<Tensor>].
//! //   R: Tensor or Option<Tensor>; for a list argument Vec<Tensor> or Vec<Option<Tensor>>; for several inputs a tuple.
//! //   A literal number has no Scalar type yet: parameters that may get one are `impl Into<Scalar>`.
//! pub fn conj(x: &Tensor) -> Result<Tensor>;                  // a cheap clone for real dtypes
//! pub fn not_implemented(what: &str) -> Result<Tensor>;       // NotImplemented: "the derivative for 'what' is not implemented."
//! pub fn size(sizes: &[i64], dim: i64) -> Result<i64>;        // `x.size(dim)` where dim is no literal; negative from the end
//! pub fn refs(list: &[Tensor]) -> Vec<&Tensor>;               // a saved list as an operator takes it
//! pub fn refs_opt(list: &[Option<Tensor>]) -> Vec<Option<&Tensor>>;
//! // crate::formulas::scalar, written `scalar::f(..)` in formulas: -> Result<Scalar>; crate::formulas::dims, written
//! // `dims::f(..)`: -> Result<Vec<i64>>. For the arithmetic of Scalars, infallible: add, sub, mul, div (true division), neg
//! pub fn add(a: Scalar, b: Scalar) -> Scalar; ..
//! ```
//!
//! # What a wrapper looks like
//!
//! ```text
//! fn mul(keys: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
//!     let needed = record::needs_grad(&[self_, other]);
//!     let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
//!     let result = { let _below = tls::below_autograd(); op::MUL.kernel(keys)?(keys, self_, other)? };
//!     if needed {
//!         let edges = Edges::of(&[self_, other])?;
//!         let function = MulBackward0 {
//!             self_: SavedVariable::input(edges.needs(1), self_)?,
//!             other: SavedVariable::input(edges.needs(0), other)?,
//!         };
//!         record::record(edges, function, &[&result]);
//!     }
//!     Ok(result)
//! }
//! ```
//! In-place: `check_inplace`, edges and saved inputs before the call (so that a saved alias of `self` shows its old version),
//! `rebase_history` after it. Operators that are not differentiable have no wrapper: their Autograd slots fall through. But
//! for their in-place forms, which `overwrite`, and for `detach_`, `resize_`, `resize_as_`, `set_`: hand-written kernels of the
//! runtime may register at the Autograd key of those.

mod node;
mod plan;
mod wrapper;

use proc_macro2::TokenStream;
use quote::quote;

use crate::formula::Operators;
use crate::model::{Entry, Gradient, Operator};
use crate::names::ident;
use crate::schema::Form;
use crate::yaml::Error;
use plan::Plan;

/// Operators without a gradient that change what a tensor is, not its elements: the runtime decides what becomes of its
/// history, with wrappers of its own where it needs them.
const BY_HAND: [&str; 4] = ["detach_", "resize_", "resize_as_", "set_"];

/// Operators without a gradient whose in-place forms upstream does not record at all: the tensor keeps the node that it had.
const UNRECORDED: [&str; 4] = ["logical_and_", "logical_not_", "logical_or_", "logical_xor_"];

/// The operators that formulas may call.
pub fn operators(entries: &[Entry]) -> Operators {
    Operators::new(entries.iter().flat_map(|entry| &entry.operators).map(|op| &op.schema))
}

/// One family's file and how many kernels it registers; none if nothing in it is for autograd.
///
/// # Errors
/// The first formula that cannot be lowered, with its line.
pub fn family(name: &str, entries: &[&Entry], operators: &Operators) -> Result<Option<(TokenStream, usize)>, Error> {
    let (mut items, mut registered) = (String::new(), Vec::new());
    let mut structs: Vec<String> = Vec::new();
    for entry in entries {
        match &entry.gradient {
            Gradient::Implicit => {}
            Gradient::None => {
                let writes = |op: &&Operator| {
                    let name = op.schema.name.as_str();
                    op.form == Form::InPlace && !BY_HAND.contains(&name) && !UNRECORDED.contains(&name)
                };
                for op in entry.operators.iter().filter(writes) {
                    items.push_str(&wrapper::overwrite(op));
                    registered.push(op);
                }
            }
            Gradient::Each(grad_fn) => {
                for op in &entry.operators {
                    items.push_str(&wrapper::each(op, grad_fn));
                    registered.push(op);
                }
            }
            Gradient::Node(derivatives) => {
                let mut plan = Plan::new(entry, derivatives, operators)?;
                if structs.contains(&plan.node) {
                    plan.node.push_str(&crate::names::camel(&entry.stem));
                }
                structs.push(plan.node.clone());
                items.push_str(&node::node(&plan));
                for op in &entry.operators {
                    items.push_str(&wrapper::wrapper(&plan, op)?);
                    registered.push(op);
                }
            }
        }
    }
    if registered.is_empty() {
        return Ok(None);
    }
    let line = entries.first().map_or(0, |entry| entry.line);
    let items: TokenStream =
        items.parse().map_err(|e| Error::new(line, format!("the nodes of '{name}' do not parse: {e}")))?;
    let doc =
        format!(" Gradients of the family `{name}`: a node a derivative entry, and the wrappers at the Autograd keys.");
    let source = format!("autograd/src/generated/{name}.rs");
    let kernels = registered.iter().map(|op| {
        let (table, fn_type, wrapper) =
            (crate::aten::static_name(&op.stem), crate::aten::fn_name(&op.stem), ident(&op.stem));
        quote!(Registration::new(&op::#table, DispatchKey::Autograd, &(#wrapper as op::#fn_type), #source))
    });
    let tokens = quote! {
        #![doc = #doc]
        #![cfg_attr(rustfmt, rustfmt_skip)]
        #![allow(unused_imports, unused_parens)]

        use super::prelude::*;

        #items

        static KERNELS: &[Registration] = &[#(#kernels),*];
        inventory::submit! { Registrations { krate: "tensor-autograd", ops: &[], kernels: KERNELS } }
    };
    Ok(Some((tokens, registered.len())))
}

/// `generated/mod.rs`: the families together, and what their files import.
pub fn module(families: &[&str], kernels: usize) -> TokenStream {
    let names = families.iter().map(|name| ident(name));
    quote! {
        //! Nodes and wrappers, written from `native_functions.yaml`: a file a family.
        #![cfg_attr(rustfmt, rustfmt_skip)]

        #(mod #names;)*

        /// How many kernels this crate registers.
        pub const KERNELS: usize = #kernels;

        /// What families' files use.
        #[allow(unused_imports)]
        mod prelude {
            pub use std::sync::Arc;

            pub use tensor_aten::dispatch::{Registration, Registrations};
            pub use tensor_aten::{Tensor, inventory, op, ops};
            pub use tensor_core::strides::Dims;
            pub use tensor_core::{
                DType, Device, DispatchKey, DispatchKeySet, Generator, Layout, MemoryFormat, Result, Scalar, tls,
            };

            pub use crate::formulas;
            pub use crate::node::{Function, Grads, NodeRef};
            pub use crate::record::{self, Edges, Options};
            pub use crate::saved::{SavedList, SavedVariable};
        }
    }
}

#[cfg(test)]
#[path = "autograd/tests.rs"]
mod tests;
