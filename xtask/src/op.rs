//! `cargo xtask op`: where an operator lives, and what a new one needs.

use std::collections::BTreeSet;

use tensor_codegen::model::{Entry, Gradient, Kind, Meta};
use tensor_codegen::{aten, load, names, snippets};

use crate::workspace::{read, root, rust_files};

/// Prints every place of an operator: its entry, its bodies, its kernels, its formulas, its generated forms.
pub fn places(name: &str) -> Result<(), String> {
    let entries = load::load(&read("native_functions.yaml")?).map_err(|e| e.to_string())?;
    let found: Vec<&Entry> = entries.iter().filter(|entry| is_named(entry, name)).collect();
    if found.is_empty() {
        let near: Vec<&str> = entries.iter().map(|e| e.stem.as_str()).filter(|stem| stem.contains(name)).collect();
        return Err(format!("no entry is named '{name}' (near: {})", near.join(", ")));
    }
    for entry in found {
        println!("{}", entry.schema);
        for (what, place) in places_of(entry)? {
            println!("  {what:<12} {place}");
        }
    }
    Ok(())
}

/// By schema name, base name, stem or method.
fn is_named(entry: &Entry, name: &str) -> bool {
    entry.schema.name == name
        || entry
            .operators
            .iter()
            .any(|op| op.schema.full_name() == name || op.stem == name || op.method.as_deref() == Some(name))
}

fn places_of(entry: &Entry) -> Result<Vec<(&'static str, String)>, String> {
    let mut places = vec![("entry", format!("native_functions.yaml:{}", entry.line))];
    let family = &entry.family;
    let mut find = |what: &'static str, folders: &[&str], needles: &[String]| -> Result<(), String> {
        for folder in folders {
            for path in module_files(folder) {
                for (i, line) in read(&path)?.lines().enumerate() {
                    if needles.iter().any(|needle| line.contains(needle.as_str())) {
                        places.push((what, format!("{path}:{}", i + 1)));
                    }
                }
            }
        }
        Ok(())
    };
    let function = |name: &str| [format!("fn {name}("), format!("fn {name}<")];
    let bodies: Vec<String> = match entry.kind {
        Kind::CompositeExplicit | Kind::CompositeImplicit => {
            entry.operators.iter().flat_map(|op| function(&op.stem)).collect()
        }
        Kind::Iterator(Meta::Rule { ref name, .. }) => {
            find("shape rule", &["crates/aten/src/iterate"], &function(name))?;
            Vec::new()
        }
        _ => function(&entry.stem).to_vec(),
    };
    let folder = match entry.kind {
        Kind::Iterator(_) => "meta",
        Kind::Native => "native",
        _ => "composite",
    };
    if !bodies.is_empty() {
        let base = format!("crates/aten/src/{folder}/{family}");
        find("body", &[&base], &bodies)?;
    }
    let mut kernels: BTreeSet<(&str, &str)> =
        entry.kernels.iter().map(|k| (family.as_str(), k.name.as_str())).collect();
    kernels.extend(entry.kernel.iter().map(|(family, name)| (family.as_str(), name.as_str())));
    for (family, kernel) in kernels {
        for backend in ["cpu", "cuda", "hip"] {
            find("kernel", &[&format!("crates/backends-{backend}/src/{family}")], &function(kernel))?;
        }
    }
    if let Gradient::Node(derivatives) = &entry.gradient {
        for formula in &derivatives.formulas {
            let words = formula.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let called: Vec<String> = words.filter(|word| names::snake(word) == **word).flat_map(function).collect();
            find("formula", &["crates/autograd/src/formulas"], &called)?;
        }
        find("node", &["crates/autograd/src/generated"], &[format!("struct {} ", derivatives.grad_fn)])?;
    }
    for op in &entry.operators {
        let table = aten::static_name(&op.stem);
        find("generated", &[&format!("crates/aten/src/generated/{family}")], &[format!("pub static {table}:")])?;
    }
    Ok(places)
}

/// The files of a module or folder: `loops.rs` and what lies below `loops`.
fn module_files(module: &str) -> Vec<String> {
    let file = format!("{module}.rs");
    let own = root().join(&file).exists().then_some(file);
    own.into_iter().chain(rust_files(module)).collect()
}

/// Prints what to write for a new operator, and where. Nothing is written: a stub would pass for a finished operator.
pub fn new(name: &str, family: &str) -> Result<(), String> {
    let schema = upstream_schema(name)?;
    println!("{}", snippets::for_new(&schema, family)?);
    Ok(())
}

/// The schema of an overload from upstream's list, where that lies beside the checkout; or the argument, if it is one.
fn upstream_schema(name: &str) -> Result<String, String> {
    if name.contains('(') {
        return Ok(name.to_string());
    }
    let path = root().join("../shared/upstream/operators.jsonl");
    let give = "give the whole schema: cargo xtask op new 'NAME(Tensor self) -> Tensor' --family F";
    let text = std::fs::read_to_string(path).map_err(|_| format!("upstream's operator list is not here; {give}"))?;
    let start = format!("{{\"func\": \"{name}(");
    let Some(line) = text.lines().find(|line| line.starts_with(&start)) else {
        return Err(format!("upstream has no overload '{name}'; {give}"));
    };
    let rest = &line[10..];
    let end = rest.find("\", \"variants\"").ok_or("the operator list has another format")?;
    Ok(rest[..end].replace("\\\"", "\"").replace("\\\\", "\\"))
}
