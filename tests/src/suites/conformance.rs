//! The first tier of the corpus against the recorded floor: the passed count never falls.

use std::path::Path;

use tensor_tests::corpus::Corpus;
use tensor_tests::floor::Floor;
use tensor_tests::report::Report;
use tensor_tests::run::{Options, Outcome, run};
use tensor_tests::skips::Skips;

fn tier1(threads: usize) -> Vec<tensor_tests::run::Item> {
    let corpus = Corpus::open(&Corpus::default_path()).unwrap();
    run(&corpus, &Options { tier: Some(1), threads, skips: Skips::load().unwrap(), ..Options::default() }).unwrap()
}

#[test]
fn the_first_tier_stays_above_its_floor() {
    let items = tier1(2);
    let report = Report::new(&items);
    let floor = Floor::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/floor.toml")).unwrap();
    if let Err(e) = floor.check(Some(1), report.all.passed) {
        panic!("{e}\n{}{}", report.failures(40, false), report.last_line());
    }
    // Builds for debugging have no fused multiply-adds, which a few recorded roundings show.
    if !cfg!(debug_assertions) {
        assert_eq!((report.all.failed, report.all.missing), (0, 0), "{}", report.failures(40, false));
    }
    assert_eq!(report.all.stale, 0, "{}", report.skips());
    assert!(report.all.skipped * 200 <= report.all.total(), "too many skips:\n{}", report.skips());
    let panics: Vec<_> =
        items.iter().filter(|i| matches!(&i.outcome, Outcome::Failed(text) if text.contains("panic: "))).collect();
    assert!(panics.is_empty(), "no call may panic: {panics:#?}");
}

#[test]
fn threads_do_not_change_the_results() {
    let summary = |items: Vec<tensor_tests::run::Item>| -> Vec<_> {
        items.into_iter().map(|i| (i.id, i.outcome == Outcome::Passed)).collect()
    };
    assert_eq!(summary(tier1(1)), summary(tier1(2)));
}
