//! Rust's operators on tensors: values, types, errors in place of operands, and how results compose.

use tensor_aten::{Tensor, tensor};
use tensor_core::{DType, Result};

fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

#[test]
fn expressions_compose_over_results() -> Result<()> {
    let (x, w, b) = (tensor!([1.0, 2.0])?, tensor!([3.0, 5.0])?, tensor!([0.5, -1.0])?);
    assert_eq!(values(&(&x * &w + &b)?), [3.5, 9.0]);
    assert_eq!(values(&(x.exp()?.log()? * 3.0 - &w)?).len(), 2);
    assert_eq!(values(&((&x + &w)? * (&w - &b))?), [10.0, 42.0]);
    assert_eq!(values(&(2.0 * &x)?), [2.0, 4.0]);
    assert_eq!(values(&(1 - &x)?), [0.0, -1.0]);
    assert_eq!(values(&(6 / &x)?), [6.0, 3.0]);
    assert_eq!(values(&(-&x)?), [-1.0, -2.0]);
    assert_eq!(values(&(x.clone() / w.clone())?), [1.0 / 3.0, 2.0 / 5.0]);
    assert_eq!(values(&((&x - &w)? / 2)?), [-1.0, -1.5]);
    Ok(())
}

#[test]
fn integers_and_truth_values_have_their_operators() -> Result<()> {
    let (x, y) = (tensor!([6i64, -7])?, tensor!([4i64, 2])?);
    let values = |x: Result<Tensor>| x?.to_vec::<i64>();
    assert_eq!(values(&x % &y)?, [2, 1]);
    assert_eq!(values(&x % 4)?, [2, 1]);
    assert_eq!(values(&x & &y)?, [4, 0]);
    assert_eq!(values(&x | 1)?, [7, -7]);
    assert_eq!(values(&x ^ &y)?, [2, -5]);
    assert_eq!(values(&x << &y)?, [96, -28]);
    assert_eq!(values(&x >> 1)?, [3, -4]);
    assert_eq!(values(!&x)?, [-7, 6]);
    let both = (x.gt_scalar(0)? & y.gt_scalar(3)?)?;
    assert_eq!(both.dtype(), DType::Bool);
    assert!((tensor!([1.0])? & tensor!([1.0])?).is_err());
    Ok(())
}

#[test]
fn numbers_bring_their_category_alone() -> Result<()> {
    let ints = tensor!([1, 2], DType::U8)?;
    assert_eq!((&ints + 1)?.dtype(), DType::U8);
    assert_eq!((&ints * 1.5)?.dtype(), DType::F32);
    assert_eq!((2i64 * &ints)?.dtype(), DType::U8);
    assert_eq!((&ints / 2)?.dtype(), DType::F32);
    assert_eq!((tensor!([1.0], DType::BF16)? * 2.0)?.dtype(), DType::BF16);
    assert_eq!((1.5 - &ints)?.dtype(), DType::F32);
    Ok(())
}

#[test]
fn an_error_stands_for_its_operand() {
    let x = tensor!([1.0, 2.0]).unwrap();
    let y = tensor!([1.0, 2.0, 3.0]).unwrap();
    let wrong = (&x + &y * &y).unwrap_err();
    assert_eq!(
        wrong.message(),
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    );
    assert_eq!((&x + &y + &x).unwrap_err().message(), wrong.message());
    assert_eq!((&x * (&x + &y)).unwrap_err().message(), wrong.message());
}
