//! Tests of [`super`]: round trips of upstream's schemas and the derived forms.

use super::*;

/// Every kind of type, alias and default that upstream uses.
const SAMPLE: &str = include_str!("../tests/schemas.txt");

fn schema(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn the_copied_schemas_print_as_they_were_read() {
    assert!(SAMPLE.lines().count() > 40);
    for line in SAMPLE.lines() {
        assert_eq!(schema(line).to_string(), line);
    }
}

/// The whole upstream list, where it lies beside the checkout.
fn upstream() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/upstream/operators.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let func = |line: &str| {
        let rest = line.strip_prefix("{\"func\": \"")?;
        let mut end = 0;
        let bytes = rest.as_bytes();
        while bytes.get(end)? != &b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        Some(rest[..end].replace("\\\"", "\"").replace("\\\\", "\\"))
    };
    text.lines().filter_map(func).collect()
}

#[test]
fn all_upstream_schemas_print_as_they_were_read() {
    for line in upstream() {
        assert_eq!(schema(&line).to_string(), line);
    }
}

#[test]
fn all_upstream_stems_differ() {
    let mut seen = std::collections::HashMap::new();
    for line in upstream() {
        let schema = schema(&line);
        let stem = crate::names::stem(&schema);
        if let Some(other) = seen.insert(stem.clone(), schema.full_name()) {
            panic!("{other} and {} are both '{stem}'", schema.full_name());
        }
    }
}

#[test]
fn the_list_of_bases_with_a_default_and_a_tensor_overload_is_upstreams() {
    let names: Vec<String> = upstream().iter().map(|line| schema(line).full_name()).collect();
    let with_both: std::collections::BTreeSet<&str> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".Tensor"))
        .filter(|base| names.iter().any(|name| name == base))
        .collect();
    if !names.is_empty() {
        assert_eq!(with_both.into_iter().collect::<Vec<_>>(), crate::names::DEFAULT_AND_TENSOR);
    }
}

#[test]
fn in_place_forms_follow_the_rule() {
    let add = schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
    assert_eq!(
        add.derive_in_place().unwrap().to_string(),
        "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    );
    let foreach = schema("_foreach_add.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]");
    assert_eq!(
        foreach.derive_in_place().unwrap().to_string(),
        "_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
    );
    assert!(schema("ones(int[] size) -> Tensor").derive_in_place().is_err());
}

#[test]
fn out_forms_follow_the_rule() {
    let derived = |text| schema(text).derive_out().unwrap().to_string();
    assert_eq!(
        derived("mm(Tensor self, Tensor mat2) -> Tensor"),
        "mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
    );
    assert_eq!(
        derived(
            "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
        ),
        "rand.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)"
    );
    assert_eq!(
        derived("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"),
        "native_dropout.out(Tensor input, float p, bool? train, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
    );
    assert_eq!(
        derived(
            "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"
        ),
        "sort.stable_out(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor(a!) values, Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)"
    );
    assert!(schema("item(Tensor self) -> Scalar").derive_out().is_err());
}

#[test]
fn forms_are_told_apart() {
    let form = |text| schema(text).form();
    assert_eq!(form("exp(Tensor self) -> Tensor"), Form::Functional);
    assert_eq!(form("exp_(Tensor(a!) self) -> Tensor(a!)"), Form::InPlace);
    assert_eq!(form("exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"), Form::Out);
    assert_eq!(form("__and__.Tensor(Tensor self, Tensor other) -> Tensor"), Form::Functional);
    assert_eq!(form("__iand__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"), Form::InPlace);
    // Running statistics are written, yet the operator is functional in its results.
    assert_eq!(form("f(Tensor input, Tensor(a!) running_mean) -> (Tensor, Tensor)"), Form::Functional);
}

#[test]
fn bad_schemas_are_refused() {
    for bad in [
        "exp",
        "exp(Tensor self)",
        "ex-p(Tensor self) -> Tensor",
        "exp.(Tensor self) -> Tensor",
        "exp(Tenser self) -> Tensor",
        "exp(Tensor) -> Tensor",
        "exp(Tensor(a! self) -> Tensor",
        "exp(int[x] self) -> Tensor",
    ] {
        assert!(Schema::parse(bad).is_err(), "{bad}");
    }
}
