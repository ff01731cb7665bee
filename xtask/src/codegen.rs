//! `cargo xtask codegen`: writes what `native_functions.yaml` says, and removes generated files that nothing asks for.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;

use tensor_codegen::{FOLDERS, File};

use crate::workspace::{read, root};

/// Writes the generated code; with `check`, fails if any file is not as it would be written.
pub fn run(check: bool) -> Result<(), String> {
    let files = tensor_codegen::generate(&read("native_functions.yaml")?).map_err(|e| e.to_string())?;
    let stale = stale(&files)?;
    if check {
        let list = stale.join("\n  ");
        return if stale.is_empty() { Ok(()) } else { Err(format!("stale, run `cargo xtask codegen`:\n  {list}")) };
    }
    for (path, text) in files.iter().filter(|(path, _)| stale.contains(path)) {
        let full = root().join(path);
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder).map_err(|e| format!("{path}: {e}"))?;
        }
        // A rename, so that a build that runs meanwhile sees the old file or the new one.
        let temporary = full.with_extension(format!("{}.new", std::process::id()));
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &full)).map_err(|e| format!("{path}: {e}"))?;
    }
    for path in stale.iter().filter(|path| files.iter().all(|(wanted, _)| wanted != *path)) {
        match fs::remove_file(root().join(path)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(format!("{path}: {e}")),
            _ => {}
        }
    }
    println!("{} files, {} written", files.len(), stale.len());
    Ok(())
}

/// The paths that differ from what is wanted, and those that are not wanted.
fn stale(files: &[File]) -> Result<Vec<String>, String> {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for (path, text) in files {
        if fs::read_to_string(root().join(path)).ok().as_deref() != Some(text) {
            paths.insert(path.clone());
        }
    }
    for folder in FOLDERS {
        let Ok(list) = fs::read_dir(root().join(folder)) else { continue };
        for entry in list {
            let name = entry.map_err(|e| format!("{folder}: {e}"))?.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            if name.ends_with(".rs") && files.iter().all(|(wanted, _)| *wanted != path) {
                paths.insert(path);
            }
        }
    }
    Ok(paths.into_iter().collect())
}
