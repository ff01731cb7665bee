//! Adam and AdamW (`torch.optim.Adam`, `torch.optim.AdamW`): Kingma and Ba 2014, Loshchilov and Hutter 2017.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, check_value};

use crate::groups::{Options, Rule, Setting, State, optimizer, tensor};

/// The settings of [`Adam`] and [`AdamW`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// learning rate
    pub lr: f64,
    /// how much of the running averages of gradient and square stays
    pub betas: (f64, f64),
    /// added to the root of the squares
    pub eps: f64,
    /// L2 penalty (Adam) or decay of the parameter itself (AdamW)
    pub weight_decay: f64,
    /// divides by the largest average so far
    pub amsgrad: bool,
    /// climbs in place of descending
    pub maximize: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, amsgrad: false, maximize: false }
    }
}

impl AdamOptions {
    /// Default settings with a learning rate.
    pub fn lr(lr: f64) -> Self {
        Self { lr, ..Self::default() }
    }

    /// With a weight decay.
    pub const fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }

    fn check(&self) -> Result<()> {
        check_value!(self.lr >= 0.0, "Invalid learning rate: {}", self.lr);
        check_value!(self.eps >= 0.0, "Invalid epsilon value: {}", self.eps);
        check_value!((0.0..1.0).contains(&self.betas.0), "Invalid beta parameter at index 0: {}", self.betas.0);
        check_value!((0.0..1.0).contains(&self.betas.1), "Invalid beta parameter at index 1: {}", self.betas.1);
        check_value!(self.weight_decay >= 0.0, "Invalid weight_decay value: {}", self.weight_decay);
        Ok(())
    }
}

impl Options for AdamOptions {
    fn to_settings(&self) -> Vec<(String, Setting)> {
        [
            ("lr", Setting::Float(self.lr)),
            ("betas", Setting::Pair(self.betas.0, self.betas.1)),
            ("eps", Setting::Float(self.eps)),
            ("weight_decay", Setting::Float(self.weight_decay)),
            ("amsgrad", Setting::Bool(self.amsgrad)),
            ("maximize", Setting::Bool(self.maximize)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn set(&mut self, name: &str, value: Setting) {
        match (name, value) {
            ("lr", Setting::Float(v)) => self.lr = v,
            ("betas", Setting::Pair(a, b)) => self.betas = (a, b),
            ("eps", Setting::Float(v)) => self.eps = v,
            ("weight_decay", Setting::Float(v)) => self.weight_decay = v,
            ("amsgrad", Setting::Bool(v)) => self.amsgrad = v,
            ("maximize", Setting::Bool(v)) => self.maximize = v,
            _ => {}
        }
    }
}

/// The running averages of a parameter, from its first step on.
#[derive(Default)]
pub struct AdamState {
    step: i32,
    averages: Option<Averages>,
}

struct Averages {
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Option<Tensor>,
}

impl State for AdamState {
    fn to_tensors(&self) -> Vec<(String, Tensor)> {
        let Some(averages) = &self.averages else { return Vec::new() };
        let step = Tensor::scalar_tensor(self.step as f64, DType::F32).ok();
        let named = [
            ("step", step),
            ("exp_avg", Some(averages.exp_avg.clone())),
            ("exp_avg_sq", Some(averages.exp_avg_sq.clone())),
            ("max_exp_avg_sq", averages.max_exp_avg_sq.clone()),
        ];
        named.into_iter().filter_map(|(name, tensor)| Some((name.to_owned(), tensor?))).collect()
    }

    fn from_tensors(tensors: &[(String, Tensor)]) -> Result<Self> {
        if tensors.is_empty() {
            return Ok(Self::default());
        }
        let step = ops::item(&tensor(tensors, "step")?)?.to_i64() as i32;
        let averages = Averages {
            exp_avg: tensor(tensors, "exp_avg")?,
            exp_avg_sq: tensor(tensors, "exp_avg_sq")?,
            max_exp_avg_sq: tensor(tensors, "max_exp_avg_sq").ok(),
        };
        Ok(Self { step, averages: Some(averages) })
    }
}

/// The step that both rules share once the weight decay is done.
fn update(param: &Tensor, grad: &Tensor, state: &mut AdamState, options: &AdamOptions) -> Result<()> {
    let zeros = || ops::zeros_like(param, None, None, None, None, None);
    let averages = match &mut state.averages {
        Some(averages) => averages,
        none => none.insert(Averages {
            exp_avg: zeros()?,
            exp_avg_sq: zeros()?,
            max_exp_avg_sq: options.amsgrad.then(zeros).transpose()?,
        }),
    };
    state.step += 1;
    let (beta1, beta2) = options.betas;
    ops::lerp_scalar_(&averages.exp_avg, grad, 1.0 - beta1)?;
    ops::mul_scalar_(&averages.exp_avg_sq, beta2)?;
    ops::addcmul_(&averages.exp_avg_sq, grad, grad, 1.0 - beta2)?;
    let correction1 = 1.0 - beta1.powi(state.step);
    let correction2 = (1.0 - beta2.powi(state.step)).sqrt();
    let squares = match &averages.max_exp_avg_sq {
        Some(largest) => {
            ops::copy_(largest, &ops::maximum(largest, &averages.exp_avg_sq)?, false)?;
            largest
        }
        None => &averages.exp_avg_sq,
    };
    let root = ops::sqrt(squares)?;
    ops::div_scalar_(&root, correction2)?;
    ops::add_scalar_(&root, options.eps, 1)?;
    ops::addcdiv_(param, &averages.exp_avg, &root, -options.lr / correction1)?;
    Ok(())
}

fn ascent(grad: &Tensor, options: &AdamOptions) -> Result<Tensor> {
    if options.maximize { ops::neg(grad) } else { Ok(grad.clone()) }
}

/// The rule of [`Adam`].
pub struct AdamRule;

impl Rule for AdamRule {
    type Options = AdamOptions;
    type State = AdamState;

    fn update(param: &Tensor, grad: &Tensor, state: &mut AdamState, options: &AdamOptions) -> Result<()> {
        let mut grad = ascent(grad, options)?;
        if options.weight_decay != 0.0 {
            grad = ops::add(&grad, param, options.weight_decay)?;
        }
        update(param, &grad, state, options)
    }
}

/// The rule of [`AdamW`].
pub struct AdamWRule;

impl Rule for AdamWRule {
    type Options = AdamOptions;
    type State = AdamState;

    fn update(param: &Tensor, grad: &Tensor, state: &mut AdamState, options: &AdamOptions) -> Result<()> {
        let grad = ascent(grad, options)?;
        if options.weight_decay != 0.0 {
            ops::mul_scalar_(param, 1.0 - options.lr * options.weight_decay)?;
        }
        update(param, &grad, state, options)
    }
}

optimizer! {
    /// Adam (`torch.optim.Adam`): the weight decay is an L2 penalty.
    Adam, AdamRule, AdamOptions
}

optimizer! {
    /// AdamW (`torch.optim.AdamW`): the weight decay shrinks the parameter itself. PyTorch's default decay is 0.01.
    AdamW, AdamWRule, AdamOptions
}
