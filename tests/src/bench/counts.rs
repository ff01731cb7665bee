//! Instructions of small calls, counted by callgrind: unlike times they are the same on a busy machine, so that a test can
//! hold them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::Job;

/// Calls that are counted, after as many that fill caches and free lists.
const CALLS: u64 = 100;

/// How far a count may lie above the recorded one.
const TOLERANCE: f64 = 0.05;

/// Where callgrind starts and stops to count.
#[inline(never)]
fn counted_calls(job: &mut Job) {
    for _ in 0..CALLS {
        let _ = std::hint::black_box(job());
    }
}

/// What runs under callgrind.
///
/// # Errors
/// Those of the job.
pub fn run(job: &mut Job) -> tensor::Result<()> {
    (0..CALLS).try_for_each(|_| job())?;
    counted_calls(job);
    Ok(())
}

/// Instructions of one call of a workload.
///
/// # Errors
/// When valgrind is not installed, or did not end well.
pub fn count(name: &str, per: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted_calls*"])
        .arg(program)
        .args(["--count-one", "--threads", "1", "--filter", &format!("^{}$", regex::escape(name))])
        // Valgrind knows no AVX-512.
        .env("TENSOR_CPU_LEVEL", "v3")
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = Regex::new(r"Collected : (\d+)").map_err(|e| e.to_string())?;
    let found = collected.captures(&text).and_then(|found| found[1].parse::<u64>().ok());
    match found {
        Some(all) if output.status.success() && all > 0 => Ok(all / CALLS / per),
        _ => Err(format!("{name}: valgrind counted nothing\n{text}")),
    }
}

/// The recorded counts by name.
#[derive(Default)]
pub struct Recorded(BTreeMap<String, u64>);

impl Recorded {
    /// Reads `counts.toml`.
    ///
    /// # Errors
    /// When it cannot be read or is no table of counts.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        basic_toml::from_str(&text).map(Self).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Records a count.
    pub fn set(&mut self, name: &str, count: u64) {
        self.0.insert(name.to_owned(), count);
    }

    /// Writes `counts.toml`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), String> {
        let lines: String = self.0.iter().map(|(name, count)| format!("\"{name}\" = {count}\n")).collect();
        let head =
            "# Instructions of a call at level v3, by callgrind. Written by `cargo xtask bench --counts --write`.\n";
        std::fs::write(path, head.to_owned() + &lines).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Checks a count.
    ///
    /// # Errors
    /// When it was not recorded, or lies above what was.
    pub fn check(&self, name: &str, count: u64) -> Result<(), String> {
        match self.0.get(name) {
            None => Err(format!("{name}: no recorded count")),
            Some(&old) if count as f64 > old as f64 * (1.0 + TOLERANCE) => {
                Err(format!("{name}: {count} instructions, {old} recorded"))
            }
            Some(_) => Ok(()),
        }
    }
}
