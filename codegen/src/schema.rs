//! Upstream's schema strings: `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
//!
//! Parsing, printing (byte for byte), and the rules that derive an overload's in-place and out schemas. What the types
//! become in Rust is in [`crate::types`].

use std::fmt;

/// A type's base name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Base {
    Tensor,
    Int,
    SymInt,
    Float,
    Bool,
    SymBool,
    Str,
    Scalar,
    ScalarType,
    Layout,
    Device,
    DeviceIndex,
    MemoryFormat,
    Generator,
    Storage,
    Stream,
    QScheme,
}

const BASES: [(Base, &str); 17] = [
    (Base::Tensor, "Tensor"),
    (Base::Int, "int"),
    (Base::SymInt, "SymInt"),
    (Base::Float, "float"),
    (Base::Bool, "bool"),
    (Base::SymBool, "SymBool"),
    (Base::Str, "str"),
    (Base::Scalar, "Scalar"),
    (Base::ScalarType, "ScalarType"),
    (Base::Layout, "Layout"),
    (Base::Device, "Device"),
    (Base::DeviceIndex, "DeviceIndex"),
    (Base::MemoryFormat, "MemoryFormat"),
    (Base::Generator, "Generator"),
    (Base::Storage, "Storage"),
    (Base::Stream, "Stream"),
    (Base::QScheme, "QScheme"),
];

/// `(a)`, `(a!)` or `(a -> *)` after a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The letters before `!` or `->`.
    pub set: String,
    /// True for `(a!)`: the operator writes to it.
    pub write: bool,
    /// The letters after `->`.
    pub after: Option<String>,
}

/// A type: base, alias, and list or optional marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The base name.
    pub base: Base,
    /// The alias mark.
    pub alias: Option<Alias>,
    /// `Tensor?[]`: the elements may be absent.
    pub optional_items: bool,
    /// `[]` is `Some(None)`, `[2]` is `Some(Some(2))`.
    pub list: Option<Option<usize>>,
    /// A final `?`.
    pub optional: bool,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its type.
    pub ty: Type,
    /// Its name, as upstream spells it.
    pub name: String,
    /// The text after `=`.
    pub default: Option<String>,
    /// True after `*`.
    pub kw_only: bool,
}

/// A returned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Its type.
    pub ty: Type,
    /// Its name, where it has one.
    pub name: Option<String>,
}

/// A parsed schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The base name, with a trailing `_` for in-place operators.
    pub name: String,
    /// The overload name; empty for the default one.
    pub overload: String,
    /// The arguments.
    pub args: Vec<Arg>,
    /// The returns.
    pub returns: Vec<Return>,
}

/// Which of an operator's forms a schema is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Returns new tensors, views or values.
    Functional,
    /// Writes to `self` and has a trailing `_`.
    InPlace,
    /// Writes to keyword arguments.
    Out,
}

/// Splits at `, ` outside brackets and quotes.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut quoted, mut start) = (Vec::new(), 0, false, 0);
    for (i, c) in text.char_indices() {
        match c {
            '"' | '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() || !parts.is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

impl Type {
    /// A plain tensor.
    pub fn tensor() -> Type {
        Type { base: Base::Tensor, alias: None, optional_items: false, list: None, optional: false }
    }

    /// True for `Tensor`, `Tensor?` and lists of them.
    pub fn is_tensor_like(&self) -> bool {
        self.base == Base::Tensor
    }

    /// True for `(a!)`.
    pub fn is_written(&self) -> bool {
        self.alias.as_ref().is_some_and(|alias| alias.write)
    }

    /// True for `(a)` without a write: the value shares memory with an argument.
    pub fn is_view(&self) -> bool {
        self.alias.as_ref().is_some_and(|alias| !alias.write)
    }

    /// Reads a type.
    pub fn parse(text: &str) -> Result<Type, String> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let Some((base, _)) = BASES.iter().find(|(_, name)| *name == &text[..end]) else {
            return Err(format!("unknown type '{text}'"));
        };
        let mut ty = Type { base: *base, ..Type::tensor() };
        let mut rest = &text[end..];
        if let Some(inner) = rest.strip_prefix('(') {
            let close = inner.find(')').ok_or_else(|| format!("'(' without ')' in type '{text}'"))?;
            let (head, after) = match inner[..close].split_once(" -> ") {
                Some((head, after)) => (head, Some(after.to_string())),
                None => (&inner[..close], None),
            };
            let set = head.strip_suffix('!').unwrap_or(head);
            ty.alias = Some(Alias { set: set.to_string(), write: set.len() != head.len(), after });
            rest = &inner[close + 1..];
        }
        if let Some(items) = rest.strip_prefix("?[") {
            ty.optional_items = true;
            rest = &rest[rest.len() - items.len() - 1..];
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let close = inner.find(']').ok_or_else(|| format!("'[' without ']' in type '{text}'"))?;
            let size = match &inner[..close] {
                "" => None,
                digits => Some(digits.parse().map_err(|_| format!("bad list length in type '{text}'"))?),
            };
            ty.list = Some(size);
            rest = &inner[close + 1..];
        }
        if let Some(tail) = rest.strip_prefix('?') {
            ty.optional = true;
            rest = tail;
        }
        if rest.is_empty() { Ok(ty) } else { Err(format!("cannot read '{rest}' in type '{text}'")) }
    }
}

impl Arg {
    fn parse(text: &str, kw_only: bool) -> Result<Arg, String> {
        let (head, default) = match text.split_once('=') {
            Some((head, default)) => (head, Some(default.to_string())),
            None => (text, None),
        };
        let (ty, name) = head.rsplit_once(' ').ok_or_else(|| format!("argument '{text}' needs a type and a name"))?;
        if !is_identifier(name) {
            return Err(format!("bad argument name '{name}'"));
        }
        Ok(Arg { ty: Type::parse(ty)?, name: name.to_string(), default, kw_only })
    }
}

/// True for a C identifier.
pub fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Schema {
    /// Reads a schema string.
    pub fn parse(text: &str) -> Result<Schema, String> {
        let open = text.find('(').ok_or_else(|| format!("schema '{text}' has no '('"))?;
        let (name, overload) = text[..open].split_once('.').unwrap_or((&text[..open], ""));
        if !is_identifier(name) || !(overload.is_empty() || is_identifier(overload)) || text[..open].ends_with('.') {
            return Err(format!("bad operator name '{}'", &text[..open]));
        }
        let arrow = text.rfind(") -> ").ok_or_else(|| format!("schema '{text}' has no ') -> '"))?;
        // `(Tensor(a -> *) self) -> (Tensor(a), Tensor)`: the arguments end at the bracket that closes the first one.
        let mut depth = 0;
        let close = text[open..]
            .char_indices()
            .find(|(_, c)| {
                depth += i32::from(*c == '(') - i32::from(*c == ')');
                depth == 0
            })
            .map(|(i, _)| open + i)
            .filter(|close| *close <= arrow && text[*close..].starts_with(") -> "))
            .ok_or_else(|| format!("unbalanced brackets in schema '{text}'"))?;
        let (mut args, mut kw_only) = (Vec::new(), false);
        for part in split(&text[open + 1..close]) {
            match part {
                "*" if !kw_only => kw_only = true,
                _ => args.push(Arg::parse(part, kw_only)?),
            }
        }
        let tail = &text[close + 5..];
        let parts = match tail.strip_prefix('(').and_then(|tail| tail.strip_suffix(')')) {
            Some(inner) => split(inner),
            None => vec![tail],
        };
        let returns = parts
            .into_iter()
            .map(|part| {
                // A space inside brackets belongs to `(a -> *)`.
                let from = part.rfind([')', ']']).unwrap_or(0);
                let (ty, name) = match part[from..].find(' ') {
                    Some(i) => (&part[..from + i], Some(part[from + i + 1..].to_string())),
                    None => (part, None),
                };
                Ok(Return { ty: Type::parse(ty)?, name })
            })
            .collect::<Result<_, String>>()?;
        Ok(Schema { name: name.to_string(), overload: overload.to_string(), args, returns })
    }

    /// `add.Tensor`, or `exp` for a default overload.
    pub fn full_name(&self) -> String {
        if self.overload.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.overload) }
    }

    /// The form that the schema has.
    pub fn form(&self) -> Form {
        let dunder = self.name.starts_with("__") && self.name.ends_with("__");
        let in_place_dunder =
            dunder && self.name.starts_with("__i") && self.args.first().is_some_and(|arg| arg.ty.is_written());
        if self.args.iter().any(|arg| arg.kw_only && arg.ty.is_written()) && !self.name.ends_with('_') {
            Form::Out
        } else if in_place_dunder || (self.name.ends_with('_') && !dunder) {
            Form::InPlace
        } else {
            Form::Functional
        }
    }

    /// The argument of that name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.args.iter().find(|arg| arg.name == name)
    }

    /// The returned values that are no written arguments: those that a kernel gives back.
    pub fn fresh_returns(&self) -> impl Iterator<Item = &Return> {
        self.returns.iter().filter(|ret| !ret.ty.is_written())
    }

    /// True if the operator computes only the results that its `output_mask` asks for: the others are absent.
    pub fn masks_results(&self) -> bool {
        let mask = |arg: &Arg| arg.name == "output_mask" && arg.ty.base == Base::Bool && arg.ty.list.is_some();
        self.args.iter().any(mask)
    }

    /// The written arguments, in order.
    pub fn written_args(&self) -> impl Iterator<Item = &Arg> {
        self.args.iter().filter(|arg| arg.ty.is_written())
    }

    /// True if a result may share memory with an argument that is not written.
    pub fn is_view(&self) -> bool {
        self.returns.iter().any(|ret| ret.ty.is_view())
    }

    /// The in-place schema by rule: `add_.Tensor(Tensor(a!) self, ..) -> Tensor(a!)`.
    pub fn derive_in_place(&self) -> Result<Schema, String> {
        let mut schema = self.clone();
        schema.name.push('_');
        let Some(first) = schema.args.first_mut().filter(|arg| arg.name == "self" && arg.ty.is_tensor_like()) else {
            return Err(format!(
                "{} has no tensor 'self' as first argument: no in-place form by rule",
                self.full_name()
            ));
        };
        first.ty.alias = Some(Alias { set: "a".into(), write: true, after: None });
        if first.ty.list.is_some() {
            schema.returns.clear();
        } else {
            schema.returns = vec![Return { ty: first.ty.clone(), name: None }];
        }
        Ok(schema)
    }

    /// The out schema by rule: `mm.out(.., *, Tensor(a!) out) -> Tensor(a!)`; a default overload gives `out`, `X` gives
    /// `X_out`; the four tensor options of a factory go; several results are named as they are, or `out0`, `out1`.
    pub fn derive_out(&self) -> Result<Schema, String> {
        let mut schema = self.clone();
        schema.overload = if self.overload.is_empty() { "out".into() } else { format!("{}_out", self.overload) };
        const OPTIONS: [&str; 4] = ["dtype", "layout", "device", "pin_memory"];
        if OPTIONS.iter().all(|name| self.arg(name).is_some()) {
            schema.args.retain(|arg| !OPTIONS.contains(&arg.name.as_str()));
        }
        if self.returns.iter().any(|ret| !ret.ty.is_tensor_like()) || self.returns.is_empty() {
            return Err(format!("{} does not return tensors: no out form by rule", self.full_name()));
        }
        let taken = self.args.iter().filter(|arg| arg.ty.alias.is_some()).count();
        for (i, ret) in schema.returns.iter_mut().enumerate() {
            let letter = char::from(b'a' + u8::try_from(taken + i).unwrap_or(0));
            ret.ty.alias = Some(Alias { set: letter.to_string(), write: true, after: None });
            let name = match &ret.name {
                Some(name) => name.clone(),
                None if self.returns.len() == 1 => "out".into(),
                None => format!("out{i}"),
            };
            schema.args.push(Arg { ty: ret.ty.clone(), name, default: None, kw_only: true });
        }
        if schema.returns.iter().any(|ret| ret.ty.list.is_some()) {
            schema.returns.clear();
        }
        Ok(schema)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = BASES.iter().find(|(base, _)| *base == self.base).map_or("", |(_, name)| name);
        f.write_str(name)?;
        if let Some(alias) = &self.alias {
            write!(f, "({}{}", alias.set, if alias.write { "!" } else { "" })?;
            if let Some(after) = &alias.after {
                write!(f, " -> {after}")?;
            }
            f.write_str(")")?;
        }
        if self.optional_items {
            f.write_str("?")?;
        }
        match self.list {
            Some(Some(size)) => write!(f, "[{size}]")?,
            Some(None) => f.write_str("[]")?,
            None => {}
        }
        if self.optional { f.write_str("?") } else { Ok(()) }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.name)?;
        match &self.default {
            Some(default) => write!(f, "={default}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        match &self.name {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.full_name())?;
        let mut kw_only = false;
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            if arg.kw_only && !kw_only {
                f.write_str("*, ")?;
                kw_only = true;
            }
            write!(f, "{arg}")?;
        }
        f.write_str(") -> ")?;
        match self.returns.as_slice() {
            [one] => write!(f, "{one}"),
            many => {
                f.write_str("(")?;
                for (i, ret) in many.iter().enumerate() {
                    write!(f, "{}{ret}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
