//! The main example follows PyTorch's run from the same seed over the first epoch (`digits_runs.json`).

#[path = "../../examples/digits/data.rs"]
mod data;
// What the example alone reads.
#[allow(dead_code)]
#[path = "../../examples/digits/train.rs"]
mod train;

use tensor::prelude::*;

use crate::close::{generator, json, near, numbers};
use data::Digits;
use train::Network;

/// `evaluation` is how far the loss in evaluation may be, and `few` how many digits may be judged otherwise.
fn follows(network: &Network, evaluation: f64, few: i64) {
    let expected = &json("digits_runs.json")[network.name];
    let digits = Digits::load().unwrap();
    let _generator = generator();
    manual_seed(0);
    let net = (network.build)().unwrap();
    assert_eq!(net.to_string(), expected["model"].as_str().unwrap());
    let mut steps = 0;
    let run = train::train(network, &net, &digits, 1, |_| steps += 1).unwrap();
    assert_eq!(steps, digits.batches());
    let losses = numbers(&expected["first_step_losses"]);
    assert_eq!(losses.len(), 30);
    for (i, (found, expected)) in run.step_losses.iter().zip(losses).enumerate() {
        assert!(near(*found, expected, 1e-5, 0.0), "{}: loss {i} is {found}, PyTorch's {expected}", network.name);
    }
    let (epoch, expected) = (&run.epochs[0], &expected["epochs"][0]);
    let losses = [("train_loss", epoch.train_loss, 1e-5), ("test_loss", epoch.test_loss, evaluation)];
    for (what, found, tolerance) in losses {
        let expected = expected[what].as_f64().unwrap();
        assert!(near(found, expected, tolerance, 0.0), "{}: {what} is {found}, PyTorch's {expected}", network.name);
    }
    assert!((epoch.correct - expected["test_correct"].as_i64().unwrap()).abs() <= few);
    assert_eq!(run.accuracy(), epoch.accuracy());
    assert_eq!(train::test(network, &net, &digits).unwrap().correct, epoch.correct);
}

#[test]
fn the_mlp_follows_pytorchs_first_epoch() {
    follows(&Network::mlp(), 1e-5, 0);
}

#[test]
fn the_cnn_follows_pytorchs_first_epoch() {
    // The gradient of a bias before batch normalisation is rounding noise, of which Adam makes whole steps. Training does not
    // see them; the running means lag behind, so that PyTorch's own losses in evaluation differ by some 1e-3 from one way of
    // convolving to another.
    follows(&Network::cnn(), 5e-3, 3);
}
