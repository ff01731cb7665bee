//! The conformance runner: replays a corpus through boxed calls and prints what holds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tensor_tests::corpus::Corpus;
use tensor_tests::floor::{self, Floor};
use tensor_tests::report::Report;
use tensor_tests::run::{self, Options, Outcome};
use tensor_tests::skips::Skips;

const USAGE: &str = "\
Usage: conformance [DIR] [options]

Replays DIR (a folder or a .tar.zst archive in the corpus format; without it, the corpus of this package).

  --tier N              only the items of tier N
  --filter RE           only the items whose id matches
  --json FILE           write the counts and all failures
  --limit-failures N    print at most N lines of failures (default 40)
  --floor FILE          fail if fewer items pass than FILE says; other failures then do not count
  --raise               write what passed into that file
  --variant NAME        how arguments are made: recorded (default), meta (on the meta device; shapes alone are compared),
                        relayout (in other memory layouts; values alone are compared)
  --no-grad             leave the gradients of cases out
  --threads N           run on N threads (default 2)
  -v                    print every operator, not only those that do not pass in full, and every failure on its line

Exit status: 0 if everything passed or is on the list of skips, or the floor is reached, and no skip is stale; 1 if not,
2 for a wrong call.";

struct Args {
    corpus: PathBuf,
    options: Options,
    json: Option<PathBuf>,
    limit: usize,
    floor: Option<PathBuf>,
    raise: bool,
    verbose: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let mut parsed = Args {
        corpus: Corpus::default_path(),
        options: Options { skips: Skips::load()?, ..Options::default() },
        json: None,
        limit: 40,
        floor: None,
        raise: false,
        verbose: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<usize>().map_err(|e| format!("{arg}: {text}: {e}"));
        match arg.as_str() {
            "--tier" => parsed.options.tier = Some(number(value()?)? as u8),
            "--filter" => parsed.options.filter = Some(regex::Regex::new(&value()?).map_err(|e| e.to_string())?),
            "--json" => parsed.json = Some(value()?.into()),
            "--limit-failures" => parsed.limit = number(value()?)?,
            "--floor" => parsed.floor = Some(value()?.into()),
            "--raise" => parsed.raise = true,
            "--variant" => parsed.options.variant = value()?.parse()?,
            "--no-grad" => parsed.options.gradients = false,
            "--threads" => parsed.options.threads = number(value()?)?,
            "-v" | "--verbose" => parsed.verbose = true,
            "-h" | "--help" => return Ok(None),
            other if other.starts_with('-') => return Err(format!("unknown option {other}")),
            path => parsed.corpus = path.into(),
        }
    }
    if parsed.raise && (parsed.floor.is_none() || parsed.options.filter.is_some() || !parsed.options.gradients) {
        return Err("--raise needs --floor, and a run without --filter and --no-grad".to_owned());
    }
    Ok(Some(parsed))
}

fn check_floor(path: &Path, args: &Args, passed: usize) -> Result<(), String> {
    let mut floor = Floor::load(path).or_else(|e| if args.raise { Ok(Floor::default()) } else { Err(e) })?;
    floor.check(args.options.tier, passed)?;
    if args.raise && floor.raise(args.options.tier, passed) {
        floor.save(path)?;
        println!("raised {} to {passed} in {}", floor::name(args.options.tier), path.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(e) => {
            eprintln!("{e}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut items = match Corpus::open(&args.corpus).and_then(|corpus| run::run(&corpus, &args.options)) {
        Ok(items) => items,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    if args.corpus != Corpus::default_path() {
        // The list of skips is that of this package's corpus: another one may have other cases under the same ids.
        for item in items.iter_mut().filter(|item| item.outcome == Outcome::Stale) {
            item.outcome = Outcome::Passed;
        }
    }
    let report = Report::new(&items);
    print!("{}{}{}", report.failures(args.limit, args.verbose), report.table(args.verbose), report.tiers());
    let mut good = report.all.good();
    if let Some(path) = &args.json
        && let Err(e) = std::fs::write(path, format!("{:#}\n", report.json()))
    {
        eprintln!("{}: {e}", path.display());
        good = false;
    }
    if let Some(path) = &args.floor {
        let reached = check_floor(path, &args, report.all.passed);
        good = reached.is_ok() && report.all.stale == 0;
        if let Err(e) = reached {
            eprintln!("{e}");
        }
    }
    println!("{}{}", report.skips(), report.last_line());
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
