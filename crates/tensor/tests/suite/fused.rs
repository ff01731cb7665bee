//! Steps in one pass against the rules composed of operators: large and small parameters, in any layout, on any number of
//! threads.

use tensor::ops;
use tensor::optim::{Adam, AdamOptions, AdamW, AdamWOptions, SGD, SgdOptions};
use tensor::prelude::*;

use crate::close::assert_close;

/// Numbers between -2 and 2 that look random. (The generator is one for all tests.)
fn numbers(sizes: &[i64], start: i64) -> Result<Tensor> {
    let n: i64 = sizes.iter().product();
    let values: Vec<f32> = (start..start + n).map(|i| ((i * 7919) % 4001) as f32 / 1000.0 - 2.0).collect();
    Tensor::from_vec(values, sizes)
}

/// Parameters of several sizes and layouts, with gradients of others.
fn parameters(dtype: DType) -> Result<Vec<Tensor>> {
    let plain = numbers(&[40_001], 1)?;
    let turned = numbers(&[40, 30], 500)?.t()?;
    let gaps = numbers(&[8, 20], 900)?.slice_opt(1, Some(0), Some(20), 2)?;
    let number = numbers(&[], 77)?;
    let mut all = Vec::new();
    for x in [plain, turned, gaps, number, Tensor::zeros(&[0, 3], DType::F32)?] {
        let grad = if x.dim() == 0 { x.copy()? } else { numbers(&x.sizes()[1..], 33)?.expand(x.sizes())? };
        // `x` keeps its strides through the cast.
        let param = if dtype == DType::F32 { x.detach()? } else { x.to_dtype(dtype)? };
        param.requires_grad_(true)?;
        param.set_grad(Some(grad.to_dtype(dtype)?))?;
        all.push(param);
    }
    Ok(all)
}

/// The same parameters and gradients as complex numbers, which the composed rule takes.
fn complex(params: &[Tensor]) -> Result<Vec<Tensor>> {
    let twin = |x: &Tensor| x.detach()?.to_dtype(DType::C128);
    params
        .iter()
        .map(|param| {
            let copy = twin(param)?;
            copy.requires_grad_(true)?;
            let Some(grad) = param.grad() else { return Ok(copy) };
            copy.set_grad(Some(twin(&grad)?))?;
            Ok(copy)
        })
        .collect()
}

fn train(params: &[Tensor], make: &dyn Fn(&[Tensor]) -> Result<Box<dyn Optimizer>>) -> Result<()> {
    let mut optimizer = make(params)?;
    for _ in 0..4 {
        optimizer.step()?;
    }
    Ok(())
}

type Make = Box<dyn Fn(&[Tensor]) -> Result<Box<dyn Optimizer>>>;

fn optimizers() -> Vec<(&'static str, Make)> {
    let sgd = |options: SgdOptions| -> Make { Box::new(move |p| Ok(Box::new(SGD::new(p, options)?))) };
    let adam = |options: AdamOptions| -> Make { Box::new(move |p| Ok(Box::new(Adam::new(p, options)?))) };
    let adamw = |options: AdamWOptions| -> Make { Box::new(move |p| Ok(Box::new(AdamW::new(p, options)?))) };
    vec![
        ("plain", sgd(SgdOptions::lr(0.1))),
        ("decay", sgd(SgdOptions::lr(0.1).weight_decay(0.2).maximize(true))),
        ("momentum", sgd(SgdOptions::lr(0.1).momentum(0.9).dampening(0.3).weight_decay(0.1))),
        ("nesterov", sgd(SgdOptions::lr(0.1).momentum(0.8).nesterov(true))),
        ("adam", adam(AdamOptions::lr(0.05).weight_decay(0.1))),
        ("adam up", adam(AdamOptions::lr(0.05).betas(0.7, 0.9).eps(1e-3).maximize(true))),
        ("adamw", adamw(AdamWOptions::lr(0.05))),
    ]
}

#[test]
fn one_pass_does_what_the_composed_rule_does() -> Result<()> {
    for (name, make) in optimizers() {
        for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-3), (DType::BF16, 0.1), (DType::F16, 0.1)] {
            let params = parameters(dtype)?;
            let twins = complex(&params)?;
            train(&params, &*make)?;
            train(&twins, &*make)?;
            for (param, twin) in params.iter().zip(&twins) {
                let wanted = ops::view_as_real(&twin.detach()?)?.select(-1, 0)?;
                let got = param.detach()?.to_dtype(DType::F64)?;
                assert_close(&format!("{name} {dtype}"), &got, &wanted, tolerance, tolerance);
            }
        }
    }
    Ok(())
}

#[test]
fn the_largest_average_divides() -> Result<()> {
    let params = parameters(DType::F32)?;
    let mut optimizer = AdamW::new(&params, AdamWOptions::lr(0.1).amsgrad(true))?;
    optimizer.step()?;
    let large = optimizer.state_dict()?.state[0].1.iter().find(|(name, _)| name == "max_exp_avg_sq").cloned();
    let before = large.map(|(_, tensor)| tensor.copy()).transpose()?.ok_or_else(|| Error::runtime("no average"))?;
    for param in &params {
        param.set_grad(Some(param.detach()?.zeros_like()?))?;
    }
    optimizer.step()?;
    let state = optimizer.state_dict()?.state;
    for (name, tensor) in &state[0].1 {
        if name == "max_exp_avg_sq" {
            assert_close("largest", tensor, &before, 0.0, 0.0);
        }
    }
    Ok(())
}

#[test]
fn threads_do_not_change_a_bit() -> Result<()> {
    for (name, make) in optimizers() {
        let mut results = Vec::new();
        for threads in [1, 3] {
            tensor::config::set_num_threads(threads);
            let params = parameters(DType::F32)?;
            train(&params, &*make)?;
            results.push(params);
        }
        for (a, b) in results[0].iter().zip(&results[1]) {
            assert_close(name, a, b, 0.0, 0.0);
        }
    }
    Ok(())
}

#[test]
fn scaled_gradients_of_any_layout_are_unscaled_before_the_step() -> Result<()> {
    // The gradient lies unlike the parameter: the kernel gets a copy of it.
    let (param, grad) = (Tensor::zeros(&[3, 2], DType::F32)?, numbers(&[2, 3], 5)?.t()?);
    let unscaled = (&grad / 4.0)?.to_vec::<f32>()?;
    let scale = Tensor::from_slice(&[4.0f32], &[])?;
    let (params, grads) = ([&param], [&grad]);
    ops::_fused_sgd_(&params, &grads, &[], 0.0, 0.0, 1.0, 0.0, false, false, false, Some(&scale), None)?;
    assert_eq!(grad.to_vec::<f32>()?, unscaled);
    assert_eq!((-&param)?.to_vec::<f32>()?, unscaled);
    Ok(())
}

#[test]
fn a_dtype_without_a_kernel_is_refused_before_anything_is_written() -> Result<()> {
    let (real, whole) = (Tensor::ones(&[3], DType::F32)?, Tensor::ones(&[3], DType::I64)?);
    let grads = [Tensor::ones(&[3], DType::F32)?, Tensor::ones(&[3], DType::I64)?];
    let scale = Tensor::from_slice(&[2.0f32], &[])?;
    let lists = [[&real, &whole], [&grads[0], &grads[1]]];
    let refused =
        ops::_fused_sgd_(&lists[0], &lists[1], &[], 0.0, 0.0, 1.0, 0.0, false, false, false, Some(&scale), None);
    assert!(refused.is_err());
    assert_eq!(real.to_vec::<f32>()?, [1.0; 3]);
    assert_eq!(grads[0].to_vec::<f32>()?, [1.0; 3]);
    Ok(())
}
