//! Training against PyTorch's: the first step of the smallest network, twenty steps of each optimizer, clipped gradients.

use serde_json::Value;
use tensor::nn::utils::{clip_grad_norm_, clip_grad_norm_opt_, clip_grad_value_};
use tensor::nn::{Linear, MSELoss, ReLU, Sequential, StateDict, Tanh};
use tensor::optim::{Adam, AdamOptions, AdamW, AdamWOptions, Group, SGD, SgdOptions};
use tensor::prelude::*;

use crate::close::{assert_close, data, generator, json, near, numbers};

#[test]
fn one_step_of_an_mlp_has_pytorchs_numbers() {
    let expected = data("mlp_step.safetensors");
    let get = |name: &str| expected.get(name).unwrap();
    let _generator = generator();
    manual_seed(0);
    let x = Tensor::randn(&[5, 2], ()).unwrap();
    let y = Tensor::randn(&[5, 1], ()).unwrap();
    let net = nn::sequential![Linear::new(2, 3).unwrap(), ReLU, Linear::new(3, 1).unwrap()];
    assert_close("x", &x, get("x"), 1e-6, 1e-7);
    assert_close("y", &y, get("y"), 1e-6, 1e-7);
    for (name, parameter) in net.named_parameters() {
        assert_close(&name, &parameter, get(&format!("init.{name}")), 0.0, 0.0);
    }
    let loss_fn = MSELoss::new();
    let mut optimizer = SGD::new(net.parameters(), SgdOptions::lr(0.01)).unwrap();
    let pred = net.forward(&x).unwrap();
    let loss = loss_fn.forward(&pred, &y).unwrap();
    assert_close("pred", &pred, get("pred"), 1e-5, 1e-6);
    assert_close("loss", &loss, get("loss"), 1e-6, 0.0);
    optimizer.zero_grad().unwrap();
    loss.backward().unwrap();
    optimizer.step().unwrap();
    for (name, parameter) in net.named_parameters() {
        assert_close(&format!("grad {name}"), &parameter.grad().unwrap(), get(&format!("grad.{name}")), 1e-5, 1e-6);
        assert_close(&format!("updated {name}"), &parameter, get(&format!("updated.{name}")), 1e-5, 1e-7);
    }
    let after = net.forward(&x).unwrap();
    assert_close("pred afterwards", &after, get("pred_after"), 1e-5, 1e-6);
    assert_close("loss afterwards", &loss_fn.forward(&after, &y).unwrap(), get("loss_after"), 1e-5, 0.0);
}

/// The network and data of all the runs.
struct Problem {
    x: Tensor,
    y: Tensor,
    net: Sequential,
}

impl Problem {
    fn new() -> Self {
        let _generator = generator();
        manual_seed(1234);
        let x = Tensor::randn(&[32, 6], ()).unwrap();
        let y = Tensor::randn(&[32, 3], ()).unwrap();
        let linear = |inputs, outputs| Linear::new(inputs, outputs).unwrap();
        let net = nn::sequential![linear(6, 16), Tanh, linear(16, 16), ReLU, linear(16, 3)];
        Self { x, y, net }
    }

    fn loss(&self) -> Tensor {
        MSELoss::new().forward(&self.net.forward(&self.x).unwrap(), &self.y).unwrap()
    }

    fn backward(&self) -> f64 {
        self.net.zero_grad().unwrap();
        let loss = self.loss();
        loss.backward().unwrap();
        loss.item().unwrap().to_f64()
    }
}

fn optimizer(class: &str, net: &Sequential, kwargs: &Value) -> Box<dyn Optimizer> {
    let float = |name: &str, default: f64| kwargs.get(name).map_or(default, |v| v.as_f64().unwrap());
    let bool = |name: &str| kwargs.get(name).is_some_and(|v| v.as_bool().unwrap());
    let lr = float("lr", f64::NAN);
    let betas = kwargs.get("betas").map_or(vec![0.9, 0.999], numbers);
    match class {
        "SGD" => {
            let options = SgdOptions::lr(lr)
                .momentum(float("momentum", 0.0))
                .dampening(float("dampening", 0.0))
                .weight_decay(float("weight_decay", 0.0))
                .nesterov(bool("nesterov"))
                .maximize(bool("maximize"));
            Box::new(SGD::new(net.parameters(), options).unwrap())
        }
        "Adam" => {
            let options = AdamOptions::lr(lr)
                .betas(betas[0], betas[1])
                .eps(float("eps", 1e-8))
                .weight_decay(float("weight_decay", 0.0))
                .amsgrad(bool("amsgrad"));
            Box::new(Adam::new(net.parameters(), options).unwrap())
        }
        _ => {
            let options = AdamWOptions::lr(lr).amsgrad(bool("amsgrad"));
            let options = options.weight_decay(float("weight_decay", options.weight_decay));
            Box::new(AdamW::new(net.parameters(), options).unwrap())
        }
    }
}

fn assert_losses(case: &str, found: &[f64], expected: &Value) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{case}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(near(*f, e, 1e-5, 0.0), "{case}: loss {i} is {f}, PyTorch's {e}");
    }
}

fn assert_state(case: &str, state: &StateDict, expected: &StateDict) {
    for (name, tensor) in state.iter() {
        if let Some(expected) = expected.get(&format!("{case}.{name}")) {
            assert_close(&format!("{case}: {name}"), tensor, expected, 1e-4, 1e-6);
        }
    }
}

#[test]
fn optimizers_follow_pytorchs_twenty_steps() {
    let expected = json("trajectories.json");
    let finals = data("optim_final.safetensors");
    let cases = expected["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 15);
    for (case, facts) in cases {
        let problem = Problem::new();
        let mut optimizer = optimizer(facts["class"].as_str().unwrap(), &problem.net, &facts["kwargs"]);
        let mut losses = Vec::new();
        for _ in 0..20 {
            losses.push(problem.backward());
            optimizer.step().unwrap();
        }
        assert_losses(case, &losses, &facts["losses"]);
        let last = problem.loss().item().unwrap().to_f64();
        assert!(near(last, facts["final_loss"].as_f64().unwrap(), 1e-5, 0.0), "{case}: the last loss is {last}");
        assert_state(case, &problem.net.state_dict().unwrap(), &finals);
        let state = optimizer.state_dict().unwrap();
        let first = state.state.into_iter().find(|(number, _)| *number == 0).map(|(_, tensors)| tensors);
        assert_state(&format!("{case}.state0"), &first.unwrap_or_default().into_iter().collect(), &finals);
    }
}

#[test]
fn parameter_groups_have_settings_of_their_own() {
    let problem = Problem::new();
    let all = problem.net.parameters();
    let base = SgdOptions::lr(0.02).momentum(0.9);
    let first = Group::new(&all[..2], SgdOptions { lr: 0.1, ..base });
    let mut optimizer = SGD::with_groups(vec![first]).unwrap();
    optimizer.add_param_group(Group::new(&all[2..], base.weight_decay(0.05))).unwrap();
    assert_eq!(optimizer.lrs(), [0.1, 0.02]);
    let mut losses = Vec::new();
    for step in 0..20 {
        losses.push(problem.backward());
        optimizer.step().unwrap();
        if step == 9 {
            // A state that was taken out and put into a fresh optimizer goes on as if nothing had been.
            let state = optimizer.state_dict().unwrap();
            let groups = [&all[..2], &all[2..]].map(|params| Group::new(params, SgdOptions::lr(1.0)));
            optimizer = SGD::with_groups(groups.into()).unwrap();
            optimizer.load_state_dict(&state).unwrap();
        }
    }
    assert_losses("param_groups", &losses, &json("trajectories.json")["param_groups"]["losses"]);
    assert_state("param_groups", &problem.net.state_dict().unwrap(), &data("optim_final.safetensors"));
}

#[test]
fn gradients_are_clipped_to_a_norm_and_to_a_value() {
    let expected = data("clip_grad.safetensors");
    let norms = &json("trajectories.json")["clip"];
    let compare = |problem: &Problem, key: &str| {
        for (name, parameter) in problem.net.named_parameters() {
            let expected = expected.get(&format!("{key}.{name}")).unwrap();
            assert_close(&format!("{key}: {name}"), &parameter.grad().unwrap(), expected, 1e-5, 1e-8);
        }
    };
    for (p, max, key) in [
        (1.0, 1.0, "clip_norm.p1.0.max1.0"),
        (2.0, 0.1, "clip_norm.p2.0.max0.1"),
        (3.0, 0.1, "clip_norm.p3.0.max0.1"),
        (f64::INFINITY, 0.1, "clip_norm.pinf.max0.1"),
    ] {
        let problem = Problem::new();
        problem.backward();
        let total = clip_grad_norm_opt_(problem.net.parameters(), max, p, true).unwrap().item().unwrap().to_f64();
        let expected = norms[key]["total_norm"].as_f64().unwrap();
        assert!(near(total, expected, 1e-5, 0.0), "{key}: {total}, PyTorch's {expected}");
        compare(&problem, key);
    }
    let problem = Problem::new();
    problem.backward();
    clip_grad_value_(problem.net.parameters(), 0.01).unwrap();
    compare(&problem, "clip_value.0.01");
}

#[test]
fn clipped_steps_follow_pytorchs() {
    let expected = &json("trajectories.json")["clip"]["adam_lr.01_clip_norm_.2_20_steps"];
    let problem = Problem::new();
    let mut optimizer = Adam::new(problem.net.parameters(), AdamOptions::lr(0.01)).unwrap();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        losses.push(problem.backward());
        norms.push(clip_grad_norm_(problem.net.parameters(), 0.2).unwrap().item().unwrap().to_f64());
        optimizer.step().unwrap();
    }
    assert_losses("clipped losses", &losses, &expected["losses"]);
    assert_losses("norms", &norms, &expected["norms"]);
}

#[test]
fn non_finite_norms_are_refused_before_a_gradient_changes() {
    let w = nn::Parameter::new(tensor!([1.0, 2.0]).unwrap()).unwrap();
    w.set_grad(Some(tensor!([f64::INFINITY, 1.0]).unwrap())).unwrap();
    let error = clip_grad_norm_opt_([&w], 1.0, 2.0, true).unwrap_err();
    assert!(error.message().starts_with("The total norm of order 2.0 for gradients"), "{error}");
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [f32::INFINITY, 1.0]);
}

#[test]
fn optimizers_refuse_what_they_cannot_train() {
    let w = tensor!([1.0], TensorOptions::new().requires_grad(true)).unwrap();
    let options = SgdOptions::lr(0.1);
    let message = |result: Result<SGD>| result.unwrap_err().message().to_owned();
    assert_eq!(message(SGD::new(Vec::<Tensor>::new(), options)), "optimizer got an empty parameter list");
    assert_eq!(message(SGD::new([(&w * 2.0).unwrap()], options)), "can't optimize a non-leaf Tensor");
    let twice = [&w, &w].map(|w| Group::new([w], options));
    assert_eq!(message(SGD::with_groups(twice.into())), "some parameters appear in more than one parameter group");
    assert_eq!(message(SGD::new([&w], SgdOptions::lr(-1.0))), "Invalid learning rate: -1.0");
    let nesterov = options.nesterov(true);
    assert_eq!(message(SGD::new([&w], nesterov)), "Nesterov momentum requires a momentum and zero dampening");
    let adam = Adam::new([&w], AdamOptions::lr(0.1).betas(0.9, 1.0)).unwrap_err();
    assert_eq!(adam.message(), "Invalid beta parameter at index 1: 1.0");
}

#[test]
fn states_that_do_not_match_are_refused_whole() {
    let w = tensor!([1.0, 2.0], TensorOptions::new().requires_grad(true)).unwrap();
    let v = tensor!([1.0], TensorOptions::new().requires_grad(true)).unwrap();
    let mut of_w = SGD::new([&w], SgdOptions::lr(0.1).momentum(0.9)).unwrap();
    let mut of_v = SGD::new([&v], SgdOptions::lr(0.5).momentum(0.9)).unwrap();
    w.sum().unwrap().backward().unwrap();
    of_w.step().unwrap();
    let error = of_v.load_state_dict(&of_w.state_dict().unwrap()).unwrap_err();
    assert!(error.message().contains("of shape [2] for a parameter of shape [1]"), "{error}");
    assert_eq!(of_v.lrs(), [0.5]);
    let mut both = SGD::new([&w, &v], SgdOptions::lr(0.1)).unwrap();
    assert!(both.load_state_dict(&of_w.state_dict().unwrap()).is_err());
}

#[test]
fn optimizers_print_their_groups() {
    let w = tensor!([1.0], TensorOptions::new().requires_grad(true)).unwrap();
    let adam = AdamW::new([&w], AdamWOptions::lr(0.1)).unwrap();
    let text = "AdamW (\nParameter Group 0\n    amsgrad: False\n    betas: (0.9, 0.999)\n    eps: 1e-8\n    lr: 0.1\n    \
                maximize: False\n    weight_decay: 0.01\n)";
    assert_eq!(adam.to_string(), text);
}
