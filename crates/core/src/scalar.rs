//! [`Scalar`]: a number given to an operator, with the category that it brings to type promotion, and its conversions:
//! C's casts, as tensors are copied, and the checked ones, as arguments are read.

use std::fmt;

use num_complex::Complex;

use crate::{DType, Element, Result, bf16, check, f16};

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
    #[inline]
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::I64,
            Self::Float(_) => DType::F64,
            Self::Complex(_) => DType::C128,
        }
    }

    /// The value as an integer. Real numbers are truncated as C's casts are on x86-64: what does not fit gives `i64::MIN`.
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Self::Bool(b) => b as i64,
            Self::Int(i) => i,
            Self::Float(f) => f64_to_i64(f),
            Self::Complex(c) => f64_to_i64(c.re),
        }
    }

    /// The value as a 32-bit integer, which narrower ones are cut from: integers wrap, real numbers that do not fit give
    /// `i32::MIN`.
    #[inline]
    pub fn to_i32(self) -> i32 {
        match self {
            Self::Bool(b) => b as i32,
            Self::Int(i) => i as i32,
            Self::Float(f) => f64_to_i32(f),
            Self::Complex(c) => f64_to_i32(c.re),
        }
    }

    /// The value rounded once to an f32; the real part of a complex one.
    #[inline]
    pub fn to_f32(self) -> f32 {
        match self {
            Self::Int(i) => i as f32,
            other => other.to_f64() as f32,
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
    #[inline]
    pub fn to_complex(self) -> Complex<f64> {
        match self {
            Self::Complex(c) => c,
            other => Complex::new(other.to_f64(), 0.0),
        }
    }

    /// True unless the value is zero.
    #[inline]
    pub fn to_bool(self) -> bool {
        match self {
            Self::Bool(b) => b,
            Self::Int(i) => i != 0,
            Self::Float(f) => f != 0.0,
            Self::Complex(c) => c.re != 0.0 || c.im != 0.0,
        }
    }

    /// True for booleans.
    #[inline]
    pub const fn is_boolean(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// True for integers, and for booleans when `include_bool`.
    #[inline]
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Bool(_) => include_bool,
            _ => false,
        }
    }

    /// True for real numbers that are not integers by type.
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// True for complex numbers.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex(_))
    }

    /// True if the number equals `value`.
    #[inline]
    pub fn equals(self, value: f64) -> bool {
        match self {
            Self::Complex(c) => c.re == value && c.im == 0.0,
            other => other.to_f64() == value,
        }
    }

    /// The value as an element, if the element's type has it (`Scalar::to`): an argument that a kernel takes.
    ///
    /// Truncation and rounding are allowed, infinities are values of every floating type, and negative integers wrap to
    /// unsigned ones as far as those reach.
    ///
    /// # Errors
    /// When the value is out of the type's range, or has an imaginary part and the type has none.
    ///
    /// ```
    /// # use tensor_core::Scalar;
    /// assert_eq!(Scalar::Float(2.5).checked_to::<i8>().unwrap(), 2);
    /// let error = Scalar::Int(300).checked_to::<i8>().unwrap_err();
    /// assert_eq!(error.message(), "value cannot be converted to type int8_t without overflow");
    /// ```
    #[inline]
    pub fn checked_to<T: Element>(self) -> Result<T> {
        self.check_fits(T::DTYPE)?;
        Ok(T::from_scalar(self))
    }

    /// The check of [`Scalar::checked_to`] alone. `fill_` checks `f16` and `bf16` as `f64`.
    ///
    /// # Errors
    /// As [`Scalar::checked_to`].
    #[inline]
    pub fn check_fits(self, dtype: DType) -> Result<()> {
        check!(!self.overflows(dtype), "value cannot be converted to type {} without overflow", cast_name(dtype));
        Ok(())
    }

    /// True if a dtype has no element for the value (`c10::overflows`).
    #[inline]
    pub fn overflows(self, dtype: DType) -> bool {
        let Some((lowest, highest)) = limits(dtype) else { return false };
        let real = |f: f64| match dtype.is_differentiable() {
            true => f.is_finite() && (f < lowest || f > highest),
            // Up to the next whole number, which truncation takes back.
            false => !(f >= lowest && f < highest + 1.0),
        };
        match self {
            Self::Bool(_) => false,
            // The limits of i64 are no doubles, and no integer is beyond them.
            Self::Int(_) if dtype == DType::I64 => false,
            Self::Int(i) if dtype == DType::U8 => !(-255..=255).contains(&i),
            Self::Int(i) => (i as f64) < lowest || i as f64 > highest,
            Self::Float(f) => real(f),
            Self::Complex(c) if dtype.is_complex() => real(c.re) || real(c.im),
            Self::Complex(c) => c.im != 0.0 || real(c.re),
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

/// C's cast on x86-64: truncation, and one value for all that does not fit.
#[inline]
fn f64_to_i64(f: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f) { f as i64 } else { i64::MIN }
}

/// As [`f64_to_i64`], to 32 bits.
#[inline]
fn f64_to_i32(f: f64) -> i32 {
    if f > -2_147_483_649.0 && f < 2_147_483_648.0 { f as i32 } else { i32::MIN }
}

/// The least and the greatest finite value of a dtype's elements or their parts; none for `bool`, which takes any number.
#[inline]
const fn limits(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::Bool => return None,
        DType::U8 => (0.0, u8::MAX as f64),
        DType::I8 => (i8::MIN as f64, i8::MAX as f64),
        DType::I16 => (i16::MIN as f64, i16::MAX as f64),
        DType::I32 => (i32::MIN as f64, i32::MAX as f64),
        // The upper limit rounds to 2^63, and so does the number above it.
        DType::I64 => (i64::MIN as f64, i64::MAX as f64),
        DType::F16 | DType::C32 => (-65504.0, 65504.0),
        DType::BF16 | DType::BC32 => (-BF16_MAX, BF16_MAX),
        DType::F32 | DType::C64 => (f32::MIN as f64, f32::MAX as f64),
        DType::F64 | DType::C128 => (f64::MIN, f64::MAX),
    })
}

/// The greatest finite value of a dtype's elements or their parts; infinity for `bool`.
pub const fn greatest(dtype: DType) -> f64 {
    match limits(dtype) {
        Some((_, highest)) => highest,
        None => f64::INFINITY,
    }
}

/// (2 - 2^-7) 2^127
const BF16_MAX: f64 = 3.389_531_389_251_535_5e38;

/// The type's name in overflow errors.
#[inline]
const fn cast_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        other => other.c_name(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bool;

    /// What PyTorch's `full` says.
    fn fails<T: Element>(value: impl Into<Scalar>) -> Option<String> {
        value.into().checked_to::<T>().err().map(|error| error.message().to_owned())
    }

    fn overflow(name: &str) -> Option<String> {
        Some(format!("value cannot be converted to type {name} without overflow"))
    }

    #[test]
    fn integers_are_checked_as_pytorchs() {
        for value in [-255i64, 0, 255] {
            assert_eq!(Scalar::Int(value).checked_to::<u8>().unwrap(), value as u8);
        }
        for value in [-256i64, 256, i64::MIN] {
            assert_eq!(fails::<u8>(value), overflow("uint8_t"));
        }
        assert_eq!(Scalar::Float(255.999).checked_to::<u8>().unwrap(), 255);
        assert_eq!(Scalar::Float(-0.0).checked_to::<u8>().unwrap(), 0);
        for value in [-0.5, 256.0, f64::NAN, f64::INFINITY] {
            assert_eq!(fails::<u8>(value), overflow("uint8_t"));
        }
        assert_eq!(Scalar::Float(127.9).checked_to::<i8>().unwrap(), 127);
        assert_eq!(fails::<i8>(-128.5), overflow("int8_t"));
        assert_eq!(fails::<i16>(40000i64), overflow("int16_t"));
        assert_eq!(Scalar::Float(2_147_483_647.5).checked_to::<i32>().unwrap(), i32::MAX);
        assert_eq!(fails::<i32>(2_147_483_648.0), overflow("int"));
        for value in [i64::MIN, i64::MAX] {
            assert_eq!(Scalar::Int(value).checked_to::<i64>().unwrap(), value);
        }
        assert_eq!(Scalar::Float(i64::MIN as f64).checked_to::<i64>().unwrap(), i64::MIN);
        assert_eq!(Scalar::Float(9_223_372_036_854_774_784.0).checked_to::<i64>().unwrap(), i64::MAX - 1023);
        assert_eq!(fails::<i64>(9_223_372_036_854_775_808.0), overflow("int64_t"));
        assert_eq!(fails::<Bool>(f64::NAN), None);
    }

    #[test]
    fn floating_types_take_infinities_alone_beyond_their_range() {
        for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!((fails::<f16>(value), fails::<f32>(value)), (None, None));
        }
        assert_eq!(fails::<f16>(65504.0), None);
        assert_eq!(fails::<f16>(65519.0), overflow("c10::Half"));
        assert_eq!(fails::<f16>(70000i64), overflow("c10::Half"));
        assert_eq!(fails::<bf16>(1e39), overflow("c10::BFloat16"));
        assert_eq!(BF16_MAX, bf16::MAX.to_f64());
        assert_eq!(fails::<f32>(1e39), overflow("float"));
        assert_eq!(fails::<f64>(f64::MAX), None);
    }

    #[test]
    fn imaginary_parts_need_a_complex_type() {
        let unit = Complex::new(3.0, 1.0);
        assert_eq!(fails::<i32>(unit), overflow("int"));
        assert_eq!(fails::<f32>(Complex::new(1.0, f64::NAN)), overflow("float"));
        assert_eq!(Scalar::from(Complex::new(3.0, 0.0)).checked_to::<i32>().unwrap(), 3);
        assert_eq!(fails::<Complex<f32>>(Complex::new(0.0, 1e300)), overflow("c10::complex<float>"));
        assert_eq!(fails::<Complex<f64>>(unit), None);
        assert_eq!(fails::<Bool>(unit), None);
    }

    #[test]
    fn casts_are_those_of_copies() {
        // `tensor([..], dtype=float64).to(dtype)` on x86-64.
        let values = [300.0, -1.5, 1e10, f64::NAN, f64::INFINITY, 3e9, 40000.0, -40000.0];
        let cast = values.map(|value| u8::from_scalar(Scalar::Float(value)));
        assert_eq!(cast, [44, 255, 0, 0, 0, 0, 64, 192]);
        let cast = values.map(|value| i16::from_scalar(Scalar::Float(value)));
        assert_eq!(cast, [300, -1, 0, 0, 0, 0, -25536, 25536]);
        let cast = values.map(|value| i32::from_scalar(Scalar::Float(value)));
        assert_eq!(cast, [300, -1, i32::MIN, i32::MIN, i32::MIN, i32::MIN, 40000, -40000]);
        let cast = values.map(|value| i64::from_scalar(Scalar::Float(value)));
        assert_eq!(cast, [300, -1, 10_000_000_000, i64::MIN, i64::MIN, 3_000_000_000, 40000, -40000]);
        assert_eq!(i8::from_scalar(Scalar::Int(3_000_000_300)), 3_000_000_300i64 as i8);
        // Doubles become halves by way of floats, integers become floats in one step.
        assert_eq!(f16::from_scalar(Scalar::Float(1.0 + 2f64.powi(-11) + 2f64.powi(-40))).to_f64(), 1.0);
        assert_eq!(f32::from_scalar(Scalar::Int((1 << 62) + (1 << 38) + 1)), 4_611_686_568_183_201_792.0);
    }
}
