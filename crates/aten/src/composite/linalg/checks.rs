//! Checks that many operators of linear algebra share, in PyTorch's words.

use tensor_core::{DType, Error, ErrorKind, Result, check, check_not_implemented};

use crate::Tensor;

/// At least two dimensions.
pub(crate) fn check_matrix(x: &Tensor, name: &str, argument: &str) -> Result<()> {
    check!(x.dim() >= 2, "{name}: The input tensor {argument} must have at least 2 dimensions.");
    Ok(())
}

/// Square matrices.
pub(crate) fn check_square(x: &Tensor, name: &str, argument: &str) -> Result<()> {
    check_matrix(x, name, argument)?;
    let (rows, cols) = (x.size(-2)?, x.size(-1)?);
    check!(
        rows == cols,
        "{name}: {argument} must be batches of square matrices, but they are {rows} by {cols} matrices"
    );
    Ok(())
}

/// Real or complex numbers; those of less than single precision have no kernel, which says so itself.
pub(crate) fn check_float(x: &Tensor, name: &str) -> Result<()> {
    let dtype = x.dtype();
    check_not_implemented!(
        dtype.is_differentiable(),
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        dtype.cpp_name()
    );
    Ok(())
}

/// Real or complex numbers of single or double precision.
pub(crate) fn check_precise(x: &Tensor, name: &str) -> Result<()> {
    check_float(x, name)?;
    let dtype = x.dtype();
    check_not_implemented!(
        matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128),
        "{name}: Low precision dtypes not supported. Got {}",
        dtype.cpp_name()
    );
    Ok(())
}

/// A square A and a B that fits beside it.
pub(crate) fn check_solver(a: &Tensor, b: &Tensor, left: bool, name: &str) -> Result<()> {
    check_square(a, name, "A")?;
    check_matrix(b, name, "B")?;
    let fits = a.size(-2)? == b.size(if left { -2 } else { -1 })?;
    check!(
        fits,
        "{name}: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})",
        if left { "AX = B" } else { "XA = B" },
        a.size(-2)?,
        a.size(-1)?,
        b.size(-2)?,
        b.size(-1)?
    );
    same_dtype(a, b, name)
}

/// One dtype.
pub(crate) fn same_dtype(a: &Tensor, b: &Tensor, name: &str) -> Result<()> {
    check!(
        a.dtype() == b.dtype(),
        "{name}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
        a.dtype().cpp_name(),
        b.dtype().cpp_name()
    );
    Ok(())
}

/// What an algorithm's number says.
fn failure(name: &str, info: i32) -> String {
    if name.contains("inv") {
        format!(
            "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
        )
    } else if name.contains("solve") {
        "The solver failed because the input matrix is singular.".to_string()
    } else if name.contains("cholesky") {
        format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor of \
             order {info} is not positive-definite)."
        )
    } else if name.contains("svd") && info < 0 {
        "The algorithm failed to converge because the input matrix contained non-finite values.".to_string()
    } else if name.contains("svd") {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular \
             values (error code: {info})."
        )
    } else if name.contains("eig") || name.contains("syevd") {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated \
             eigenvalues (error code: {info})."
        )
    } else if name.contains("lstsq") {
        format!(
            "The least squares problem could not be solved because the input matrix does not have full rank (error code: \
             {info})."
        )
    } else if name.contains("lu_factor") {
        format!(
            "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want to \
             perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    } else {
        format!("Unknown error code: {info}.")
    }
}

/// An error of the first matrix whose algorithm failed; nothing on the meta device.
pub(crate) fn check_errors(info: &Tensor, name: &str, is_matrix: bool) -> Result<()> {
    if info.is_meta() {
        return Ok(());
    }
    let codes = info.to_vec::<i32>()?;
    let Some((i, &code)) = codes.iter().enumerate().find(|(_, code)| **code != 0) else { return Ok(()) };
    let place = if is_matrix { String::new() } else { format!("(Batch element {i}): ") };
    let kind = if name.contains("lu_factor") { ErrorKind::Runtime } else { ErrorKind::LinAlg };
    Err(Error::new(kind, format!("{name}: {place}{}", failure(name, code))))
}

/// An error of the first matrix whose `info` is not 0.
pub fn _linalg_check_errors(info: &Tensor, api_name: &str, is_matrix: bool) -> Result<()> {
    check!(info.dtype() == DType::I32, "{api_name}: Expected info of int32, got {}", info.dtype().c_name());
    check_errors(info, api_name, is_matrix)
}
