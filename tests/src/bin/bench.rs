//! The bench: times the library on the workloads of `tests/bench/workloads.json` and prints one JSON line each.
//!
//! `cargo xtask bench` runs it. The lines are those that the comparison with other libraries reads.

#[path = "../bench/mod.rs"]
mod bench;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use bench::counts::{self, Recorded};
use bench::report::Report;
use bench::vary::vary;
use bench::{Workload, timing};
use regex::Regex;

const USAGE: &str = "\
Usage: bench [options]

Prints a line for each workload: {\"name\", \"impl\": \"ours\", \"min_ns\", \"median_ns\", \"runs\", \"clean\"}.

  --filter RE       only the workloads whose name matches
  --threads N       run on N threads (default 2)
  --budget-ms MS    time for the samples of one workload (default 400)
  --list            only print the names
  --random SEED     the list with random shapes, without what has fixed ones
  --save FILE       write the list that would run, for pytorch.py, and run nothing
  --counts          count the instructions of the group `overhead` (needs valgrind), and hold them to tests/bench/counts.toml
  --write           with --counts: record them
  --report FILE     of the lines of `ours` and `torch` in FILE, and of a machine's limits if there are any, print a table, and draw
                    docs/performance.svg";

struct Args {
    filter: Regex,
    threads: usize,
    budget: Duration,
    list: bool,
    random: Option<u64>,
    save: Option<PathBuf>,
    counts: bool,
    write: bool,
    report: Option<PathBuf>,
    /// Under valgrind: the calls whose instructions are counted.
    count_one: bool,
    /// In a fresh process: print its peak memory in place of times.
    memory: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let filter = Regex::new("").map_err(|e| e.to_string())?;
    let mut parsed = Args {
        filter,
        threads: 2,
        budget: Duration::from_millis(400),
        list: false,
        random: None,
        save: None,
        counts: false,
        write: false,
        report: None,
        count_one: false,
        memory: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<f64>().map_err(|e| format!("{arg}: {text}: {e}"));
        match arg.as_str() {
            "--filter" => parsed.filter = Regex::new(&value()?).map_err(|e| e.to_string())?,
            "--threads" => parsed.threads = number(value()?)? as usize,
            "--budget-ms" => parsed.budget = Duration::from_secs_f64(number(value()?)?.clamp(0.0, 1e6) / 1e3),
            "--list" => parsed.list = true,
            "--random" => parsed.random = Some(number(value()?)? as u64),
            "--save" => parsed.save = Some(value()?.into()),
            "--counts" => parsed.counts = true,
            "--write" => parsed.write = true,
            "--report" => parsed.report = Some(value()?.into()),
            "--count-one" => parsed.count_one = true,
            "--memory" => parsed.memory = true,
            "-h" | "--help" => return Ok(None),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(Some(parsed))
}

/// Times one workload. `Ok(None)` is one that the library cannot express.
fn measure(args: &Args, workload: &Workload, all: &[Workload]) -> tensor::Result<Option<timing::Line>> {
    if workload.op != "gpt2s_train_rss" {
        let Some(mut job) = bench::job(workload)? else { return Ok(None) };
        return timing::measure(&mut job, args.budget).map(|line| Some(line.per(workload.per)));
    }
    if args.memory {
        let Some(training) = all.iter().find(|other| other.op == "gpt2s_train") else { return Ok(None) };
        let Some(mut job) = bench::job(training)? else { return Ok(None) };
        for _ in 0..3 {
            job()?;
        }
        return Ok(timing::peak_memory());
    }
    // A fresh process prints the line itself.
    let filter = format!("^{}$", regex::escape(&workload.name));
    if let Ok(program) = std::env::current_exe() {
        let threads = args.threads.to_string();
        let _ = Command::new(program).args(["--memory", "--filter", &filter, "--threads", &threads]).status();
    }
    Ok(None)
}

/// Runs something that is worth all threads.
fn parallel_region() -> tensor::Result<()> {
    tensor::Tensor::zeros(&[1 << 22], tensor::DType::F32)?.exp().map(drop)
}

/// A file of this package's folder `bench`, or beside it.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Counts the instructions of small calls, and checks or records them.
fn count(args: &Args, selected: &[&Workload]) -> Result<(), String> {
    let path = file("bench/counts.toml");
    let mut recorded = if args.write { Recorded::default() } else { Recorded::load(&path)? };
    let mut failed = Vec::new();
    for workload in selected.iter().filter(|workload| workload.group == "overhead") {
        let count = counts::count(&workload.name, workload.per)?;
        println!("{}: {count} instructions", workload.name);
        match args.write {
            true => recorded.set(&workload.name, count),
            false => failed.extend(recorded.check(&workload.name, count).err()),
        }
    }
    if args.write {
        recorded.save(&path)?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn report(all: &[Workload], lines: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(lines).map_err(|e| format!("{}: {e}", lines.display()))?;
    let report = Report::read(all, &text)?;
    print!("{}", report.table());
    report.draw(&file("../docs/performance.svg"))
}

fn run(args: &Args) -> Result<(), String> {
    let mut entries = bench::entries()?;
    if let Some(seed) = args.random {
        entries = vary(&entries, seed);
    }
    let all = bench::workloads(&entries)?;
    if let Some(path) = &args.save {
        let text = serde_json::to_string_pretty(&entries).map_err(|e| e.to_string())?;
        return std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()));
    }
    if let Some(lines) = &args.report {
        return report(&all, lines);
    }
    let selected: Vec<&Workload> = all.iter().filter(|workload| args.filter.is_match(&workload.name)).collect();
    if args.counts {
        return count(args, &selected);
    }
    tensor::config::set_num_threads(args.threads);
    if !(args.list || args.count_one) {
        // The first region starts the workers.
        parallel_region().map_err(|e| e.to_string())?;
        timing::bind_threads();
    }
    for workload in selected {
        if args.list {
            println!("{}", workload.name);
            continue;
        }
        tensor::manual_seed(0);
        if args.count_one {
            let job = bench::job(workload).map_err(|e| e.to_string())?;
            return job.map_or(Ok(()), |mut job| counts::run(&mut job).map_err(|e| e.to_string()));
        }
        match measure(args, workload, &all) {
            Ok(Some(line)) => println!("{}", line.json(&workload.name)),
            Ok(None) => {}
            Err(e) => eprintln!("ours: {}: {e}", workload.name),
        }
        tensor::config::empty_cache();
    }
    Ok(())
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(args)) => match run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        },
        Ok(None) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}
