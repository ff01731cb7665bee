//! Elementary functions of f64.

use crate::isa::Isa;

#[inline(always)]
pub(super) fn exp<I: Isa>(x: f64) -> f64 {
    x.exp()
}

#[inline(always)]
pub(super) fn exp2<I: Isa>(x: f64) -> f64 {
    x.exp2()
}

#[inline(always)]
pub(super) fn expm1<I: Isa>(x: f64) -> f64 {
    x.exp_m1()
}

#[inline(always)]
pub(super) fn log<I: Isa>(x: f64) -> f64 {
    x.ln()
}

#[inline(always)]
pub(super) fn log1p<I: Isa>(x: f64) -> f64 {
    x.ln_1p()
}

#[inline(always)]
pub(super) fn log2<I: Isa>(x: f64) -> f64 {
    x.log2()
}

#[inline(always)]
pub(super) fn log10<I: Isa>(x: f64) -> f64 {
    x.log10()
}

#[inline(always)]
pub(super) fn sin<I: Isa>(x: f64) -> f64 {
    x.sin()
}

#[inline(always)]
pub(super) fn cos<I: Isa>(x: f64) -> f64 {
    x.cos()
}

#[inline(always)]
pub(super) fn tan<I: Isa>(x: f64) -> f64 {
    x.tan()
}

#[inline(always)]
pub(super) fn asin<I: Isa>(x: f64) -> f64 {
    x.asin()
}

#[inline(always)]
pub(super) fn acos<I: Isa>(x: f64) -> f64 {
    x.acos()
}

#[inline(always)]
pub(super) fn atan<I: Isa>(x: f64) -> f64 {
    x.atan()
}

#[inline(always)]
pub(super) fn sinh<I: Isa>(x: f64) -> f64 {
    x.sinh()
}

#[inline(always)]
pub(super) fn cosh<I: Isa>(x: f64) -> f64 {
    x.cosh()
}

#[inline(always)]
pub(super) fn tanh<I: Isa>(x: f64) -> f64 {
    x.tanh()
}

#[inline(always)]
pub(super) fn asinh<I: Isa>(x: f64) -> f64 {
    x.asinh()
}

#[inline(always)]
pub(super) fn acosh<I: Isa>(x: f64) -> f64 {
    x.acosh()
}

#[inline(always)]
pub(super) fn atanh<I: Isa>(x: f64) -> f64 {
    x.atanh()
}

#[inline(always)]
pub(super) fn sigmoid<I: Isa>(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[inline(always)]
pub(super) fn erf<I: Isa>(x: f64) -> f64 {
    libm::erf(x)
}

#[inline(always)]
pub(super) fn erfc<I: Isa>(x: f64) -> f64 {
    libm::erfc(x)
}

#[inline(always)]
pub(super) fn pow<I: Isa>(x: f64, y: f64) -> f64 {
    x.powf(y)
}

#[inline(always)]
pub(super) fn atan2<I: Isa>(x: f64, y: f64) -> f64 {
    x.atan2(y)
}

#[inline(always)]
pub(super) fn hypot<I: Isa>(x: f64, y: f64) -> f64 {
    x.hypot(y)
}
