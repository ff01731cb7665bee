//! Holds `native_functions.yaml` to upstream's operator list: schemas byte for byte, node names, tags, decided gradients.
//!
//! The list lies beside the checkout (`shared/upstream/operators.jsonl`); without it there is nothing to compare with.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tensor_codegen::model::{Entry, Gradient, Kind};
use tensor_codegen::schema::Form;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

struct Upstream {
    by_name: HashMap<String, Value>,
    /// Overloads that upstream derives by rule, which have no line of their own.
    derived: HashSet<String>,
}

impl Upstream {
    fn read() -> Option<Self> {
        let text = std::fs::read_to_string(format!("{ROOT}/../shared/upstream/operators.jsonl")).ok()?;
        let (mut by_name, mut derived) = (HashMap::new(), HashSet::new());
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let func = row["func"].as_str().unwrap();
            derived
                .extend(row["autogen"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_string()));
            by_name.insert(func[..func.find('(').unwrap()].to_string(), row);
        }
        Some(Self { by_name, derived })
    }
}

fn entries() -> Vec<Entry> {
    let yaml = std::fs::read_to_string(format!("{ROOT}/native_functions.yaml")).unwrap();
    tensor_codegen::load::load(&yaml).unwrap_or_else(|e| panic!("{e}"))
}

/// Collects one complaint an entry and fails with all of them.
fn hold(check: impl Fn(&Upstream, &Entry) -> Result<(), String>) {
    let Some(upstream) = Upstream::read() else { return };
    let entries = entries();
    let complaints: Vec<String> = entries
        .iter()
        .filter_map(|entry| check(&upstream, entry).err().map(|e| format!("native_functions.yaml:{}: {e}", entry.line)))
        .collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn schemas_are_upstreams_byte_for_byte() {
    hold(|upstream, entry| {
        for op in &entry.operators {
            let (name, ours) = (op.schema.full_name(), op.schema.to_string());
            match upstream.by_name.get(&name) {
                Some(row) if row["func"] == ours.as_str() => {}
                Some(row) => return Err(format!("'{ours}' is upstream's {}", row["func"])),
                None if upstream.derived.contains(&name) => {}
                None => return Err(format!("upstream has no '{name}' (its `out:` or `inplace:` is irregular)")),
            }
        }
        Ok(())
    });
}

#[test]
fn nodes_have_upstreams_names_and_inputs() {
    hold(|upstream, entry| {
        let Some(row) = upstream.by_name.get(&entry.schema.full_name()) else { return Ok(()) };
        for op in entry.operators.iter().filter(|op| op.form == Form::InPlace && op.stem != entry.stem) {
            let theirs = upstream.by_name.get(&op.schema.full_name()).and_then(|row| row["grad_fn"].as_str());
            let ours = entry.in_place_gradient.as_ref().map(|d| d.grad_fn.as_str());
            if theirs != ours && entry.kind != Kind::CompositeImplicit {
                let name = op.schema.full_name();
                return Err(format!(
                    "the node of {name} is {theirs:?} upstream, not {ours:?} (`inplace_derivatives:`)"
                ));
            }
        }
        let differentiable = row["derivative"]["differentiable"].as_array().is_some_and(|list| !list.is_empty());
        let inputs = row["derivative"]["differentiable"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match &entry.gradient {
            Gradient::Node(d) => {
                if let Some(name) = row["grad_fn"].as_str().filter(|name| *name != d.grad_fn) {
                    return Err(format!("'{}' is '{name}' upstream", d.grad_fn));
                }
                // Upstream lists results with a forward-mode formula beside the inputs.
                let lost: Vec<&str> =
                    inputs.filter(|input| d.non_differentiable.iter().any(|name| name == input)).collect();
                if lost.is_empty() { Ok(()) } else { Err(format!("{lost:?} are differentiable upstream")) }
            }
            Gradient::Each(ours) => match row["grad_fn"].as_str().filter(|name| name != ours) {
                Some(name) => Err(format!("'{ours}' is '{name}' upstream")),
                None => Ok(()),
            },
            Gradient::None if differentiable => {
                Err(format!("{} is differentiable upstream ({})", entry.schema.full_name(), row["grad_fn"]))
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn composites_are_implicit_where_upstream_has_them_so() {
    hold(|upstream, entry| {
        let Some(row) = upstream.by_name.get(&entry.schema.full_name()) else { return Ok(()) };
        let theirs = row["composite"] == "implicit";
        let ours = entry.kind == Kind::CompositeImplicit;
        if ours && !theirs {
            return Err(format!(
                "{} has a node of its own upstream: its graph would show other names",
                entry.schema.full_name()
            ));
        }
        if theirs
            && !ours
            && row["kernels"].is_null()
            && row["delegate"].is_null()
            && matches!(entry.gradient, Gradient::Node(_))
        {
            return Err(format!("{} is implicit upstream: its graph shows what it calls", entry.schema.full_name()));
        }
        Ok(())
    });
}

#[test]
fn tags_are_upstreams() {
    hold(|upstream, entry| {
        let Some(row) = upstream.by_name.get(&entry.schema.full_name()) else { return Ok(()) };
        let mut theirs: Vec<&str> = row["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut ours: Vec<&str> = entry.tags.iter().map(String::as_str).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        if theirs == ours { Ok(()) } else { Err(format!("tags {ours:?} are {theirs:?} upstream")) }
    });
}

#[test]
fn every_form_of_upstream_is_listed() {
    let known: HashSet<String> =
        entries().iter().flat_map(|entry| &entry.operators).map(|op| op.schema.full_name()).collect();
    hold(|upstream, entry| {
        if entry.schema.form() != Form::Functional {
            return Ok(());
        }
        let name = &entry.schema.name;
        let in_place = if entry.schema.overload.is_empty() {
            format!("{name}_")
        } else {
            format!("{name}_.{}", entry.schema.overload)
        };
        if upstream.by_name.contains_key(&in_place) && !known.contains(&in_place) {
            return Err(format!("upstream has '{in_place}' too"));
        }
        Ok(())
    });
}
