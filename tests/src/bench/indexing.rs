//! Reading and writing at indices and masks, and joining.

use tensor::ops;
use tensor::prelude::*;

use super::{Job, Workload, integers, unrecorded};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let shapes = &workload.shapes;
    let a = workload.input(0)?;
    let rows = shapes[0][0];
    match workload.op.as_str() {
        "nonzero" => {
            let a = ops::gt_scalar(&a, 0.0)?.to_dtype(DType::F32)?;
            unrecorded(move || a.nonzero())
        }
        "index_select" => {
            let index = integers(rows, &shapes[1])?;
            unrecorded(move || a.index_select(0, &index))
        }
        "gather" => {
            let index = integers(shapes[0][1], &shapes[1])?;
            unrecorded(move || a.gather(1, &index))
        }
        "scatter_add" => {
            let (index, source) = (integers(rows, &shapes[1])?, workload.input(1)?);
            unrecorded(move || a.scatter_add_(0, &index, &source).map(drop))
        }
        "masked_select" => {
            let mask = ops::gt_scalar(&workload.input(1)?, 0.0)?;
            unrecorded(move || a.masked_select(&mask))
        }
        "index_2d" => {
            let (i, j) = (integers(rows, &shapes[1])?, integers(shapes[0][1], &shapes[1])?);
            unrecorded(move || a.i((&i, &j)))
        }
        "index_put_acc" => {
            let index = integers(rows, &shapes[1])?;
            let values = Tensor::randn(&[shapes[1][0], shapes[0][1]], ())?;
            unrecorded(move || ops::index_put_(&a, &[Some(&index)], &values, true).map(drop))
        }
        op @ ("cat_dim0" | "cat_dim1" | "stack") => {
            let parts = workload.inputs()?;
            let (stack, dim) = (op == "stack", i64::from(op == "cat_dim1"));
            unrecorded(move || {
                let parts: Vec<&Tensor> = parts.iter().collect();
                if stack { ops::stack(&parts, dim) } else { ops::cat(&parts, dim) }
            })
        }
        _ => Ok(None),
    }
}
