//! The keys that decide an entry's gradients. Formulas stay text: [`crate::formula`] reads them.

use super::{Fields, Result};
use crate::model::{Derivatives, Formula, Gradient, Kind, Operator};
use crate::schema::{Form, Schema, is_identifier};
use crate::yaml::{Error, Node};

/// How gradients flow through an entry: `derivatives:`, `non_differentiable:` or neither, for implicit composites.
pub(super) fn gradient(fields: &Fields<'_>, kind: &Kind, schema: &Schema) -> Result<Gradient> {
    let marked = fields.get("non_differentiable").map(Node::boolean).transpose()?.unwrap_or(false);
    let Some(node) = fields.get("derivatives") else {
        return match (kind, marked) {
            (Kind::CompositeImplicit, false) => Ok(Gradient::Implicit),
            (_, true) => Ok(Gradient::None),
            _ => Err(Error::new(
                fields.line,
                format!(
                    "{} has no decided gradient: give `derivatives:`, `non_differentiable: true` or `composite: implicit`",
                    schema.full_name()
                ),
            )),
        };
    };
    if marked || *kind == Kind::CompositeImplicit {
        let why = if marked { "non_differentiable" } else { "composite: implicit" };
        return Err(Error::new(node.line, format!("`derivatives:` contradicts `{why}`")));
    }
    if let Some(name) = each(node, kind, schema)? {
        return Ok(Gradient::Each(name));
    }
    derivatives(node, schema).map(Gradient::Node)
}

/// `derivatives: { grad_fn: NAME, each: true }`: the node of what a composite's operators record, tensor by tensor.
fn each(node: &Node, kind: &Kind, schema: &Schema) -> Result<Option<String>> {
    let Some((_, value)) = node.pairs()?.iter().find(|(key, _)| key.text().is_ok_and(|key| key == "each")) else {
        return Ok(None);
    };
    let grad_fn = node.pairs()?.iter().find(|(key, _)| key.text().is_ok_and(|key| key == "grad_fn"));
    let (true, Some((_, name)), 2) = (value.boolean()?, grad_fn, node.pairs()?.len()) else {
        return Err(Error::new(node.line, "`each: true` stands with `grad_fn:` alone"));
    };
    let list = match schema.form() {
        Form::Functional => schema.returns.len() == 1 && schema.returns[0].ty.list.is_some(),
        Form::InPlace | Form::Out => schema.written_args().all(|arg| arg.ty.list.is_some()),
    };
    if *kind != Kind::CompositeExplicit || !list {
        return Err(Error::new(node.line, "`each: true` is for explicit composites over lists of tensors"));
    }
    Ok(Some(grad_fn_name(name)?))
}

/// A node's name: `MulBackward0`.
fn grad_fn_name(value: &Node) -> Result<String> {
    let name = value.text()?;
    if !name.split("::").all(is_identifier) || !name.contains("Backward") {
        return Err(Error::new(value.line, format!("bad grad_fn '{name}'")));
    }
    Ok(name.to_string())
}

/// `inplace_derivatives:`: the in-place form's own node, where upstream gives it one.
pub(super) fn in_place(fields: &Fields<'_>, kind: &Kind, operators: &[Operator]) -> Result<Option<Derivatives>> {
    let Some(node) = fields.get("inplace_derivatives") else { return Ok(None) };
    if *kind == Kind::CompositeImplicit {
        return Err(Error::new(node.line, "`inplace_derivatives:` contradicts `composite: implicit`"));
    }
    match operators.iter().find(|op| op.form == Form::InPlace) {
        Some(op) => derivatives(node, &op.schema).map(Some),
        None => Err(Error::new(node.line, "`inplace_derivatives:` is given, but no `inplace` variant")),
    }
}

fn derivatives(node: &Node, schema: &Schema) -> Result<Derivatives> {
    let mut result = Derivatives {
        grad_fn: String::new(),
        formulas: Vec::new(),
        non_differentiable: Vec::new(),
        not_implemented: Vec::new(),
        output_differentiability: None,
    };
    let mut seen: Vec<String> = Vec::new();
    for (key, value) in node.pairs()? {
        match key.text()? {
            "grad_fn" => result.grad_fn = grad_fn_name(value)?,
            "output_differentiability" => {
                let flags = value.items()?.iter().map(Node::boolean).collect::<Result<Vec<_>>>()?;
                if flags.len() != schema.returns.len() {
                    return Err(Error::new(value.line, "output_differentiability needs one flag an output"));
                }
                result.output_differentiability = Some(flags);
            }
            inputs => {
                let inputs: Vec<String> = inputs.split(',').map(|name| name.trim().to_string()).collect();
                for name in &inputs {
                    match schema.arg(name) {
                        Some(arg) if arg.ty.is_tensor_like() => {}
                        Some(_) => return Err(Error::new(key.line, format!("'{name}' is no tensor"))),
                        None => return Err(Error::new(key.line, format!("the schema has no input '{name}'"))),
                    }
                    if seen.contains(name) {
                        return Err(Error::new(key.line, format!("'{name}' has two formulas")));
                    }
                    seen.push(name.clone());
                }
                match value.text()? {
                    "non_differentiable" => result.non_differentiable.extend(inputs),
                    "not_implemented" => result.not_implemented.extend(inputs),
                    text => result.formulas.push(Formula { inputs, text: text.to_string(), line: value.line }),
                }
            }
        }
    }
    if result.grad_fn.is_empty() {
        return Err(Error::new(node.line, "`derivatives:` has no `grad_fn:` (the node's name, as upstream prints it)"));
    }
    if result.formulas.is_empty() && result.not_implemented.is_empty() {
        return Err(Error::new(node.line, "`derivatives:` has no formula"));
    }
    // No gradient is lost in silence: every tensor input is decided.
    for arg in schema.args.iter().filter(|arg| arg.ty.is_tensor_like()) {
        if !seen.contains(&arg.name) {
            return Err(Error::new(
                node.line,
                format!(
                    "the gradient of '{}' is not decided: a formula, non_differentiable or not_implemented",
                    arg.name
                ),
            ));
        }
    }
    Ok(result)
}
