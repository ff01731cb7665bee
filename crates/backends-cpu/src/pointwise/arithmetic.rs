//! Sums, products, quotients, remainders, extrema, signs and roundings.

use std::sync::atomic::{AtomicBool, Ordering};

use tensor_core::iter::TensorIter;
use tensor_core::{Element, Result, Scalar, check};

use crate::elementwise;
use crate::isa::Isa;
use crate::loops::{Elementwise, map};
use crate::simd::{Arith, Floating, Integer, Math, Number, Ordered, Real, RealFloating, RealMath, Value};

/// True where a factor of 1 changes nothing. It does change complex numbers: infinities times its imaginary part are none.
fn plain<T: Number>(iter: &TensorIter) -> bool {
    // By reference: most are the integer 1, and a copy of a number waits until it has been stored.
    let one = |alpha: &Scalar| matches!(alpha, Scalar::Int(1)) || alpha.equals(1.0);
    !T::DTYPE.is_complex() && iter.params().first().is_some_and(one)
}

/// `a + alpha * b`; parameter: alpha. `Bool` adds with or.
pub fn add<I: Isa, T: Number>(iter: &TensorIter) -> Result<()> {
    if plain::<T>(iter) { sum::<I, T>(iter) } else { sum_scaled::<I, T>(iter) }
}

/// `a - alpha * b`; parameter: alpha.
pub fn sub<I: Isa, T: Number>(iter: &TensorIter) -> Result<()> {
    if plain::<T>(iter) { difference::<I, T>(iter) } else { difference_scaled::<I, T>(iter) }
}

elementwise! {
    fn sum<T: Number>(a: T, b: T) -> T { T::down(a.up().add(b.up())) }
    fn sum_scaled<T: Number>(a: T, b: T; alpha: T::Op) -> T { T::down(a.up().mul_accumulate::<I>(alpha, b.up())) }
    fn difference<T: Number>(a: T, b: T) -> T { T::down(a.up().sub(b.up())) }
    fn difference_scaled<T: Number>(a: T, b: T; alpha: T::Op) -> T {
        T::down(a.up().mul_accumulate::<I>(alpha.neg(), b.up()))
    }

    /// `b - alpha * a`; parameter: alpha.
    pub fn rsub<T: Number>(a: T, b: T; alpha: T::Op) -> T { T::down(b.up().mul_accumulate::<I>(alpha.neg(), a.up())) }

    /// `a * b`. `Bool` multiplies with and.
    pub fn mul<T: Number>(a: T, b: T) -> T { T::down(a.up().mul(b.up())) }

    /// `a / b`, the true quotient.
    pub fn div<T: Floating>(a: T, b: T) -> T { T::down(a.up().div(b.up())) }

    /// `-a`
    pub fn neg<T: Number>(a: T) -> T { T::down(a.up().neg()) }

    /// `1 / a`
    pub fn reciprocal<T: Floating>(a: T) -> T { T::down(a.up().reciprocal()) }

    /// The modulus; real for complex numbers.
    pub fn abs<T: Number>(a: T) -> <T as Value>::Abs { <T as Value>::Abs::down(a.up().modulus::<I>()) }

    /// -1, 0 or 1; 0 for NaN.
    pub fn sign<T: Ordered>(a: T) -> T { T::down(a.up().sgn::<I>()) }

    /// `a / |a|`, 0 for 0.
    pub fn sgn<T: Number>(a: T) -> T { T::down(a.up().sgn::<I>()) }

    /// The complex conjugate.
    pub fn conj_physical<T: Number>(a: T) -> T { T::down(a.up().conj()) }

    /// `a * a`
    pub fn square<T: Number>(a: T) -> T { T::down(a.up().mul(a.up())) }

    /// The largest integer that is not larger.
    pub fn floor<T: Ordered>(a: T) -> T { T::down(a.up().floor()) }

    /// The smallest integer that is not smaller.
    pub fn ceil<T: Ordered>(a: T) -> T { T::down(a.up().ceil()) }

    /// The nearest integer, ties to even.
    pub fn round<T: Ordered>(a: T) -> T { T::down(a.up().round()) }

    /// The integer part.
    pub fn trunc<T: Ordered>(a: T) -> T { T::down(a.up().trunc()) }

    /// `a - trunc(a)`
    pub fn frac<T: RealFloating>(a: T) -> T { T::down(a.up().sub(a.up().trunc())) }

    /// The larger one; NaN if either is.
    pub fn maximum<T: Ordered>(a: T, b: T) -> T { T::down(a.up().maximum(b.up())) }

    /// The smaller one; NaN if either is.
    pub fn minimum<T: Ordered>(a: T, b: T) -> T { T::down(a.up().minimum(b.up())) }

    /// The larger one; a number if either is.
    pub fn fmax<T: Ordered>(a: T, b: T) -> T { T::down(a.up().fmax(b.up())) }

    /// The smaller one; a number if either is.
    pub fn fmin<T: Ordered>(a: T, b: T) -> T { T::down(a.up().fmin(b.up())) }

    /// `a + weight * (b - a)`, from the end that is nearer; parameter: weight.
    pub fn lerp_scalar<T: Floating>(a: T, b: T; weight: T::Op) -> T { T::down(lerp_op::<I, _>(a.up(), b.up(), weight)) }

    /// `a + weight * (b - a)`, from the end that is nearer; inputs: a, b, weight.
    pub fn lerp_tensor<T: Floating>(a: T, b: T, weight: T) -> T {
        T::down(lerp_op::<I, _>(a.up(), b.up(), weight.up()))
    }

    /// `a + value * b * c`; parameter: value.
    pub fn addcmul<T: Number>(a: T, b: T, c: T; value: T::Op) -> T {
        T::down(a.up().mul_accumulate::<I>(value.mul(b.up()), c.up()))
    }

    /// `a + value * b / c`; parameter: value.
    pub fn addcdiv<T: Floating>(a: T, b: T, c: T; value: T::Op) -> T {
        T::down(a.up().add(value.mul(b.up()).div(c.up())))
    }

    /// The magnitude of `a` with the sign of `b`.
    pub fn copysign<T: RealFloating>(a: T, b: T) -> T { T::down(a.up().copysign(b.up())) }

    /// `sqrt(a^2 + b^2)`
    pub fn hypot<T: RealFloating>(a: T, b: T) -> T { T::down(a.up().hypot::<I>(b.up())) }

    /// 0 below zero, 1 above it, `b` at zero; NaN counts as above.
    pub fn heaviside<T: Ordered>(a: T, b: T) -> T {
        let zero = <T::Op as Arith>::ZERO;
        let step = if a.up() < zero { zero } else { <T::Op as Arith>::ONE };
        T::down(if a.up() == zero { b.up() } else { step })
    }

    fn div_floor_float<T: RealFloating>(a: T, b: T) -> T {
        T::down(floor_quotient(a.up(), b.up(), a.up().fmod_near::<I>(b.up())))
    } else if (a.up().fmod_is_far(b.up())) {
        T::down(floor_quotient(a.up(), b.up(), a.up().fmod(b.up())))
    }
    fn remainder_float<T: RealFloating>(a: T, b: T) -> T {
        T::down(of_divisor_sign(a.up().fmod_near::<I>(b.up()), b.up()))
    } else if (a.up().fmod_is_far(b.up())) {
        T::down(of_divisor_sign(a.up().fmod(b.up()), b.up()))
    }
    fn fmod_float<T: RealFloating>(a: T, b: T) -> T {
        T::down(a.up().fmod_near::<I>(b.up()))
    } else if (a.up().fmod_is_far(b.up())) {
        T::down(a.up().fmod(b.up()))
    }
    fn div_trunc_float<T: RealFloating>(a: T, b: T) -> T { T::down(a.up().div(b.up()).trunc()) }
}

/// The remainder `r` with the sign of the divisor `b`.
#[inline(always)]
fn of_divisor_sign<C: RealMath>(r: C, b: C) -> C {
    if (r != C::ZERO) & ((b < C::ZERO) != (r < C::ZERO)) { r.add(b) } else { r }
}

#[inline(always)]
fn lerp_op<I: Isa, C: Math>(a: C, b: C, weight: C) -> C {
    let difference = b.sub(a);
    let near = a.mul_accumulate::<I>(weight, difference);
    let far = b.mul_accumulate::<I>(weight.sub(C::ONE), difference);
    if weight.modulus::<I>().to_f64() < 0.5 { near } else { far }
}

/// Python's `//` of floats, given their C remainder `r`: it is taken out first, so that the quotient rounds down as if exact.
#[inline(always)]
fn floor_quotient<C: RealMath>(a: C, b: C, r: C) -> C {
    let zero = C::ZERO;
    let quotient = a.sub(r).div(b);
    let below = (r != zero) & ((b < zero) != (r < zero));
    let quotient = if below { quotient.sub(C::ONE) } else { quotient };
    let down = quotient.floor();
    let nearest = if quotient.sub(down) > C::from_f64(0.5) { down.add(C::ONE) } else { down };
    let signed_zero = zero.copysign(a.div(b));
    let finite = if quotient != zero { nearest } else { signed_zero };
    if b == zero { a.div(b) } else { finite }
}

/// An integer operator whose divisor may be zero: it notes that, and the kernel reports it.
#[derive(Clone, Copy)]
struct Checked<'a, F> {
    op: F,
    zero: &'a AtomicBool,
}

impl<T: Integer, F: Fn(T, T) -> T + Copy + Send + Sync> Elementwise<(T, T), T> for Checked<'_, F> {
    #[inline(always)]
    fn apply<I: Isa>(self, (a, b): (T, T)) -> T {
        let b = b.up();
        if b == T::ZERO {
            self.zero.store(true, Ordering::Relaxed);
        }
        (self.op)(a.up(), b)
    }
}

fn checked<I: Isa, T: Integer>(iter: &TensorIter, op: impl Fn(T, T) -> T + Copy + Send + Sync) -> Result<()> {
    let zero = AtomicBool::new(false);
    map::<I, (T, T), T, _>(iter, Checked { op, zero: &zero })?;
    check!(!zero.into_inner(), "ZeroDivisionError");
    Ok(())
}

/// Division and remainder of a dtype: integers report zero divisors, floats do not.
pub trait Divide: Ordered {
    /// The quotient rounded down (`div(.., rounding_mode="floor")`).
    fn div_floor<I: Isa>(iter: &TensorIter) -> Result<()>;
    /// The quotient rounded to zero (`div(.., rounding_mode="trunc")`).
    fn div_trunc<I: Isa>(iter: &TensorIter) -> Result<()>;
    /// The remainder with the divisor's sign.
    fn remainder<I: Isa>(iter: &TensorIter) -> Result<()>;
    /// The remainder with the dividend's sign.
    fn fmod<I: Isa>(iter: &TensorIter) -> Result<()>;
}

macro_rules! divide {
    (integers: $($int:ty)*; floats: $($float:ty)*;) => {
        $(
            impl Divide for $int {
                fn div_floor<I: Isa>(iter: &TensorIter) -> Result<()> {
                    checked::<I, $int>(iter, Integer::div_floor)
                }
                fn div_trunc<I: Isa>(iter: &TensorIter) -> Result<()> {
                    checked::<I, $int>(iter, Integer::div_trunc)
                }
                fn remainder<I: Isa>(iter: &TensorIter) -> Result<()> {
                    checked::<I, $int>(iter, Integer::rem_floor)
                }
                fn fmod<I: Isa>(iter: &TensorIter) -> Result<()> {
                    checked::<I, $int>(iter, Integer::rem_trunc)
                }
            }
        )*
        $(
            impl Divide for $float {
                fn div_floor<I: Isa>(iter: &TensorIter) -> Result<()> {
                    div_floor_float::<I, $float>(iter)
                }
                fn div_trunc<I: Isa>(iter: &TensorIter) -> Result<()> {
                    div_trunc_float::<I, $float>(iter)
                }
                fn remainder<I: Isa>(iter: &TensorIter) -> Result<()> {
                    remainder_float::<I, $float>(iter)
                }
                fn fmod<I: Isa>(iter: &TensorIter) -> Result<()> {
                    fmod_float::<I, $float>(iter)
                }
            }
        )*
    };
}
divide! {
    integers: u8 i8 i16 i32 i64 tensor_core::Bool;
    floats: f32 f64 tensor_core::f16 tensor_core::bf16;
}

/// The quotient rounded down, or to zero where parameter 0 is true.
///
/// # Errors
/// `ZeroDivisionError` for an integer divisor of zero.
pub fn div_mode<I: Isa, T: Divide>(iter: &TensorIter) -> Result<()> {
    if iter.param(0).to_bool() { T::div_trunc::<I>(iter) } else { T::div_floor::<I>(iter) }
}

/// The quotient rounded down.
///
/// # Errors
/// `ZeroDivisionError` for an integer divisor of zero.
pub fn div_floor<I: Isa, T: Divide>(iter: &TensorIter) -> Result<()> {
    T::div_floor::<I>(iter)
}

/// The quotient rounded to zero.
///
/// # Errors
/// `ZeroDivisionError` for an integer divisor of zero.
pub fn div_trunc<I: Isa, T: Divide>(iter: &TensorIter) -> Result<()> {
    T::div_trunc::<I>(iter)
}

/// The remainder with the divisor's sign (Python's `%`).
///
/// # Errors
/// `ZeroDivisionError` for an integer divisor of zero.
pub fn remainder<I: Isa, T: Divide>(iter: &TensorIter) -> Result<()> {
    T::remainder::<I>(iter)
}

/// The remainder with the dividend's sign (C's `fmod`).
///
/// # Errors
/// `ZeroDivisionError` for an integer divisor of zero.
pub fn fmod<I: Isa, T: Divide>(iter: &TensorIter) -> Result<()> {
    T::fmod::<I>(iter)
}

/// The greatest common divisor, not negative.
pub fn gcd<I: Isa, T: Integer>(iter: &TensorIter) -> Result<()> {
    map::<I, (T, T), T, _>(iter, Gcd)
}

/// The least common multiple, not negative.
pub fn lcm<I: Isa, T: Integer>(iter: &TensorIter) -> Result<()> {
    map::<I, (T, T), T, _>(iter, Lcm)
}

#[derive(Clone, Copy)]
struct Gcd;
#[derive(Clone, Copy)]
struct Lcm;

fn greatest_divisor<I: Isa, T: Integer>(a: T, b: T) -> T {
    let magnitude = |x: T| if x < T::ZERO { x.neg() } else { x };
    let (mut a, mut b) = (magnitude(a), magnitude(b));
    while a != T::ZERO {
        (a, b) = (b.rem_trunc(a), a);
    }
    magnitude(b)
}

impl<T: Integer> Elementwise<(T, T), T> for Gcd {
    #[inline(always)]
    fn apply<I: Isa>(self, (a, b): (T, T)) -> T {
        greatest_divisor::<I, T>(a, b)
    }
}

impl<T: Integer> Elementwise<(T, T), T> for Lcm {
    #[inline(always)]
    fn apply<I: Isa>(self, (a, b): (T, T)) -> T {
        let product = a.div_trunc(greatest_divisor::<I, T>(a, b)).mul(b);
        if product < T::ZERO { product.neg() } else { product }
    }
}

/// A number of the call as an element.
#[inline]
pub(crate) fn param<T: Element>(iter: &TensorIter, i: usize) -> T {
    T::from_scalar(iter.param(i))
}
