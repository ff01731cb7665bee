//! Values of formulas: what a piece of lowered text is, and how it is handed to a parameter.

use crate::schema::{Base, Type};

/// What a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Tensor,
    Int,
    Float,
    Bool,
    Scalar,
    Str,
    DType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
}

/// One, none or many of a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `Tensor`
    One,
    /// `Tensor?`
    Optional,
    /// `Tensor[]`
    List,
    /// `Tensor?[]`
    OptionalItems,
    /// `int[]?`
    OptionalList,
    /// `bool[3]`
    Array(usize),
}

/// Kind and shape of a schema's type.
///
/// # Errors
/// For types that no formula can handle.
pub fn of_type(ty: &Type) -> Result<(Kind, Shape), String> {
    let kind = match ty.base {
        Base::Tensor => Kind::Tensor,
        Base::Int | Base::SymInt | Base::DeviceIndex => Kind::Int,
        Base::Float => Kind::Float,
        Base::Bool | Base::SymBool => Kind::Bool,
        Base::Str => Kind::Str,
        Base::Scalar => Kind::Scalar,
        Base::ScalarType => Kind::DType,
        Base::Layout => Kind::Layout,
        Base::Device => Kind::Device,
        Base::MemoryFormat => Kind::MemoryFormat,
        Base::Generator => Kind::Generator,
        Base::Storage | Base::Stream | Base::QScheme => return Err(format!("type '{ty}' has no place in a formula")),
    };
    let shape = match (ty.list, ty.optional) {
        (Some(_), true) => Shape::OptionalList,
        (Some(_), false) if ty.optional_items => Shape::OptionalItems,
        (Some(Some(size)), false) if kind == Kind::Bool => Shape::Array(size),
        (Some(_), false) => Shape::List,
        (None, true) => Shape::Optional,
        (None, false) => Shape::One,
    };
    Ok((kind, shape))
}

/// How the text of a [`Value::Typed`] stands for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// a place that owns it: `t0`, `self.dim`
    Owned,
    /// a reference, or an `Option` of one: `grad`
    Ref,
    /// an expression of a `Copy` type
    Plain,
    /// a number or string as it was written
    Literal,
}

/// What an expression was lowered to.
#[derive(Clone, Debug)]
pub enum Value {
    /// One Rust expression.
    Typed {
        /// its text, safe to put a method call behind
        code: String,
        /// what it is
        kind: Kind,
        /// how many
        shape: Shape,
        /// how it is held
        form: Form,
    },
    /// `[a, b]`
    Array(Vec<Value>),
    /// `(a, b)`
    Tuple(Vec<Value>),
    /// `None`
    None,
    /// `Some(x)`
    Some(Box<Value>),
    /// all gradients
    Grads,
    /// the i-th gradient, which may be undefined
    Grad(usize),
    /// dtype, layout and device together
    Options(String),
    /// the sizes, or dtypes, of a list of tensors: a place
    PerTensor(String),
}

impl Value {
    /// One value of a kind.
    pub fn one(code: impl Into<String>, kind: Kind, form: Form) -> Self {
        Self::Typed { code: code.into(), kind, shape: Shape::One, form }
    }

    /// A tensor in a local variable.
    pub fn tensor(code: impl Into<String>) -> Self {
        Self::one(code, Kind::Tensor, Form::Owned)
    }

    /// The kind of a single value.
    pub fn single(&self) -> Option<Kind> {
        match self {
            Self::Typed { kind, shape: Shape::One, .. } => Some(*kind),
            _ => None,
        }
    }

    /// The text of a single value.
    pub fn code(&self) -> &str {
        match self {
            Self::Typed { code, .. } => code,
            _ => "",
        }
    }

    /// True for a tensor, or a gradient that can be made one.
    pub fn is_tensor(&self) -> bool {
        matches!(self, Self::Grad(_)) || self.single() == Some(Kind::Tensor)
    }

    /// True for an integer, real number or `Scalar`.
    pub fn is_number(&self) -> bool {
        matches!(self.single(), Some(Kind::Int | Kind::Float | Kind::Scalar))
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Typed { kind, shape, .. } => {
                let suffix = match shape {
                    Shape::One => "",
                    Shape::Optional => "?",
                    Shape::List | Shape::Array(_) => "[]",
                    Shape::OptionalItems => "?[]",
                    Shape::OptionalList => "[]?",
                };
                format!("{kind:?}{suffix}")
            }
            Self::Array(_) => "array".into(),
            Self::Tuple(_) => "tuple".into(),
            Self::None => "None".into(),
            Self::Some(value) => format!("Some({})", value.describe()),
            Self::Grads => "all gradients".into(),
            Self::Grad(i) => format!("gradient {i}"),
            Self::Options(_) => "options".into(),
            Self::PerTensor(_) => "list of sizes or dtypes".into(),
        }
    }

    /// As an operator's parameter, or `None` if it does not fit. A gradient that must be defined was made so before.
    pub fn as_parameter(&self, kind: Kind, shape: Shape) -> Option<String> {
        match (self, shape) {
            (Self::None, Shape::Optional | Shape::OptionalList) => Some("None".into()),
            (Self::Some(value), Shape::Optional) => value.as_item(kind).map(|code| format!("Some({code})")),
            (Self::Some(value), Shape::OptionalList) => {
                value.as_parameter(kind, Shape::List).map(|code| format!("Some({code})"))
            }
            (Self::Grad(i), Shape::Optional) if kind == Kind::Tensor => Some(format!("grads.at({i})")),
            (Self::Array(items), Shape::List | Shape::Array(_) | Shape::OptionalItems) => {
                let optional = shape == Shape::OptionalItems;
                let items: Option<Vec<String>> = items
                    .iter()
                    .map(|item| if optional { item.as_parameter(kind, Shape::Optional) } else { item.as_item(kind) })
                    .collect();
                let list = items?.join(", ");
                Some(if matches!(shape, Shape::Array(_)) { format!("[{list}]") } else { format!("&[{list}]") })
            }
            (Self::Array(_), Shape::OptionalList) => {
                self.as_parameter(kind, Shape::List).map(|code| format!("Some({code})"))
            }
            (Self::Typed { shape: Shape::One, kind: Kind::Int, code, .. }, Shape::List) if kind == Kind::Int => {
                Some(format!("&[{code}]"))
            }
            (Self::Typed { shape: Shape::One, kind: Kind::Int, code, .. }, Shape::OptionalList)
                if kind == Kind::Int =>
            {
                Some(format!("Some(&[{code}])"))
            }
            (Self::Typed { shape: Shape::One, .. }, Shape::One) => match kind {
                // `impl Into<Scalar>` takes any number as it is.
                Kind::Scalar if self.is_number() || self.single() == Some(Kind::Bool) => Some(self.code().into()),
                _ => self.as_item(kind),
            },
            (Self::Typed { shape: Shape::One, .. }, Shape::Optional) => {
                self.as_item(kind).map(|code| format!("Some({code})"))
            }
            (Self::Typed { kind: own, shape: from, .. }, to) if *own == kind && *from == to => Some(self.as_held(true)),
            (Self::Typed { kind: own, shape: Shape::List, code, .. }, Shape::OptionalList)
                if *own == kind && kind != Kind::Tensor =>
            {
                Some(format!("Some(&{code}[..])"))
            }
            _ => None,
        }
    }

    /// As one value of a kind inside `Some(..)` or `[..]`.
    fn as_item(&self, kind: Kind) -> Option<String> {
        let Self::Typed { code, kind: own, shape: Shape::One, form } = self else { return None };
        Some(match (*own, kind) {
            (Kind::Int, Kind::Float) if *form == Form::Literal => format!("{code}.0"),
            (Kind::Int, Kind::Float) => format!("({code} as f64)"),
            (Kind::Scalar, Kind::Float) => format!("{code}.to_f64()"),
            (Kind::Int | Kind::Float | Kind::Bool, Kind::Scalar) => format!("Scalar::from({code})"),
            (own, kind) if own == kind => self.as_held(true),
            _ => return None,
        })
    }

    /// As it is held, borrowed as far as needed. Operators take `&[&Tensor]`, formulas `&[Tensor]`.
    fn as_held(&self, operator: bool) -> String {
        let Self::Typed { code, kind, shape, form } = self else { return String::new() };
        match (form, shape, kind) {
            (Form::Plain | Form::Literal | Form::Ref, ..) => code.clone(),
            (Form::Owned, Shape::List, Kind::Tensor) if operator => format!("&formulas::refs(&{code})"),
            (Form::Owned, Shape::OptionalItems, Kind::Tensor) if operator => format!("&formulas::refs_opt(&{code})"),
            (Form::Owned, Shape::Optional, Kind::Str) | (Form::Owned, Shape::OptionalList, _) => {
                format!("{code}.as_deref()")
            }
            (Form::Owned, Shape::Optional, _) => format!("{code}.as_ref()"),
            (Form::Owned, ..) => format!("&{code}"),
        }
    }

    /// As an argument of a function of `autograd::formulas`, whose parameters are not known here.
    pub fn as_argument(&self) -> Result<String, String> {
        Ok(match self {
            Self::Typed { .. } => self.as_held(false),
            Self::Array(items) if items.iter().all(|item| item.single() == Some(Kind::Bool)) => {
                format!("[{}]", items.iter().map(Self::code).collect::<Vec<_>>().join(", "))
            }
            Self::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(Self::as_result).collect();
                format!("&[{}]", items?.join(", "))
            }
            Self::None => "None".into(),
            Self::Some(value) => format!("Some({})", value.as_argument()?),
            Self::Grads => "&grads".into(),
            Self::Grad(i) => format!("grads.at({i})"),
            Self::Options(code) | Self::PerTensor(code) => format!("&{code}"),
            Self::Tuple(_) => return Err("a tuple cannot be an argument".into()),
        })
    }

    /// As an owned value: the end of a formula or of a branch.
    pub fn as_result(&self) -> Result<String, String> {
        Ok(match self {
            Self::Typed { code, form: Form::Owned, .. } if is_temporary(code) => code.clone(),
            Self::Typed { code, form: Form::Ref, shape: Shape::Optional, .. } => format!("{code}.cloned()"),
            Self::Typed { code, form: Form::Owned | Form::Ref, .. } => format!("{code}.clone()"),
            Self::Typed { code, .. } => code.clone(),
            Self::None => "None".into(),
            Self::Some(value) => format!("Some({})", value.as_result()?),
            Self::Grad(i) => format!("grads.at({i}).cloned()"),
            Self::Grads => "grads".into(),
            Self::Tuple(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(Self::as_result).collect();
                format!("({})", items?.join(", "))
            }
            Self::Array(_) | Self::Options(_) | Self::PerTensor(_) => {
                return Err(format!("{} is no gradient", self.describe()));
            }
        })
    }
}

/// True for the `let`s that lowering makes, and for fields of them: each is read by one step only, so it can be moved.
fn is_temporary(code: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    code.strip_prefix('t').is_some_and(|rest| rest.split('.').all(number))
}
