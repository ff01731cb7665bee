//! Runs a corpus: hands its files to threads, catches panics, and gives one [`Item`] for each case, program, step or row.
//!
//! The checks themselves are in the modules below; the library is reached through [`crate::bridge`] alone.

mod call;
mod grad;
mod guard;
mod outputs;
mod printing;
mod program;
mod promotion;
mod rng;
#[cfg(test)]
mod selftest;

use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;
use serde_json::Value as Json;

use self::outputs::Strictness;
use crate::bridge;
use crate::corpus::{Case, Corpus, Result, SafeTensors, Tiers, Value};
use crate::schema;
use crate::skips::Skips;

/// What to run, and how.
pub struct Options {
    /// Only items of this tier.
    pub tier: Option<u8>,
    /// Only items whose id matches.
    pub filter: Option<Regex>,
    /// How the arguments are made.
    pub variant: Variant,
    /// False to leave the gradients of cases out.
    pub gradients: bool,
    /// How many threads run files side by side. Results do not depend on it.
    pub threads: usize,
    /// Cases that need not pass, with the reason.
    pub skips: Skips,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tier: None,
            filter: None,
            variant: Variant::Recorded,
            gradients: true,
            threads: 2,
            skips: Skips::default(),
        }
    }
}

impl Options {
    fn wants(&self, id: &str, tier: u8) -> bool {
        self.tier.is_none_or(|t| t == tier) && self.filter.as_ref().is_none_or(|re| re.is_match(id))
    }
}

/// How the arguments of cases are made. Programs, random numbers, printing and promotion belong to the first one alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Variant {
    /// As they were recorded.
    #[default]
    Recorded,
    /// On the meta device: outputs must have the recorded dtypes, sizes, strides and aliases.
    Meta,
    /// Each argument that is only read in a storage of its own, with other strides and an offset: outputs must have the
    /// recorded values.
    Relayout,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "recorded" => Ok(Self::Recorded),
            "meta" => Ok(Self::Meta),
            "relayout" => Ok(Self::Relayout),
            _ => Err(format!("unknown variant {name}: recorded, meta or relayout")),
        }
    }
}

/// How an item went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Everything that was recorded holds.
    Passed,
    /// Something does not; the text says what comes first.
    Failed(String),
    /// The library lacks the operator.
    Missing,
    /// It does not pass, and the list of skips says why.
    Skipped(String),
    /// It passes, though the list of skips has it.
    Stale,
}

/// One thing that was checked.
#[derive(Clone, Debug)]
pub struct Item {
    /// The operator, or what the item belongs to.
    pub group: String,
    /// The item's name in the corpus.
    pub id: String,
    /// The tier that it counts in.
    pub tier: u8,
    /// How it went.
    pub outcome: Outcome,
}

/// Held by whatever draws random numbers: the default generator is the process's.
static GENERATOR: Mutex<()> = Mutex::new(());

/// What a job needs to know of the run.
struct Run<'a> {
    tiers: Tiers,
    options: &'a Options,
}

impl Run<'_> {
    /// One item, unless it was not asked for. `check` runs with panics caught.
    fn item(
        &self,
        group: &str,
        id: String,
        tier: u8,
        missing: bool,
        check: impl FnOnce() -> Result<()>,
    ) -> Option<Item> {
        if !self.options.wants(&id, tier) {
            return None;
        }
        let outcome = match (self.options.skips.find(&id), missing) {
            (Some(skip), _) if skip.never_run => Outcome::Skipped(skip.reason.clone()),
            (_, true) => Outcome::Missing,
            (Some(skip), _) => match guard::outcome(check) {
                Outcome::Passed => Outcome::Stale,
                _ => Outcome::Skipped(skip.reason.clone()),
            },
            (None, _) => guard::outcome(check),
        };
        Some(Item { group: group.to_owned(), id, tier, outcome })
    }
}

type Job<'a> = Box<dyn Fn(&Run<'_>) -> Result<Vec<Item>> + Send + Sync + 'a>;

/// Runs what the options ask for. Items come in the order of the corpus.
///
/// # Errors
/// When a file of the corpus is not what the format says.
pub fn run(corpus: &Corpus, options: &Options) -> Result<Vec<Item>> {
    let run = Run { tiers: Tiers::of(corpus)?, options };
    let mut jobs: Vec<(String, Job<'_>)> = Vec::new();
    for folder in ["ops", "sparse"] {
        for (name, bytes) in corpus.case_files(folder) {
            jobs.push((name.to_owned(), Box::new(move |run| case_file(run, name, bytes))));
        }
    }
    let whole = options.variant == Variant::Recorded;
    for name in ["programs.safetensors", "sparse/programs.safetensors"] {
        if let Some(bytes) = corpus.file(name).filter(|_| whole) {
            jobs.push((name.to_owned(), Box::new(move |run| program::file(run, name, bytes))));
        }
    }
    let rest: [(&str, fn(&Run<'_>, &[u8]) -> Result<Vec<Item>>); 3] =
        [("rng.safetensors", rng::file), ("printing.json", printing::file), ("promotion.json", promotion::file)];
    for (name, check) in rest {
        if let Some(bytes) = corpus.file(name).filter(|_| whole) {
            jobs.push((name.to_owned(), Box::new(move |run| check(run, bytes))));
        }
    }
    guard::install();
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Result<Vec<Item>>>> = jobs.iter().map(|_| Mutex::new(Ok(Vec::new()))).collect();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some(((name, job), slot)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(i).zip(results.get(i))
                } {
                    let found = job(&run).map_err(|e| format!("{name}: {e}"));
                    *slot.lock().unwrap_or_else(|e| e.into_inner()) = found;
                }
            });
        }
    });
    let mut items = Vec::new();
    for result in results {
        items.extend(result.into_inner().unwrap_or_else(|e| e.into_inner())?);
    }
    Ok(items)
}

/// The cases of one operator.
fn case_file(run: &Run<'_>, name: &str, bytes: &[u8]) -> Result<Vec<Item>> {
    let file = SafeTensors::parse(bytes)?;
    let op = file.metadata("op")?;
    let sparse = name.starts_with("sparse/");
    let group = if sparse { format!("{op} (sparse)") } else { op.to_owned() };
    let tier = if sparse { 3 } else { run.tiers.operator(op) };
    if run.options.tier.is_some_and(|t| t != tier) {
        return Ok(Vec::new());
    }
    let arguments = schema::arguments(file.metadata("schema")?);
    let missing = !bridge::registered(op);
    let cases: Vec<Json> = serde_json::from_str(file.metadata("cases")?).map_err(|e| format!("cases: {e}"))?;
    let context = call::Context { file: &file, op, arguments: &arguments };
    let variant = run.options.variant;
    let mut items = Vec::with_capacity(cases.len());
    for case in cases {
        let id = case.get("id").and_then(Json::as_str).ok_or("a case without an id")?;
        let id = if sparse { format!("sparse/{id}") } else { id.to_owned() };
        let case = serde_json::from_value::<Case>(case).map_err(|e| format!("the case cannot be read: {e}"));
        if case.as_ref().is_ok_and(|case| !variant.applies(case)) {
            continue;
        }
        items.extend(run.item(&group, id, tier, missing, || {
            let case = case?;
            let _serial = case.tagged("random").then(|| GENERATOR.lock().unwrap_or_else(|e| e.into_inner()));
            check_case(&context, &case, variant, run.options.gradients)
        }));
    }
    Ok(items)
}

impl Variant {
    /// Errors and sparse tensors belong to the recorded form alone, and so do calls without a tensor to change.
    fn applies(self, case: &Case) -> bool {
        let strided = |v: &Option<Value>| match v {
            Some(Value::Tensor(t)) => t.storage.is_some(),
            Some(Value::TensorList(list)) => list.iter().flatten().any(|t| t.storage.is_some()),
            _ => false,
        };
        let sparse = |v: &Option<Value>| matches!(v, Some(Value::Sparse(_)));
        let outputs = || case.outputs.iter().flatten();
        self == Self::Recorded
            || (case.error.is_none() && case.args.iter().any(strided) && !case.args.iter().chain(outputs()).any(sparse))
    }

    fn strictness(self) -> Strictness {
        Strictness { layout: self != Self::Relayout, values: self != Self::Meta }
    }
}

fn check_case(context: &call::Context<'_>, case: &Case, variant: Variant, gradients: bool) -> Result<()> {
    if case.tagged("random") {
        bridge::manual_seed(0);
    }
    let built = context.build(case, variant)?;
    let returned = bridge::call(context.op, built.args.clone());
    if let Some(want) = &case.error {
        return call::check_error(returned.map(drop), want);
    }
    let agreement = outputs::check(context, case, &built, &returned.map_err(call::show)?, variant.strictness())?;
    match &case.grad {
        Some(grad) if gradients && variant == Variant::Recorded => grad::check(context, case, grad, agreement),
        _ => Ok(()),
    }
}
