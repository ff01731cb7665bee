//! Where the workspace lies, and reading its files with errors that name them.

use std::path::{Path, PathBuf};

/// The workspace's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The text of a file, by its path from the root.
pub fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))
}
