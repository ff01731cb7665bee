//! Element-wise operators over arrays that fit in caches, and over ones that do not.

use tensor::ops;
use tensor::prelude::*;

use super::{Job, Workload, unrecorded};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let op = workload.op.as_str();
    if op == "arange" {
        let n = workload.shapes[0][0];
        return unrecorded(move || Tensor::arange(n, DType::F32));
    }
    let inputs = workload.inputs()?;
    let a = inputs[0].clone();
    let b = inputs.get(1).unwrap_or(&a).clone();
    let c = inputs.get(2).unwrap_or(&a).clone();
    match op {
        "add" | "add_rowbcast" | "add_colbcast" => unrecorded(move || &a + &b),
        "mul" => unrecorded(move || &a * &b),
        "exp" => unrecorded(move || a.exp()),
        "tanh" => unrecorded(move || a.tanh()),
        "gelu" => unrecorded(move || ops::gelu(&a, "none")),
        "relu" => unrecorded(move || a.relu()),
        "sigmoid" => unrecorded(move || a.sigmoid()),
        "pow2" => unrecorded(move || a.pow(2.0)),
        "sqrt" => unrecorded(move || a.sqrt()),
        "where" => {
            let mask = ops::gt_scalar(&a, 0.0)?;
            unrecorded(move || ops::where_self(&mask, &b, &c))
        }
        "lt" => unrecorded(move || a.lt(&b)),
        "cast_bf16" => unrecorded(move || a.to_dtype(DType::BF16)),
        "add_" => unrecorded(move || a.add_(&b).map(drop)),
        "mul_add" => unrecorded(move || (&a * &b)? + &c),
        "fill_" => unrecorded(move || a.fill_scalar_(1.5).map(drop)),
        "add_transposed" => unrecorded(move || &a + b.t()),
        "add_strided" => unrecorded(move || {
            let every_other = |x: &Tensor| x.i((.., slice(None, None, 2)));
            every_other(&a)? + &every_other(&b)?
        }),
        "copy_transposed" => unrecorded(move || a.t()?.contiguous()),
        _ => Ok(None),
    }
}
