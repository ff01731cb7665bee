//! The numbers of linear algebra: real and complex, in single and double precision.

use std::ops::{AddAssign, DivAssign, MulAssign, Neg, SubAssign};

use num_traits::{Float, NumOps};
use tensor_core::{Complex, Element};

use crate::gemm::Gemm;

/// A real or complex element type, with what factorisations need of it.
pub trait Field:
    Gemm<Op = Self> + Element + NumOps + Neg<Output = Self> + AddAssign + SubAssign + MulAssign + DivAssign + Send + Sync
{
    /// The real numbers of the same precision.
    type Real: Field<Real = Self::Real, Complex = Self::Complex> + Float;
    /// The complex numbers of the same precision.
    type Complex: Field<Real = Self::Real, Complex = Self::Complex>;
    /// True for complex numbers.
    const COMPLEX: bool;
    /// 0
    const NULL: Self;
    /// 1
    const UNIT: Self;

    /// The complex conjugate.
    fn conj(self) -> Self;
    /// The real part.
    fn re(self) -> Self::Real;
    /// The imaginary part.
    fn im(self) -> Self::Real;
    /// A number of these parts; the imaginary one is lost where there is none.
    fn of(re: Self::Real, im: Self::Real) -> Self;
    /// The same number as a complex one.
    fn complex(self) -> Self::Complex {
        Self::Complex::of(self.re(), self.im())
    }
    /// A real number.
    fn real(re: Self::Real) -> Self {
        Self::of(re, Self::Real::NULL)
    }
    /// The magnitude, without overflow.
    fn modulus(self) -> Self::Real {
        if Self::COMPLEX { self.re().hypot(self.im()) } else { self.re().abs() }
    }
    /// The magnitudes of the parts, added: what pivots are compared by.
    fn size(self) -> Self::Real {
        self.re().abs() + self.im().abs()
    }
    /// A multiple.
    fn times(self, factor: Self::Real) -> Self;
    /// True unless a part is infinite or no number.
    fn finite(self) -> bool {
        self.re().is_finite() && self.im().is_finite()
    }
}

/// A real number of a type.
pub(super) fn number<R: Float>(value: f64) -> R {
    R::from(value).unwrap_or_else(R::nan)
}

macro_rules! fields {
    ($($real:ty),*) => { $(
        impl Field for $real {
            type Real = $real;
            type Complex = Complex<$real>;
            const COMPLEX: bool = false;
            const NULL: Self = 0.0;
            const UNIT: Self = 1.0;
            #[inline(always)]
            fn conj(self) -> Self {
                self
            }
            #[inline(always)]
            fn re(self) -> $real {
                self
            }
            #[inline(always)]
            fn im(self) -> $real {
                0.0
            }
            #[inline(always)]
            fn of(re: $real, _im: $real) -> Self {
                re
            }
            #[inline(always)]
            fn times(self, factor: $real) -> Self {
                self * factor
            }
        }

        impl Field for Complex<$real> {
            type Real = $real;
            type Complex = Self;
            const COMPLEX: bool = true;
            const NULL: Self = Complex::new(0.0, 0.0);
            const UNIT: Self = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn conj(self) -> Self {
                Complex::new(self.re, -self.im)
            }
            #[inline(always)]
            fn re(self) -> $real {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $real {
                self.im
            }
            #[inline(always)]
            fn of(re: $real, im: $real) -> Self {
                Complex::new(re, im)
            }
            #[inline(always)]
            fn times(self, factor: $real) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }
        }
    )* };
}
fields!(f32, f64);
