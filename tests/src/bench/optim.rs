//! One step of an optimizer over the parameters of GPT-2 small, whose gradients are there.

use tensor::optim::{AdamW, AdamWOptions, SGD, SgdOptions};
use tensor::prelude::*;

use super::model::GPT2_SMALL;
use super::{Job, Workload};

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let params = GPT2_SMALL.shapes().into_iter().map(|shape| {
        let param = Tensor::randn(&shape, ())?;
        param.set_grad(Some(param.randn_like()?))?;
        param.requires_grad_(true)?;
        Ok(param)
    });
    let params = params.collect::<Result<Vec<_>>>()?;
    let mut optimizer: Box<dyn Optimizer> = match workload.op.as_str() {
        // One implementation answers for all three of PyTorch's.
        "adamw" | "adamw_fused" | "adamw_loop" => Box::new(AdamW::new(&params, AdamWOptions::lr(1e-4))?),
        "sgd" => Box::new(SGD::new(&params, SgdOptions::lr(1e-4))?),
        "sgd_momentum" => Box::new(SGD::new(&params, SgdOptions::lr(1e-4).momentum(0.9))?),
        _ => return Ok(None),
    };
    Ok(Some(Box::new(move || optimizer.step())))
}
