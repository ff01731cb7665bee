//! `cargo xtask tidy`: the habits that no compiler holds: a `//!` in every file, no leftovers, unsafe code where it may be.

use crate::workspace::{read, root, rust_files};

/// Where unsafe code may stand (docs/ARCHITECTURE.md, section 3).
const UNSAFE: [&str; 13] = [
    "crates/core/src/refcount",
    "crates/core/src/allocator",
    "crates/core/src/storage",
    "crates/core/src/tensor_impl",
    "crates/core/src/element",
    "crates/core/src/iter/",
    "crates/backends-cpu/src/isa",
    "crates/backends-cpu/src/loops",
    "crates/backends-cpu/src/simd",
    "crates/backends-cpu/src/gemm",
    "crates/backends-cpu/src/parallel",
    "crates/backends-cuda/src/",
    "crates/backends-hip/src/",
];

/// What no file says, each in two halves so that this file passes, and why.
const LEFTOVERS: [(&str, &str, &str); 7] = [
    ("todo", "!(", "unfinished code does not land"),
    ("unimplemented", "!(", "return an error"),
    ("dbg", "!(", "a debugging aid"),
    ("FIX", "ME", "mend it, or write an issue"),
    ("XX", "X", "mend it, or write an issue"),
    ("/ho", "me/", "a path of one machine"),
    ("/wo", "rk/", "a path of one machine"),
];

/// A longer file is reported, not refused: uniform lists may be long.
const LONG: usize = 500;

/// Checks every Rust file of the workspace.
pub fn run() -> Result<(), String> {
    let (mut faults, mut long) = (Vec::new(), Vec::new());
    for path in rust_files("") {
        let text = read(&path)?;
        let generated = path.contains("/generated/");
        if !generated {
            faults.extend(faults_of(&path, &text));
            let lines = text.lines().count();
            if lines > LONG {
                long.push((lines, path));
            }
        }
    }
    long.sort();
    for (lines, path) in long.iter().rev() {
        println!("{path}: {lines} lines");
    }
    for page in ["docs/ARCHITECTURE.md", "docs/ADDING_AN_OP.md"] {
        faults.extend(dead_paths(page)?);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!")).unwrap_or_default();
    if !first.starts_with("//!") {
        faults.push(format!("{path}:1: the file does not open with `//!`: what lives here and what does not"));
    }
    let may_be_unsafe = UNSAFE.iter().any(|allowed| path.starts_with(allowed)) || path.contains("/tests");
    for (i, line) in text.lines().enumerate() {
        for (left, right, why) in LEFTOVERS {
            if line.contains(&format!("{left}{right}")) {
                faults.push(format!("{path}:{}: `{left}{right}`: {why}", i + 1));
            }
        }
        if !may_be_unsafe && opens_unsafe(line) {
            faults.push(format!("{path}:{}: unsafe code does not belong in this module", i + 1));
        }
    }
    faults
}

/// True for a line of code with an unsafe block, function, impl or trait.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["{", "fn", "impl", "trait", "extern"]
        .iter()
        .any(|what| code.find(&format!("unsafe {what}")).is_some_and(|at| !code[..at].contains('"')))
}

/// Paths in backquotes that a page names and that do not exist. Capitals stand for any name.
fn dead_paths(page: &str) -> Result<Vec<String>, String> {
    let Ok(text) = read(page) else { return Ok(vec![format!("{page}: missing")]) };
    let mut dead = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            let placeholder =
                quoted.split(['/', '.']).any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()));
            let rooted = ["crates/", "docs/", "codegen/", "xtask/", "tests/"].iter().any(|top| quoted.starts_with(top));
            if plain && rooted && !placeholder && !root().join(quoted).exists() {
                dead.push(format!("{page}:{}: `{quoted}` does not exist", i + 1));
            }
        }
    }
    Ok(dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_and_named() {
        let found = |text: &str| faults_of("crates/aten/src/x.rs", text);
        assert!(found("//! Good.\nfn f() {}\n").is_empty());
        assert_eq!(found("fn f() {}\n").len(), 1);
        let bad = format!("//! Bad.\nfn f() {{ {}!() }}\nfn g() {{ unsafe {{ h() }} }}\n", "todo");
        assert_eq!(found(&bad).len(), 2);
        assert!(faults_of("crates/core/src/storage.rs", "//! x\nunsafe fn f() {}\n").is_empty());
        assert!(found("//! x\n// unsafe { nothing }\n#![forbid(unsafe_code)]\n").is_empty());
    }
}
