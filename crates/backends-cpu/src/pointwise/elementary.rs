//! Elementary functions: exponentials, logarithms, roots, circular and hyperbolic functions, error functions.

use crate::elementwise;
use crate::simd::{Arith, Floating, Math, RealFloating, RealMath};

macro_rules! unary {
    ($bound:ident: $($(#[$meta:meta])* $name:ident;)*) => {
        elementwise! { $(
            $(#[$meta])*
            pub fn $name<T: $bound>(x: T) -> T { T::down(x.up().$name::<I>()) }
        )* }
    };
}

unary! {
    Floating:
    /// e to the power of `x`.
    exp;
    /// 2 to the power of `x`.
    exp2;
    /// `exp(x) - 1`
    expm1;
    /// The natural logarithm.
    log;
    /// `log(1 + x)`
    log1p;
    /// The logarithm to base 2.
    log2;
    /// The logarithm to base 10.
    log10;
    /// The square root.
    sqrt;
    /// `1 / sqrt(x)`
    rsqrt;
    /// The inverse sine.
    asin;
    /// The inverse cosine.
    acos;
    /// The inverse tangent.
    atan;
    /// The hyperbolic sine.
    sinh;
    /// The hyperbolic cosine.
    cosh;
    /// The hyperbolic tangent.
    tanh;
    /// The inverse hyperbolic sine.
    asinh;
    /// The inverse hyperbolic cosine.
    acosh;
    /// The inverse hyperbolic tangent.
    atanh;
    /// `1 / (1 + exp(-x))`
    sigmoid;
}

unary! {
    RealFloating:
    /// The error function.
    erf;
    /// `1 - erf(x)`
    erfc;
}

elementwise! {
    /// The sine.
    pub fn sin<T: Floating>(x: T) -> T { T::down(x.up().sin_near::<I>()) }
    else if (x.up().is_far()) { T::down(x.up().sin::<I>()) }

    /// The cosine.
    pub fn cos<T: Floating>(x: T) -> T { T::down(x.up().cos_near::<I>()) }
    else if (x.up().is_far()) { T::down(x.up().cos::<I>()) }

    /// The tangent.
    pub fn tan<T: Floating>(x: T) -> T { T::down(x.up().tan_near::<I>()) }
    else if (x.up().is_far()) { T::down(x.up().tan::<I>()) }

    /// The angle of the point (`b`, `a`).
    pub fn atan2<T: RealFloating>(a: T, b: T) -> T { T::down(a.up().atan2::<I>(b.up())) }

    /// `sin(pi x) / (pi x)`, 1 at 0.
    pub fn sinc<T: Floating>(x: T) -> T {
        let scaled = x.up().mul(<T::Op as Math>::from_f64(std::f64::consts::PI));
        let ratio = scaled.sin::<I>().div(scaled);
        T::down(<T::Op as Arith>::ONE.or(scaled == <T::Op as Arith>::ZERO, ratio))
    }
}
