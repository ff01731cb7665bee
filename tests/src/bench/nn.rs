//! Convolution, pooling, normalisation, embedding, attention, a recurrent cell.

use tensor::ops;
use tensor::prelude::*;

use super::{Job, Workload, both_ways, integers, unrecorded};

type Pass = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let (base, backward) = workload.base();
    let mut leaves = workload.inputs()?;
    let (padding, groups) = (workload.padding, workload.groups);
    let forward: Pass = match base {
        "conv2d_3x3" | "conv2d_1x1" | "conv2d_depthwise" => {
            Box::new(move |l| ops::conv2d(&l[0], &l[1], Some(&l[2]), &[1, 1], &[padding, padding], &[1, 1], groups))
        }
        "conv1d" => Box::new(move |l| ops::conv1d(&l[0], &l[1], Some(&l[2]), &[1], &[padding], &[1], groups)),
        "max_pool2d" => Box::new(|l| ops::max_pool2d(&l[0], &[2, 2], &[], &[0, 0], &[1, 1], false)),
        "batch_norm2d" => {
            let channels = workload.shapes[1].as_slice();
            let (mean, var) = (Tensor::zeros(channels, ())?, Tensor::ones(channels, ())?);
            Box::new(move |l| {
                let running = (Some(&mean), Some(&var));
                ops::batch_norm(&l[0], Some(&l[1]), Some(&l[2]), running.0, running.1, true, 0.1, 1e-5, true)
            })
        }
        "embedding" => {
            leaves.truncate(1);
            let indices = integers(workload.shapes[0][0], &workload.shapes[1])?;
            Box::new(move |l| ops::embedding(&l[0], &indices, -1, false, false))
        }
        "sdpa_causal" => {
            Box::new(|l| ops::scaled_dot_product_attention(&l[0], &l[1], &l[2], None, 0.0, true, None, false))
        }
        "lstm_cell" => lstm_cell(&workload.shapes)?,
        _ => return Ok(None),
    };
    if !backward {
        return unrecorded(move || forward(&leaves));
    }
    let grad = no_grad(|| forward(&leaves)?.randn_like())?;
    both_ways(leaves, Some(grad), forward)
}

/// The cell of x, h and c: `c' = sigmoid(f) c + sigmoid(i) tanh(g)`, `h' = sigmoid(o) tanh(c')`; gives h'.
fn lstm_cell(shapes: &[Vec<i64>]) -> Result<Pass> {
    let (inputs, hidden) = (shapes[0][1], shapes[1][1]);
    let (of_x, of_h) = (nn::Linear::new(inputs, 4 * hidden)?, nn::Linear::new(hidden, 4 * hidden)?);
    Ok(Box::new(move |l| {
        let gates = (of_x.forward(&l[0])? + &of_h.forward(&l[1])?)?;
        let parts = gates.chunk_opt(4, 1)?;
        let kept = (parts[1].sigmoid()? * &l[2])?;
        let cell = (&kept + &(parts[0].sigmoid()? * &parts[2].tanh()?)?)?;
        parts[3].sigmoid()? * &cell.tanh()?
    }))
}
