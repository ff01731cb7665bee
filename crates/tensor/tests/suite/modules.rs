//! Modules against PyTorch's: text, output, gradients of input and parameters, changed buffers (`modules.safetensors`: for
//! each case its tensors by `case/name`, and as metadata how the module was made).

use safetensors::SafeTensors;
use serde_json::Value;
use tensor::nn::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions, Conv2d, Conv2dOptions, CrossEntropyLoss, Dropout,
    Embedding, EmbeddingOptions, Flatten, GELU, Layer, LayerNorm, LayerNormOptions, Linear, LinearOptions, MSELoss,
    MaxPool2d, MaxPool2dOptions, Padding, Pair, ReLU, Reduction, Sigmoid, StateDict, Tanh,
};
use tensor::prelude::*;

use crate::close::{assert_close, data, generator, path};

/// How a module was made in Python.
struct Recipe {
    args: Value,
    kwargs: Value,
}

impl Recipe {
    fn int(&self, i: usize) -> i64 {
        self.args[i].as_i64().unwrap()
    }

    fn arg_pair(&self, i: usize) -> Pair {
        pair(&self.args[i])
    }

    fn pair(&self, name: &str, default: i64) -> Pair {
        self.kwargs.get(name).map_or(Pair::from(default), pair)
    }

    fn bool(&self, name: &str, default: bool) -> bool {
        self.kwargs.get(name).map_or(default, |v| v.as_bool().unwrap())
    }

    fn float(&self, name: &str, default: f64) -> f64 {
        self.kwargs.get(name).map_or(default, |v| v.as_f64().unwrap())
    }

    fn whole(&self, name: &str) -> Option<i64> {
        self.kwargs.get(name).map(|v| v.as_i64().unwrap())
    }

    fn batch_norm(&self) -> BatchNormOptions {
        let momentum = self.kwargs.get("momentum").map_or(Some(0.1), Value::as_f64);
        BatchNormOptions::new()
            .eps(self.float("eps", 1e-5))
            .momentum(momentum)
            .affine(self.bool("affine", true))
            .track_running_stats(self.bool("track_running_stats", true))
    }

    fn reduction(&self) -> Reduction {
        match self.kwargs.get("reduction").and_then(Value::as_str) {
            Some("none") => Reduction::None,
            Some("sum") => Reduction::Sum,
            _ => Reduction::Mean,
        }
    }
}

fn pair(value: &Value) -> Pair {
    match value.as_array() {
        Some(list) => Pair([list[0].as_i64().unwrap(), list[1].as_i64().unwrap()]),
        None => Pair::from(value.as_i64().unwrap()),
    }
}

fn layer(class: &str, recipe: &Recipe) -> Result<Option<Box<dyn Layer>>> {
    let r = recipe;
    Ok(Some(match class {
        "Linear" => Box::new(Linear::new_opt(r.int(0), r.int(1), LinearOptions::new().bias(r.bool("bias", true)))?),
        "Conv2d" => {
            let padding = match r.kwargs.get("padding").and_then(Value::as_str) {
                Some("same") => Padding::Same,
                _ => Padding::Zeros(r.pair("padding", 0)),
            };
            let options = Conv2dOptions::new()
                .stride(r.pair("stride", 1))
                .padding(padding)
                .dilation(r.pair("dilation", 1))
                .groups(r.whole("groups").unwrap_or(1))
                .bias(r.bool("bias", true));
            Box::new(Conv2d::new_opt(r.int(0), r.int(1), r.arg_pair(2), options)?)
        }
        "MaxPool2d" => {
            let options = MaxPool2dOptions::new()
                .padding(r.pair("padding", 0))
                .dilation(r.pair("dilation", 1))
                .ceil_mode(r.bool("ceil_mode", false));
            let options = if r.kwargs.get("stride").is_some() { options.stride(r.pair("stride", 1)) } else { options };
            Box::new(MaxPool2d::new_opt(r.arg_pair(0), options))
        }
        "ReLU" => Box::new(ReLU),
        "Tanh" => Box::new(Tanh),
        "Sigmoid" => Box::new(Sigmoid),
        "GELU" => Box::new(if r.kwargs.get("approximate").is_some() { GELU::tanh() } else { GELU::new() }),
        "Dropout" => Box::new(Dropout::new(r.args[0].as_f64().unwrap())?),
        "Flatten" => Box::new(if r.args[0].is_null() { Flatten::new() } else { Flatten::new_opt(r.int(0), r.int(1)) }),
        "BatchNorm1d" => Box::new(BatchNorm1d::new_opt(r.int(0), r.batch_norm())?),
        "BatchNorm2d" => Box::new(BatchNorm2d::new_opt(r.int(0), r.batch_norm())?),
        "BatchNorm3d" => Box::new(BatchNorm3d::new_opt(r.int(0), r.batch_norm())?),
        "LayerNorm" => {
            let shape = match r.args[0].as_array() {
                Some(list) => list.iter().map(|size| size.as_i64().unwrap()).collect(),
                None => vec![r.int(0)],
            };
            let options = LayerNormOptions::new()
                .eps(r.float("eps", 1e-5))
                .elementwise_affine(r.bool("elementwise_affine", true))
                .bias(r.bool("bias", true));
            Box::new(LayerNorm::new_opt(shape, options)?)
        }
        "Embedding" => {
            let options = EmbeddingOptions::new()
                .padding_idx(r.whole("padding_idx"))
                .scale_grad_by_freq(r.bool("scale_grad_by_freq", false));
            Box::new(Embedding::new_opt(r.int(0), r.int(1), options)?)
        }
        _ => return Ok(None),
    }))
}

/// A loss: its text and its value.
fn loss(class: &str, recipe: &Recipe, state: &StateDict, input: &Tensor, target: &Tensor) -> Result<(String, Tensor)> {
    let reduction = recipe.reduction();
    if class == "MSELoss" {
        let loss = MSELoss::new().reduction(reduction);
        return Ok((loss.to_string(), loss.forward(input, target)?));
    }
    let mut loss = CrossEntropyLoss::new()
        .reduction(reduction)
        .ignore_index(recipe.whole("ignore_index").unwrap_or(-100))
        .label_smoothing(recipe.float("label_smoothing", 0.0));
    if recipe.kwargs.get("weight").is_some() {
        loss = loss.weight(Tensor::zeros(&[5], ())?);
    }
    loss.load_state_dict(state)?;
    Ok((loss.to_string(), loss.forward(input, target)?))
}

fn check(case: &str, facts: &Value, tensors: &StateDict) -> Result<()> {
    let text = |name: &str| facts[name].as_str().unwrap();
    let json = |name: &str| serde_json::from_str(text(name)).unwrap();
    let recipe = Recipe { args: json("args"), kwargs: json("kwargs") };
    let tensor = |name: &str| tensors.get(&format!("{case}/{name}"));
    let under = |prefix: &str| -> StateDict {
        let prefix = format!("{case}/{prefix}.");
        tensors.iter().filter_map(|(name, t)| Some((name.strip_prefix(&prefix)?.to_owned(), t.clone()))).collect()
    };
    let input = tensor("input.0").unwrap().copy()?;
    if tensor("grad_input.0").is_some() {
        input.requires_grad_(true)?;
    }
    let mut module = None;
    let (repr, output) = match layer(text("cls"), &recipe)? {
        Some(layer) => {
            layer.load_state_dict(&under("state"))?;
            layer.set_training(text("training") == "true");
            let output = layer.forward(&input)?;
            let repr = layer.repr();
            module = Some(layer);
            (repr, output)
        }
        None => loss(text("cls"), &recipe, &under("state"), &input, tensor("input.1").unwrap())?,
    };
    assert_eq!(repr, text("repr"), "{case}");
    assert_close(&format!("{case}: output"), &output, tensor("output.0").unwrap(), 1e-4, 1e-5);
    if let Some(upstream) = tensor("upstream.0")
        && output.requires_grad()
    {
        output.backward_opt(Some(upstream), None, false, None)?;
    }
    if let Some(expected) = tensor("grad_input.0") {
        assert_close(&format!("{case}: gradient of the input"), &input.grad().unwrap(), expected, 1e-4, 1e-5);
    }
    let Some(module) = module else { return Ok(()) };
    for (name, expected) in under("grad_param").iter() {
        let parameters = module.named_parameters();
        let (_, parameter) = parameters.iter().find(|(path, _)| path == name).unwrap();
        assert_close(&format!("{case}: gradient of {name}"), &parameter.grad().unwrap(), expected, 1e-4, 1e-5);
    }
    let after = module.state_dict()?;
    for (name, expected) in under("state_after").iter() {
        assert_close(&format!("{case}: {name} afterwards"), after.get(name).unwrap(), expected, 1e-4, 1e-5);
    }
    Ok(())
}

#[test]
fn modules_compute_what_pytorch_does() {
    const FILE: &str = "modules.safetensors";
    let bytes = std::fs::read(path(FILE)).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let cases = header.metadata().as_ref().unwrap();
    assert!(cases.len() >= 70, "{} cases", cases.len());
    let tensors = data(FILE);
    let _generator = generator();
    for (case, facts) in cases {
        let facts = serde_json::from_str(facts).unwrap();
        if let Err(error) = check(case, &facts, &tensors) {
            panic!("{case}: {error}");
        }
    }
}
