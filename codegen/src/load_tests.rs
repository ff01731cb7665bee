//! Tests of [`super`]: what is refused, where, and with which words; and the defaults of what is read.

use super::*;
use crate::model::Gradient;

/// An entry that loads.
const GOOD: &str = "\
- func: exp(Tensor self) -> Tensor
  doc: e to the power of each element.
  family: pointwise
  variants: [function, method, inplace, out]
  meta: unary_float
  dtypes: floating
  derivatives:
    grad_fn: ExpBackward0
    self: grad * result
";

/// `GOOD` with one line replaced, or removed where `to` is empty.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let to = if to.is_empty() { String::new() } else { format!("{to}\n") };
    GOOD.replace(&format!("{from}\n"), &to)
}

fn refused(yaml: &str) -> String {
    load(yaml).err().map(|e| e.to_string()).unwrap_or_else(|| panic!("accepted:\n{yaml}"))
}

#[test]
fn an_entry_gives_its_three_forms() {
    let entries = load(GOOD).unwrap();
    let stems: Vec<&str> = entries[0].operators.iter().map(|op| op.stem.as_str()).collect();
    assert_eq!(stems, ["exp", "exp_", "exp_out"]);
    let methods: Vec<Option<&str>> = entries[0].operators.iter().map(|op| op.method.as_deref()).collect();
    assert_eq!(methods, [Some("exp"), Some("exp_"), None]);
    assert_eq!(entries[0].kernel, Some(("pointwise".into(), "exp".into())));
    assert_eq!(entries[0].kernels[0].error_name, "exp");
    assert_eq!(entries[0].dispatch, [Backend::Cpu]);
}

#[test]
fn an_operator_without_a_decided_gradient_is_refused() {
    let text = with("  derivatives:", "").replace("    grad_fn: ExpBackward0\n    self: grad * result\n", "");
    assert!(refused(&text).starts_with("native_functions.yaml:1: exp has no decided gradient"), "{}", refused(&text));
    assert!(load(&format!("{text}  non_differentiable: true\n")).is_ok());
    assert!(refused(&format!("{GOOD}  non_differentiable: true\n")).contains("contradicts `non_differentiable`"));
}

#[test]
fn every_tensor_input_has_a_decided_gradient() {
    let text = GOOD.replace("exp(Tensor self)", "exp(Tensor self, Tensor other)");
    assert!(refused(&text).contains("the gradient of 'other' is not decided"));
    let decided =
        format!("{text}    other: non_differentiable\n").replace("[function, method, inplace, out]", "[function]");
    assert!(load(&decided).is_ok());
    assert!(
        refused(&with("    self: grad * result", "    other: grad"))
            .contains("native_functions.yaml:9: the schema has no input")
    );
    assert!(refused(&with("    grad_fn: ExpBackward0", "")).contains("`derivatives:` has no `grad_fn:`"));
}

#[test]
fn an_in_place_form_may_have_a_node_of_its_own() {
    let own = format!("{GOOD}  inplace_derivatives: {{ grad_fn: ExpBackward1, self: grad }}\n");
    let entries = load(&own).unwrap();
    let parts = entries[0].for_autograd();
    let stems: Vec<Vec<&str>> =
        parts.iter().map(|entry| entry.operators.iter().map(|op| op.stem.as_str()).collect()).collect();
    assert_eq!(stems, [vec!["exp", "exp_out"], vec!["exp_"]]);
    assert!(matches!(&parts[1].gradient, Gradient::Node(d) if d.grad_fn == "ExpBackward1"));
    assert!(refused(&own.replace(", inplace, out]", "]")).contains("no `inplace` variant"));
}

#[test]
fn every_operator_has_a_doc_and_a_body() {
    assert!(refused(&with("  doc: e to the power of each element.", "")).contains("no `doc:`"));
    assert!(
        refused(&with("  doc: e to the power of each element.", "  doc: ''"))
            .contains("native_functions.yaml:2: the doc is empty")
    );
    assert!(
        refused(&with("  meta: unary_float", ""))
            .contains("has one of `meta:`, `native: own` and `composite:`, not none")
    );
    assert!(refused(&format!("{GOOD}  composite: implicit\n")).contains("not meta and composite"));
    assert!(refused(&with("  meta: unary_float", "  meta: unary(other)")).contains("the rule names 'other'"));
}

#[test]
fn unknown_and_misplaced_keys_are_refused() {
    assert!(refused(&format!("{GOOD}  dtype: all\n")).starts_with("native_functions.yaml:10: unknown key 'dtype'"));
    assert!(
        refused(&with("  dtypes: floating", "  dtypes: float"))
            .contains("native_functions.yaml:6: unknown dtype set 'float'")
    );
    assert!(refused(&with("  dtypes: floating", "")).contains("no `dtypes:`"));
    assert!(refused(&format!("{GOOD}  dispatch: [tpu]\n")).contains("unknown backend 'tpu'"));
    assert!(refused(&format!("{GOOD}  params: [alpha]\n")).contains("`params` names 'alpha'"));
    assert!(refused(&with("  family: pointwise", "  family: Point")).contains("bad family name"));
    assert!(
        refused(&GOOD.replace("  meta: unary_float\n", "  native: own\n"))
            .contains("`dtypes:` belongs to `meta:` entries")
    );
    assert!(
        refused(&GOOD.replace("[function, method, inplace, out]", "[function, methods]"))
            .contains("unknown variant 'methods'")
    );
    assert!(
        refused(&GOOD.replace("[function, method, inplace, out]\n", "[function]\n  out: exp.out\n"))
            .contains("not listed in `variants:`")
    );
}

#[test]
fn names_are_unique() {
    assert!(refused(&format!("{GOOD}{GOOD}")).contains("native_functions.yaml:10: operator exp stands in line 1 too"));
    let other = GOOD.replace("exp(", "exp.Tensor(").replace("inplace, out", "inplace");
    assert!(refused(&format!("{GOOD}{other}")).contains("the stem 'exp'"));
    let other = GOOD.replace("exp(", "exp2(").replace("  meta", "  method: exp\n  meta");
    assert!(refused(&format!("{GOOD}{other}")).contains("the method 'exp'"));
}

#[test]
fn kernels_are_declared_once_and_shared_by_name() {
    let shared = GOOD.replace("exp(", "exp2(").replace("  dtypes: floating\n", "  kernel: exp\n");
    let entries = load(&format!("{GOOD}{shared}")).unwrap();
    assert_eq!(entries[1].kernel, entries[0].kernel);
    assert!(entries[1].kernels.is_empty());
    let missing = shared.replace("kernel: exp", "kernel: nothing.exp");
    assert!(refused(&format!("{GOOD}{missing}")).contains("no entry declares the kernel 'nothing.exp'"));
    let twice = GOOD.replace("exp(", "exp2(").replace("  dtypes", "  kernel: exp\n  dtypes");
    assert!(refused(&format!("{GOOD}{twice}")).contains("the kernel 'pointwise.exp' is declared in line"));
}

#[test]
fn irregular_forms_are_given_by_name_or_schema() {
    let out = |text: &str| load(&with("  meta: unary_float", &format!("  out: {text}\n  meta: unary_float")));
    assert_eq!(out("exp.special_out").unwrap()[0].operators[2].stem, "exp_special_out");
    let whole = "exp.output(Tensor self, *, Tensor(a!) output) -> Tensor(a!)";
    assert_eq!(out(whole).unwrap()[0].operators[2].schema.to_string(), whole);
    assert!(out("exp2.out").is_err());
    assert!(out("exp.out(Tensor self) -> Tensor").is_err());
    assert!(out("exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(b!)").is_err());
}
