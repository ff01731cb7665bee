//! Small inputs that once showed a difference from PyTorch: each holds the least that did, with PyTorch's own result.

use tensor::prelude::*;
use tensor::{ops, tensor};
use tensor_core::{Complex, Complex32, ErrorKind};

fn f64s(values: &[f64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap()
}

/// The gradients of the sum of what `f` gives, of the tensors that it takes.
fn grads<const N: usize>(inputs: [&[f64]; N], f: impl Fn(&[Tensor; N]) -> Result<Tensor>) -> [Vec<f64>; N] {
    let leaves = inputs.map(|values| f64s(values).requires_grad_(true).unwrap().clone());
    f(&leaves).unwrap().sum().unwrap().backward().unwrap();
    leaves.map(|leaf| leaf.grad().map_or(Vec::new(), |grad| grad.to_vec::<f64>().unwrap()))
}

#[test]
fn clamps_share_gradients_on_ties() {
    let [x, min, max] =
        grads([&[1.0, 1.0, 2.0, 2.0, 3.0], &[1.0, 1.0, 1.0, 3.0, 2.0], &[1.0, 2.0, 2.0, 2.0, 2.0]], |t| {
            ops::clamp_tensor(&t[0], Some(&t[1]), Some(&t[2]))
        });
    assert_eq!(x, [1.0, 0.5, 0.5, 0.0, 0.0]);
    assert_eq!(min, [0.0, 0.5, 0.0, 0.0, 0.0]);
    assert_eq!(max, [0.0, 0.0, 0.5, 1.0, 1.0]);
    let [x, min] = grads([&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]], |t| ops::clamp_min_tensor(&t[0], &t[1]));
    assert_eq!((x, min), (vec![0.0, 0.5, 1.0], vec![1.0, 0.5, 0.0]));
}

#[test]
fn clamps_of_integers_know_their_range() {
    let x = tensor!([1, 2], DType::I8).unwrap();
    let error = ops::clamp_min(&x, 300).unwrap_err();
    assert_eq!(error.message(), "Clamp min value 300 is outside the representable range of Char");
    assert_eq!(ops::clamp_min(&x, -300).unwrap().to_vec::<i8>().unwrap(), [1, 2]);
}

#[test]
fn variances_over_no_dimension_differ_from_those_of_everything() {
    let of = |dims: Option<&'static [i64]>, correction: f64| {
        let [grad] =
            grads([&[1.0, 2.0, 4.0, 3.0]], |t| ops::var_correction(&t[0], dims, Some(correction.into()), false));
        grad
    };
    assert_eq!(of(None, 1.0), [-1.0, -1.0 / 3.0, 1.0, 1.0 / 3.0]);
    assert_eq!(of(Some(&[]), 0.0), [-3.0, -1.0, 3.0, 1.0]);
    assert_eq!(of(None, 5.0), [f64::INFINITY; 4]);
    assert_eq!(of(Some(&[0]), 5.0), [3.0, 1.0, -3.0, -1.0]);
}

#[test]
fn products_with_zeros_have_gradients_of_any_length() {
    let mut values = vec![1.0; 3000];
    values[1] = 0.0;
    let [grad] = grads([&values], |t| ops::prod(&t[0], None));
    assert_eq!((grad[0], grad[1], grad[2999]), (0.0, 1.0, 0.0));
    let [grad] = grads([&[0.0, 3.0, 1.0, 2.0]], |t| ops::prod(&t[0], None));
    assert_eq!(grad, [6.0, 0.0, 0.0, 0.0]);
}

#[test]
fn complex_functions_do_not_overflow_on_the_way() {
    let one = |f: fn(&Tensor) -> Result<Tensor>, re: f32, im: f32| {
        let z = Tensor::from_vec(vec![Complex32::new(re, im)], &[1]).unwrap();
        f(&z).unwrap().to_vec::<Complex32>().unwrap()[0]
    };
    assert_eq!(one(ops::tanh, 50.0, 1.0).re, 1.0);
    assert_eq!(one(ops::tanh, f32::INFINITY, 1.0), Complex::new(1.0, 0.0));
    assert_eq!(one(ops::sqrt, f32::NEG_INFINITY, 1.0), Complex::new(0.0, f32::INFINITY));
    assert!((one(ops::sqrt, 3e38, 3e38).re / 1.902_976_7e19 - 1.0).abs() < 1e-6);
    assert_eq!(one(ops::sin, 0.0, f32::INFINITY), Complex::new(0.0, f32::INFINITY));
    assert_eq!(one(ops::cos, f32::NAN, 0.0).im, 0.0);
    let z = Tensor::from_vec(vec![Complex::new(-0.895_943_032_396_826_5, -1.765_825_873_741_217_6_f64)], &[1]).unwrap();
    let (re, im) = (-0.895_943_032_396_826_5_f64, -1.765_825_873_741_217_6_f64);
    assert!((ops::abs(&z).unwrap().to_vec::<f64>().unwrap()[0] - re.hypot(im)).abs() <= f64::EPSILON);
}

#[test]
fn half_precision_meets_complex_numbers() {
    let half = tensor!([1.0, 2.0], DType::F16).unwrap();
    let i = Scalar::Complex(Complex::new(0.0, 1.0));
    assert_eq!(ops::add_scalar(&half, i, 1).unwrap().dtype(), DType::C32);
    assert_eq!(ops::eq_scalar(&half, i).unwrap().dtype(), DType::Bool);
    let error = ops::div_scalar(&half, i).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::NotImplemented, "\"div_cpu\" not implemented for 'ComplexHalf'")
    );
    let other = ops::to_dtype(&half, DType::BF16, false, false, None).unwrap();
    assert_eq!(ops::add_scalar(&other, i, 1).unwrap_err().message(), "\"add_stub\" not implemented for 'BComplex32'");
    let wide = ops::to_dtype(&ops::mul_scalar(&half, i).unwrap(), DType::C64, false, false, None).unwrap();
    assert_eq!(wide.to_vec::<Complex32>().unwrap(), [Complex::new(0.0, 1.0), Complex::new(0.0, 2.0)]);
}

#[test]
fn strange_arguments_are_errors() {
    for dtype in [DType::C64, DType::C128, DType::Bool] {
        let error = ops::randperm(3, Some(dtype), None, None, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotImplemented);
    }
    assert!(ops::randint(10, &[2], Some(DType::C128), None, None, None).is_err());
    let (x, one) = (f64s(&[1.0, 2.0]), f64s(&[1.0]));
    let x = x.reshape(&[2, 1]).unwrap();
    let scalar = one.reshape(&[]).unwrap();
    let error = ops::native_batch_norm(&x, None, None, Some(&scalar), Some(&one), true, 0.1, 1e-5).unwrap_err();
    assert_eq!(error.message(), "TensorAccessor expected 1 dims but tensor has 0");
    assert_eq!(
        ops::index_select(&x, 1, &tensor!([3i64]).unwrap()).unwrap_err().message(),
        "INDICES element is out of DATA bounds, id=3 axis_dim=1"
    );
    let error = ops::arange_start_step(0, 5, f64::NAN, None, None, None, None).unwrap_err();
    assert_eq!(error.message(), "step must be finite but got nan");
}

#[test]
fn dropout_of_complex_numbers_draws_real_ones() {
    let z = Tensor::from_vec(vec![Complex32::new(1.0, -1.0); 64], &[64]).unwrap();
    let kept = ops::dropout(&z, 0.5, true).unwrap().to_vec::<Complex32>().unwrap();
    assert!(kept.iter().all(|z| *z == Complex::new(0.0, 0.0) || *z == Complex::new(2.0, -2.0)));
}

#[test]
fn tables_without_columns_have_rows() {
    let table = Tensor::zeros(&[5, 0], ()).unwrap();
    let rows = |index: i64| ops::embedding(&table, &tensor!([index, 0]).unwrap(), -1, false, false);
    assert_eq!(rows(1).unwrap().sizes(), [2, 0]);
    assert!(rows(7).is_err());
}

#[test]
fn running_sums_and_products_in_place_keep_their_dtype() {
    let text = "Bad in-place call: input tensor dtype double and output tensor dtype float should match";
    for scan in [ops::cumsum_, ops::cumprod_] {
        let x = f64s(&[1.0, 2.0, 3.0]);
        assert_eq!(scan(&x, 0, Some(DType::F32)).unwrap_err().message(), text);
        assert_eq!(x.to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0]);
        scan(&x, 0, Some(DType::F64)).unwrap();
        assert_eq!(x.to_vec::<f64>().unwrap()[2], 6.0);
    }
}
