//! Initialisers.

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_backends_cpu as _;
use tensor_core::{DType, Result};
use tensor_nn::init;

#[test]
fn orthogonal_rows_or_columns_are_at_right_angles() -> Result<()> {
    for sizes in [&[3, 5][..], &[5, 3], &[4, 4], &[2, 3, 2], &[6, 2, 2]] {
        let tensor = Tensor::empty(sizes, TensorOptions::new().dtype(DType::F64))?;
        init::orthogonal_(&tensor, 2.0)?;
        let matrix = ops::reshape(&tensor, &[sizes[0], -1])?;
        let turned = ops::t(&matrix)?;
        let short = matrix.size(0)?.min(matrix.size(1)?);
        let products = if short == matrix.size(0)? { ops::mm(&matrix, &turned)? } else { ops::mm(&turned, &matrix)? };
        let expected = ops::mul_scalar(&ops::eye(short, Some(DType::F64), None, None, None)?, 4)?;
        assert!(ops::allclose(&products, &expected, 1e-9, 1e-9, false)?, "{sizes:?}: {products}");
    }
    let none = Tensor::empty(&[0, 3], TensorOptions::new())?;
    init::orthogonal_(&none, 1.0)?;
    assert!(init::orthogonal_(&Tensor::empty(&[3], TensorOptions::new())?, 1.0).is_err());
    Ok(())
}
