//! The two networks, and the loop that trains and tests them.

use tensor::Generator;
use tensor::nn::functional as F;
use tensor::optim::{Adam, AdamOptions, SGD, SgdOptions};
use tensor::prelude::*;

use super::data::{BATCH, Digits};

/// A network to be made, and how it is trained.
pub struct Network {
    pub name: &'static str,
    pub build: fn() -> Result<nn::Sequential>,
    /// the shape of one image
    pub image: &'static [i64],
    pub optimizer: fn(&nn::Sequential) -> Result<Box<dyn Optimizer>>,
    pub epochs: usize,
}

impl Network {
    /// 64 - 32 - 10, by gradient descent with momentum.
    pub fn mlp() -> Self {
        Self {
            name: "mlp",
            build: || Ok(nn::sequential![nn::Linear::new(64, 32)?, nn::ReLU, nn::Linear::new(32, 10)?]),
            image: &[64],
            optimizer: |net| Ok(Box::new(SGD::new(net.parameters(), SgdOptions::lr(0.1).momentum(0.9))?)),
            epochs: 20,
        }
    }

    /// Two convolutions and a linear layer, by Adam.
    pub fn cnn() -> Self {
        Self {
            name: "cnn",
            build: || {
                let same = || nn::Conv2dOptions::new().padding(1);
                Ok(nn::sequential![
                    nn::Conv2d::new_opt(1, 8, 3, same())?,
                    nn::BatchNorm2d::new(8)?,
                    nn::ReLU,
                    nn::MaxPool2d::new(2),
                    nn::Conv2d::new_opt(8, 16, 3, same())?,
                    nn::ReLU,
                    nn::MaxPool2d::new(2),
                    nn::Flatten::new(),
                    nn::Linear::new(64, 10)?,
                ])
            },
            image: &[1, 8, 8],
            optimizer: |net| Ok(Box::new(Adam::new(net.parameters(), AdamOptions::lr(3e-3))?)),
            epochs: 10,
        }
    }

    /// Images (n, 64) in the shape that the network takes.
    fn shaped(&self, images: &Tensor) -> Result<Tensor> {
        images.reshape(&[&[-1], self.image].concat())
    }
}

/// What came of an epoch.
#[derive(Clone, Debug)]
pub struct Epoch {
    pub number: usize,
    pub train_loss: f64,
    pub test_loss: f64,
    pub correct: i64,
    pub tested: i64,
}

impl Epoch {
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.tested as f64
    }
}

/// One step, and the epoch that it ended.
pub struct Step {
    pub loss: f64,
    pub epoch: Option<Epoch>,
}

/// What came of a training.
#[derive(Default)]
pub struct Run {
    pub epochs: Vec<Epoch>,
    pub step_losses: Vec<f64>,
}

impl Run {
    pub fn accuracy(&self) -> f64 {
        self.epochs.last().map_or(0.0, Epoch::accuracy)
    }
}

/// Trains a network and tests it after each epoch.
pub fn train(
    network: &Network,
    net: &nn::Sequential,
    digits: &Digits,
    epochs: usize,
    mut report: impl FnMut(&Step),
) -> Result<Run> {
    let images = network.shaped(&digits.train_images)?;
    let count = digits.train_labels.numel();
    let mut optimizer = (network.optimizer)(net)?;
    let generator = Generator::with_seed(1);
    let mut run = Run::default();
    for number in 1..=epochs {
        net.train();
        let mut total = 0.0;
        let order = tensor::ops::randperm_generator(count, Some(&generator), Some(DType::I64), None, None, None)?;
        let batches = order.split(BATCH)?;
        for (i, batch) in batches.iter().enumerate() {
            optimizer.zero_grad()?;
            let loss = F::cross_entropy(&net.forward(&images.i(batch)?)?, &digits.train_labels.i(batch)?)?;
            loss.backward()?;
            optimizer.step()?;
            let loss = loss.item()?.to_f64();
            total += loss * batch.numel() as f64;
            run.step_losses.push(loss);
            let epoch = if i + 1 == batches.len() {
                let tested = test(network, net, digits)?;
                Some(Epoch { number, train_loss: total / count as f64, ..tested })
            } else {
                None
            };
            report(&Step { loss, epoch: epoch.clone() });
            run.epochs.extend(epoch);
        }
    }
    Ok(run)
}

/// Loss and accuracy on the digits that were not trained on.
pub fn test(network: &Network, net: &nn::Sequential, digits: &Digits) -> Result<Epoch> {
    net.eval();
    no_grad(|| {
        let logits = net.forward(&network.shaped(&digits.test_images)?)?;
        let test_loss = F::cross_entropy(&logits, &digits.test_labels)?.item()?.to_f64();
        let right = logits.argmax_opt(Some(1), false)?.eq(&digits.test_labels)?;
        let (correct, tested) = (right.sum()?.item()?.to_i64(), right.numel());
        Ok(Epoch { number: 0, train_loss: f64::NAN, test_loss, correct, tested })
    })
}
