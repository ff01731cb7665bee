//! Replays random sequences on the default generator of the host: every value must be the recorded one.

use serde_json::Value as Json;
use tensor_aten::{IValue, Tensor};

use super::call::{build_args, check_dense, show};
use super::{GENERATOR, Item, Run};
use crate::bridge;
use crate::compare::Tolerance;
use crate::corpus::case::{Draw, Sequence};
use crate::corpus::{Dense, Result, SafeTensors, Value, tiers, value};
use crate::modules;
use crate::schema::Argument;

/// The sequences of the file, an item a step.
pub(super) fn file(run: &Run<'_>, bytes: &[u8]) -> Result<Vec<Item>> {
    let file = SafeTensors::parse(bytes)?;
    let sequences: Vec<Sequence> =
        serde_json::from_str(file.metadata("sequences")?).map_err(|e| format!("sequences: {e}"))?;
    let _serial = GENERATOR.lock().unwrap_or_else(|e| e.into_inner());
    let mut items = Vec::new();
    for (q, sequence) in sequences.iter().enumerate() {
        let ops =
            sequence.steps.iter().filter_map(|s| if let Draw::Call { op, .. } = s { Some(op.as_str()) } else { None });
        let highest = run.tiers.highest(ops);
        let place = |draw: &Draw| match draw {
            Draw::Call { op, .. } => (op.clone(), highest, !bridge::registered(op)),
            Draw::Init { name, .. } => (format!("nn.init.{name}"), tiers::init(name), false),
            Draw::Module { name, .. } => (format!("nn.{name}"), tiers::module(name), false),
        };
        let places: Vec<_> = sequence.steps.iter().map(place).collect();
        let id = |k: usize, name: &str| format!("rng/{q}.{k} {}", name.trim_start_matches("aten::"));
        let wanted = |(k, (name, tier, _)): (usize, &(String, u8, bool))| run.options.wants(&id(k, name), *tier);
        if !places.iter().enumerate().any(wanted) {
            continue;
        }
        bridge::manual_seed(sequence.seed);
        for (k, (draw, (name, tier, missing))) in sequence.steps.iter().zip(places).enumerate() {
            let id = id(k, &name);
            // A step that was not asked for still draws, for the sake of those after it.
            let asked = run.options.wants(&id, tier);
            let outcome = if missing {
                super::Outcome::Missing
            } else {
                let result = super::guard::attempt(|| step(&file, draw));
                match (run.options.skips.find(&id), result) {
                    (_, Ok(false)) => super::Outcome::Missing,
                    (None, Ok(true)) => super::Outcome::Passed,
                    (None, Err(reason)) => super::Outcome::Failed(reason),
                    (Some(_), Ok(true)) => super::Outcome::Stale,
                    (Some(skip), Err(_)) => super::Outcome::Skipped(skip.reason.clone()),
                }
            };
            if asked {
                items.push(Item { group: format!("{name} (random numbers)"), id, tier, outcome });
            }
        }
    }
    Ok(items)
}

/// Runs one step. False where the library has no such initialiser or module.
fn step(file: &SafeTensors<'_>, draw: &Draw) -> Result<bool> {
    match draw {
        Draw::Call { op, storages, args, outputs } => {
            let storages = storages
                .iter()
                .map(|key| bridge::storage(file.array(key)?.bytes).map_err(show))
                .collect::<Result<Vec<_>>>()?;
            let schema: Vec<Argument> = bridge::schema(op).map(crate::schema::arguments).unwrap_or_default();
            let returned = bridge::call(op, build_args(args, &schema, &storages)?).map_err(show)?;
            if returned.len() < outputs.len() {
                return Err(format!("{} outputs, want {}", returned.len(), outputs.len()));
            }
            for (k, (got, want)) in returned.iter().zip(outputs).enumerate() {
                output(file, got, want).map_err(|e| format!("output {k}: {e}"))?;
            }
        }
        Draw::Init { name, size, dtype, kwargs, value } => {
            let dtype = value::dtype(dtype)?;
            let numel = tensor_core::strides::numel(size).map_err(show)? as usize;
            let zeros = bridge::dense(&vec![0; numel * dtype.itemsize()], dtype, size).map_err(show)?;
            let Some(result) = modules::initialise(name, &zeros, kwargs) else { return Ok(false) };
            result.map_err(show)?;
            bits(file, &zeros, value)?;
        }
        Draw::Module { name, args, kwargs, parameters } => {
            let Some(state) = modules::state(name, args, kwargs) else { return Ok(false) };
            let state = state.map_err(show)?;
            let mut names: Vec<&str> = state.iter().map(|(n, _)| n.as_str()).collect();
            names.sort_unstable();
            if !names.iter().copied().eq(parameters.keys().map(String::as_str)) {
                let want: Vec<_> = parameters.keys().collect();
                return Err(format!("parameters {names:?}, want {want:?}"));
            }
            for (name, tensor) in &state {
                if let Some(want) = parameters.get(name) {
                    bits(file, tensor, want).map_err(|e| format!("{name}: {e}"))?;
                }
            }
        }
    }
    Ok(true)
}

fn bits(file: &SafeTensors<'_>, got: &Tensor, want: &Dense) -> Result<()> {
    check_dense(file, got, want, Tolerance::EXACT)
}

fn output(file: &SafeTensors<'_>, got: &IValue, want: &Json) -> Result<()> {
    if want.get("key").is_some() {
        let want: Dense = serde_json::from_value(want.clone()).map_err(|e| e.to_string())?;
        return match got {
            IValue::Tensor(t) => bits(file, t, &want),
            other => Err(format!("{}, want a tensor", other.kind())),
        };
    }
    let want: Option<Value> = serde_json::from_value(want.clone()).map_err(|e| e.to_string())?;
    match (got, want) {
        (IValue::None, None) => Ok(()),
        (IValue::Int(a), Some(Value::Int(b))) if *a == b => Ok(()),
        (IValue::Float(a), Some(Value::Float(b))) if *a == b.0 => Ok(()),
        (got, want) => Err(format!("{}, want {want:?}", got.kind())),
    }
}
