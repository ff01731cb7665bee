//! The floor: passed counts that a run must reach. They are raised by hand or with `--raise`, and never lowered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::corpus::Result;

const HEADER: &str = "# How many items of the conformance corpus pass at least, by tier. Raised with\n\
                      # `cargo xtask conformance --floor tests/conformance/floor.toml --raise`; never lowered.\n";

/// Passed counts by name: `tier1`, `tier2`, `tier3`, `all`.
#[derive(Debug, Default, PartialEq)]
pub struct Floor(BTreeMap<String, usize>);

/// The name of a run's count.
pub fn name(tier: Option<u8>) -> String {
    tier.map_or_else(|| "all".to_owned(), |t| format!("tier{t}"))
}

impl Floor {
    /// Reads a floor file.
    ///
    /// # Errors
    /// When it cannot be read or is no TOML.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        basic_toml::from_str(&text).map(Self).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The least passed count of a run.
    pub fn least(&self, tier: Option<u8>) -> usize {
        self.0.get(&name(tier)).copied().unwrap_or(0)
    }

    /// Checks a passed count.
    ///
    /// # Errors
    /// When it lies below the floor.
    pub fn check(&self, tier: Option<u8>, passed: usize) -> Result<()> {
        let least = self.least(tier);
        if passed < least {
            return Err(format!("{passed} passed, below the floor of {least} for {}", name(tier)));
        }
        Ok(())
    }

    /// Raises a count to what passed. False if it was as high already.
    pub fn raise(&mut self, tier: Option<u8>, passed: usize) -> bool {
        let count = self.0.entry(name(tier)).or_default();
        let higher = passed > *count;
        *count = passed.max(*count);
        higher
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = HEADER.to_owned();
        for (name, count) in &self.0 {
            let _ = writeln!(text, "{name} = {count}");
        }
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_rise() {
        let mut floor = Floor::default();
        assert!(floor.raise(Some(1), 10) && !floor.raise(Some(1), 9) && !floor.raise(Some(1), 10));
        assert!(floor.check(Some(1), 10).is_ok() && floor.check(Some(1), 9).is_err());
        assert!(floor.check(None, 0).is_ok());
        assert_eq!(name(None), "all");
    }

    #[test]
    fn what_is_saved_is_read() {
        let path = std::env::temp_dir().join(format!("tensor-floor-{}.toml", std::process::id()));
        let mut floor = Floor::default();
        floor.raise(Some(2), 7);
        floor.raise(None, 9);
        floor.save(&path).unwrap();
        assert_eq!(Floor::load(&path).unwrap(), floor);
        std::fs::remove_file(&path).unwrap();
        assert!(Floor::load(&path).is_err());
    }
}
