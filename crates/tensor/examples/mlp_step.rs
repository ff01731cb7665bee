//! One training step of a small network, with PyTorch's numbers from the same seed: data, weights, loss, gradients, update.

use tensor::optim::{SGD, SgdOptions};
use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    manual_seed(0);
    let x = Tensor::randn(&[5, 2], ())?;
    let y = Tensor::randn(&[5, 1], ())?;
    let model = nn::sequential![nn::Linear::new(2, 3)?, nn::ReLU, nn::Linear::new(3, 1)?];
    let loss_fn = nn::MSELoss::new();
    let mut optimizer = SGD::new(model.parameters(), SgdOptions::lr(0.01))?;
    println!("{model}");

    let pred = model.forward(&x)?;
    let loss = loss_fn.forward(&pred, &y)?;
    println!("loss before: {loss}");
    assert_eq!(loss.to_string(), "tensor(1.1195, grad_fn=<MseLossBackward0>)");

    optimizer.zero_grad()?;
    loss.backward()?;
    for (name, parameter) in model.named_parameters() {
        println!("{name}: {}", parameter.tensor());
        if let Some(grad) = parameter.grad() {
            println!("{name}.grad: {grad}");
        }
    }
    optimizer.step()?;

    let after = loss_fn.forward(&model.forward(&x)?, &y)?;
    println!("loss after: {}", after.item()?);
    assert!(after.item()?.to_f64() < loss.item()?.to_f64());
    Ok(())
}
