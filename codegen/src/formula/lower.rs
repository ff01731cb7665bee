//! From a formula's syntax tree to statements.

use std::mem;

use syn::{Expr, Lit, UnOp};

use super::saved::PARTS;
use super::value::{Form, Kind, Shape, Value, of_type};
use super::{Lowered, Scope, Source, Use, What};
use crate::names;
use crate::schema::Schema;

pub(super) type Result<T> = std::result::Result<T, String>;

/// Lowers a whole formula.
pub fn formula(scope: &Scope<'_>, expr: &Expr, inputs: usize) -> Result<Lowered> {
    let mut lowerer = Lowerer { scope, out: Lowered::default(), head: Vec::new(), temporaries: 0 };
    let value = lowerer.expr(expr)?;
    let mut out = lowerer.out;
    out.results = match &value {
        Value::Tuple(items) if inputs > 1 => {
            if items.len() != inputs {
                return Err(format!("{} gradients for {inputs} inputs", items.len()));
            }
            items.iter().map(gradient).collect::<Result<_>>()?
        }
        value => vec![gradient(value)?],
    };
    let body = mem::replace(&mut out.statements, lowerer.head);
    out.statements.extend(body);
    Ok(out)
}

fn gradient(value: &Value) -> Result<String> {
    match value.single() {
        Some(Kind::Tensor) | None => value.as_result(),
        Some(_) => Err(format!("a gradient must be a tensor, not {}", value.describe())),
    }
}

/// A formula on its way down.
pub(super) struct Lowerer<'a> {
    scope: &'a Scope<'a>,
    out: Lowered,
    /// Statements that come first: unpacked tensors, gradients made zeros.
    head: Vec<String>,
    temporaries: usize,
}

/// What a name of the scope stands for.
struct Named<'a> {
    name: String,
    source: Source,
    ty: &'a crate::schema::Type,
}

impl<'a> Lowerer<'a> {
    fn expr(&mut self, expr: &Expr) -> Result<Value> {
        match expr {
            Expr::Paren(inner) => self.expr(&inner.expr),
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Lit(lit) => literal(&lit.lit),
            Expr::Path(path) => match path.path.get_ident() {
                Some(ident) => self.name(&ident.to_string()),
                None => Err("a path is no value".into()),
            },
            Expr::Unary(unary) => {
                let value = self.expr(&unary.expr)?;
                match unary.op {
                    UnOp::Neg(_) => self.negate(value),
                    UnOp::Not(_) => self.not(value),
                    _ => Err("the only unary operators are - and !".into()),
                }
            }
            Expr::Binary(binary) => {
                let (a, b) = (self.expr(&binary.left)?, self.expr(&binary.right)?);
                self.binary(&binary.op, a, b)
            }
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::If(branch) => self.branch(branch),
            Expr::Array(array) => Ok(Value::Array(self.all(&array.elems)?)),
            Expr::Tuple(tuple) => Ok(Value::Tuple(self.all(&tuple.elems)?)),
            Expr::Index(index) => match (self.expr(&index.expr)?, self.expr(&index.index)?) {
                (Value::Grads, Value::Typed { code, kind: Kind::Int, form: Form::Literal, .. }) => {
                    self.gradient(code.parse().map_err(|_| format!("bad index '{code}'"))?)
                }
                _ => Err("only `grads[0]` can be indexed".into()),
            },
            Expr::Field(field) => match (self.expr(&field.base)?, &field.member) {
                (Value::Tuple(items), syn::Member::Unnamed(i)) => {
                    items.get(i.index as usize).cloned().ok_or_else(|| format!("no field {}", i.index))
                }
                _ => Err("only the results of an operator have fields: `.0`".into()),
            },
            _ => Err("this is no expression of the formula language".into()),
        }
    }

    fn all<'e>(&mut self, items: impl IntoIterator<Item = &'e Expr>) -> Result<Vec<Value>> {
        items.into_iter().map(|item| self.expr(item)).collect()
    }

    // Names.

    fn find(&self, name: &str) -> Option<Named<'a>> {
        let schema = self.scope.schema;
        if let Some(i) = schema.args.iter().position(|arg| arg.name == name) {
            let arg = &schema.args[i];
            return Some(Named { name: names::arg_name(arg), source: Source::Argument(i), ty: &arg.ty });
        }
        let number = match name.strip_prefix("result") {
            Some("") if schema.returns.len() == 1 => Some(0),
            Some(digits) => digits.parse().ok(),
            None => schema.returns.iter().position(|ret| ret.name.as_deref() == Some(name)),
        };
        let ret = schema.returns.get(number?)?;
        Some(Named { name: name.to_string(), source: Source::Result(number?), ty: &ret.ty })
    }

    fn name(&mut self, name: &str) -> Result<Value> {
        match name {
            "grad" => {
                return match self.scope.gradients() {
                    Some(1) => {
                        self.out.uses_grad = true;
                        Ok(Value::one("grad", Kind::Tensor, Form::Ref))
                    }
                    Some(count) => Err(format!(
                        "'grad' is ambiguous: {count} outputs are differentiable; name grads[i], or set output_differentiability"
                    )),
                    None => Err("the operator returns a list: name `grads`".into()),
                };
            }
            "grads" => return Ok(Value::Grads),
            "None" => return Ok(Value::None),
            "grad_input_mask" => {
                let flag = |code: &String| Value::one(code.as_str(), Kind::Bool, Form::Plain);
                return Ok(Value::Array(self.scope.mask.iter().map(flag).collect()));
            }
            _ => {}
        }
        if let Some(output) = name.strip_prefix("grad_")
            && self.find(name).is_none()
            && let Some(i) = self.scope.schema.returns.iter().position(|ret| ret.name.as_deref() == Some(output))
        {
            if !self.scope.differentiable[i] {
                return Err(format!("output '{output}' is not differentiable"));
            }
            return self.gradient(self.scope.differentiable[..i].iter().filter(|on| **on).count());
        }
        let Some(named) = self.find(name) else { return Err(self.unknown(name)) };
        let (kind, shape) = of_type(named.ty)?;
        let field = self.save(&named, What::Whole)?;
        if kind != Kind::Tensor {
            let copy = !matches!(kind, Kind::Str | Kind::Generator)
                && matches!(shape, Shape::One | Shape::Optional | Shape::Array(_));
            let form = if copy { Form::Plain } else { Form::Owned };
            return Ok(Value::Typed { code: format!("self.{field}"), kind, shape, form });
        }
        let local = local_name(&field);
        let unpack = if matches!(shape, Shape::Optional | Shape::OptionalItems) { "unpack_opt" } else { "unpack" };
        self.first(format!("let {local} = self.{field}.{unpack}(node)?;"));
        Ok(Value::Typed { code: local, kind, shape, form: Form::Owned })
    }

    fn unknown(&self, name: &str) -> String {
        let args = self.scope.schema.args.iter().map(|arg| arg.name.as_str());
        let returns = self.scope.schema.returns.iter().filter_map(|ret| ret.name.as_deref());
        let known: Vec<&str> = args.chain(returns).collect();
        format!("unknown name '{name}' (known: grad, grads, result, {})", known.join(", "))
    }

    fn gradient(&mut self, i: usize) -> Result<Value> {
        match self.scope.gradients() {
            Some(1) if i == 0 => self.name("grad"),
            Some(count) if i >= count => Err(format!("grads[{i}]: only {count} outputs are differentiable")),
            _ => Ok(Value::Grad(i)),
        }
    }

    /// Notes a field and returns its name.
    fn save(&mut self, named: &Named<'_>, what: What) -> Result<String> {
        let (kind, shape) = of_type(named.ty)?;
        let new = Use::new(&named.name, named.source, what, kind, shape);
        let field = new.field.clone();
        if !self.out.uses.contains(&new) {
            self.out.uses.push(new);
        }
        Ok(names::ident(&field).to_string())
    }

    fn first(&mut self, statement: String) {
        self.out.uses_node = true;
        if !self.head.contains(&statement) {
            self.head.push(statement);
        }
    }

    /// A `let` of a fallible expression.
    fn step(&mut self, code: &str) -> String {
        let name = format!("t{}", self.temporaries);
        self.temporaries += 1;
        self.out.statements.push(format!("let {name} = {code};"));
        name
    }

    // Operators and functions.

    /// A call of an operator: the first overload that fits.
    pub(super) fn operator(&mut self, name: &str, args: &[Value]) -> Result<Value> {
        let candidates = self.scope.operators.candidates(name);
        if candidates.is_empty() {
            return Err(format!("no operator '{name}'"));
        }
        // Numbers become tensors only where no overload takes them as they are.
        for (wrap, (stem, schema)) in [false, true].iter().flat_map(|wrap| candidates.iter().map(move |c| (*wrap, c))) {
            if let Some((codes, zeros)) = fit(schema, args, wrap) {
                for i in zeros {
                    self.first(format!("let grad_{i} = grads.or_zeros({i}, node)?;"));
                }
                let t = self.step(&format!("ops::{}({})?", names::ident(stem), codes.join(", ")));
                return returned(schema, &t);
            }
        }
        let given: Vec<String> = args.iter().map(Value::describe).collect();
        let tried: Vec<String> = candidates.iter().map(|(_, schema)| schema.to_string()).collect();
        Err(format!("no overload of '{name}' takes ({}): there is {}", given.join(", "), tried.join("; ")))
    }

    fn function(&mut self, path: &str, args: &[Value]) -> Result<Value> {
        let codes: Vec<String> = args.iter().map(Value::as_argument).collect::<Result<_>>()?;
        let t = self.step(&format!("{path}({})?", codes.join(", ")));
        Ok(match path.split("::").nth(1) {
            Some("scalar") => Value::one(t, Kind::Scalar, Form::Plain),
            Some("dims") => Value::Typed { code: t, kind: Kind::Int, shape: Shape::List, form: Form::Owned },
            _ => Value::tensor(t),
        })
    }

    fn call(&mut self, call: &syn::ExprCall) -> Result<Value> {
        let Expr::Path(path) = &*call.func else { return Err("only names can be called".into()) };
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let args = self.all(&call.args)?;
        match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["Some"] => match <[Value; 1]>::try_from(args) {
                Ok([value]) => Ok(Value::Some(Box::new(value))),
                Err(_) => Err("Some(..) takes one value".into()),
            },
            [name] if name.ends_with('_') => Err(format!("'{name}': formulas call no in-place operators")),
            [name] if self.scope.operators.candidates(name).is_empty() => {
                self.function(&format!("formulas::{name}"), &args)
            }
            [name] => self.operator(name, &args),
            ["formulas", name] => self.function(&format!("formulas::{name}"), &args),
            [module @ ("scalar" | "dims"), name] => self.function(&format!("formulas::{module}::{name}"), &args),
            _ => Err(format!("unknown function '{}'", segments.join("::"))),
        }
    }

    fn method(&mut self, call: &syn::ExprMethodCall) -> Result<Value> {
        let method = call.method.to_string();
        let args = self.all(&call.args)?;
        // A part of an argument or result is saved in place of the whole.
        if let Expr::Path(path) = &*call.receiver
            && let Some(ident) = path.path.get_ident()
            && let Some(named) =
                self.find(&ident.to_string()).filter(|named| named.ty.is_tensor_like() && ident != "grad")
            && let Some(value) = self.part(&named, &method, &args)?
        {
            return Ok(value);
        }
        let receiver = self.expr(&call.receiver)?;
        if let Some(value) = self.property(&receiver, &method, &args)? {
            return Ok(value);
        }
        if !receiver.is_tensor() && self.scope.operators.candidates(&method).is_empty() {
            return Err(format!("{} has no method '{method}'", receiver.describe()));
        }
        if method == "conj" && receiver.single() == Some(Kind::Tensor) {
            return self.function("formulas::conj", &[receiver]);
        }
        let mut all = vec![receiver];
        all.extend(args);
        self.operator(&method, &all)
    }

    /// `x.sizes()` and the like of an argument or result.
    fn part(&mut self, named: &Named<'_>, method: &str, args: &[Value]) -> Result<Option<Value>> {
        let (_, shape) = of_type(named.ty)?;
        let plain = |code: String, kind| Value::one(code, kind, Form::Plain);
        match (method, args, shape) {
            ("is_some", [], Shape::Optional) => {
                return Ok(Some(plain(format!("self.{}", self.save(named, What::IsSome)?), Kind::Bool)));
            }
            ("sizes", [], Shape::Optional) => {
                let code = format!("self.{}", self.save(named, What::Sizes)?);
                return Ok(Some(Value::Typed { code, kind: Kind::Int, shape: Shape::OptionalList, form: Form::Owned }));
            }
            ("len", [], Shape::List | Shape::OptionalItems) => {
                return Ok(Some(plain(format!("self.{}", self.save(named, What::Len)?), Kind::Int)));
            }
            ("sizes" | "dtype", [], Shape::List) => {
                let what = if method == "sizes" { What::Sizes } else { What::DType };
                return Ok(Some(Value::PerTensor(format!("self.{}", self.save(named, what)?))));
            }
            ("is_complex" | "is_floating_point", [], Shape::One) => {
                let dtype = self.save(named, What::DType)?;
                return Ok(Some(plain(format!("self.{dtype}.{method}()"), Kind::Bool)));
            }
            ("size", [dim], Shape::One) => {
                let Value::Typed { code, kind: Kind::Int, shape: Shape::One, form } = dim else {
                    return Err("size(..) takes an integer".into());
                };
                if *form == Form::Literal {
                    let dim = code.parse().map_err(|_| format!("bad dimension '{code}'"))?;
                    return Ok(Some(plain(format!("self.{}", self.save(named, What::Size(dim))?), Kind::Int)));
                }
                let sizes = self.save(named, What::Sizes)?;
                let t = self.step(&format!("formulas::size(&self.{sizes}, {code})?"));
                return Ok(Some(plain(t, Kind::Int)));
            }
            _ => {}
        }
        let Some((_, what, kind, part_shape)) = PARTS.iter().find(|part| part.0 == method && args.is_empty()) else {
            return Ok(None);
        };
        if shape != Shape::One {
            return Err(format!("'{}' is {}: it has no {method}()", named.name, named.ty));
        }
        let code = format!("self.{}", self.save(named, *what)?);
        Ok(Some(match what {
            What::Options => Value::Options(code),
            What::Sizes | What::Strides => Value::Typed { code, kind: *kind, shape: *part_shape, form: Form::Owned },
            _ => plain(code, *kind),
        }))
    }

    /// Methods of values that are no operators.
    fn property(&mut self, value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>> {
        let plain = |code: String, kind| Ok(Some(Value::one(code, kind, Form::Plain)));
        if let (Value::Grad(i), "is_some", []) = (value, method, args) {
            return plain(format!("grads.at({i}).is_some()"), Kind::Bool);
        }
        let Value::Typed { code, kind, shape, .. } = value else { return Ok(None) };
        match (kind, shape, method, args) {
            (Kind::Tensor, Shape::One, "sizes" | "strides", []) => Ok(Some(Value::Typed {
                code: format!("{code}.{method}()"),
                kind: Kind::Int,
                shape: Shape::List,
                form: Form::Ref,
            })),
            (Kind::Tensor, Shape::One, "dtype", []) => plain(format!("{code}.dtype()"), Kind::DType),
            (Kind::Tensor, Shape::One, "device", []) => plain(format!("{code}.device()"), Kind::Device),
            (Kind::Tensor, Shape::One, "dim", []) => plain(format!("({code}.dim() as i64)"), Kind::Int),
            (Kind::Tensor, Shape::One, "numel", []) => plain(format!("{code}.numel()"), Kind::Int),
            (Kind::Tensor, Shape::One, "options", []) => {
                Ok(Some(Value::Options(format!("Options::of({})", reference(value)))))
            }
            (Kind::Tensor, Shape::One, "size", [dim]) if dim.single() == Some(Kind::Int) => {
                plain(format!("{code}.size({})?", dim.code()), Kind::Int)
            }
            (Kind::Tensor, Shape::One, "is_complex" | "is_floating_point", []) => {
                plain(format!("{code}.{method}()"), Kind::Bool)
            }
            (Kind::DType, Shape::One, "is_complex" | "is_floating_point", []) => {
                plain(format!("{code}.{method}()"), Kind::Bool)
            }
            (Kind::DType, Shape::One, "to_real" | "to_complex", []) => plain(format!("{code}.{method}()"), Kind::DType),
            (Kind::Scalar, Shape::One, "conj", []) => plain(format!("{code}.conj()"), Kind::Scalar),
            (Kind::Scalar, Shape::One, "to_f64", []) => plain(format!("{code}.to_f64()"), Kind::Float),
            (Kind::Scalar, Shape::One, "to_i64", []) => plain(format!("{code}.to_i64()"), Kind::Int),
            (Kind::Scalar, Shape::One, "to_bool" | "is_complex", []) => plain(format!("{code}.{method}()"), Kind::Bool),
            (Kind::Int | Kind::Float, Shape::List, "len", []) => plain(format!("({code}.len() as i64)"), Kind::Int),
            (_, Shape::Optional | Shape::OptionalList, "is_some" | "is_none", []) => {
                plain(format!("{code}.{method}()"), Kind::Bool)
            }
            (kind, Shape::Optional, "unwrap_or", [other])
                if !matches!(kind, Kind::Tensor | Kind::Str | Kind::Generator) =>
            {
                let other = Value::as_parameter(&Value::Some(Box::new(other.clone())), *kind, Shape::Optional)
                    .and_then(|some| Some(some.strip_prefix("Some(")?.strip_suffix(')')?.to_string()))
                    .ok_or_else(|| format!("unwrap_or: {} is no {kind:?}", other.describe()))?;
                plain(format!("{code}.unwrap_or({other})"), *kind)
            }
            _ => Ok(None),
        }
    }

    fn branch(&mut self, branch: &syn::ExprIf) -> Result<Value> {
        let condition = self.expr(&branch.cond)?;
        if condition.single() != Some(Kind::Bool) {
            return Err(format!("the condition of `if` is {}, not a bool", condition.describe()));
        }
        let Some((_, otherwise)) = &branch.else_branch else { return Err("`if` needs an `else`".into()) };
        let outer = mem::take(&mut self.out.statements);
        let yes = self.block(&branch.then_branch)?;
        let yes_steps = mem::take(&mut self.out.statements);
        let no = match &**otherwise {
            Expr::Block(block) => self.block(&block.block)?,
            other => self.expr(other)?,
        };
        let no_steps = mem::replace(&mut self.out.statements, outer);
        let kind = match (yes.single(), no.single()) {
            (Some(a), Some(b)) if a == b => a,
            (Some(a), Some(b)) if a != Kind::Tensor && b != Kind::Tensor => {
                return Err(format!("the branches of `if` differ: {} and {}", yes.describe(), no.describe()));
            }
            _ => Kind::Tensor,
        };
        let (yes, no) = (yes.as_result()?, no.as_result()?);
        let code = format!(
            "if {} {{ {} {yes} }} else {{ {} {no} }}",
            condition.code(),
            yes_steps.join(" "),
            no_steps.join(" ")
        );
        let t = self.step(&code);
        Ok(Value::one(t, kind, if kind == Kind::Tensor { Form::Owned } else { Form::Plain }))
    }

    fn block(&mut self, block: &syn::Block) -> Result<Value> {
        match block.stmts.as_slice() {
            [syn::Stmt::Expr(expr, None)] => self.expr(expr),
            _ => Err("a branch is one expression".into()),
        }
    }
}

fn reference(value: &Value) -> String {
    match value {
        Value::Typed { code, form: Form::Owned, .. } => format!("&{code}"),
        other => other.code().to_string(),
    }
}

/// A field's name as a local one, apart from those that `apply` has.
fn local_name(field: &str) -> String {
    let temporary = field.strip_prefix('t').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    if temporary || matches!(field, "grad" | "grads" | "out" | "need" | "node") {
        format!("{field}_")
    } else {
        field.into()
    }
}

fn literal(lit: &Lit) -> Result<Value> {
    Ok(match lit {
        Lit::Int(int) if int.suffix().is_empty() => Value::one(int.base10_digits(), Kind::Int, Form::Literal),
        Lit::Float(float) if float.suffix().is_empty() => Value::one(float.base10_digits(), Kind::Float, Form::Literal),
        Lit::Bool(flag) => Value::one(flag.value.to_string(), Kind::Bool, Form::Plain),
        Lit::Str(text) => Value::one(format!("{:?}", text.value()), Kind::Str, Form::Literal),
        _ => return Err("a literal is a plain number, true, false or a string".into()),
    })
}

/// The arguments of a call in schema order, with defaults, and the gradients that must be made zeros; `None` if they do
/// not fit. With `wrap`, numbers fit tensors.
fn fit(schema: &Schema, args: &[Value], wrap: bool) -> Option<(Vec<String>, Vec<usize>)> {
    const OPTIONS: [&str; 4] = ["dtype", "layout", "device", "pin_memory"];
    let (mut codes, mut zeros) = (Vec::new(), Vec::new());
    let mut given = args.iter();
    let mut options: Option<&str> = None;
    for param in &schema.args {
        let (kind, shape) = of_type(&param.ty).ok()?;
        if let (Some(code), Some(at)) = (options, OPTIONS.iter().position(|name| *name == param.name)) {
            codes.push(if at == 3 { "None".into() } else { format!("Some({code}.{})", param.name) });
            continue;
        }
        match given.next() {
            Some(Value::Options(code)) if param.name == OPTIONS[0] => {
                options = Some(code);
                codes.push(format!("Some({code}.dtype)"));
            }
            Some(Value::Grad(i)) if (kind, shape) == (Kind::Tensor, Shape::One) => {
                codes.push(format!("&grad_{i}"));
                zeros.push(*i);
            }
            Some(value) if wrap && value.is_number() && (kind, shape) == (Kind::Tensor, Shape::One) => {
                codes.push(format!("&Tensor::wrapped_number({})?", value.code()));
            }
            Some(value) => codes.push(value.as_parameter(kind, shape)?),
            None => codes.push(crate::types::default_value(param)?.to_string()),
        }
    }
    given.next().is_none().then_some((codes, zeros))
}

/// What a call of an operator yields, held in `t`.
fn returned(schema: &Schema, t: &str) -> Result<Value> {
    let value = |code: String, ty| {
        let (kind, shape) = of_type(ty)?;
        let shape = if schema.masks_results() && shape == Shape::One { Shape::Optional } else { shape };
        let form = if kind == Kind::Tensor || shape != Shape::One { Form::Owned } else { Form::Plain };
        Ok(Value::Typed { code, kind, shape, form })
    };
    match schema.returns.as_slice() {
        [one] => value(t.to_string(), &one.ty),
        many => {
            let items = many.iter().enumerate().map(|(i, ret)| value(format!("{t}.{i}"), &ret.ty));
            Ok(Value::Tuple(items.collect::<Result<_>>()?))
        }
    }
}
