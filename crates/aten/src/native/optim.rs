//! Steps of optimizers over lists of tensors: each parameter with its gradient and state in one pass.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, Result, bail, check};

use crate::kernels::{self, AdamSlot, AdamStep, SgdSlot, SgdStep};
use crate::out::Out;
use crate::{Tensor, ops};

/// PyTorch's text for a condition that has none.
fn check_count(list: &[&Tensor], name: &str, params: &[&Tensor]) -> Result<()> {
    check!(
        list.len() == params.len(),
        "Expected {name}.size() == n_tensors to be true, but got false.  (Could this error message be improved?  If so, \
         please report an enhancement request to PyTorch.)"
    );
    Ok(())
}

/// The tensors of one parameter: itself, its gradient, and its state.
struct Bundle {
    given: Vec<Tensor>,
    /// The same with shapes that no other thread changes: those that were checked.
    seen: Vec<Tensor>,
    /// As a kernel takes them: none before [`Bundle::lay_out`].
    dense: Vec<Tensor>,
}

impl Bundle {
    /// Checks dtypes and shapes.
    fn new(tensors: &[&Tensor]) -> Result<Self> {
        let given = tensors.iter().map(|&tensor| Tensor::clone(tensor)).collect();
        let seen: Vec<Tensor> = tensors.iter().map(|tensor| tensor.pinned()).collect();
        let Some(param) = seen.first() else { bail!(Runtime, "a step needs a parameter") };
        for tensor in &seen {
            check!(
                tensor.dtype() == param.dtype(),
                "expected scalar type {} but found {}",
                param.dtype().cpp_name(),
                tensor.dtype().cpp_name()
            );
            check!(
                tensor.device() == param.device(),
                "Expected all tensors to be on the same device, but found at least two devices, {} and {}!",
                param.device(),
                tensor.device()
            );
            check!(
                tensor.sizes() == param.sizes(),
                "expected tensors of shape {}, that of the parameter, but found {}",
                strides::show(param.sizes()),
                strides::show(tensor.sizes())
            );
        }
        Ok(Self { given, seen, dense: Vec::new() })
    }

    /// Lays the tensors out for a kernel: those that lie unlike the parameter, or with gaps, are copied.
    fn lay_out(&mut self) -> Result<()> {
        let Some(param) = self.seen.first() else { return Ok(()) };
        let dims = Dims::from_slice(param.sizes());
        let layout = if param.is_non_overlapping_and_dense() {
            Dims::from_slice(param.strides())
        } else {
            strides::contiguous(&dims)
        };
        let place = |x: &Tensor| {
            let x = if x.strides() == layout.as_slice() {
                Tensor::clone(x)
            } else {
                let copy = Tensor::new_strided(dims.clone(), layout.clone(), x.dtype(), x.device())?;
                crate::composite::copy::copy_(&copy, x, false)?;
                copy
            };
            if x.is_contiguous() { Ok(x) } else { flat(&x) }
        };
        self.dense = self.seen.iter().map(place).collect::<Result<_>>()?;
        Ok(())
    }

    /// Ends a step that wrote all tensors but the gradient, which is the second.
    fn finish(&self) -> Result<()> {
        for (i, (given, dense)) in self.given.iter().zip(&self.dense).enumerate() {
            if i == 1 {
                continue;
            }
            if given.storage().ptr_eq(dense.storage()) {
                given.as_impl().bump_version();
            } else {
                crate::composite::copy::copy_(given, dense, false)?;
            }
        }
        Ok(())
    }
}

/// A dense tensor's elements as they lie in memory.
fn flat(x: &Tensor) -> Result<Tensor> {
    let n = x.numel();
    x.view_of_storage(&[n], &[1], x.storage_offset())
}

/// Divides gradients by the scale that losses had. False if there is nothing to do: some gradient is not finite.
fn unscale(grads: &[&Tensor], grad_scale: Option<&Tensor>, found_inf: Option<&Tensor>) -> Result<bool> {
    if let Some(found) = found_inf
        && ops::item(found)?.to_f64() == 1.0
    {
        return Ok(false);
    }
    if let Some(scale) = grad_scale {
        for grad in grads {
            ops::div_(grad, &ops::_to_copy(scale, Some(grad.dtype()), None, None, None, false, None)?)?;
        }
    }
    Ok(true)
}

/// Adam's numbers, and whether its decay is of the parameters themselves.
fn adam(
    params: &[&Tensor],
    grads: &[&Tensor],
    [exp_avgs, exp_avg_sqs, max_exp_avg_sqs]: [&[&Tensor]; 3],
    state_steps: &[&Tensor],
    step: &AdamStep,
    amsgrad: bool,
    scaled: [Option<&Tensor>; 2],
) -> Result<()> {
    check_count(grads, "grads", params)?;
    check_count(exp_avgs, "exp_avgs", params)?;
    check_count(exp_avg_sqs, "exp_avg_sqs", params)?;
    check_count(state_steps, "state_steps", params)?;
    if amsgrad {
        check_count(max_exp_avg_sqs, "max_exp_avg_sqs", params)?;
    }
    let mut bundles = Vec::with_capacity(params.len());
    let mut steps: Vec<f64> = Vec::with_capacity(params.len());
    for i in 0..params.len() {
        let most = if amsgrad { Some(max_exp_avg_sqs[i]) } else { None };
        let tensors: Vec<&Tensor> =
            [params[i], grads[i], exp_avgs[i], exp_avg_sqs[i]].into_iter().chain(most).collect();
        check!(state_steps[i].numel() == 1, "expected one number in each of state_steps");
        bundles.push(Bundle::new(&tensors)?);
        let known = i.checked_sub(1).filter(|&last| state_steps[last].is_same(state_steps[i])).map(|last| steps[last]);
        steps.push(match known {
            Some(step) => step,
            None if state_steps[i].is_meta() => 1.0,
            None => ops::item(state_steps[i])?.to_f64(),
        });
    }
    let find = |device, dtype| kernels::optim(device)?.adam.get(dtype, "fused_adam_kernel");
    run(params, grads, bundles, scaled, find, |kernel, of, bundles| {
        let slots: Vec<AdamSlot<'_>> = of
            .iter()
            .filter_map(|&i| match bundles[i].dense.as_slice() {
                [param, grad, exp_avg, exp_avg_sq, most @ ..] => {
                    Some(AdamSlot { param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq: most.first(), step: steps[i] })
                }
                _ => None,
            })
            .collect();
        kernel(&slots, step)
    })
}

/// The parameters of each dtype that have elements.
fn by_dtype(params: &[&Tensor]) -> Vec<(DType, Vec<usize>)> {
    let mut groups: Vec<(DType, Vec<usize>)> = Vec::new();
    for (i, param) in params.iter().enumerate().filter(|(_, param)| param.numel() > 0) {
        match groups.iter_mut().find(|(dtype, _)| *dtype == param.dtype()) {
            Some((_, of)) => of.push(i),
            None => groups.push((param.dtype(), vec![i])),
        }
    }
    groups
}

/// Runs `step` with the kernel and the parameters of each dtype, around which gradients are unscaled and tensors laid out.
/// Nothing is written before every kernel is found; nothing runs on the meta device.
fn run<K>(
    params: &[&Tensor],
    grads: &[&Tensor],
    mut bundles: Vec<Bundle>,
    [grad_scale, found_inf]: [Option<&Tensor>; 2],
    find: impl Fn(Device, DType) -> Result<K>,
    step: impl Fn(K, &[usize], &[Bundle]) -> Result<()>,
) -> Result<()> {
    let Some(first) = params.first().filter(|param| !param.is_meta()) else { return Ok(()) };
    let groups = by_dtype(params).into_iter().map(|(dtype, of)| Ok((find(first.device(), dtype)?, of)));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    if !unscale(grads, grad_scale, found_inf)? {
        return Ok(());
    }
    bundles.iter_mut().try_for_each(Bundle::lay_out)?;
    for (kernel, of) in groups {
        step(kernel, &of, &bundles)?;
    }
    bundles.iter().try_for_each(Bundle::finish)
}

/// The operators of Adam, which differ in what `weight_decay` does.
macro_rules! adam_operators {
    ($($(#[$doc:meta])* $name:ident: $decoupled:literal;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name(
            _out: Out<'_>,
            self_: &[&Tensor],
            grads: &[&Tensor],
            exp_avgs: &[&Tensor],
            exp_avg_sqs: &[&Tensor],
            max_exp_avg_sqs: &[&Tensor],
            state_steps: &[&Tensor],
            lr: f64,
            beta1: f64,
            beta2: f64,
            weight_decay: f64,
            eps: f64,
            amsgrad: bool,
            maximize: bool,
            grad_scale: Option<&Tensor>,
            found_inf: Option<&Tensor>,
        ) -> Result<()> {
            let step = AdamStep { lr, beta1, beta2, weight_decay, eps, decoupled: $decoupled, maximize };
            let state = [exp_avgs, exp_avg_sqs, max_exp_avg_sqs];
            adam(self_, grads, state, state_steps, &step, amsgrad, [grad_scale, found_inf])
        }
    )* };
}

adam_operators! {
    /// One step of Adam (`weight_decay` is an L2 penalty) of all parameters. `state_steps` are counted before.
    _fused_adam_: false;
    /// One step of AdamW (`weight_decay` shrinks the parameters themselves) of all parameters.
    _fused_adamw_: true;
}

/// One step of gradient descent of all parameters; `momentum_buffer_list` is empty without momentum.
#[allow(clippy::too_many_arguments)]
pub fn _fused_sgd_(
    _out: Out<'_>,
    self_: &[&Tensor],
    grads: &[&Tensor],
    momentum_buffer_list: &[&Tensor],
    weight_decay: f64,
    momentum: f64,
    lr: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    check_count(grads, "grads", self_)?;
    let moved = momentum != 0.0;
    if moved {
        check_count(momentum_buffer_list, "momentum_buffer_list", self_)?;
    }
    let mut bundles = Vec::with_capacity(self_.len());
    for i in 0..self_.len() {
        let buffer = if moved { Some(momentum_buffer_list[i]) } else { None };
        let tensors: Vec<&Tensor> = [self_[i], grads[i]].into_iter().chain(buffer).collect();
        bundles.push(Bundle::new(&tensors)?);
    }
    let numbers = SgdStep { lr, momentum, dampening, weight_decay, nesterov, maximize, first: is_first_step };
    let find = |device, dtype| kernels::optim(device)?.sgd.get(dtype, "fused_sgd_kernel");
    run(self_, grads, bundles, [grad_scale, found_inf], find, |kernel, of, bundles| {
        let slots: Vec<SgdSlot<'_>> = of
            .iter()
            .filter_map(|&i| match bundles[i].dense.as_slice() {
                [param, grad, buffer @ ..] => Some(SgdSlot { param, grad, momentum_buffer: buffer.first() }),
                _ => None,
            })
            .collect();
        kernel(&slots, &numbers)
    })
}
