//! Arithmetic of numbers in formulas: written `a * b` there. Integers stay integers, as in C++'s `Scalar`.

use tensor_core::{Complex64, Scalar};

fn combine(
    a: Scalar,
    b: Scalar,
    int: fn(i64, i64) -> i64,
    real: fn(f64, f64) -> f64,
    complex: fn(Complex64, Complex64) -> Complex64,
) -> Scalar {
    if a.is_complex() || b.is_complex() {
        Scalar::Complex(complex(a.to_complex(), b.to_complex()))
    } else if a.is_floating_point() || b.is_floating_point() {
        Scalar::Float(real(a.to_f64(), b.to_f64()))
    } else {
        Scalar::Int(int(a.to_i64(), b.to_i64()))
    }
}

/// `a + b`
pub fn add(a: Scalar, b: Scalar) -> Scalar {
    combine(a, b, i64::wrapping_add, |a, b| a + b, |a, b| a + b)
}

/// `a - b`
pub fn sub(a: Scalar, b: Scalar) -> Scalar {
    combine(a, b, i64::wrapping_sub, |a, b| a - b, |a, b| a - b)
}

/// `a * b`
pub fn mul(a: Scalar, b: Scalar) -> Scalar {
    combine(a, b, i64::wrapping_mul, |a, b| a * b, |a, b| a * b)
}

/// `a / b`, a real number for integers.
pub fn div(a: Scalar, b: Scalar) -> Scalar {
    if a.is_complex() || b.is_complex() {
        Scalar::Complex(a.to_complex() / b.to_complex())
    } else {
        Scalar::Float(a.to_f64() / b.to_f64())
    }
}

/// `-a`
pub fn neg(a: Scalar) -> Scalar {
    mul(Scalar::Int(-1), a)
}

/// The complex conjugate.
pub fn conj(a: Scalar) -> Scalar {
    a.conj()
}
