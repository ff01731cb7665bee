//! The text of a node: its struct, `apply` and `release`.

use std::fmt::Write as _;

use super::plan::{Plan, Step};
use crate::names::ident;

/// The struct and its `Function` implementation.
pub fn node(plan: &Plan<'_>) -> String {
    let mut text = String::new();
    let name = &plan.node;
    let _ = writeln!(text, "#[doc = {:?}]", format!(" Backward of `{}`.", plan.schema));
    for step in &plan.steps {
        let inputs: Vec<&str> = step.inputs.iter().map(|&input| plan.arg(input).name.as_str()).collect();
        let _ = writeln!(text, "#[doc = \"\"] #[doc = {:?}]", format!(" {}: `{}`", inputs.join(", "), step.text));
    }
    let _ = writeln!(text, "struct {name} {{");
    for field in &plan.fields {
        let _ = writeln!(text, "{}: {},", ident(&field.saved.field), field.saved.rust_type());
    }
    let _ = writeln!(text, "}}\nimpl Function for {name} {{");
    let _ = writeln!(text, "fn name(&self) -> &'static str {{ {:?} }}", plan.grad_fn);
    apply(&mut text, plan);
    let saved: Vec<_> = plan.fields.iter().map(|field| &field.saved).filter(|saved| saved.is_tensor()).collect();
    if !saved.is_empty() {
        text.push_str("fn release(&self) {\n");
        for saved in saved {
            let _ = writeln!(text, "self.{}.release();", ident(&saved.field));
        }
        text.push_str("}\n");
    }
    if let Some(result) = plan.saved_result() {
        let field = ident(&result.field);
        let _ = writeln!(text, "fn saved_result(&self) -> Option<&SavedVariable> {{ Some(&self.{field}) }}");
    }
    text.push_str("}\n");
    text
}

fn apply(text: &mut String, plan: &Plan<'_>) {
    let node = if plan.steps.iter().any(|step| step.lowered.uses_node) { "node" } else { "_" };
    let _ = writeln!(text, "fn apply(&self, {node}: &NodeRef, grads: Grads, need: &[bool]) -> Result<Grads> {{");
    text.push_str("let mut out = Grads::none(need.len());\n");
    if plan.steps.iter().any(|step| step.lowered.uses_grad) {
        text.push_str("let Some(grad) = grads.at(0) else { return Ok(out) };\n");
    } else {
        text.push_str("if grads.all_none() { return Ok(out); }\n");
    }
    for step in &plan.steps {
        let needs: Vec<String> = step.inputs.iter().map(|&input| plan.need(input)).collect();
        let _ = writeln!(text, "if {} {{ {}", needs.join(" || "), step.lowered.statements.join(" "));
        results(text, plan, step, &needs);
        text.push_str("}\n");
    }
    text.push_str("Ok(out)\n}\n");
}

/// Hands a formula's results to their edges.
fn results(text: &mut String, plan: &Plan<'_>, step: &Step, needs: &[String]) {
    let set = |input: usize, value: &str| {
        let list = plan.inputs[input].list && !step.text.starts_with("not_implemented(");
        format!("out.{}({}, {value});", if list { "set_list" } else { "set" }, plan.edge(input))
    };
    match (step.inputs.as_slice(), step.lowered.results.as_slice()) {
        ([input], [value]) => text.push_str(&set(*input, value)),
        (inputs, [tuple]) => {
            let names: Vec<String> = (0..inputs.len()).map(|i| format!("d{i}")).collect();
            let _ = writeln!(text, "let ({}) = {tuple};", names.join(", "));
            for ((input, name), need) in inputs.iter().zip(&names).zip(needs) {
                let _ = writeln!(text, "if {need} {{ {} }}", set(*input, name));
            }
        }
        (inputs, values) => {
            for ((input, value), need) in inputs.iter().zip(values).zip(needs) {
                let _ = writeln!(text, "if {need} {{ {} }}", set(*input, value));
            }
        }
    }
}
