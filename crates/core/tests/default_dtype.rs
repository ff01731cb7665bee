//! The default dtype is process-wide, so its tests have a process of their own.

use tensor_core::promotion::{ResultType, default_complex_dtype, default_dtype, set_default_dtype};
use tensor_core::{Complex, DType, ErrorKind, Scalar};

#[test]
fn numbers_follow_the_default_dtype() {
    assert_eq!((default_dtype(), default_complex_dtype()), (DType::F32, DType::C64));
    let error = set_default_dtype(DType::C64).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Type, "only floating-point types are supported as the default type")
    );
    set_default_dtype(DType::F64).unwrap();
    let ints = ResultType::default().dtype_of(DType::I32, 1, false);
    assert_eq!(ints.scalar(Scalar::Float(0.5)).finish(), DType::F64);
    assert_eq!(ints.scalar(Scalar::Complex(Complex::new(0.0, 1.0))).finish(), DType::C128);
    assert_eq!(ints.finish(), DType::I32);
    assert_eq!(ResultType::default().finish(), DType::F64);
}
