//! The bench: times the library on the workloads of `tests/bench/workloads.json` and prints one JSON line each.
//!
//! `cargo xtask bench` runs it. The lines are those that the comparison with other libraries reads.

#[path = "../bench/mod.rs"]
mod bench;

use std::process::{Command, ExitCode};
use std::time::Duration;

use bench::{Workload, timing};
use regex::Regex;

const USAGE: &str = "\
Usage: bench [options]

Prints a line for each workload: {\"name\", \"impl\": \"ours\", \"min_ns\", \"median_ns\", \"runs\", \"clean\"}.

  --filter RE       only the workloads whose name matches
  --threads N       run on N threads (default 2)
  --budget-ms MS    time for the samples of one workload (default 400)
  --list            only print the names";

struct Args {
    filter: Regex,
    threads: usize,
    budget: Duration,
    list: bool,
    /// In a fresh process: print its peak memory in place of times.
    memory: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
    let filter = Regex::new("").map_err(|e| e.to_string())?;
    let mut parsed = Args { filter, threads: 2, budget: Duration::from_millis(400), list: false, memory: false };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<f64>().map_err(|e| format!("{arg}: {text}: {e}"));
        match arg.as_str() {
            "--filter" => parsed.filter = Regex::new(&value()?).map_err(|e| e.to_string())?,
            "--threads" => parsed.threads = number(value()?)? as usize,
            "--budget-ms" => parsed.budget = Duration::from_secs_f64(number(value()?)?.clamp(0.0, 1e6) / 1e3),
            "--list" => parsed.list = true,
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

fn run(args: &Args) -> Result<(), String> {
    let all = bench::workloads()?;
    tensor::config::set_num_threads(args.threads);
    for workload in all.iter().filter(|workload| args.filter.is_match(&workload.name)) {
        if args.list {
            println!("{}", workload.name);
            continue;
        }
        tensor::manual_seed(0);
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
