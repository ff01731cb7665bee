//! The stamp of `native_functions.yaml`: a hash of what code is written from. Shared by code generation and `build.rs`.

/// FNV-1a over the lines that matter: documentation, comments and blank lines do not.
pub fn stamp(yaml: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut in_doc = false;
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        in_doc = if indent > 2 { in_doc } else { text.starts_with("doc:") };
        if in_doc {
            continue;
        }
        for byte in line.trim_end().bytes().chain([b'\n']) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}
