//! `Tensor::zeros` and the others give the dtypes, devices and orders that their options say; `tensor!` infers as
//! `torch.tensor` does.

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, tensor};
use tensor_core::{Complex, DType, Device, ErrorKind, MemoryFormat, Result};

#[test]
fn defaults_and_options() -> Result<()> {
    assert_eq!(Tensor::zeros(&[2, 3], ())?.to_string(), "tensor([[0., 0., 0.],\n        [0., 0., 0.]])");
    assert_eq!(Tensor::ones(&[2], DType::I32)?.to_string(), "tensor([1, 1], dtype=torch.int32)");
    assert_eq!(Tensor::full(&[2], true, ())?.dtype(), DType::Bool);
    assert_eq!(Tensor::full(&[2], 2, ())?.to_string(), "tensor([2, 2])");
    assert!(Tensor::empty(&[2], (DType::F64, Device::META))?.is_meta());
    let options = TensorOptions::new().dtype(DType::F64).memory_format(MemoryFormat::ChannelsLast);
    assert_eq!(Tensor::zeros(&[1, 2, 3, 4], options)?.strides(), [24, 1, 8, 2]);
    let x = Tensor::ones(&[2, 2], DType::F16)?;
    assert_eq!(Tensor::empty(&[1], x.options())?.dtype(), DType::F16);
    assert_eq!(x.zeros_like()?.to_string(), "tensor([[0., 0.],\n        [0., 0.]], dtype=torch.float16)");
    assert_eq!(x.full_like(3)?.dtype(), DType::F16);
    Ok(())
}

#[test]
fn sequences() -> Result<()> {
    assert_eq!(Tensor::arange(3, ())?.to_string(), "tensor([0, 1, 2])");
    assert_eq!(Tensor::arange(3.0, ())?.to_string(), "tensor([0., 1., 2.])");
    assert_eq!(Tensor::arange_step(0, 1, 0.25, ())?.to_string(), "tensor([0.0000, 0.2500, 0.5000, 0.7500])");
    assert_eq!(Tensor::linspace(0, 1, 3, ())?.to_string(), "tensor([0.0000, 0.5000, 1.0000])");
    assert_eq!(Tensor::eye(2, ())?.to_string(), "tensor([[1., 0.],\n        [0., 1.]])");
    assert_eq!(Tensor::eye_m(1, 2, DType::I64)?.to_string(), "tensor([[1, 0]])");
    Ok(())
}

#[test]
fn random_tensors() -> Result<()> {
    assert_eq!(Tensor::randint(0, 10, &[4], ())?.dtype(), DType::I64);
    assert_eq!(Tensor::rand(&[2, 2], DType::F64)?.dtype(), DType::F64);
    let normal = Tensor::randn(&[1000], ())?.to_vec::<f32>()?;
    assert!((normal.iter().sum::<f32>() / 1000.0).abs() < 0.2);
    let mut order = Tensor::randperm(50, ())?.to_vec::<i64>()?;
    order.sort_unstable();
    assert!(order.into_iter().eq(0..50));
    Ok(())
}

#[test]
fn nested_lists() -> Result<()> {
    assert_eq!(tensor!([[1.0, 2.0], [3.0, 4.0]])?.to_string(), "tensor([[1., 2.],\n        [3., 4.]])");
    assert_eq!(tensor!([1, 2])?.dtype(), DType::I64);
    assert_eq!(tensor!(true)?.to_string(), "tensor(True)");
    assert_eq!(tensor!(vec![0.5f32])?.dtype(), DType::F32);
    assert_eq!(tensor!([Complex::new(1.0, 2.0)])?.to_string(), "tensor([1.+2.j])");
    assert_eq!(tensor!([[0; 3]; 0])?.sizes(), [0]);
    assert_eq!(tensor!([1.7, -1.0], DType::U8)?.to_string(), "tensor([  1, 255], dtype=torch.uint8)");
    let ragged = tensor!([vec![1, 2], vec![3]]).unwrap_err();
    assert_eq!((ragged.kind(), ragged.message()), (ErrorKind::Value, "expected sequence of length 2 at dim 1 (got 1)"));
    let large = tensor!([300], DType::U8).unwrap_err();
    assert_eq!(large.message(), "value cannot be converted to type uint8 without overflow");
    assert!(tensor!([f64::NAN], DType::I64).is_err());
    assert_eq!(tensor!([Complex::new(1.0, 2.0)], DType::F32).unwrap_err().kind(), ErrorKind::Type);
    Ok(())
}
