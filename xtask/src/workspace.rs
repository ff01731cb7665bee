//! The workspace's files and commands, with errors that name them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The text of a file, by its path from the root.
pub fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))
}

/// The Rust files below a folder, as paths from the root, sorted. Build outputs and hidden folders are left out.
pub fn rust_files(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_string()];
    while let Some(folder) = folders.pop() {
        let Ok(list) = std::fs::read_dir(root().join(&folder)) else { continue };
        for entry in list.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if !is_folder && name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Runs a program in the root, its output going to the terminal.
pub fn execute(program: &str, args: &[&str]) -> Result<(), String> {
    // A path is one from the root.
    let path = if program.contains('/') { root().join(program) } else { PathBuf::from(program) };
    match Command::new(path).args(args).current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(e) => Err(format!("{program}: {e}")),
    }
}
