//! The number traits: what element types compute in, and their arithmetic with PyTorch's wrapping and truth rules.

use tensor_core::{Bool, Complex, Element, bf16, f16};

use super::cast::Cast;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::math::{Math, RealMath};
use crate::isa::Isa;

/// An element type and the type that kernels compute it in.
pub trait Value: Element {
    /// f32 for f16 and bf16; the type itself otherwise.
    type Op: Arith<Modulus = <Self::Abs as Value>::Op> + Cast + Element;
    /// The element type of absolute values: the parts' type of a complex one.
    type Abs: Value<Op: Real>;
    /// What a kernel may be run on in place of this type, between conversions of whole blocks: f32 for f16, whose conversion
    /// is one instruction for many elements; the type itself otherwise.
    type Lift: Value<Op = Self::Op>;
    /// To the type that is computed in: exact.
    fn up(self) -> Self::Op;
    /// Back, rounded to the nearest.
    fn down(value: Self::Op) -> Self;
}

/// Arithmetic: integers wrap, `Bool` adds with or and multiplies with and.
pub trait Arith: Copy + PartialEq + Send + Sync {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// The type of absolute values.
    type Modulus: Real + Element;
    /// `self + y`
    fn add(self, y: Self) -> Self;
    /// `self - y`
    fn sub(self, y: Self) -> Self;
    /// `self * y`
    fn mul(self, y: Self) -> Self;
    /// `self + x * y`, rounded once where the level can.
    #[inline(always)]
    fn mul_accumulate<I: Isa>(self, x: Self, y: Self) -> Self {
        self.add(x.mul(y))
    }
    /// `-self`
    fn neg(self) -> Self;
    /// The modulus; integers wrap.
    fn modulus<I: Isa>(self) -> Self::Modulus;
    /// True if it is, or has a part that is, no number.
    fn is_nan(self) -> bool;
    /// True if no part is infinite or no number.
    fn is_finite(self) -> bool;
    /// The complex conjugate.
    fn conj(self) -> Self;
    /// `self / |self|`, 0 for 0: the sign of a real number.
    fn sgn<I: Isa>(self) -> Self;
    /// True unless zero.
    #[inline(always)]
    fn truth(self) -> bool {
        self != Self::ZERO
    }
    /// `self` where `cond`, else `other`.
    #[inline(always)]
    fn or(self, cond: bool, other: Self) -> Self {
        if cond { self } else { other }
    }
}

/// Real numbers: integers, `Bool` and floats.
pub trait Real: Arith + PartialOrd {
    /// The largest value; infinity for floats.
    const HIGHEST: Self;
    /// The smallest value; minus infinity for floats.
    const LOWEST: Self;
    /// True for floats.
    const IS_FLOAT: bool;
    /// As `f64`, rounded.
    fn to_f64(self) -> f64;
    /// The largest integer that is not larger.
    #[inline(always)]
    fn floor(self) -> Self {
        self
    }
    /// The smallest integer that is not smaller.
    #[inline(always)]
    fn ceil(self) -> Self {
        self
    }
    /// The nearest integer, ties to even.
    #[inline(always)]
    fn round(self) -> Self {
        self
    }
    /// The integer part.
    #[inline(always)]
    fn trunc(self) -> Self {
        self
    }
    /// True if the sign is minus, of a zero as well.
    #[inline(always)]
    fn is_sign_negative(self) -> bool {
        self < Self::ZERO
    }

    /// The larger one; no number if either is none.
    #[inline(always)]
    fn maximum(self, y: Self) -> Self {
        let larger = if self > y { self } else { y };
        if self.is_nan() { self } else { larger }
    }
    /// The smaller one; no number if either is none.
    #[inline(always)]
    fn minimum(self, y: Self) -> Self {
        let smaller = if self < y { self } else { y };
        if self.is_nan() { self } else { smaller }
    }
    /// The larger one; a number if either is one.
    #[inline(always)]
    fn fmax(self, y: Self) -> Self {
        if self > y || y.is_nan() { self } else { y }
    }
    /// The smaller one; a number if either is one.
    #[inline(always)]
    fn fmin(self, y: Self) -> Self {
        if self < y || y.is_nan() { self } else { y }
    }
}

/// Any dtype.
pub trait Number: Value {}
impl<T: Value> Number for T {}

/// The dtypes with an order: all but the complex ones.
pub trait Ordered: Value<Op: Real> {}
impl<T: Value<Op: Real>> Ordered for T {}

/// The floating and complex dtypes.
pub trait Floating: Value<Op: Math> {}
impl<T: Value<Op: Math>> Floating for T {}

/// The real floating dtypes.
pub trait RealFloating: Value<Op: RealMath> + Ordered {}
impl<T: Value<Op: RealMath>> RealFloating for T {}

/// The integers and `Bool`, with bitwise operators.
pub trait Integer: Value<Op = Self, Lift = Self> + Real + Ord {
    /// The number of bits.
    const BITS: u32;
    /// True for the signed integers.
    const SIGNED: bool;
    /// Bitwise and.
    fn and(self, y: Self) -> Self;
    /// Bitwise or.
    fn inclusive_or(self, y: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, y: Self) -> Self;
    /// Bitwise not; logical for `Bool`.
    fn not(self) -> Self;
    /// Shifts left; 0 when the number of bits is out of range.
    fn shl(self, y: Self) -> Self;
    /// Shifts right with the sign; all sign when the number of bits is out of range.
    fn shr(self, y: Self) -> Self;
    /// The quotient, truncated; 0 for a zero divisor (kernels report that before), wrapping on overflow.
    fn div_trunc(self, y: Self) -> Self;
    /// The remainder of [`Integer::div_trunc`], with the dividend's sign.
    fn rem_trunc(self, y: Self) -> Self;
    /// The quotient, rounded down.
    #[inline(always)]
    fn div_floor(self, y: Self) -> Self {
        let (q, r) = (self.div_trunc(y), self.rem_trunc(y));
        let adjust = r != Self::ZERO && (r < Self::ZERO) != (y < Self::ZERO);
        if adjust { q.sub(Self::ONE) } else { q }
    }
    /// The remainder with the divisor's sign.
    #[inline(always)]
    fn rem_floor(self, y: Self) -> Self {
        let r = self.rem_trunc(y);
        let adjust = r != Self::ZERO && (r < Self::ZERO) != (y < Self::ZERO);
        if adjust { r.add(y) } else { r }
    }
    /// The power, wrapping; a negative exponent gives 0 unless the base is 1 or -1.
    #[inline(always)]
    fn power(self, y: Self) -> Self {
        let odd = y.and(Self::ONE) != Self::ZERO;
        if y < Self::ZERO {
            let minus_one = Self::SIGNED && self == Self::ZERO.sub(Self::ONE);
            return if self == Self::ONE || (minus_one && !odd) {
                Self::ONE
            } else if minus_one {
                self
            } else {
                Self::ZERO
            };
        }
        let (mut base, mut left, mut result) = (self, y.to_i64(), Self::ONE);
        while left > 0 {
            if left & 1 == 1 {
                result = result.mul(base);
            }
            base = base.mul(base);
            left >>= 1;
        }
        result
    }
    /// As a 64-bit integer.
    fn to_i64(self) -> i64;
    /// From a 64-bit integer, wrapping.
    fn from_i64(value: i64) -> Self;
}

macro_rules! itself {
    ($($t:ty, $abs:ty;)*) => { $(
        impl Value for $t {
            type Op = $t;
            type Abs = $abs;
            type Lift = $t;
            #[inline(always)]
            fn up(self) -> $t { self }
            #[inline(always)]
            fn down(value: $t) -> $t { value }
        }
    )* };
}
itself! {
    u8, u8; i8, i8; i16, i16; i32, i32; i64, i64; f32, f32; f64, f64;
    Complex<f32>, f32; Complex<f64>, f64;
}

impl Value for Bool {
    type Op = Bool;
    type Abs = Bool;
    type Lift = Bool;
    #[inline(always)]
    fn up(self) -> Bool {
        // Storages may hold any byte; arithmetic and comparisons see 0 and 1.
        Bool::new(self.get())
    }
    #[inline(always)]
    fn down(value: Bool) -> Bool {
        value
    }
}

macro_rules! halves {
    ($($t:ty, $lift:ty, $up:ident, $down:ident;)*) => { $(
        impl Value for $t {
            type Op = f32;
            type Abs = $t;
            type Lift = $lift;
            #[inline(always)]
            fn up(self) -> f32 { $up(self) }
            #[inline(always)]
            fn down(value: f32) -> Self { $down(value) }
        }
    )* };
}
halves! { f16, f32, f16_to_f32, f32_to_f16; bf16, bf16, bf16_to_f32, f32_to_bf16; }

macro_rules! half_complex {
    ($($t:ident;)*) => { $(
        impl Value for Complex<$t> {
            type Op = Complex<f32>;
            type Abs = $t;
            type Lift = Self;
            #[inline(always)]
            fn up(self) -> Complex<f32> { Complex::new(self.re.up(), self.im.up()) }
            #[inline(always)]
            fn down(value: Complex<f32>) -> Self { Complex::new(<$t>::down(value.re), <$t>::down(value.im)) }
        }
    )* };
}
half_complex! { f16; bf16; }

macro_rules! integers {
    ($($t:ident, $signed:literal, $abs:expr, $sgn:expr;)*) => { $(
        impl Arith for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            type Modulus = $t;
            #[inline(always)]
            fn add(self, y: Self) -> Self { self.wrapping_add(y) }
            #[inline(always)]
            fn sub(self, y: Self) -> Self { self.wrapping_sub(y) }
            #[inline(always)]
            fn mul(self, y: Self) -> Self { self.wrapping_mul(y) }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn modulus<I: Isa>(self) -> Self { ($abs)(self) }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
            #[inline(always)]
            fn is_finite(self) -> bool { true }
            #[inline(always)]
            fn conj(self) -> Self { self }
            #[inline(always)]
            fn sgn<I: Isa>(self) -> Self { ($sgn)(self) }
        }
        impl Real for $t {
            const HIGHEST: Self = <$t>::MAX;
            const LOWEST: Self = <$t>::MIN;
            const IS_FLOAT: bool = false;
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
        impl Integer for $t {
            const BITS: u32 = <$t>::BITS;
            const SIGNED: bool = $signed;
            #[inline(always)]
            fn and(self, y: Self) -> Self { self & y }
            #[inline(always)]
            fn inclusive_or(self, y: Self) -> Self { self | y }
            #[inline(always)]
            fn xor(self, y: Self) -> Self { self ^ y }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn shl(self, y: Self) -> Self {
                let shifted = self.wrapping_shl(y as u32);
                if (y as i64) < 0 || y as i64 >= <$t>::BITS as i64 { 0 } else { shifted }
            }
            #[inline(always)]
            fn shr(self, y: Self) -> Self {
                // Signed types stop one short, where all bits are the sign; unsigned ones give 0.
                let most = <$t>::BITS as i64 - 1;
                let out = (y as i64) < 0 || y as i64 > most;
                let shifted = self.wrapping_shr(y as u32);
                let sign = if $signed { self >> most } else { 0 };
                if out { sign } else { shifted }
            }
            #[inline(always)]
            fn div_trunc(self, y: Self) -> Self {
                if y == 0 { 0 } else { self.wrapping_div(y) }
            }
            #[inline(always)]
            fn rem_trunc(self, y: Self) -> Self {
                if y == 0 { 0 } else { self.wrapping_rem(y) }
            }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn from_i64(value: i64) -> Self { value as $t }
        }
    )* };
}
integers! {
    u8, false, |x: u8| x, |x: u8| (x != 0) as u8;
    i8, true, |x: i8| x.wrapping_abs(), |x: i8| x.signum();
    i16, true, |x: i16| x.wrapping_abs(), |x: i16| x.signum();
    i32, true, |x: i32| x.wrapping_abs(), |x: i32| x.signum();
    i64, true, |x: i64| x.wrapping_abs(), |x: i64| x.signum();
}

impl Arith for Bool {
    const ZERO: Self = Bool(0);
    const ONE: Self = Bool(1);
    type Modulus = Bool;
    #[inline(always)]
    fn add(self, y: Self) -> Self {
        Bool::new(self.get() | y.get())
    }
    #[inline(always)]
    fn sub(self, y: Self) -> Self {
        self.xor(y)
    }
    #[inline(always)]
    fn mul(self, y: Self) -> Self {
        Bool::new(self.get() & y.get())
    }
    #[inline(always)]
    fn neg(self) -> Self {
        Bool::new(self.get())
    }
    #[inline(always)]
    fn modulus<I: Isa>(self) -> Self {
        Bool::new(self.get())
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        true
    }
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
    #[inline(always)]
    fn sgn<I: Isa>(self) -> Self {
        Bool::new(self.get())
    }
    #[inline(always)]
    fn truth(self) -> bool {
        self.get()
    }
}

impl Real for Bool {
    const HIGHEST: Self = Bool(1);
    const LOWEST: Self = Bool(0);
    const IS_FLOAT: bool = false;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.get() as u8 as f64
    }
}

impl Integer for Bool {
    const BITS: u32 = 1;
    const SIGNED: bool = false;
    #[inline(always)]
    fn and(self, y: Self) -> Self {
        Bool::new(self.get() & y.get())
    }
    #[inline(always)]
    fn inclusive_or(self, y: Self) -> Self {
        Bool::new(self.get() | y.get())
    }
    #[inline(always)]
    fn xor(self, y: Self) -> Self {
        Bool::new(self.get() ^ y.get())
    }
    #[inline(always)]
    fn not(self) -> Self {
        Bool::new(!self.get())
    }
    #[inline(always)]
    fn shl(self, y: Self) -> Self {
        Bool::new(self.get() & !y.get())
    }
    #[inline(always)]
    fn shr(self, y: Self) -> Self {
        Bool::new(self.get() & !y.get())
    }
    #[inline(always)]
    fn div_trunc(self, y: Self) -> Self {
        self.and(y)
    }
    #[inline(always)]
    fn rem_trunc(self, _: Self) -> Self {
        Bool(0)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get() as i64
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Bool::new(value != 0)
    }
}

macro_rules! floats {
    ($($t:ident)*) => { $(
        impl Arith for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            type Modulus = $t;
            #[inline(always)]
            fn add(self, y: Self) -> Self { self + y }
            #[inline(always)]
            fn sub(self, y: Self) -> Self { self - y }
            #[inline(always)]
            fn mul(self, y: Self) -> Self { self * y }
            #[inline(always)]
            fn neg(self) -> Self { -self }
            #[inline(always)]
            fn mul_accumulate<I: Isa>(self, x: Self, y: Self) -> Self { I::mul_add(x, y, self) }
            #[inline(always)]
            fn modulus<I: Isa>(self) -> Self { self.abs() }
            #[inline(always)]
            fn is_nan(self) -> bool { <$t>::is_nan(self) }
            #[inline(always)]
            fn is_finite(self) -> bool { <$t>::is_finite(self) }
            #[inline(always)]
            fn conj(self) -> Self { self }
            #[inline(always)]
            fn sgn<I: Isa>(self) -> Self {
                // 0 for 0 and NaN, as PyTorch's (0 < x) - (x < 0).
                ((self > 0.0) as i8 as $t) - ((self < 0.0) as i8 as $t)
            }
        }
        impl Real for $t {
            const HIGHEST: Self = <$t>::INFINITY;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const IS_FLOAT: bool = true;
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn floor(self) -> Self { <$t>::floor(self) }
            #[inline(always)]
            fn ceil(self) -> Self { <$t>::ceil(self) }
            #[inline(always)]
            fn round(self) -> Self { <$t>::round_ties_even(self) }
            #[inline(always)]
            fn trunc(self) -> Self { <$t>::trunc(self) }
            #[inline(always)]
            fn is_sign_negative(self) -> bool { <$t>::is_sign_negative(self) }
        }
        impl Arith for Complex<$t> {
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);
            type Modulus = $t;
            #[inline(always)]
            fn add(self, y: Self) -> Self { self + y }
            #[inline(always)]
            fn sub(self, y: Self) -> Self { self - y }
            #[inline(always)]
            fn mul(self, y: Self) -> Self { self * y }
            #[inline(always)]
            fn neg(self) -> Self { -self }
            #[inline(always)]
            fn modulus<I: Isa>(self) -> $t { super::complex::abs::<I, $t>(self) }
            #[inline(always)]
            fn is_nan(self) -> bool { self.re.is_nan() | self.im.is_nan() }
            #[inline(always)]
            fn is_finite(self) -> bool { self.re.is_finite() & self.im.is_finite() }
            #[inline(always)]
            fn conj(self) -> Self { Complex::new(self.re, -self.im) }
            #[inline(always)]
            fn sgn<I: Isa>(self) -> Self {
                let modulus = self.modulus::<I>();
                if modulus == 0.0 { Self::ZERO } else { Complex::new(self.re / modulus, self.im / modulus) }
            }
        }
    )* };
}
floats! { f32 f64 }
