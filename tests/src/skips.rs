//! Cases that need not pass, with the reason why. They are run all the same, and one that passes is stale: its line must go.
//! Those that would end a run are never run.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::corpus::Result;

/// A line of `skips.toml`.
#[derive(Debug)]
pub struct Skip {
    pattern: Regex,
    /// why the cases that match need not pass
    pub reason: String,
    /// True if they are not even run
    pub never_run: bool,
}

/// The skips of `skips.toml`: tables `[skips]` and `[never_run]` of `"pattern" = "reason"`. A pattern is a regular expression
/// that must match the whole id.
#[derive(Default)]
pub struct Skips {
    list: Vec<Skip>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    skips: BTreeMap<String, String>,
    #[serde(default)]
    never_run: BTreeMap<String, String>,
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
        let compile = |(pattern, reason): (String, String), never_run| {
            let pattern = Regex::new(&format!("^(?:{pattern})$")).map_err(|e| format!("skips.toml: {e}"))?;
            Ok(Skip { pattern, reason, never_run })
        };
        let run = file.skips.into_iter().map(|line| compile(line, false));
        Ok(Self { list: run.chain(file.never_run.into_iter().map(|line| compile(line, true))).collect::<Result<_>>()? })
    }

    /// The line that a case is on, if it is on one.
    pub fn find(&self, id: &str) -> Option<&Skip> {
        self.list.iter().find(|skip| skip.pattern.is_match(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids() {
        let skips = Skips::parse("[skips]\n'svd/1\\d' = \"phases\"\n[never_run]\n'svd/2' = \"a minute\"\n").unwrap();
        let found = |id| skips.find(id).map(|skip| (skip.reason.as_str(), skip.never_run));
        assert_eq!(found("svd/12"), Some(("phases", false)));
        assert_eq!(found("svd/2"), Some(("a minute", true)));
        assert_eq!(found("svd/123"), None);
        assert!(Skips::parse("").unwrap().find("svd/12").is_none());
        assert!(Skips::parse("[skips]\n'(' = 'x'\n").is_err());
    }

    #[test]
    fn the_packages_own_file_can_be_read() {
        assert!(Skips::load().is_ok());
    }
}
