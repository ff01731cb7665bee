//! The step of `mlp_step` without autograd: the gradients by their formulas, the same numbers.

use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    manual_seed(0);
    let x = Tensor::randn(&[5, 2], ())?;
    let y = Tensor::randn(&[5, 1], ())?;
    let uniform = |size: &[i64], fan_in: f64| -> Result<Tensor> {
        let bound = 1.0 / fan_in.sqrt();
        Ok(Tensor::empty(size, ())?.uniform_opt_(-bound, bound, None)?.clone())
    };
    let (w1, b1) = (uniform(&[3, 2], 2.0)?, uniform(&[3], 2.0)?);
    let (w2, b2) = (uniform(&[1, 3], 3.0)?, uniform(&[1], 3.0)?);

    // forward: h = x w1' + b1, pred = relu(h) w2' + b2, loss = mean((pred - y)^2)
    let forward = || -> Result<(Tensor, Tensor, Tensor)> {
        let hidden = (x.matmul(w1.t())? + &b1)?;
        let active = hidden.relu()?;
        let pred = (active.matmul(w2.t())? + &b2)?;
        Ok((hidden, active, pred))
    };
    let loss_of = |pred: &Tensor| (pred - &y)?.pow(2.0)?.mean();
    let (hidden, active, pred) = forward()?;
    let loss = loss_of(&pred)?;
    println!("loss before: {loss}");
    assert_eq!(loss.to_string(), "tensor(1.1195)");

    // backward, from the loss to the weights
    let d_pred = ((&pred - &y)? * (2.0 / pred.numel() as f64))?;
    let d_w2 = d_pred.t()?.matmul(&active)?;
    let d_b2 = d_pred.sum_dim(&[0], false)?;
    let d_hidden = (d_pred.matmul(&w2)? * hidden.gt_scalar(0.0)?)?;
    let d_w1 = d_hidden.t()?.matmul(&x)?;
    let d_b1 = d_hidden.sum_dim(&[0], false)?;

    for (name, weight, grad) in [("w1", &w1, &d_w1), ("b1", &b1, &d_b1), ("w2", &w2, &d_w2), ("b2", &b2, &d_b2)] {
        println!("d loss / d {name} = {grad}");
        weight.sub_((grad * 0.01)?)?;
    }
    let after = loss_of(&forward()?.2)?;
    println!("loss after: {}", after.item()?);
    assert!(after.item()?.to_f64() < loss.item()?.to_f64());
    Ok(())
}
