//! Cases that are not run, with the reason why. A skipped case counts as failed: skipping only lets a run end.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::corpus::Result;

/// The skips of `skips.toml`: a table `[skips]` of `"pattern" = "reason"`. A pattern is a regular expression that must match
/// the whole id.
#[derive(Default)]
pub struct Skips {
    list: Vec<(Regex, String)>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    skips: BTreeMap<String, String>,
}

impl Skips {
    /// Reads the file of this package.
    ///
    /// # Errors
    /// When it cannot be read, or a pattern is no regular expression.
    pub fn load() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("skips.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text)
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// When it is no TOML, or a pattern is no regular expression.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = basic_toml::from_str(text).map_err(|e| format!("skips.toml: {e}"))?;
        let compile = |(pattern, reason): (String, String)| {
            let re = Regex::new(&format!("^(?:{pattern})$")).map_err(|e| format!("skips.toml: {e}"))?;
            Ok((re, reason))
        };
        Ok(Self { list: file.skips.into_iter().map(compile).collect::<Result<_>>()? })
    }

    /// Why a case is not run, if it is not.
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.list.iter().find(|(re, _)| re.is_match(id)).map(|(_, reason)| reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids() {
        let skips = Skips::parse("[skips]\n'svd/1\\d' = \"takes a minute\"\n").unwrap();
        assert_eq!(skips.reason("svd/12"), Some("takes a minute"));
        assert_eq!(skips.reason("svd/123"), None);
        assert!(Skips::parse("").unwrap().reason("svd/12").is_none());
        assert!(Skips::parse("[skips]\n'(' = 'x'\n").is_err());
    }

    #[test]
    fn the_packages_own_file_can_be_read() {
        assert!(Skips::load().is_ok());
    }
}
