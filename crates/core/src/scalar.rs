//! [`Scalar`]: a number given to an operator, with the category that it brings to type promotion.

use std::fmt;

use num_complex::Complex;

use crate::{DType, bf16, f16};

/// A number: PyTorch's `at::Scalar`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// a truth value
    Bool(bool),
    /// an integer
    Int(i64),
    /// a real number
    Float(f64),
    /// a complex number
    Complex(Complex<f64>),
}

impl Scalar {
    /// The dtype of the number itself: `bool`, `int64`, `float64` or `complex128`.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::I64,
            Self::Float(_) => DType::F64,
            Self::Complex(_) => DType::C128,
        }
    }

    /// The value as an integer. Real numbers are truncated, as C's casts do on x86-64.
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Self::Bool(b) => b as i64,
            Self::Int(i) => i,
            Self::Float(f) => f as i64,
            Self::Complex(c) => c.re as i64,
        }
    }

    /// The value as a real number; the real part of a complex one.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Bool(b) => b as u8 as f64,
            Self::Int(i) => i as f64,
            Self::Float(f) => f,
            Self::Complex(c) => c.re,
        }
    }

    /// The value as a complex number.
    pub fn to_complex(self) -> Complex<f64> {
        match self {
            Self::Complex(c) => c,
            other => Complex::new(other.to_f64(), 0.0),
        }
    }

    /// True unless the value is zero.
    pub fn to_bool(self) -> bool {
        match self {
            Self::Bool(b) => b,
            Self::Int(i) => i != 0,
            Self::Float(f) => f != 0.0,
            Self::Complex(c) => c.re != 0.0 || c.im != 0.0,
        }
    }

    /// True for booleans.
    pub const fn is_boolean(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// True for integers, and for booleans when `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Bool(_) => include_bool,
            _ => false,
        }
    }

    /// True for real numbers that are not integers by type.
    pub const fn is_floating_point(self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// True for complex numbers.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex(_))
    }

    /// True if the number equals `value`.
    pub fn equals(self, value: f64) -> bool {
        match self {
            Self::Complex(c) => c.re == value && c.im == 0.0,
            other => other.to_f64() == value,
        }
    }

    /// The complex conjugate; a real number is its own.
    pub fn conj(self) -> Self {
        match self {
            Self::Complex(c) => Self::Complex(c.conj()),
            other => other,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(i) => write!(f, "{i}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Complex(c) => write!(f, "({},{})", c.re, c.im),
        }
    }
}

macro_rules! from {
    ($variant:ident, $as:ty: $($ty:ty)*) => { $(
        impl From<$ty> for Scalar {
            #[inline]
            fn from(value: $ty) -> Self { Self::$variant(value as $as) }
        }
    )* };
}
from!(Int, i64: i8 i16 i32 i64 u8 u16 u32 usize);
from!(Float, f64: f32 f64);
from!(Bool, bool: bool);

impl From<f16> for Scalar {
    fn from(value: f16) -> Self {
        Self::Float(value.to_f64())
    }
}
impl From<bf16> for Scalar {
    fn from(value: bf16) -> Self {
        Self::Float(value.to_f64())
    }
}
impl From<Complex<f64>> for Scalar {
    fn from(value: Complex<f64>) -> Self {
        Self::Complex(value)
    }
}
impl From<Complex<f32>> for Scalar {
    fn from(value: Complex<f32>) -> Self {
        Self::Complex(Complex::new(value.re as f64, value.im as f64))
    }
}
