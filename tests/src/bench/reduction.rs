//! Sums, extremes, moments, scans, and the operators over rows that are made of them.

use tensor::ops;
use tensor::prelude::*;

use super::{Job, Workload, both_ways, integers, unrecorded};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let (base, backward) = workload.base();
    if !matches!(base, "softmax" | "log_softmax" | "layer_norm" | "cross_entropy") {
        return plain(workload);
    }
    let leaves = workload.inputs().map(|mut inputs| {
        inputs.truncate(if base == "cross_entropy" { 1 } else { 3 });
        inputs
    })?;
    let a = leaves[0].clone();
    let forward: Box<dyn Fn(&[Tensor]) -> Result<Tensor>> = match base {
        "softmax" => Box::new(|l| l[0].softmax(-1)),
        "log_softmax" => Box::new(|l| l[0].log_softmax(-1)),
        "layer_norm" => {
            let shape = a.sizes()[a.dim() - 1..].to_vec();
            Box::new(move |l| ops::layer_norm(&l[0], &shape, Some(&l[1]), Some(&l[2]), 1e-5, true))
        }
        _ => {
            let classes = integers(a.sizes()[1], &workload.shapes[1])?;
            Box::new(move |l| nn::functional::cross_entropy(&l[0], &classes))
        }
    };
    if !backward {
        return unrecorded(move || forward(&leaves));
    }
    let grad = if base == "cross_entropy" { None } else { Some(a.randn_like()?) };
    both_ways(leaves, grad, forward)
}

fn plain(workload: &Workload) -> Result<Option<Job>> {
    let (a, k) = (workload.input(0)?, workload.k);
    match workload.op.as_str() {
        "sum" => unrecorded(move || a.sum()),
        "sort" => unrecorded(move || a.sort()),
        "topk" => unrecorded(move || a.topk(k)),
        "mean" => unrecorded(move || a.mean()),
        "max" => unrecorded(move || a.max()),
        "argmax" => unrecorded(move || a.argmax()),
        "norm" => unrecorded(move || ops::linalg_vector_norm(&a, 2.0, None, false, None)),
        "sum_dim0" => unrecorded(move || a.sum_dim(&[0], false)),
        "sum_dim1" => unrecorded(move || a.sum_dim(&[1], false)),
        "max_dim1" => unrecorded(move || a.max_dim(1, false)),
        "argmax_dim1" => unrecorded(move || a.argmax_opt(Some(1), false)),
        "var_dim1" => unrecorded(move || ops::var_dim(&a, Some(&[1]), true, false)),
        "cumsum_dim1" => unrecorded(move || a.cumsum(1)),
        _ => Ok(None),
    }
}
