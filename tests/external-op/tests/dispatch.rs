//! The operator of this crate: its dispatch tables, and that it computes, differentiates and refuses as any other.

use external_op::squared_relu;
use tensor::autograd::{GradCheck, gradcheck, gradgradcheck};
use tensor::prelude::*;
use tensor::{ErrorKind, dispatch};

#[test]
fn the_dispatch_tables_are_these() {
    insta::assert_snapshot!("registered", dispatch::dump_registered("user::squared_relu").unwrap());
    insta::assert_snapshot!("computed", dispatch::dump_computed("user::squared_relu").unwrap());
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let x = tensor!([-1.5, -0.5, 0.5, 1.0], DType::F64).unwrap();
    x.requires_grad_(true).unwrap();
    let y = squared_relu(&x, 2.0).unwrap();
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), "SquaredReluBackward");
    let f = |inputs: &[Tensor]| Ok(vec![squared_relu(&inputs[0], 2.0)?]);
    gradcheck(f, std::slice::from_ref(&x), GradCheck::default()).unwrap();
    gradgradcheck(f, &[x], GradCheck::default()).unwrap();
}

#[test]
fn shapes_are_known_without_elements_and_other_dtypes_are_refused() {
    let meta = Tensor::empty(&[2, 3], Device::META).unwrap();
    assert_eq!(squared_relu(&meta, 1.0).unwrap().sizes(), [2, 3]);
    let integers = tensor!([1, 2]).unwrap();
    assert_eq!(squared_relu(&integers, 1.0).unwrap_err().kind(), ErrorKind::NotImplemented);
}
