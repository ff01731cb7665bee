//! The entries of `native_functions.yaml` after validation: what code is written from.
//!
//! Reading them is in [`crate::load`]; derivative formulas stay text here and are parsed in [`crate::formula`].

use crate::schema::{Form, Schema};

/// One entry: an operator's functional overload (or its only one) with the forms made from it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The line of the entry in `native_functions.yaml`.
    pub line: usize,
    /// The schema under `func:`.
    pub schema: Schema,
    /// The Rust stem of `schema`.
    pub stem: String,
    /// The documentation, Markdown.
    pub doc: String,
    /// The file name that every crate uses.
    pub family: String,
    /// What runs below autograd.
    pub kind: Kind,
    /// The overloads of this entry; the first is `schema` itself.
    pub operators: Vec<Operator>,
    /// The kernels of the family's table that this entry declares.
    pub kernels: Vec<Kernel>,
    /// For iterator entries: the kernel that runs, `(family, name)`.
    pub kernel: Option<(String, String)>,
    /// What `"X" not implemented for 'Long'` calls that kernel here.
    pub kernel_error_name: Option<String>,
    /// Arguments with defaults that the method takes all the same.
    pub method_args: Vec<String>,
    /// Arguments that an iterator entry hands to its kernel after the iterator.
    pub params: Vec<String>,
    /// The backends that have this operator's kernels.
    pub dispatch: Vec<Backend>,
    /// How gradients flow.
    pub gradient: Gradient,
    /// The in-place form's own node, where upstream gives it another.
    pub in_place_gradient: Option<Derivatives>,
    /// Which dtypes the out tensors of a result that is computed apart may have.
    pub out_dtype: Option<OutDtype>,
    /// Upstream's tags.
    pub tags: Vec<String>,
}

/// One overload: a schema, its form and its Rust names.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The schema.
    pub schema: Schema,
    /// Functional, in-place or out.
    pub form: Form,
    /// The name in `ops::`.
    pub stem: String,
    /// The method of `Tensor`, where there is one.
    pub method: Option<String>,
}

/// What runs below autograd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shape rule plans an iterator, a kernel of the table runs over it.
    Iterator(Meta),
    /// One hand-written function over [`Form`]s: `native::FAMILY::STEM(out, args..)`.
    Native,
    /// `composite::FAMILY::STEM(args..)` with a derivative of its own.
    CompositeExplicit,
    /// `composite::FAMILY::STEM(args..)`, differentiable through what it calls.
    CompositeImplicit,
}

/// The shape rule of an iterator entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// `meta: own`: `meta::FAMILY::STEM(out, args..)`.
    Own,
    /// `meta: binary` or `meta: binary(self, other)`: `iterate::binary(out, self_, other)`; without a list, all tensor
    /// arguments.
    Rule {
        /// The function of `aten::iterate`.
        name: String,
        /// The names of the arguments it takes.
        args: Vec<String>,
    },
}

/// A column of kernels in a family's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The field, and the function in each backend.
    pub name: String,
    /// The type alias in `aten::kernels`.
    pub ty: String,
    /// Which dtypes have a column, in the order of `DType::ALL`.
    pub dtypes: crate::names::DtypeSet,
    /// What `"X" not implemented for 'Long'` calls it.
    pub error_name: String,
    /// What CPU kernels are compiled for.
    pub levels: Levels,
    /// The line that declares it.
    pub line: usize,
    /// The backends that have it.
    pub dispatch: Vec<Backend>,
}

/// The instruction-set levels that a kernel of the CPU is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// each, as far as its dtype gains from it: `add::<I, f32>`
    Each,
    /// the one that every machine has: `lgamma::<Baseline, f32>`
    Baseline,
    /// it knows no levels: `sort::<f32>`
    None,
}

/// A backend with kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// The host.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// AMD GPUs.
    Hip,
}

impl Backend {
    /// Every backend with its name in `dispatch:` and its variant of `DispatchKey`.
    pub const ALL: [(Backend, &'static str, &'static str); 3] =
        [(Backend::Cpu, "cpu", "Cpu"), (Backend::Cuda, "cuda", "Cuda"), (Backend::Hip, "hip", "Hip")];

    /// The variant of `DispatchKey`.
    pub fn key(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// `out_dtype:`: which dtypes an out tensor may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutDtype {
    /// The result's own.
    Exact,
    /// Any.
    Any,
    /// Those that the result's can be cast to.
    Cast,
    /// The result's own, or an error with these words.
    Words(String),
}

/// How gradients flow through an entry.
#[derive(Clone, Debug)]
pub enum Gradient {
    /// Through the operators that a composite body calls.
    Implicit,
    /// `non_differentiable: true`: no output requires a gradient.
    None,
    /// A node with formulas.
    Node(Derivatives),
    /// One node of this name for a functional call over lists, of what the operators of each tensor record; in-place forms
    /// leave those as they are.
    Each(String),
}

/// The `derivatives:` map.
#[derive(Clone, Debug)]
pub struct Derivatives {
    /// The node's name, `AddBackward0`.
    pub grad_fn: String,
    /// The formulas, in the order of the file.
    pub formulas: Vec<Formula>,
    /// Inputs marked `non_differentiable`.
    pub non_differentiable: Vec<String>,
    /// Inputs marked `not_implemented`: backward through them is an error.
    pub not_implemented: Vec<String>,
    /// Which outputs can require a gradient; absent: every floating or complex tensor among them.
    pub output_differentiability: Option<Vec<bool>>,
}

/// One formula: `self: grad * other`, or `self, weight: linear_backward(grad, ..)` for several inputs at once.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The inputs whose gradients it gives.
    pub inputs: Vec<String>,
    /// The Rust expression.
    pub text: String,
    /// Its line.
    pub line: usize,
}

impl Entry {
    /// The in-place form, where there is one.
    pub fn in_place(&self) -> Option<&Operator> {
        self.operators.iter().find(|op| op.form == Form::InPlace)
    }

    /// The out forms.
    pub fn outs(&self) -> impl Iterator<Item = &Operator> {
        self.operators.iter().filter(|op| op.form == Form::Out)
    }

    /// This entry as autograd sees it: an in-place form with a node of its own is an entry of its own.
    pub fn for_autograd(&self) -> Vec<Entry> {
        let (Some(derivatives), Some(in_place)) = (&self.in_place_gradient, self.in_place()) else {
            return vec![self.clone()];
        };
        let mut rest = self.clone();
        rest.operators.retain(|op| op.form != Form::InPlace);
        let own = Entry {
            schema: in_place.schema.clone(),
            stem: in_place.stem.clone(),
            operators: vec![in_place.clone()],
            gradient: Gradient::Node(derivatives.clone()),
            in_place_gradient: None,
            ..self.clone()
        };
        vec![rest, own]
    }

    /// True for entries with one body for every backend.
    pub fn is_composite(&self) -> bool {
        matches!(self.kind, Kind::CompositeExplicit | Kind::CompositeImplicit)
    }
}
