//! The workloads of the bench as closures, a file a group. How they are timed is in [`timing`].

pub mod counts;
mod elementwise;
mod indexing;
mod matmul;
mod model;
mod nn;
mod optim;
mod overhead;
mod reduction;
pub mod report;
pub mod timing;
pub mod vary;

use serde::Deserialize;
use serde_json::Value;
use tensor::prelude::*;

/// One operation to time: what it makes is dropped inside it.
pub type Job = Box<dyn FnMut() -> Result<()>>;

/// The sizes of a GPT.
#[derive(Clone, Copy, Deserialize)]
pub struct Config {
    pub layers: usize,
    pub heads: i64,
    pub width: i64,
    pub vocab: i64,
    pub ctx: i64,
}

/// An entry of the list.
#[derive(Clone, Deserialize)]
pub struct Workload {
    /// group/op/shape/dtype
    pub name: String,
    pub group: String,
    pub op: String,
    pub dtype: String,
    /// of the inputs
    pub shapes: Vec<Vec<i64>>,
    /// the time of a closure is divided by it
    #[serde(default = "one")]
    pub per: u64,
    pub init: Option<String>,
    #[serde(default)]
    pub padding: i64,
    #[serde(default = "one_group")]
    pub groups: i64,
    #[serde(default)]
    pub k: i64,
    #[serde(default)]
    pub tokens: i64,
    #[serde(default)]
    pub channels: Vec<i64>,
    pub cfg: Option<Config>,
    /// what the work cannot do without
    pub flops: Option<f64>,
    pub bytes: Option<f64>,
    pub unit: Option<String>,
}

fn one() -> u64 {
    1
}

fn one_group() -> i64 {
    1
}

/// The list as JSON.
///
/// # Errors
/// When the file is none.
pub fn entries() -> Result<Vec<Value>, String> {
    serde_json::from_str(include_str!("../../bench/workloads.json")).map_err(|e| format!("workloads.json: {e}"))
}

/// Entries as workloads.
///
/// # Errors
/// When an entry lacks a field.
pub fn workloads(entries: &[Value]) -> Result<Vec<Workload>, String> {
    let read = |entry: &Value| Workload::deserialize(entry).map_err(|e| format!("workloads.json: {e}: {entry}"));
    entries.iter().map(read).collect()
}

/// The closure of a workload; `None` if operators are missing that it needs.
pub fn job(workload: &Workload) -> Result<Option<Job>> {
    match workload.group.as_str() {
        "overhead" => overhead::job(workload),
        "elementwise" => elementwise::job(workload),
        "reduction" => reduction::job(workload),
        "matmul" => matmul::job(workload),
        "nn" => nn::job(workload),
        "indexing" => indexing::job(workload),
        "optim" => optim::job(workload),
        "model" => model::job(workload),
        _ => Ok(None),
    }
}

impl Workload {
    /// The operation without `_fwdbwd`, and whether it had that.
    fn base(&self) -> (&str, bool) {
        match self.op.strip_suffix("_fwdbwd") {
            Some(base) => (base, true),
            None => (&self.op, false),
        }
    }

    fn dtype(&self) -> DType {
        match self.dtype.as_str() {
            "f64" => DType::F64,
            "bf16" => DType::BF16,
            "f16" => DType::F16,
            _ => DType::F32,
        }
    }

    /// Input `i`, normal(0, 1), or uniform(0, 1) where the list says so.
    fn input(&self, i: usize) -> Result<Tensor> {
        let make = if self.init.as_deref() == Some("uniform01") { Tensor::rand } else { Tensor::randn };
        make(&self.shapes[i], DType::F32)?.to_dtype(self.dtype())
    }

    /// A measurement for people.
    pub fn show(&self, amount: f64) -> String {
        if self.unit.is_some() {
            return format!("{:.0} MiB", amount / f64::from(1 << 20));
        }
        match amount {
            ns if ns < 1e3 => format!("{ns:.0} ns"),
            ns if ns < 1e6 => format!("{:.3} us", ns / 1e3),
            ns => format!("{:.3} ms", ns / 1e6),
        }
    }

    /// All inputs.
    fn inputs(&self) -> Result<Vec<Tensor>> {
        (0..self.shapes.len()).map(|i| self.input(i)).collect()
    }
}

/// A closure whose result is dropped, run without recording a graph.
fn unrecorded<T>(mut f: impl FnMut() -> Result<T> + 'static) -> Result<Option<Job>> {
    Ok(Some(Box::new(move || no_grad(|| f().map(drop)))))
}

/// Integers in `0..below`.
fn integers(below: i64, shape: &[i64]) -> Result<Tensor> {
    Tensor::randint(0, below, shape, DType::I64)
}

/// A forward pass, and a backward pass from `grad` to the leaves (a scalar needs none).
fn both_ways(
    leaves: Vec<Tensor>,
    grad: Option<Tensor>,
    forward: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
) -> Result<Option<Job>> {
    for leaf in &leaves {
        leaf.requires_grad_(true)?;
    }
    Ok(Some(Box::new(move || {
        for leaf in &leaves {
            leaf.set_grad(None)?;
        }
        forward(&leaves)?.backward_opt(grad.as_ref(), None, false, None)
    })))
}
