//! Counts of a run: the table by operator, the failures, the last line, the JSON file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::run::{Item, Outcome};

/// How many items passed, failed, or lack their operator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Everything recorded holds.
    pub passed: usize,
    /// Something does not.
    pub failed: usize,
    /// The operator is not registered.
    pub missing: usize,
    /// Something does not, for a reason that the list of skips gives.
    pub skipped: usize,
    /// Everything holds, though the list of skips has the item. It counts as passed too.
    pub stale: usize,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Missing => self.missing += 1,
            Outcome::Skipped(_) => self.skipped += 1,
            Outcome::Stale => {
                self.passed += 1;
                self.stale += 1;
            }
        }
    }

    /// All items.
    pub fn total(&self) -> usize {
        self.passed + self.failed + self.missing + self.skipped
    }

    /// True if all items pass or are skipped, and no skip is stale.
    pub fn good(&self) -> bool {
        self.failed + self.missing + self.stale == 0
    }

    fn json(&self) -> Json {
        json!({"passed": self.passed, "failed": self.failed, "missing": self.missing, "skipped": self.skipped})
    }
}

/// The counts of a run, over all and by group.
pub struct Report<'a> {
    items: &'a [Item],
    /// Over all items.
    pub all: Counts,
    groups: BTreeMap<&'a str, Counts>,
    tiers: BTreeMap<u8, Counts>,
}

impl<'a> Report<'a> {
    /// Counts a run's items.
    pub fn new(items: &'a [Item]) -> Self {
        let mut report = Self { items, all: Counts::default(), groups: BTreeMap::new(), tiers: BTreeMap::new() };
        for item in items {
            report.all.add(&item.outcome);
            report.groups.entry(&item.group).or_default().add(&item.outcome);
            report.tiers.entry(item.tier).or_default().add(&item.outcome);
        }
        report
    }

    /// The counts by operator: those that do not pass in full, or all of them.
    pub fn table(&self, all: bool) -> String {
        let mut text = String::new();
        let shown = self.groups.iter().filter(|(_, c)| all || c.passed < c.total());
        for (i, (group, c)) in shown.enumerate() {
            if i == 0 {
                let _ = writeln!(
                    text,
                    "{:<56} {:>7} {:>7} {:>7} {:>7}",
                    "operator", "passed", "failed", "missing", "skipped"
                );
            }
            let _ = writeln!(text, "{group:<56} {:>7} {:>7} {:>7} {:>7}", c.passed, c.failed, c.missing, c.skipped);
        }
        text
    }

    /// The first failures, a line each. Failures of an operator that differ in numbers alone share a line, unless all
    /// are asked for.
    pub fn failures(&self, limit: usize, all: bool) -> String {
        let mut shown: Vec<(&str, &str, usize)> = Vec::new();
        let mut lines: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for item in self.items {
            let Outcome::Failed(reason) = &item.outcome else { continue };
            let kind = if all { item.id.clone() } else { without_numbers(reason) };
            let line = *lines.entry((&item.group, kind)).or_insert_with(|| {
                shown.push((&item.id, reason, 0));
                shown.len() - 1
            });
            if let Some((.., count)) = shown.get_mut(line) {
                *count += 1;
            }
        }
        let mut text = String::new();
        for (id, reason, count) in shown.iter().take(limit) {
            let more = if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            let _ = writeln!(text, "FAIL {id}{more}: {reason}");
        }
        let told: usize = shown.iter().take(limit).map(|(.., count)| count).sum();
        if told < self.all.failed {
            let _ = writeln!(text, "... and {} more failures", self.all.failed - told);
        }
        text
    }

    /// The counts of each tier, a line each.
    pub fn tiers(&self) -> String {
        let mut text = String::new();
        for (tier, c) in &self.tiers {
            let _ = writeln!(text, "tier {tier}: {}", line(c));
        }
        text
    }

    /// The skipped and the stale items, a line each, and their number.
    pub fn skips(&self) -> String {
        let mut text = String::new();
        for item in self.items {
            let _ = match &item.outcome {
                Outcome::Skipped(reason) => writeln!(text, "SKIPPED {}: {reason}", item.id),
                Outcome::Stale => writeln!(text, "STALE {}: it passes; take it off skips.toml", item.id),
                _ => Ok(()),
            };
        }
        let Counts { skipped, stale, .. } = self.all;
        if skipped + stale > 0 {
            let (listed, total) = (self.all.passed + skipped, self.all.total());
            let _ = writeln!(text, "skipped with a reason: {skipped}; passed or skipped: {listed} of {total}");
        }
        text
    }

    /// The line that ends a run.
    pub fn last_line(&self) -> String {
        format!("conformance: {}", line(&self.all))
    }

    /// Everything, for programs.
    pub fn json(&self) -> Json {
        let failures: Vec<Json> = self
            .items
            .iter()
            .filter_map(|item| match &item.outcome {
                Outcome::Failed(reason) => Some(json!({"id": item.id, "operator": item.group, "reason": reason})),
                _ => None,
            })
            .collect();
        let skips: Vec<Json> = self
            .items
            .iter()
            .filter_map(|item| match &item.outcome {
                Outcome::Skipped(reason) => Some(json!({"id": item.id, "operator": item.group, "reason": reason})),
                _ => None,
            })
            .collect();
        let groups: serde_json::Map<String, Json> =
            self.groups.iter().map(|(group, c)| ((*group).to_owned(), c.json())).collect();
        let tiers: serde_json::Map<String, Json> = self.tiers.iter().map(|(t, c)| (t.to_string(), c.json())).collect();
        json!({"all": self.all.json(), "tiers": tiers, "operators": groups, "failures": failures, "skips": skips})
    }
}

/// A reason with each run of digits as `#`.
fn without_numbers(reason: &str) -> String {
    let mut kind = String::with_capacity(reason.len());
    for c in reason.chars() {
        match c {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            c => kind.push(c),
        }
    }
    kind
}

/// `P passed, F failed, M missing of N (X %)`. The percentage is cut off, not rounded: 100 % means all.
fn line(c: &Counts) -> String {
    let total = c.total();
    let tenths = c.passed * 1000 / total.max(1);
    format!(
        "{} passed, {} failed, {} missing of {total} ({}.{} %)",
        c.passed,
        c.failed,
        c.missing,
        tenths / 10,
        tenths % 10
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(group: &str, id: &str, outcome: Outcome) -> Item {
        Item { group: group.to_owned(), id: id.to_owned(), tier: 1, outcome }
    }

    #[test]
    fn a_run_is_counted_and_told() {
        let items = [
            item("aten::add.Tensor", "add.Tensor/0", Outcome::Passed),
            item("aten::add.Tensor", "add.Tensor/1", Outcome::Failed("dtype".to_owned())),
            item("aten::mm", "mm/0", Outcome::Missing),
            item("aten::neg", "neg/0", Outcome::Passed),
        ];
        let report = Report::new(&items);
        assert_eq!(report.last_line(), "conformance: 2 passed, 1 failed, 1 missing of 4 (50.0 %)");
        assert!(!report.table(false).contains("neg") && report.table(true).contains("neg"));
        assert_eq!(report.failures(20, false), "FAIL add.Tensor/1: dtype\n");
        assert_eq!(report.failures(0, false), "... and 1 more failures\n");
        assert_eq!(report.json()["operators"]["aten::mm"]["missing"], 1);
        assert_eq!(Report::new(&[]).last_line(), "conformance: 0 passed, 0 failed, 0 missing of 0 (0.0 %)");
    }

    #[test]
    fn skipped_items_stand_apart_and_stale_ones_are_told() {
        let items = [
            item("aten::svd", "svd/0", Outcome::Skipped("phases".to_owned())),
            item("aten::svd", "svd/1", Outcome::Passed),
        ];
        let report = Report::new(&items);
        assert!(report.all.good());
        assert_eq!(report.skips(), "SKIPPED svd/0: phases\nskipped with a reason: 1; passed or skipped: 2 of 2\n");
        assert_eq!(report.last_line(), "conformance: 1 passed, 0 failed, 0 missing of 2 (50.0 %)");
        let stale = [item("aten::svd", "svd/0", Outcome::Stale)];
        let report = Report::new(&stale);
        assert!(!report.all.good() && report.skips().starts_with("STALE svd/0"));
        assert_eq!(report.last_line(), "conformance: 1 passed, 0 failed, 0 missing of 1 (100.0 %)");
    }

    #[test]
    fn failures_alike_share_a_line() {
        let failed = |id: &str, reason: &str| item("aten::mm", id, Outcome::Failed(reason.to_owned()));
        let items = [failed("mm/0", "got 12, want 3"), failed("mm/1", "got 4, want 55"), failed("mm/2", "dtype")];
        let report = Report::new(&items);
        assert_eq!(report.failures(9, false), "FAIL mm/0 (and 1 more): got 12, want 3\nFAIL mm/2: dtype\n");
        assert_eq!(report.failures(9, true).lines().count(), 3);
        assert_eq!(report.failures(1, false).lines().last(), Some("... and 1 more failures"));
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert!(line(&Counts { passed: 9999, failed: 1, ..Counts::default() }).ends_with("(99.9 %)"));
    }
}
