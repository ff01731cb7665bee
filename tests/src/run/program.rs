//! Replays autograd programs: steps over named variables, with what each must show or raise.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value as Json;
use tensor_aten::{IValue, Tensor};
use tensor_core::{Error, ErrorKind, Result as CoreResult};

use super::call::{build_args, check_error, check_optional, dense, show};
use super::{Item, Run};
use crate::bridge::{self, Mode};
use crate::compare::Tolerance;
use crate::corpus::case::{Action, Backward, Program, ProgramStep};
use crate::corpus::{Dense, Result, SafeTensors, Value};

/// The programs of a file.
pub(super) fn file(run: &Run<'_>, name: &str, bytes: &[u8]) -> Result<Vec<Item>> {
    let file = SafeTensors::parse(bytes)?;
    let programs: Vec<Program> =
        serde_json::from_str(file.metadata("programs")?).map_err(|e| format!("programs: {e}"))?;
    let group = name.trim_end_matches(".safetensors");
    let mut items = Vec::with_capacity(programs.len());
    for program in &programs {
        let ops: BTreeSet<&str> = program.steps.iter().filter_map(|s| s.op()).collect();
        let tier = if group.starts_with("sparse") { 3 } else { run.tiers.highest(ops.iter().copied()) };
        let missing = ops.iter().any(|op| !bridge::registered(op));
        let id = format!("{group}/{}", program.name);
        items.extend(run.item(group, id, tier, missing, || State::new(&file).run(program)));
    }
    Ok(items)
}

impl ProgramStep {
    fn op(&self) -> Option<&str> {
        match &self.action {
            Action::Call { op, .. } => Some(op),
            _ => None,
        }
    }
}

/// What `torch.allclose` allows.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-5, atol: 1e-8 };

struct State<'a> {
    file: &'a SafeTensors<'a>,
    vars: HashMap<&'a str, Option<Tensor>>,
    grad_enabled: bool,
}

/// How a step goes wrong: the library's error, which the step may have wanted, or a difference.
enum Trouble {
    Raised(Error),
    Differs(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Raised(error)
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Differs(text)
    }
}

impl<'a> State<'a> {
    fn new(file: &'a SafeTensors<'a>) -> Self {
        Self { file, vars: HashMap::new(), grad_enabled: true }
    }

    fn run(mut self, program: &'a Program) -> Result<()> {
        for (n, step) in program.steps.iter().enumerate() {
            let result = {
                let _mode = bridge::grad_mode(self.grad_enabled);
                self.step(&step.action)
            };
            match (result, &step.error) {
                (Err(Trouble::Differs(text)), _) => Err(text),
                (Err(Trouble::Raised(error)), None) => Err(show(error)),
                (Err(Trouble::Raised(error)), Some(want)) => check_error(Err(error), want),
                (Ok(()), Some(want)) => check_error(Ok(()), want),
                (Ok(()), None) => Ok(()),
            }
            .map_err(|e| format!("step {n} ({}): {e}", describe(&step.action)))?;
        }
        Ok(())
    }

    fn var(&self, name: &str) -> CoreResult<Tensor> {
        match self.vars.get(name) {
            Some(Some(t)) => Ok(t.clone()),
            _ => Err(Error::new(ErrorKind::Type, format!("the variable {name} is None"))),
        }
    }

    fn tensors(&self, names: &[String]) -> CoreResult<Vec<Tensor>> {
        names.iter().map(|n| self.var(n)).collect()
    }

    fn vectors(&self, names: Option<&[Option<String>]>) -> CoreResult<Option<Vec<Option<Tensor>>>> {
        let one = |n: &Option<String>| n.as_deref().map(|n| self.var(n)).transpose();
        names.map(|names| names.iter().map(one).collect()).transpose()
    }

    fn argument(&self, value: &Option<Value>) -> std::result::Result<IValue, Trouble> {
        Ok(match value {
            Some(Value::Var(name)) => match self.vars.get(name.as_str()) {
                Some(Some(t)) => t.into(),
                Some(None) => IValue::None,
                None => return Err(format!("no variable {name}").into()),
            },
            Some(Value::VarList(names)) => self.tensors(names)?.into(),
            other => build_args(std::slice::from_ref(other), &[], &[])?.pop().unwrap_or(IValue::None),
        })
    }

    fn step(&mut self, action: &'a Action) -> std::result::Result<(), Trouble> {
        match action {
            Action::Leaf { var, value, requires_grad } => {
                // The recorder's leaves are views of their flat storage, which some error texts show.
                let flat = Dense { size: vec![value.size.iter().product()], ..value.clone() };
                let args = vec![dense(self.file, &flat)?.into(), value.size.clone().into()];
                let leaf = bridge::call_tensor("aten::reshape", args)?;
                leaf.requires_grad_(*requires_grad)?;
                self.vars.insert(var, Some(leaf));
            }
            Action::Call { op, args, vars } => {
                let args = args.iter().map(|a| self.argument(a)).collect::<std::result::Result<_, _>>()?;
                let mut returned = bridge::call(op, args)?;
                if let [IValue::TensorList(list)] = returned.as_mut_slice() {
                    let list = std::mem::take(list);
                    returned = list.into_iter().map(IValue::from).collect();
                }
                for (name, value) in vars.iter().zip(returned) {
                    let tensor = if let IValue::Tensor(t) = value { Some(t) } else { None };
                    self.vars.insert(name, tensor);
                }
            }
            Action::Backward(b) => {
                let inputs = b.inputs.as_deref().map(|names| self.tensors(names)).transpose()?;
                let vectors = self.vectors(b.grads.as_deref())?;
                bridge::backward(&self.tensors(&b.outputs)?, vectors.as_deref(), inputs.as_deref(), mode(b))?;
            }
            Action::Grad(b) => {
                let inputs = self.tensors(b.inputs.as_deref().unwrap_or_default())?;
                let vectors = self.vectors(b.grads.as_deref())?;
                let grads = bridge::grad(&self.tensors(&b.outputs)?, &inputs, vectors.as_deref(), mode(b))?;
                self.vars.extend(b.vars.iter().map(String::as_str).zip(grads));
            }
            Action::GradMode { enabled } => self.grad_enabled = *enabled,
            Action::RequiresGrad { var, value } => {
                self.var(var)?.requires_grad_(*value)?;
            }
            Action::RetainGrad { var } => self.var(var)?.retain_grad()?,
            Action::ZeroGrad { var } => self.var(var)?.set_grad(None)?,
            Action::Expect { var, attr, value } => self.expect(var, attr, value)?,
        }
        Ok(())
    }

    fn expect(&self, var: &str, attr: &str, want: &Json) -> std::result::Result<(), Trouble> {
        let t = self.vars.get(var).ok_or_else(|| format!("no variable {var}"))?.as_ref();
        if attr == "value" || attr == "grad" {
            let want: Option<Dense> = serde_json::from_value(want.clone()).map_err(|e| e.to_string())?;
            let grad = if attr == "grad" { t.and_then(Tensor::grad) } else { t.cloned() };
            return Ok(check_optional(self.file, grad.as_ref(), want.as_ref(), TOLERANCE)?);
        }
        let got = match (attr, t) {
            ("defined", t) => Json::from(t.is_some()),
            (_, None) => return Err("the variable is None".to_owned().into()),
            ("requires_grad", Some(t)) => t.requires_grad().into(),
            ("is_leaf", Some(t)) => t.is_leaf().into(),
            ("grad_fn", Some(t)) => bridge::grad_fn(t)?.into(),
            ("version", Some(t)) => t.version()?.into(),
            ("is_view", Some(t)) => t.is_view().into(),
            ("output_nr", Some(t)) => t.output_nr().into(),
            ("next_functions", Some(t)) => bridge::next_functions(t)?.into(),
            (other, _) => return Err(format!("an attribute that the runner does not know: {other}").into()),
        };
        if got == *want { Ok(()) } else { Err(format!("{got}, want {want}").into()) }
    }
}

fn mode(b: &Backward) -> Mode {
    Mode { retain_graph: b.retain_graph, create_graph: b.create_graph, allow_unused: b.allow_unused }
}

fn describe(action: &Action) -> String {
    match action {
        Action::Leaf { var, .. } => format!("leaf {var}"),
        Action::Call { op, .. } => op.clone(),
        Action::Backward(_) => "backward".to_owned(),
        Action::Grad(_) => "grad".to_owned(),
        Action::GradMode { enabled } => format!("grad mode {enabled}"),
        Action::RequiresGrad { var, value } => format!("{var}.requires_grad_({value})"),
        Action::RetainGrad { var } => format!("{var}.retain_grad()"),
        Action::ZeroGrad { var } => format!("zero the gradient of {var}"),
        Action::Expect { var, attr, .. } => format!("{var}.{attr}"),
    }
}
