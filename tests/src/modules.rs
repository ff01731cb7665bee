//! Initialisers and modules of `torch.nn` by their Python names and arguments, for the random sequences of the corpus.

use serde_json::{Map, Value as Json};
use tensor_aten::Tensor;
use tensor_core::{Result, bail};
use tensor_nn::init::{self, FanMode, Nonlinearity};
use tensor_nn::{self as nn, Module};

/// Python's keyword arguments.
type Kwargs = Map<String, Json>;

/// The names and tensors of a module's state.
pub type State = Vec<(String, Tensor)>;

fn float(kwargs: &Kwargs, name: &str, default: f64) -> f64 {
    kwargs.get(name).and_then(Json::as_f64).unwrap_or(default)
}

/// What `nonlinearity=` and `a=` say: Python's default is a leaky ReLU of slope `a`.
fn nonlinearity(kwargs: &Kwargs) -> Result<Nonlinearity> {
    Ok(match kwargs.get("nonlinearity").and_then(Json::as_str) {
        None | Some("leaky_relu") => Nonlinearity::LeakyReLU(float(kwargs, "a", 0.0)),
        Some("relu") => Nonlinearity::ReLU,
        Some("linear") => Nonlinearity::Linear,
        Some("tanh") => Nonlinearity::Tanh,
        Some("sigmoid") => Nonlinearity::Sigmoid,
        Some("selu") => Nonlinearity::SELU,
        Some(other) => bail!(Value, "Unsupported nonlinearity {other}"),
    })
}

fn fan(kwargs: &Kwargs) -> FanMode {
    match kwargs.get("mode").and_then(Json::as_str) {
        Some("fan_out") => FanMode::FanOut,
        _ => FanMode::FanIn,
    }
}

/// Runs an initialiser on a tensor; None where the library has no such initialiser.
pub fn initialise(name: &str, t: &Tensor, kwargs: &Kwargs) -> Option<Result<()>> {
    let number = |name, default| float(kwargs, name, default);
    Some(match name {
        "uniform_" => init::uniform_(t, number("a", 0.0), number("b", 1.0)),
        "normal_" => init::normal_(t, number("mean", 0.0), number("std", 1.0)),
        "xavier_uniform_" => init::xavier_uniform_(t, number("gain", 1.0)),
        "xavier_normal_" => init::xavier_normal_(t, number("gain", 1.0)),
        "kaiming_uniform_" => nonlinearity(kwargs).and_then(|n| init::kaiming_uniform_(t, fan(kwargs), n)),
        "kaiming_normal_" => nonlinearity(kwargs).and_then(|n| init::kaiming_normal_(t, fan(kwargs), n)),
        "trunc_normal_" => {
            init::trunc_normal_(t, number("mean", 0.0), number("std", 1.0), number("a", -2.0), number("b", 2.0))
        }
        "orthogonal_" => init::orthogonal_(t, number("gain", 1.0)),
        _ => return None,
    })
}

/// Makes a module and gives its state; None where the library has no such module or argument.
pub fn state(name: &str, args: &[Json], kwargs: &Kwargs) -> Option<Result<State>> {
    let int = |i: usize| args.get(i).and_then(Json::as_i64);
    let flag = |name: &str| kwargs.get(name).and_then(Json::as_bool);
    let known = |names: &[&str]| kwargs.keys().all(|k| names.contains(&k.as_str()));
    match name {
        "Linear" if known(&["bias"]) => {
            let bias = flag("bias").unwrap_or(true);
            let options = nn::LinearOptions { bias, ..nn::LinearOptions::new() };
            Some(of(nn::Linear::new_opt(int(0)?, int(1)?, options)))
        }
        "Conv1d" if known(&["groups"]) => {
            let groups = kwargs.get("groups").and_then(Json::as_i64).unwrap_or(1);
            let options = nn::Conv1dOptions::new().groups(groups);
            Some(of(nn::Conv1d::new_opt(int(0)?, int(1)?, int(2)?, options)))
        }
        "ConvTranspose2d" if known(&[]) => Some(of(nn::ConvTranspose2d::new(int(0)?, int(1)?, int(2)?))),
        "Conv2d" if known(&[]) => Some(of(nn::Conv2d::new(int(0)?, int(1)?, int(2)?))),
        "Embedding" if known(&["padding_idx"]) => {
            let padding = kwargs.get("padding_idx").and_then(Json::as_i64);
            let options = nn::EmbeddingOptions { padding_idx: padding, ..nn::EmbeddingOptions::new() };
            Some(of(nn::Embedding::new_opt(int(0)?, int(1)?, options)))
        }
        "LayerNorm" if known(&[]) => Some(of(nn::LayerNorm::new(vec![int(0)?]))),
        "GroupNorm" if known(&[]) => Some(of(nn::GroupNorm::new(int(0)?, int(1)?))),
        "RNN" if known(&[]) => Some(of(nn::RNN::new(int(0)?, int(1)?))),
        "GRU" if known(&[]) => Some(of(nn::GRU::new(int(0)?, int(1)?))),
        "LSTM" if known(&["num_layers", "bidirectional"]) => {
            let layers = kwargs.get("num_layers").and_then(Json::as_i64).unwrap_or(1);
            let options = nn::RecurrentOptions::new().num_layers(layers);
            let options = options.bidirectional(flag("bidirectional").unwrap_or(false));
            Some(of(nn::LSTM::new_opt(int(0)?, int(1)?, options)))
        }
        "LSTMCell" if known(&[]) => Some(of(nn::LSTMCell::new(int(0)?, int(1)?))),
        "Bilinear" if known(&[]) => Some(of(nn::Bilinear::new(int(0)?, int(1)?, int(2)?))),
        "PReLU" if known(&[]) => Some(of(nn::PReLU::new())),
        "EmbeddingBag" if known(&[]) => Some(of(nn::EmbeddingBag::new(int(0)?, int(1)?))),
        "MultiheadAttention" if known(&["kdim", "vdim"]) => {
            let features = |name: &str| kwargs.get(name).and_then(Json::as_i64);
            let mut options = nn::MultiheadAttentionOptions::new();
            (options.kdim, options.vdim) = (features("kdim"), features("vdim"));
            Some(of(nn::MultiheadAttention::new_opt(int(0)?, int(1)?, options)))
        }
        "TransformerEncoderLayer" if known(&[]) => {
            let mut options = nn::TransformerEncoderLayerOptions::new();
            options.dim_feedforward = int(2).unwrap_or(options.dim_feedforward);
            Some(of(nn::TransformerEncoderLayer::new_opt(int(0)?, int(1)?, options)))
        }
        "BatchNorm2d" if known(&[]) => Some(of(nn::BatchNorm2d::new(int(0)?))),
        _ => None,
    }
}

fn of<M: Module>(module: Result<M>) -> Result<State> {
    Ok(module?.state_dict()?.into_iter().collect())
}
