//! Stochastic gradient descent with momentum (`torch.optim.SGD`).

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result, check_value};

use crate::groups::{self, Options, Rule, Setting, Slot, State, optimizer, settings};

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
    /// Plain descent with a learning rate.
    pub fn lr(lr: f64) -> Self {
        Self { lr, ..Self::default() }
    }

    /// Sets how much of the last step stays.
    pub const fn momentum(self, momentum: f64) -> Self {
        Self { momentum, ..self }
    }

    /// Sets how much of the gradient is left out of the momentum.
    pub const fn dampening(self, dampening: f64) -> Self {
        Self { dampening, ..self }
    }

    /// Sets the L2 penalty.
    pub const fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// Looks ahead by the momentum.
    pub const fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }
    }

    /// Climbs in place of descending.
    pub const fn maximize(self, maximize: bool) -> Self {
        Self { maximize, ..self }
    }
}

impl Options for SgdOptions {
    settings!(lr momentum dampening weight_decay nesterov maximize);

    fn check(&self) -> Result<()> {
        check_value!(self.lr >= 0.0, "Invalid learning rate: {:?}", self.lr);
        check_value!(self.momentum >= 0.0, "Invalid momentum value: {:?}", self.momentum);
        check_value!(self.weight_decay >= 0.0, "Invalid weight_decay value: {:?}", self.weight_decay);
        check_value!(
            !self.nesterov || (self.momentum > 0.0 && self.dampening == 0.0),
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(())
    }
}

/// The momentum of a parameter, from its first step on.
#[derive(Default)]
pub struct SgdState(Option<Tensor>);

impl State for SgdState {
    fn to_tensors(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(self.0.iter().map(|buffer| ("momentum_buffer".to_owned(), buffer.clone())).collect())
    }

    fn from_tensors(param: &Tensor, tensors: &[(String, Tensor)]) -> Result<Self> {
        groups::like_opt(param, tensors, "momentum_buffer").map(Self)
    }
}

/// The rule of [`SGD`].
pub struct SgdRule;

impl Rule for SgdRule {
    type Options = SgdOptions;
    type State = SgdState;

    // With g the gradient and decay * p: b = momentum * b + (1 - dampening) * g, at first b = g; p = p - lr * b, or
    // p = p - lr * (g + momentum * b) by Nesterov.
    fn update(param: &Tensor, grad: &Tensor, state: &mut SgdState, options: &SgdOptions) -> Result<()> {
        let mut grad = if options.maximize { ops::neg(grad)? } else { grad.clone() };
        if options.weight_decay != 0.0 {
            grad = ops::add(&grad, param, options.weight_decay)?;
        }
        if options.momentum != 0.0 {
            let buffer = match &mut state.0 {
                Some(buffer) => {
                    ops::mul_scalar_(buffer, options.momentum)?;
                    ops::add_(buffer, &grad, 1.0 - options.dampening)?;
                    buffer
                }
                none => none.insert(ops::clone(&grad, Some(MemoryFormat::Preserve))?),
            };
            grad = if options.nesterov { ops::add(&grad, buffer, options.momentum)? } else { buffer.clone() };
        }
        ops::add_(param, &grad, -options.lr)?;
        Ok(())
    }

    fn update_group(slots: Vec<Slot<'_, SgdState>>, options: &SgdOptions) -> Result<()> {
        let (fused, others): (Vec<_>, Vec<_>) = slots.into_iter().partition(Slot::can_fuse);
        // A momentum starts as the gradient: parameters at their first step go apart.
        let (started, fresh): (Vec<_>, Vec<_>) = fused.into_iter().partition(|slot| slot.state.0.is_some());
        fuse(started, options, false)?;
        fuse(fresh, options, true)?;
        others.into_iter().try_for_each(|slot| Self::update(slot.param, &slot.grad, slot.state, options))
    }
}

/// One step of parameters that all have a momentum or all have none yet.
fn fuse(slots: Vec<Slot<'_, SgdState>>, options: &SgdOptions, first: bool) -> Result<()> {
    let SgdOptions { lr, momentum, dampening, weight_decay, nesterov, maximize } = *options;
    let (mut params, mut grads, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    for Slot { param, grad, state } in &slots {
        params.push(*param);
        grads.push(grad);
        if momentum != 0.0 {
            buffers.push(match &state.0 {
                Some(buffer) => buffer.clone(),
                None => param.empty_like()?,
            });
        }
    }
    let lists: Vec<&Tensor> = buffers.iter().collect();
    ops::_fused_sgd_(
        &params,
        &grads,
        &lists,
        weight_decay,
        momentum,
        lr,
        dampening,
        nesterov,
        maximize,
        first,
        None,
        None,
    )?;
    for (slot, buffer) in slots.into_iter().zip(buffers) {
        slot.state.0 = Some(buffer);
    }
    Ok(())
}

optimizer! {
    /// Stochastic gradient descent with momentum (`torch.optim.SGD`).
    SGD, SgdRule
}
