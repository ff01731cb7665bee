//! Adam and AdamW (`torch.optim.Adam`, `torch.optim.AdamW`): Kingma and Ba 2014, Loshchilov and Hutter 2017.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, check_value};

use crate::groups::{self, Options, Rule, Setting, Slot, State, optimizer, settings};

/// The settings of [`Adam`] (`DECOUPLED` false) and [`AdamW`] (true), which differ in what weight decay means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveOptions<const DECOUPLED: bool> {
    /// learning rate
    pub lr: f64,
    /// how much of the running averages of gradient and square stays
    pub betas: (f64, f64),
    /// added to the root of the squares
    pub eps: f64,
    /// L2 penalty (Adam; 0 by default) or decay of the parameter itself (AdamW; 0.01 by default)
    pub weight_decay: f64,
    /// divides by the largest average so far
    pub amsgrad: bool,
    /// climbs in place of descending
    pub maximize: bool,
}

/// The settings of [`Adam`].
pub type AdamOptions = AdaptiveOptions<false>;

/// The settings of [`AdamW`].
pub type AdamWOptions = AdaptiveOptions<true>;

impl<const DECOUPLED: bool> Default for AdaptiveOptions<DECOUPLED> {
    fn default() -> Self {
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        Self { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay, amsgrad: false, maximize: false }
    }
}

impl<const DECOUPLED: bool> AdaptiveOptions<DECOUPLED> {
    /// Default settings with a learning rate.
    pub fn lr(lr: f64) -> Self {
        Self { lr, ..Self::default() }
    }

    /// Sets how much of the running averages stays.
    pub const fn betas(self, beta1: f64, beta2: f64) -> Self {
        Self { betas: (beta1, beta2), ..self }
    }

    /// Sets what is added to the root of the squares.
    pub const fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }

    /// Sets the weight decay.
    pub const fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    /// Divides by the largest average so far.
    pub const fn amsgrad(self, amsgrad: bool) -> Self {
        Self { amsgrad, ..self }
    }

    /// Climbs in place of descending.
    pub const fn maximize(self, maximize: bool) -> Self {
        Self { maximize, ..self }
    }
}

impl<const DECOUPLED: bool> Options for AdaptiveOptions<DECOUPLED> {
    settings!(lr betas eps weight_decay amsgrad maximize);

    fn check(&self) -> Result<()> {
        check_value!(self.lr >= 0.0, "Invalid learning rate: {:?}", self.lr);
        check_value!(self.eps >= 0.0, "Invalid epsilon value: {:?}", self.eps);
        check_value!((0.0..1.0).contains(&self.betas.0), "Invalid beta parameter at index 0: {:?}", self.betas.0);
        check_value!((0.0..1.0).contains(&self.betas.1), "Invalid beta parameter at index 1: {:?}", self.betas.1);
        check_value!(self.weight_decay >= 0.0, "Invalid weight_decay value: {:?}", self.weight_decay);
        Ok(())
    }
}

/// The running averages of a parameter, from its first step on.
#[derive(Default)]
pub struct AdaptiveState {
    step: i32,
    averages: Option<Averages>,
}

struct Averages {
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Option<Tensor>,
}

impl State for AdaptiveState {
    fn to_tensors(&self) -> Result<Vec<(String, Tensor)>> {
        let Some(averages) = &self.averages else { return Ok(Vec::new()) };
        let step = Tensor::scalar_tensor(f64::from(self.step), DType::F32)?;
        let named = [
            ("step", Some(step)),
            ("exp_avg", Some(averages.exp_avg.clone())),
            ("exp_avg_sq", Some(averages.exp_avg_sq.clone())),
            ("max_exp_avg_sq", averages.max_exp_avg_sq.clone()),
        ];
        Ok(named.into_iter().filter_map(|(name, tensor)| Some((name.to_owned(), tensor?))).collect())
    }

    fn from_tensors(param: &Tensor, tensors: &[(String, Tensor)]) -> Result<Self> {
        if tensors.is_empty() {
            return Ok(Self::default());
        }
        let max_exp_avg_sq = groups::like_opt(param, tensors, "max_exp_avg_sq")?;
        let averages = Averages {
            exp_avg: groups::like(param, tensors, "exp_avg")?,
            exp_avg_sq: groups::like(param, tensors, "exp_avg_sq")?,
            max_exp_avg_sq,
        };
        let step = groups::find(tensors, "step")?;
        Ok(Self { step: ops::item(step)?.to_f64() as i32, averages: Some(averages) })
    }
}

impl AdaptiveState {
    /// The averages, zeros before the first step.
    fn averages(&mut self, param: &Tensor, amsgrad: bool) -> Result<&Averages> {
        let zeros = || param.zeros_like();
        let averages = match &mut self.averages {
            Some(averages) => averages,
            none => none.insert(Averages { exp_avg: zeros()?, exp_avg_sq: zeros()?, max_exp_avg_sq: None }),
        };
        if amsgrad && averages.max_exp_avg_sq.is_none() {
            averages.max_exp_avg_sq = Some(zeros()?);
        }
        Ok(averages)
    }
}

/// The rule of [`Adam`] and [`AdamW`].
pub struct AdaptiveRule<const DECOUPLED: bool>;

impl<const DECOUPLED: bool> Rule for AdaptiveRule<DECOUPLED> {
    type Options = AdaptiveOptions<DECOUPLED>;
    type State = AdaptiveState;

    // With g the gradient (and decay * p, for Adam), t the step:
    //   m = lerp(m, g, 1 - beta1),  v = beta2 * v + (1 - beta2) * g^2,
    //   p = p * (1 - lr * decay)    (AdamW),
    //   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
    fn update(param: &Tensor, grad: &Tensor, state: &mut AdaptiveState, options: &Self::Options) -> Result<()> {
        let mut grad = if options.maximize { ops::neg(grad)? } else { grad.clone() };
        let Self::Options { lr, betas: (beta1, beta2), eps, weight_decay, amsgrad, .. } = *options;
        state.step += 1;
        let step = state.step;
        let averages = state.averages(param, amsgrad)?;
        if weight_decay != 0.0 {
            if DECOUPLED {
                ops::mul_scalar_(param, 1.0 - lr * weight_decay)?;
            } else {
                grad = ops::add(&grad, param, weight_decay)?;
            }
        }
        // Complex numbers are pairs of real ones here.
        let parts = |tensor: &Tensor| if tensor.is_complex() { ops::view_as_real(tensor) } else { Ok(tensor.clone()) };
        let (param, grad, exp_avg) = (parts(param)?, parts(&grad)?, parts(&averages.exp_avg)?);
        let mut squares = parts(&averages.exp_avg_sq)?;
        ops::lerp_scalar_(&exp_avg, &grad, 1.0 - beta1)?;
        ops::mul_scalar_(&squares, beta2)?;
        ops::addcmul_(&squares, &grad, &grad, 1.0 - beta2)?;
        if let (true, Some(largest)) = (amsgrad, &averages.max_exp_avg_sq) {
            let largest = parts(largest)?;
            ops::maximum_out(&largest, &squares, &largest)?;
            squares = largest;
        }
        let denominator = ops::sqrt(&squares)?;
        ops::div_scalar_(&denominator, (1.0 - beta2.powi(step)).sqrt())?;
        ops::add_scalar_(&denominator, eps, 1)?;
        ops::addcdiv_(&param, &exp_avg, &denominator, -lr / (1.0 - beta1.powi(step)))?;
        Ok(())
    }

    fn update_group(slots: Vec<Slot<'_, AdaptiveState>>, options: &Self::Options) -> Result<()> {
        let (fused, others): (Vec<_>, Vec<_>) = slots.into_iter().partition(Slot::can_fuse);
        let Self::Options { lr, betas: (beta1, beta2), eps, weight_decay, amsgrad, maximize } = *options;
        let (mut params, mut grads, mut state_steps) = (Vec::new(), Vec::new(), Vec::<Tensor>::new());
        let (mut exp_avgs, mut exp_avg_sqs, mut max_exp_avg_sqs) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = 0;
        let mut fused = fused;
        for Slot { param, grad, state } in &mut fused {
            let step = state.step + 1;
            // Most parameters are at one step: they share its tensor.
            let shared = state_steps.last().filter(|_| step == last).cloned();
            state_steps.push(match shared {
                Some(tensor) => tensor,
                None => Tensor::scalar_tensor(f64::from(step), DType::F64)?,
            });
            last = step;
            let averages = state.averages(param, amsgrad)?;
            params.push(*param);
            grads.push(&*grad);
            exp_avgs.push(&averages.exp_avg);
            exp_avg_sqs.push(&averages.exp_avg_sq);
            max_exp_avg_sqs.extend(averages.max_exp_avg_sq.as_ref().filter(|_| amsgrad));
        }
        let state_steps: Vec<&Tensor> = state_steps.iter().collect();
        let run = if DECOUPLED { ops::_fused_adamw_ } else { ops::_fused_adam_ };
        run(
            &params,
            &grads,
            &exp_avgs,
            &exp_avg_sqs,
            &max_exp_avg_sqs,
            &state_steps,
            lr,
            beta1,
            beta2,
            weight_decay,
            eps,
            amsgrad,
            maximize,
            None,
            None,
        )?;
        fused.iter_mut().for_each(|slot| slot.state.step += 1);
        others.into_iter().try_for_each(|slot| Self::update(slot.param, &slot.grad, slot.state, options))
    }
}

optimizer! {
    /// Adam (`torch.optim.Adam`): the weight decay is an L2 penalty.
    Adam, AdaptiveRule<false>
}

optimizer! {
    /// AdamW (`torch.optim.AdamW`): the weight decay shrinks the parameter itself.
    AdamW, AdaptiveRule<true>
}
