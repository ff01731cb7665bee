//! The runner's own test: a small corpus over operators that are defined here, right and wrong.

use tensor_aten::dispatch::{AnyOp, Op, OpInfo, Registrations};
use tensor_aten::{IValue, Stack, Tensor, inventory};
use tensor_core::{Result as CoreResult, bail};

use super::{Item, Options, Outcome, run};
use crate::corpus::Corpus;

type Kernel = fn(&Tensor) -> CoreResult<Tensor>;

/// `x + 1` as a fresh tensor, whatever the kernel tables say: only the boxed form is called here.
fn plus_one(stack: &mut Stack) -> CoreResult<()> {
    let Some(IValue::Tensor(x)) = stack.pop() else { bail!(Type, "a tensor is wanted") };
    if x.dim() == 0 {
        bail!(Index, "zero-dimensional tensors have no next element");
    }
    let values: Vec<f32> = x.to_vec::<f32>()?.into_iter().map(|v| v + 1.0).collect();
    stack.push(Tensor::from_vec(values, x.sizes())?.into());
    Ok(())
}

/// Returns its argument, and zeroes it.
fn zeroed(stack: &mut Stack) -> CoreResult<()> {
    if let [.., IValue::Tensor(x)] = stack.as_slice() {
        x.storage().borrow_mut()?.bytes_mut().fill(0);
    }
    Ok(())
}

fn broken(_: &mut Stack) -> CoreResult<()> {
    let empty: Vec<u8> = Vec::new();
    bail!(Runtime, "unreachable {}", empty[std::hint::black_box(3)])
}

macro_rules! op {
    ($name:ident, $op:literal, $schema:literal, $boxed:ident) => {
        static $name: Op<Kernel> = Op::new(OpInfo { name: $op, schema: $schema, boxed: $boxed, tags: &[] });
    };
}
op!(PLUS_ONE, "selftest::plus_one", "selftest::plus_one(Tensor self) -> Tensor", plus_one);
op!(ZEROED, "selftest::zeroed_", "selftest::zeroed_(Tensor(a!) self) -> Tensor(a!)", zeroed);
op!(BROKEN, "selftest::broken", "selftest::broken(Tensor self) -> Tensor", broken);

inventory::submit! {
    Registrations {
        krate: "tensor-tests",
        ops: &[&PLUS_ONE as &dyn AnyOp, &ZEROED, &BROKEN],
        kernels: &[],
    }
}

/// A file with the arrays 0: [1, 2], 1: [2, 3], 2: [0, 0] of f32, and cases.
fn file(op: &str, cases: &str) -> (String, Vec<u8>) {
    let schema = format!("{op}(Tensor(a!) self) -> Tensor");
    let metadata = serde_json::json!({"op": op, "schema": schema, "cases": format!("[{cases}]")});
    let array = |n: usize| serde_json::json!({"dtype": "F32", "shape": [2], "data_offsets": [8 * n, 8 * n + 8]});
    let header = serde_json::json!({"__metadata__": metadata, "0": array(0), "1": array(1), "2": array(2)}).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([1.0f32, 2.0, 2.0, 3.0, 0.0, 0.0].iter().flat_map(|v| v.to_le_bytes()));
    (format!("ops/{op}.safetensors"), bytes)
}

const X: &str = r#"{"tensor": {"storage": 0, "dtype": "float32", "size": [2]}}"#;

/// A case of one argument that views storage 0, with fields of its own.
fn case(id: &str, arg: &str, storages: &str, rest: &str) -> String {
    format!(
        r#"{{"id": "{id}", "dtype": "float32", "tags": [], "storages": {storages}, "inputs": 1, "args": [{arg}], {rest}}}"#
    )
}

fn outputs(storage: usize, dtype: &str, size: &str, rest: &str) -> String {
    format!(r#""outputs": [{{"tensor": {{"storage": {storage}, "dtype": "{dtype}", "size": {size}{rest}}}}}]"#)
}

fn reasons(op: &str, cases: &[String]) -> Vec<Item> {
    let corpus: Corpus = [file(op, &cases.join(","))].into_iter().collect();
    run(&corpus, &Options::default()).unwrap()
}

fn failed(item: &Item) -> &str {
    match &item.outcome {
        Outcome::Failed(reason) => reason,
        other => panic!("{}: {other:?}", item.id),
    }
}

#[test]
fn outputs_are_told_from_right_to_wrong() {
    let fresh = r#"["0", "1"]"#;
    let right = outputs(1, "float32", "[2]", "");
    let scalar = r#"{"tensor": {"storage": 0, "dtype": "float32", "size": []}}"#;
    let cases = [
        case("right", X, fresh, &right),
        case("value", X, r#"["0", "2"]"#, &right),
        case("dtype", X, fresh, &outputs(1, "int32", "[2]", "")),
        case("size", X, fresh, &outputs(1, "float32", "[1, 2]", "")),
        case("stride", X, fresh, &outputs(1, "float32", "[2]", r#", "stride": [3]"#)),
        case("alias", X, fresh, &outputs(0, "float32", "[2]", "")),
        case("unread", X, r#"["0", null]"#, &right),
        case("count", X, fresh, r#""outputs": []"#),
        case("no error", X, fresh, r#""outputs": null, "error": {"type": "IndexError", "message": "m"}"#),
        case(
            "error",
            scalar,
            fresh,
            r#""outputs": null,
                "error": {"type": "IndexError", "message": "zero-dimensional tensors have no next element"}"#,
        ),
        case("class", scalar, fresh, r#""outputs": null, "error": {"type": "ValueError", "message": "m"}"#),
        case("text", scalar, fresh, r#""outputs": null, "error": {"type": "IndexError", "message": "m"}"#),
        case("unforeseen", scalar, fresh, &right),
        case("unreadable", X, fresh, r#""outputs": 3"#),
    ];
    let items = reasons("selftest::plus_one", &cases);
    let item = |id: &str| items.iter().find(|i| i.id == id).unwrap();
    for id in ["right", "unread", "error"] {
        assert_eq!(item(id).outcome, Outcome::Passed, "{id}");
    }
    for (id, reason) in [
        ("value", "output 0: 2 of 2 values differ, first at [0]: got 2, want 0"),
        ("dtype", "output 0: dtype torch.float32, want torch.int32"),
        ("size", "output 0: size [2], want [1, 2]"),
        ("stride", "output 0: stride [1], want [3]"),
        ("alias", "output 0: aliasing: in storage 1 (fresh), want 0 (input storage 0)"),
        ("count", "1 outputs, want 0"),
        ("no error", "no error, want IndexError: m"),
        ("unforeseen", "IndexError: zero-dimensional tensors have no next element"),
    ] {
        assert_eq!(failed(item(id)), reason, "{id}");
    }
    assert!(failed(item("class")).starts_with("error class: got IndexError"));
    assert!(failed(item("text")).starts_with("error text: got 'zero-dimensional"));
    assert!(failed(item("unreadable")).starts_with("the case cannot be read"));
}

#[test]
fn writes_must_be_the_recorded_ones() {
    let same = outputs(0, "float32", "[2]", "");
    let cases = [
        case("right", X, r#"["0"]"#, &format!(r#"{same}, "mutated": {{"0": "2"}}"#)),
        case("silent", X, r#"["0"]"#, &same),
        case("other", X, r#"["0"]"#, &format!(r#"{same}, "mutated": {{"0": "1"}}"#)),
    ];
    let items = reasons("selftest::zeroed_", &cases);
    assert_eq!(items[0].outcome, Outcome::Passed);
    assert!(failed(&items[1]).contains("values differ"));
    assert!(failed(&items[2]).contains("values differ"));
    let unseen = case("unseen", X, r#"["0", null]"#, &outputs(1, "float32", "[2]", ""));
    assert!(failed(&reasons("selftest::zeroed_", &[unseen])[0]).contains("aliasing"));
}

#[test]
fn panics_and_missing_operators_are_told_apart() {
    let right = outputs(1, "float32", "[2]", "");
    let cases = [case("a", X, r#"["0", "1"]"#, &right)];
    assert!(failed(&reasons("selftest::broken", &cases)[0]).starts_with("panic: "));
    assert_eq!(reasons("selftest::nowhere", &cases)[0].outcome, Outcome::Missing);
}

#[test]
fn filters_and_skips_hold() {
    let right = outputs(1, "float32", "[2]", "");
    let cases = ["a", "b"].map(|id| case(id, X, r#"["0", "1"]"#, &right));
    let corpus: Corpus = [file("selftest::plus_one", &cases.join(","))].into_iter().collect();
    let outcome = |skips: &str, op: &str| {
        let corpus: Corpus = [file(op, &cases.join(","))].into_iter().collect();
        let skips = crate::skips::Skips::parse(skips).unwrap();
        run(&corpus, &Options { skips, ..Options::default() }).unwrap()[1].outcome.clone()
    };
    let skipped = Outcome::Skipped("for the test".to_owned());
    assert_eq!(outcome("[skips]\nb = 'for the test'\n", "selftest::broken"), skipped);
    assert_eq!(outcome("[skips]\nb = 'for the test'\n", "selftest::plus_one"), Outcome::Stale);
    assert_eq!(outcome("[never_run]\nb = 'for the test'\n", "selftest::plus_one"), skipped);
    let filter = Some(regex::Regex::new("^a$").unwrap());
    let items = run(&corpus, &Options { filter, ..Options::default() }).unwrap();
    assert_eq!(items.len(), 1);
    assert!(run(&corpus, &Options { tier: Some(1), ..Options::default() }).unwrap().is_empty());
}
