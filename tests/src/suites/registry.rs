//! The registry against `native_functions.yaml`, and both against upstream's schemas.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tensor_aten::dispatch;
use tensor_tests::corpus::{Corpus, SafeTensors};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The schemas of the YAML's entries, without the variants that code generation derives from them.
fn entries() -> Vec<String> {
    let yaml = read("../native_functions.yaml");
    yaml.lines().filter_map(|l| l.strip_prefix("- func: ")).map(|s| s.trim_matches('"').to_owned()).collect()
}

/// The name in a schema, `add.Tensor`.
fn name(schema: &str) -> &str {
    schema.split('(').next().unwrap_or(schema)
}

/// The base of a name with what makes a variant taken away: `add` of `add_.Tensor`, `add.out`.
fn base(name: &str) -> &str {
    let base = name.split('.').next().unwrap_or(name);
    base.strip_suffix('_').filter(|b| !b.ends_with('_')).unwrap_or(base)
}

fn registered() -> BTreeMap<&'static str, &'static str> {
    let ops = dispatch::operators().expect("the registry folds");
    ops.filter_map(|info| Some((info.name.strip_prefix("aten::")?, info.schema))).collect()
}

/// The schemas of the operators that the corpus has cases of, with defaults as upstream's list spells them: `0` for `0.`.
fn recorded() -> BTreeSet<String> {
    let corpus = Corpus::open(&Corpus::default_path()).unwrap();
    let schemas = corpus.case_files("ops").map(|(_, bytes)| {
        let file = SafeTensors::parse(bytes).unwrap();
        file.metadata("schema").unwrap().trim_start_matches("aten::").replace("., ", ", ").replace(".)", ")")
    });
    schemas.collect()
}

#[test]
fn every_entry_is_registered_and_nothing_else() {
    let registered = registered();
    let entries = entries();
    assert!(!entries.is_empty(), "native_functions.yaml has no entries");
    let missing: Vec<_> = entries.iter().map(|s| name(s)).filter(|n| !registered.contains_key(n)).collect();
    assert!(missing.is_empty(), "entries without an operator: {missing:?}");
    let bases: BTreeSet<&str> = entries.iter().map(|s| base(name(s))).collect();
    let strangers: Vec<_> = registered.keys().filter(|n| !bases.contains(base(n))).collect();
    assert!(strangers.is_empty(), "operators without an entry: {strangers:?}");
}

#[test]
fn schemas_are_upstreams_byte_for_byte() {
    let upstream = read("data/upstream_schemas.txt");
    let upstream: BTreeMap<&str, &str> =
        upstream.lines().filter(|l| !l.starts_with('#')).map(|schema| (name(schema), schema)).collect();
    assert_eq!(upstream.len(), 2590);
    let recorded = recorded();
    let mut wrong = Vec::new();
    for (op, schema) in registered() {
        let schema = schema.strip_prefix("aten::").unwrap_or(schema);
        match upstream.get(op) {
            Some(want) if *want == schema => {}
            Some(want) => wrong.push(format!("got  {schema}\nwant {want}")),
            // Overloads that upstream derives from an entry are not in its list (`empty_like.out`, `zero`); the corpus
            // has schemas of many.
            None if recorded.contains(schema) || op.ends_with("out") => {}
            None => wrong.push(format!("not upstream's: {schema}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_are_those_of_their_schemas() {
    for (op, schema) in registered() {
        assert_eq!(op, name(schema).trim_start_matches("aten::"));
    }
}
