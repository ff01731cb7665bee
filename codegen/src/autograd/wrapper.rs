//! The text of wrappers: what an operator's Autograd key runs.

use std::fmt::Write as _;

use super::plan::{Field, Input, Plan, local};
use crate::aten::static_name;
use crate::formula::{Shape, Source};
use crate::model::Operator;
use crate::names::{camel, ident};
use crate::schema::{Arg, Form, Schema};
use crate::types;
use crate::yaml::Error;

/// Views of another dtype, which `as_strided` cannot replay on a base.
const REPLAYED: [&str; 5] = ["_conj", "_neg_view", "view_as_complex", "view_as_real", "view_dtype"];

/// The wrapper of one form of a differentiable entry.
pub fn wrapper(plan: &Plan<'_>, op: &Operator) -> Result<String, Error> {
    let body = match op.form {
        Form::Functional => functional(plan, op),
        Form::InPlace => in_place(plan, op),
        Form::Out => Ok(out(op)),
    };
    let body = body.map_err(|message| Error::new(plan.line, format!("{}: {message}", op.schema.full_name())))?;
    Ok(function(op, &body))
}

/// The wrapper of an in-place form of an operator without a gradient: what was in `self` gets none. Lists of tensors that are
/// written may not require one.
pub fn overwrite(op: &Operator) -> String {
    if op.schema.written_args().any(|arg| arg.ty.list.is_some()) {
        let lists: Vec<String> = op.schema.written_args().map(local).collect();
        let check = format!("record::check_written(&[{}], {:?})?;", lists.join(", "), op.schema.full_name());
        return function(op, &format!("{check} {KEYS} {}", call(op)));
    }
    let written = op.schema.written_args().next().map_or_else(String::new, local);
    let name = format!("{}Backward0", camel(op.schema.name.trim_matches('_')));
    let body = format!("{KEYS} record::overwrite({written}, {name:?}, || {})", call(op));
    function(op, &body)
}

/// The wrapper of an operator over lists whose body records tensor by tensor: a functional form gathers that in one node.
pub fn each(op: &Operator, grad_fn: &str) -> String {
    let args: Vec<String> = op.schema.args.iter().map(local).collect();
    let call = format!("op::{}.kernel(keys)?(keys, {})", static_name(&op.stem), args.join(", "));
    let body = match op.form {
        Form::Functional => format!("{KEYS} record::gather({grad_fn:?}, {call}?)"),
        Form::InPlace => format!("{KEYS} {call}"),
        Form::Out => out(op),
    };
    function(op, &body)
}

const KEYS: &str = "let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;";

fn function(op: &Operator, body: &str) -> String {
    let params: Vec<String> =
        op.schema.args.iter().map(|arg| format!("{}: {}", local(arg), types::param(&arg.ty))).collect();
    let result = types::kernel_result(&op.schema);
    format!("fn {}(keys: DispatchKeySet, {}) -> Result<{result}> {{ {body} }}\n", ident(&op.stem), params.join(", "))
}

/// The call below autograd.
fn call(op: &Operator) -> String {
    let args: Vec<String> = op.schema.args.iter().map(local).collect();
    let table = static_name(&op.stem);
    format!("{{ let _below = tls::below_autograd(); op::{table}.kernel(keys)?(keys, {}) }}", args.join(", "))
}

fn functional(plan: &Plan<'_>, op: &Operator) -> Result<String, String> {
    let schema = plan.schema;
    let mut text = format!("let needed = {}; {KEYS} let result = {}?;", needs(plan), call(op));
    text.push_str(&view(op)?);
    text.push_str("if needed {");
    text.push_str(&edges(plan));
    let _ = write!(text, "let function = {} {{", plan.node);
    for field in &plan.fields {
        text.push_str(&initialiser(field, &save(plan, field, false)));
    }
    text.push_str("};");
    let list = schema.fresh_returns().any(|ret| ret.ty.list.is_some());
    if list {
        text.push_str("record::set_history_list(&record::node(edges, function), &result);");
    } else {
        let masked = schema.masks_results();
        let output = |i| {
            let result = result(schema, i);
            if masked { format!("{}.as_ref()", result.trim_start_matches('&')) } else { result }
        };
        let outputs: Vec<String> = (0..schema.returns.len()).filter(|&i| plan.differentiable[i]).map(output).collect();
        let outputs = outputs.join(", ");
        if masked {
            let _ = write!(text, "record::set_history_opt(&record::node(edges, function), &[{outputs}]);");
        } else {
            let _ = write!(text, "record::record(edges, function, &[{outputs}]);");
        }
    }
    text.push_str("} Ok(result)");
    Ok(text)
}

/// A field in a struct expression.
fn initialiser(field: &Field, value: &str) -> String {
    let name = ident(&field.saved.field).to_string();
    if name == value { format!("{name},") } else { format!("{name}: {value},") }
}

/// A reference to the i-th result of a functional call.
fn result(schema: &Schema, i: usize) -> String {
    if schema.returns.len() == 1 { "&result".into() } else { format!("&result.{i}") }
}

fn in_place(plan: &Plan<'_>, op: &Operator) -> Result<String, String> {
    let Some(written) = op.schema.written_args().next().filter(|arg| arg.ty.list.is_none()) else {
        return Err("an in-place form writes to one tensor".into());
    };
    if op.schema.fresh_returns().next().is_some() {
        return Err("an in-place form with other results has no wrapper".into());
    }
    let self_ = local(written);
    let mut text = format!("let needed = {}; {KEYS} let call = || {};", needs(plan), call(op));
    let _ = write!(text, "if !needed {{ return call(); }} record::check_inplace({self_})?; {}", edges(plan));
    let from_argument = |field: &&Field| matches!(field.saved.source, Source::Argument(_));
    for field in plan.fields.iter().filter(from_argument) {
        let _ = write!(text, "let saved_{} = {};", field.saved.field, save(plan, field, true));
    }
    let _ = write!(text, "call()?; let function = {} {{", plan.node);
    for field in &plan.fields {
        let value =
            if from_argument(&field) { format!("saved_{}", field.saved.field) } else { save(plan, field, true) };
        text.push_str(&initialiser(field, &value));
    }
    let record = if plan.in_place_view { "retie" } else { "rebase_history" };
    let _ = write!(text, "}}; record::{record}({self_}, &record::node(edges, function))");
    Ok(text)
}

/// An out form runs only where nothing requires a gradient.
fn out(op: &Operator) -> String {
    let tensors: Vec<&Arg> = op.schema.args.iter().filter(|arg| arg.ty.is_tensor_like()).collect();
    let name = op.schema.name.as_str();
    let mut text = String::new();
    for (function, list) in groups(tensors.into_iter().map(|arg| (local(arg), shape(arg)))) {
        let function = if function { "check_out_opt" } else { "check_out" };
        let _ = write!(text, "record::{function}({list}, {name:?})?;");
    }
    format!("{text} {KEYS} {}", call(op).trim_start_matches("{ ").trim_end_matches(" }"))
}

/// Whether an argument is a list, whether it may be absent.
fn shape(arg: &Arg) -> (bool, bool) {
    (arg.ty.list.is_some(), arg.ty.optional || arg.ty.optional_items)
}

/// Neighbours of one shape as one array, lists alone: whether the items may be absent, and the text.
fn groups(items: impl Iterator<Item = (String, (bool, bool))>) -> Vec<(bool, String)> {
    let mut groups: Vec<(bool, bool, Vec<String>)> = Vec::new();
    for (name, (list, optional)) in items {
        match groups.last_mut() {
            Some((false, last, names)) if !list && *last == optional => names.push(name),
            _ => groups.push((list, optional, vec![name])),
        }
    }
    let text = |list, names: Vec<String>| if list { names.concat() } else { format!("&[{}]", names.join(", ")) };
    groups.into_iter().map(|(list, optional, names)| (optional, text(list, names))).collect()
}

fn input_groups(plan: &Plan<'_>, only: impl Fn(&Input) -> bool) -> Vec<(bool, String)> {
    let chosen = plan.inputs.iter().filter(|input| only(input));
    groups(chosen.map(|input| (local(&plan.schema.args[input.arg]), (input.list, input.optional))))
}

/// The condition that something is to be recorded.
fn needs(plan: &Plan<'_>) -> String {
    let tests = [(false, "needs_grad"), (true, "needs_grad_opt")].into_iter().flat_map(|(optional, name)| {
        input_groups(plan, |input| input.optional == optional)
            .into_iter()
            .map(move |(_, list)| format!("record::{name}({list})"))
    });
    tests.collect::<Vec<_>>().join(" || ")
}

/// The statements that make `edges`.
fn edges(plan: &Plan<'_>) -> String {
    let groups = input_groups(plan, |_| true);
    let mutable = if groups.len() > 1 { "mut " } else { "" };
    let step = |(i, (optional, list)): (usize, (bool, String))| {
        let suffix = if optional { "_opt" } else { "" };
        if i == 0 {
            format!("let {mutable}edges = Edges::of{suffix}({list})?;")
        } else {
            format!("edges.add{suffix}({list})?;")
        }
    };
    groups.into_iter().enumerate().map(step).collect()
}

/// The expression that fills a field.
fn save(plan: &Plan<'_>, field: &Field, in_place: bool) -> String {
    let saved = &field.saved;
    let needed = plan.condition(&field.inputs);
    match saved.source {
        Source::Argument(i) => {
            let arg = &plan.schema.args[i];
            let name = local(arg);
            if in_place && arg.name == "self" && saved.is_tensor() && saved.shape == Shape::One {
                return format!("SavedVariable::original({needed}, {name})?");
            }
            saved.save(&name, &needed)
        }
        Source::Result(i) => {
            let value = if in_place { "self_".into() } else { result(plan.schema, i) };
            if !saved.is_tensor() || !plan.differentiable[i] {
                return saved.save(&value, &needed);
            }
            match saved.shape {
                Shape::One => format!("SavedVariable::output({needed}, {value}, {})?", plan.output_number(i)),
                _ => format!("SavedList::outputs({needed}, {value})?"),
            }
        }
    }
}

/// Tells the runtime that the result of a view operator is one.
fn view(op: &Operator) -> Result<String, String> {
    let schema = &op.schema;
    if !schema.is_view() {
        return Ok(String::new());
    }
    let [ret] = schema.returns.as_slice() else { return Err("a view with several results has no wrapper".into()) };
    let set = |alias: &Option<crate::schema::Alias>| alias.as_ref().map(|alias| alias.set.clone());
    let base = schema.args.iter().find(|arg| arg.ty.alias.is_some() && set(&arg.ty.alias) == set(&ret.ty.alias));
    let Some(base) = base else { return Err("no argument has the alias of the result".into()) };
    let name = local(base);
    if ret.ty.list.is_some() {
        return Ok(format!("record::as_views({name}, &result);"));
    }
    if !REPLAYED.contains(&op.stem.as_str()) {
        return Ok(format!("record::as_view({name}, &result, None);"));
    }
    let args: Vec<String> =
        schema.args.iter().map(|arg| if arg.name == base.name { "base".into() } else { local(arg) }).collect();
    let caller = ident(&op.stem);
    let replay = format!("Some(Arc::new(move |base: &Tensor| ops::{caller}({})))", args.join(", "));
    Ok(format!("record::as_view({name}, &result, {replay});"))
}
