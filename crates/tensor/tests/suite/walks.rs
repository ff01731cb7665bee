//! The examples hold what they say: each asserts what it prints.

#[path = "../../examples/accessor.rs"]
mod accessor;
#[path = "../../examples/backward.rs"]
mod backward;
#[path = "../../examples/devices.rs"]
mod devices;
#[path = "../../examples/mlp_by_hand.rs"]
mod mlp_by_hand;
#[path = "../../examples/mlp_step.rs"]
mod mlp_step;
#[path = "../../examples/views.rs"]
mod views;

#[test]
fn views_share_and_copies_do_not() {
    views::main().unwrap();
}

#[test]
fn gradients_come_through_a_chain_of_nodes() {
    backward::main().unwrap();
}

#[test]
fn devices_do_not_mix() {
    devices::main().unwrap();
}

#[test]
fn a_step_with_autograd_and_one_by_hand() {
    let _generator = crate::close::generator();
    mlp_step::main().unwrap();
    mlp_by_hand::main().unwrap();
}

#[test]
fn elements_are_reached_over_any_strides() {
    accessor::main().unwrap();
}

#[test]
fn the_configuration_names_the_machine() {
    let text = tensor::config::show();
    for part in ["built with:", "CPU capability usage:", "threads:", "matrix products:", "backends: cpu, meta"] {
        assert!(text.contains(part), "{text}");
    }
}
