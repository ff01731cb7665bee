//! Trains an MLP and then a small CNN on 1,797 handwritten digits, with PyTorch's numbers from the same seed.
//!
//! ```text
//! cargo run --release --example digits [-- [FOLDER] [--epochs N]]
//! ```
//!
//! Prints loss and accuracy of each epoch; writes the loss curves (SVG) and the trained networks (safetensors) to the folder,
//! by default `target/digits`, and reads the networks back. The data and its licence are in `data/`.

mod chart;
mod data;
mod train;

use std::error::Error;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use tensor::prelude::*;
use tensor::serialize;

use data::Digits;
use train::{Network, Run};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    std::fs::create_dir_all(&arguments.folder)?;
    let digits = Digits::load()?;
    println!("{} digits to train on, {} to test", digits.train_labels.numel(), digits.test_labels.numel());

    let mut runs = Vec::new();
    for network in [Network::mlp(), Network::cnn()] {
        let epochs = arguments.epochs.unwrap_or(network.epochs);
        let (net, run) = train_with_progress(&network, &digits, epochs)?;
        let read_back = save_and_read_back(&network, &net, &digits, &arguments.folder)?;
        if read_back != run.accuracy() {
            return Err("the network that was read back is another one".into());
        }
        runs.push((network, run));
    }
    let chart = arguments.folder.join("loss.svg");
    chart::draw(&chart, &runs)?;
    println!("loss curves: {}", chart.display());
    for (network, run) in &runs {
        println!("{} test accuracy {:.1} %", network.name, 100.0 * run.accuracy());
    }
    Ok(())
}

/// The command line.
struct Arguments {
    folder: PathBuf,
    epochs: Option<usize>,
}

impl Arguments {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let (mut folder, mut epochs) = (None, None);
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--epochs" => epochs = Some(words.next().ok_or("--epochs needs a number")?.parse()?),
                _ if word.starts_with('-') => return Err(format!("unknown option {word}").into()),
                _ => folder = Some(PathBuf::from(word)),
            }
        }
        // target/release/examples/digits
        let target = || std::env::current_exe().ok()?.ancestors().nth(3).map(|target| target.join("digits"));
        let folder = folder.or_else(target).ok_or("name a folder to write to")?;
        Ok(Self { folder, epochs })
    }
}

fn train_with_progress(
    network: &Network,
    digits: &Digits,
    epochs: usize,
) -> Result<(nn::Sequential, Run), Box<dyn Error>> {
    manual_seed(0);
    let net = (network.build)()?;
    println!("\n{}: {net}\n{} parameters", network.name, net.num_parameters());
    let bar = ProgressBar::new((epochs * digits.batches()) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} steps, loss {msg}, {elapsed}")?);
    let run = train::train(network, &net, digits, epochs, |step| {
        bar.inc(1);
        bar.set_message(format!("{:.4}", step.loss));
        if let Some(epoch) = &step.epoch {
            bar.suspend(|| {
                println!(
                    "epoch {:2}  train loss {:.4}  test loss {:.4}  test accuracy {:.1} %",
                    epoch.number,
                    epoch.train_loss,
                    epoch.test_loss,
                    100.0 * epoch.accuracy()
                );
            });
        }
    })?;
    bar.finish_and_clear();
    Ok((net, run))
}

/// The accuracy on the test part of the network as its file has it.
fn save_and_read_back(network: &Network, net: &nn::Sequential, digits: &Digits, folder: &Path) -> Result<f64> {
    let file = folder.join(format!("{}.safetensors", network.name));
    serialize::save_file(&net.state_dict()?, &file)?;
    let copy = (network.build)()?;
    copy.load_state_dict(&serialize::load_file(&file)?)?;
    println!("saved and read back: {}", file.display());
    train::test(network, &copy, digits).map(|epoch| epoch.accuracy())
}
