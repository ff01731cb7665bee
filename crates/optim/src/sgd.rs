//! Stochastic gradient descent with momentum (`torch.optim.SGD`).

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result, check_value};

use crate::groups::{Options, Rule, Setting, State, optimizer, tensor};

/// The settings of [`SGD`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    /// learning rate
    pub lr: f64,
    /// how much of the last step stays
    pub momentum: f64,
    /// how much of the gradient is left out of the momentum
    pub dampening: f64,
    /// L2 penalty
    pub weight_decay: f64,
    /// looks ahead by the momentum
    pub nesterov: bool,
    /// climbs in place of descending
    pub maximize: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, maximize: false }
    }
}

impl SgdOptions {
    /// Plain descent.
    pub fn lr(lr: f64) -> Self {
        Self { lr, ..Self::default() }
    }

    /// With momentum.
    pub const fn momentum(self, momentum: f64) -> Self {
        Self { momentum, ..self }
    }

    /// With an L2 penalty.
    pub const fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// With Nesterov's momentum.
    pub const fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }
    }

    fn check(&self) -> Result<()> {
        check_value!(self.lr >= 0.0, "Invalid learning rate: {}", self.lr);
        check_value!(self.momentum >= 0.0, "Invalid momentum value: {}", self.momentum);
        check_value!(self.weight_decay >= 0.0, "Invalid weight_decay value: {}", self.weight_decay);
        check_value!(
            !self.nesterov || (self.momentum > 0.0 && self.dampening == 0.0),
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(())
    }
}

impl Options for SgdOptions {
    fn to_settings(&self) -> Vec<(String, Setting)> {
        [
            ("lr", Setting::Float(self.lr)),
            ("momentum", Setting::Float(self.momentum)),
            ("dampening", Setting::Float(self.dampening)),
            ("weight_decay", Setting::Float(self.weight_decay)),
            ("nesterov", Setting::Bool(self.nesterov)),
            ("maximize", Setting::Bool(self.maximize)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn set(&mut self, name: &str, value: Setting) {
        match (name, value) {
            ("lr", Setting::Float(v)) => self.lr = v,
            ("momentum", Setting::Float(v)) => self.momentum = v,
            ("dampening", Setting::Float(v)) => self.dampening = v,
            ("weight_decay", Setting::Float(v)) => self.weight_decay = v,
            ("nesterov", Setting::Bool(v)) => self.nesterov = v,
            ("maximize", Setting::Bool(v)) => self.maximize = v,
            _ => {}
        }
    }
}

/// The momentum of a parameter, from its first step on.
#[derive(Default)]
pub struct SgdState(Option<Tensor>);

impl State for SgdState {
    fn to_tensors(&self) -> Vec<(String, Tensor)> {
        self.0.iter().map(|buffer| ("momentum_buffer".to_owned(), buffer.clone())).collect()
    }

    fn from_tensors(tensors: &[(String, Tensor)]) -> Result<Self> {
        if tensors.is_empty() { Ok(Self(None)) } else { tensor(tensors, "momentum_buffer").map(|t| Self(Some(t))) }
    }
}

/// The rule of [`SGD`].
pub struct SgdRule;

impl Rule for SgdRule {
    type Options = SgdOptions;
    type State = SgdState;

    fn update(param: &Tensor, grad: &Tensor, state: &mut SgdState, options: &SgdOptions) -> Result<()> {
        let mut grad = if options.maximize { ops::neg(grad)? } else { grad.clone() };
        if options.weight_decay != 0.0 {
            grad = ops::add(&grad, param, options.weight_decay)?;
        }
        if options.momentum != 0.0 {
            let buffer = match &state.0 {
                Some(buffer) => {
                    ops::mul_scalar_(buffer, options.momentum)?;
                    ops::add_(buffer, &grad, 1.0 - options.dampening)?;
                    buffer
                }
                None => state.0.insert(ops::clone(&grad, Some(MemoryFormat::Preserve))?),
            };
            grad = if options.nesterov { ops::add(&grad, buffer, options.momentum)? } else { buffer.clone() };
        }
        ops::add_(param, &grad, -options.lr)?;
        Ok(())
    }
}

optimizer! {
    /// Stochastic gradient descent with momentum (`torch.optim.SGD`).
    SGD, SgdRule, SgdOptions
}
