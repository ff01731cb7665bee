//! [`Element`]: the Rust types that tensors hold, and [`dispatch!`](crate::dispatch), the one match over dtypes.

use num_complex::Complex;

use crate::{BComplex32, ComplexHalf, DType, Scalar, bf16, f16};

/// A `bool` element: one byte, true unless zero. Storages may hold any byte, so this is not Rust's `bool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The canonical byte of a truth value.
    #[inline(always)]
    pub const fn new(value: bool) -> Self {
        Self(value as u8)
    }

    /// True unless the byte is zero.
    #[inline(always)]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors hold. Plain old data: every bit pattern is a value.
pub trait Element: sealed::Sealed + bytemuck::Pod + PartialEq + Send + Sync + std::fmt::Debug {
    /// The dtype of a tensor of this element.
    const DTYPE: DType;

    /// Converts as PyTorch's `copy_` does: truncation, wrapping, the real part of a complex number.
    fn from_scalar(value: Scalar) -> Self;

    /// The value as a [`Scalar`] of this type's category.
    fn to_scalar(self) -> Scalar;
}

macro_rules! elements {
    ($($ty:ty, $dtype:ident, $from:expr, $to:expr;)*) => { $(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn from_scalar(value: Scalar) -> Self { ($from)(value) }
            #[inline]
            fn to_scalar(self) -> Scalar { ($to)(self) }
        }
    )* };
}

elements! {
    u8, U8, |s: Scalar| s.to_i32() as u8, |v| Scalar::Int(v as i64);
    i8, I8, |s: Scalar| s.to_i32() as i8, |v| Scalar::Int(v as i64);
    i16, I16, |s: Scalar| s.to_i32() as i16, |v| Scalar::Int(v as i64);
    i32, I32, |s: Scalar| s.to_i32(), |v| Scalar::Int(v as i64);
    i64, I64, |s: Scalar| s.to_i64(), Scalar::Int;
    f16, F16, |s: Scalar| f16::from_f32(s.to_f32()), |v: f16| Scalar::Float(v.to_f64());
    bf16, BF16, |s: Scalar| bf16::from_f32(s.to_f32()), |v: bf16| Scalar::Float(v.to_f64());
    f32, F32, |s: Scalar| s.to_f32(), |v| Scalar::Float(v as f64);
    f64, F64, |s: Scalar| s.to_f64(), Scalar::Float;
    Complex<f32>, C64,
        |s: Scalar| Complex::new(s.to_f32(), s.to_complex().im as f32),
        |v: Complex<f32>| Scalar::Complex(Complex::new(v.re as f64, v.im as f64));
    Complex<f64>, C128, |s: Scalar| s.to_complex(), Scalar::Complex;
    ComplexHalf, C32,
        |s: Scalar| Complex::new(f16::from_f32(s.to_f32()), f16::from_f32(s.to_complex().im as f32)),
        |v: ComplexHalf| Scalar::Complex(Complex::new(v.re.to_f64(), v.im.to_f64()));
    BComplex32, BC32,
        |s: Scalar| Complex::new(bf16::from_f32(s.to_f32()), bf16::from_f32(s.to_complex().im as f32)),
        |v: BComplex32| Scalar::Complex(Complex::new(v.re.to_f64(), v.im.to_f64()));
    Bool, Bool, |s: Scalar| Bool::new(s.to_bool()), |v: Bool| Scalar::Bool(v.get());
}

/// Runs an expression with `T` bound to the element type of a dtype: `dispatch!(dtype, T => f::<T>())`.
///
/// For the few places that need a real match (fills, casts, printing). Kernels are columns of a table instead.
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use $crate::DType as D;
        macro_rules! with {
            ($ty:ty) => {{
                type $t = $ty;
                $body
            }};
        }
        match $dtype {
            D::U8 => with!(u8),
            D::I8 => with!(i8),
            D::I16 => with!(i16),
            D::I32 => with!(i32),
            D::I64 => with!(i64),
            D::F16 => with!($crate::f16),
            D::BF16 => with!($crate::bf16),
            D::F32 => with!(f32),
            D::F64 => with!(f64),
            D::C64 => with!($crate::Complex<f32>),
            D::C128 => with!($crate::Complex<f64>),
            D::C32 => with!($crate::ComplexHalf),
            D::BC32 => with!($crate::BComplex32),
            // `DType` is non-exhaustive to other crates; `Bool` is the one that is left.
            _ => with!($crate::Bool),
        }
    }};
}

/// The bytes of some elements.
pub fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// The element that some bytes hold, wherever they lie. The slice has the element's length.
pub fn read_unaligned<T: Element>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}
