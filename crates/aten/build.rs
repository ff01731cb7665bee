//! Refuses to build when `native_functions.yaml` was changed and the generated code was not written anew.
//!
//! Nothing is checked where no YAML lies above, as in a published crate; documentation lines do not count.

#[path = "stamp.rs"]
mod stamp;

use std::path::Path;

fn main() {
    let yaml = Path::new("../../native_functions.yaml");
    println!("cargo::rerun-if-changed=src/generated/mod.rs");
    println!("cargo::rerun-if-changed={}", yaml.display());
    let (Ok(yaml), Ok(generated)) = (std::fs::read_to_string(yaml), std::fs::read_to_string("src/generated/mod.rs"))
    else {
        return;
    };
    if !generated.contains(&format!("STAMP: &str = \"{}\"", stamp::stamp(&yaml))) {
        println!("cargo::error=native_functions.yaml has changed since code was generated: run `cargo xtask codegen`");
    }
}
