//! The bench's workloads under criterion, a group a family: `cargo bench -p tensor-tests --bench families [-- FILTER]`. It keeps the
//! figures of earlier runs and says what has changed; comparisons with other libraries are made by `cargo xtask bench`.

#[allow(dead_code, reason = "the bench's own options: this runs its workloads alone")]
#[path = "../src/bench/mod.rs"]
mod bench;

use std::time::Duration;

use bench::{entries, job, workloads};
use criterion::{Criterion, Throughput};

fn families(criterion: &mut Criterion) -> Result<(), String> {
    let workloads = workloads(&entries()?)?;
    for family in workloads.chunk_by(|a, b| a.group == b.group) {
        let mut group = criterion.benchmark_group(&family[0].group);
        for workload in family.iter().filter(|workload| workload.unit.is_none()) {
            let name = workload.name.split_once('/').map_or(workload.name.as_str(), |(_, name)| name);
            if let Some(bytes) = workload.bytes {
                group.throughput(Throughput::Bytes(bytes as u64));
            }
            // Its tensors are made when criterion's filter has let it through.
            group.bench_function(name, |bencher| match job(workload) {
                Ok(Some(mut run)) => bencher.iter(|| run().map_err(|error| error.to_string())),
                Ok(None) => eprintln!("{}: lacks operators", workload.name),
                Err(error) => eprintln!("{}: {error}", workload.name),
            });
        }
        group.finish();
    }
    Ok(())
}

fn main() -> Result<(), String> {
    tensor::config::set_num_threads(2);
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    families(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
