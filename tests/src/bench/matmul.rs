//! Matrix products: square, transposed, batched, thin, and with a bias.

use tensor::ops;
use tensor::prelude::*;

use super::{Job, Workload, unrecorded};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let inputs = workload.inputs()?;
    let (a, b) = (inputs[0].clone(), inputs[1].clone());
    match workload.op.as_str() {
        "mm" | "gemv_row" | "gemv_col" | "mm_skinny" => unrecorded(move || a.matmul(&b)),
        "bmm" => unrecorded(move || a.bmm(&b)),
        "mm_tn" => unrecorded(move || a.t()?.matmul(&b)),
        "mm_nt" => unrecorded(move || a.matmul(b.t())),
        "linear_bias" => unrecorded(move || ops::linear(&a, &b, Some(&inputs[2]))),
        _ => Ok(None),
    }
}
