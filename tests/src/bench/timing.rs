//! How a closure is timed: samples of about 2 ms, told apart by whether other processes disturbed them.

use std::time::{Duration, Instant};

use tensor::Result;

use super::Job;

/// What a sample should last at least, in nanoseconds.
const SAMPLE: f64 = 2e6;

/// Time for the runs before the clock starts.
const WARM_UP: Duration = Duration::from_millis(100);

/// Samples of one workload at most.
const MOST: usize = 300;

/// What was measured of one workload.
pub struct Line {
    min: f64,
    median: f64,
    runs: usize,
    clean: usize,
    unit: Option<&'static str>,
}

impl Line {
    /// The same, where a closure does `n` operations.
    pub fn per(self, n: u64) -> Self {
        Self { min: self.min / n as f64, median: self.median / n as f64, ..self }
    }

    /// The line that is printed.
    pub fn json(&self, name: &str) -> String {
        let Self { min, median, runs, clean, unit } = self;
        let unit = unit.map(|unit| format!(", \"unit\": \"{unit}\"")).unwrap_or_default();
        format!(
            "{{\"name\": \"{name}\", \"impl\": \"ours\", \"min_ns\": {min:.1}, \"median_ns\": {median:.1}, \"runs\": {runs}, \
             \"clean\": {clean}{unit}}}"
        )
    }
}

/// Nanoseconds of `n` runs.
fn sample(job: &mut Job, n: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..n {
        job()?;
    }
    Ok(start.elapsed().as_nanos() as f64)
}

/// Nanoseconds that the threads of this process have waited for a core, by the kernel's count; 0 where it keeps none.
fn waited() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    threads.flatten().filter_map(|thread| of(thread.path().join("schedstat"))).sum()
}

/// Binds the threads of this process to a core each, in turn, as far as the system lets it. Some schedulers leave two busy
/// threads on one core for seconds, which doubles their times; PyTorch's threads are bound as well (`OMP_PROC_BIND`).
pub fn bind_threads() {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).cycle();
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return };
        let mut threads: Vec<i32> =
            threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        for (thread, core) in threads.into_iter().zip(&mut cores) {
            let mut one = CpuSet::new();
            one.set(core);
            // A thread that has ended meanwhile, or that may not be bound, runs where it would.
            let _ = sched_setaffinity(Pid::from_raw(thread), &one);
        }
    }
}

/// Times a closure: warms up, then takes samples for a while, for up to three times that to find undisturbed ones.
pub fn measure(job: &mut Job, budget: Duration) -> Result<Line> {
    let start = Instant::now();
    let mut one = sample(job, 1)?;
    let least = if one > 5e8 { 0 } else { 2 };
    let mut warmed = 0;
    while warmed < least || (start.elapsed() < WARM_UP && warmed < 200) {
        one = one.min(sample(job, 1)?);
        warmed += 1;
    }
    let n = (SAMPLE / one.max(1.0)).ceil() as usize;
    let (mut all, mut clean) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while all.len() < MOST {
        let before = waited();
        let time = sample(job, n)?;
        all.push(time / n as f64);
        if (waited().saturating_sub(before) as f64) < 0.1 * time + 1e5 {
            clean.push(time / n as f64);
        }
        let found = clean.len() >= 5 || (clean.len() >= 3 && one > 2e8);
        let elapsed = start.elapsed();
        if (found && elapsed >= budget) || (elapsed >= 3 * budget && all.len() >= 3) {
            break;
        }
    }
    let kept = clean.len();
    let mut samples = if kept >= 3 { clean } else { all };
    samples.sort_by(f64::total_cmp);
    Ok(Line { min: samples[0], median: samples[samples.len() / 2], runs: samples.len(), clean: kept, unit: None })
}

/// The most memory that this process has used, where the kernel says.
pub fn peak_memory() -> Option<Line> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let bytes = line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0;
    Some(Line { min: bytes, median: bytes, runs: 1, clean: 1, unit: Some("bytes") })
}
