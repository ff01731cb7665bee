//! Element-wise operators under second names, in and out of place.

use tensor_core::{Result, Scalar};

use crate::{Tensor, ops};

/// Functions that call others of the same arguments: `NAME(args) = OTHER, in place NAME_ = OTHER_;`.
macro_rules! aliases {
    ($($(#[$doc:meta])* $name:ident $args:tt = $other:ident $(, in place $name_:ident = $other_:ident)?;)*) => { $(
        aliases!(@fresh [$(#[$doc])*] $name $args $other);
        $(aliases!(@in_place $name_ $args $other_);)?
    )* };
    (@fresh [$($doc:tt)*] $name:ident ($($arg:ident: $ty:ty),*) $other:ident) => {
        $($doc)*
        pub fn $name($($arg: $ty),*) -> Result<Tensor> {
            ops::$other($($arg),*)
        }
    };
    (@in_place $name:ident ($($arg:ident: $ty:ty),*) $other:ident) => {
        /// In place.
        pub fn $name($($arg: $ty),*) -> Result<()> {
            ops::$other($($arg),*).map(drop)
        }
    };
}

aliases! {
    /// `abs`
    absolute(x: &Tensor) = abs, in place absolute_ = abs_;
    /// `acos`
    arccos(x: &Tensor) = acos, in place arccos_ = acos_;
    /// `acosh`
    arccosh(x: &Tensor) = acosh, in place arccosh_ = acosh_;
    /// `asinh`
    arcsinh(x: &Tensor) = asinh, in place arcsinh_ = asinh_;
    /// `atanh`
    arctanh(x: &Tensor) = atanh, in place arctanh_ = atanh_;
    /// `asin`
    arcsin(x: &Tensor) = asin, in place arcsin_ = asin_;
    /// `atan`
    arctan(x: &Tensor) = atan, in place arctan_ = atan_;
    /// `neg`
    negative(x: &Tensor) = neg, in place negative_ = neg_;
    /// `trunc`
    fix(x: &Tensor) = trunc, in place fix_ = trunc_;
    /// `atan2`
    arctan2(x: &Tensor, y: &Tensor) = atan2, in place arctan2_ = atan2_;
    /// `clamp`
    clip(x: &Tensor, min: Option<Scalar>, max: Option<Scalar>) = clamp, in place clip_ = clamp_;
    /// `clamp` by tensors
    clip_tensor(x: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) = clamp_tensor, in place clip_tensor_ = clamp_tensor_;
    /// `div`
    divide(x: &Tensor, y: &Tensor) = div, in place divide_ = div_;
    /// `div` by a number
    divide_scalar(x: &Tensor, y: Scalar) = div_scalar, in place divide_scalar_ = div_scalar_;
    /// `div`, rounded
    divide_tensor_mode(x: &Tensor, y: &Tensor, mode: Option<&str>) = div_tensor_mode, in place divide_tensor_mode_ = div_tensor_mode_;
    /// `div` by a number, rounded
    divide_scalar_mode(x: &Tensor, y: Scalar, mode: Option<&str>) = div_scalar_mode, in place divide_scalar_mode_ = div_scalar_mode_;
    /// `div`
    true_divide(x: &Tensor, y: &Tensor) = div, in place true_divide_ = div_;
    /// `mul`
    multiply(x: &Tensor, y: &Tensor) = mul, in place multiply_ = mul_;
    /// `mul` by a number
    multiply_scalar(x: &Tensor, y: Scalar) = mul_scalar, in place multiply_scalar_ = mul_scalar_;
    /// `sub`
    subtract(x: &Tensor, y: &Tensor, alpha: Scalar) = sub, in place subtract_ = sub_;
    /// `sub` of a number
    subtract_scalar(x: &Tensor, y: Scalar, alpha: Scalar) = sub_scalar, in place subtract_scalar_ = sub_scalar_;
    /// `ne`
    not_equal(x: &Tensor, y: &Tensor) = ne, in place not_equal_ = ne_;
    /// `ne` of a number
    not_equal_scalar(x: &Tensor, y: Scalar) = ne_scalar, in place not_equal_scalar_ = ne_scalar_;
    /// `ge`
    greater_equal(x: &Tensor, y: &Tensor) = ge, in place greater_equal_ = ge_;
    /// `ge` of a number
    greater_equal_scalar(x: &Tensor, y: Scalar) = ge_scalar, in place greater_equal_scalar_ = ge_scalar_;
    /// `le`
    less_equal(x: &Tensor, y: &Tensor) = le, in place less_equal_ = le_;
    /// `le` of a number
    less_equal_scalar(x: &Tensor, y: Scalar) = le_scalar, in place less_equal_scalar_ = le_scalar_;
    /// `gt`
    greater(x: &Tensor, y: &Tensor) = gt, in place greater_ = gt_;
    /// `gt` of a number
    greater_scalar(x: &Tensor, y: Scalar) = gt_scalar, in place greater_scalar_ = gt_scalar_;
    /// `lt`
    less(x: &Tensor, y: &Tensor) = lt, in place less_ = lt_;
    /// `lt` of a number
    less_scalar(x: &Tensor, y: Scalar) = lt_scalar, in place less_scalar_ = lt_scalar_;
    /// `bitwise_and`
    __and__(x: &Tensor, y: &Tensor) = bitwise_and;
    /// `bitwise_or`
    __or__(x: &Tensor, y: &Tensor) = bitwise_or;
    /// `bitwise_xor`
    __xor__(x: &Tensor, y: &Tensor) = bitwise_xor;
    /// `bitwise_left_shift`
    __lshift__(x: &Tensor, y: &Tensor) = bitwise_left_shift;
    /// `bitwise_right_shift`
    __rshift__(x: &Tensor, y: &Tensor) = bitwise_right_shift;
    /// `expm1`
    special_expm1(x: &Tensor) = expm1;
    /// `exp2`
    special_exp2(x: &Tensor) = exp2;
    /// `digamma`
    special_digamma(x: &Tensor) = digamma;
    /// `digamma`
    special_psi(x: &Tensor) = digamma;
    /// `lgamma`
    special_gammaln(x: &Tensor) = lgamma;
    /// `erf`
    special_erf(x: &Tensor) = erf;
    /// `erfc`
    special_erfc(x: &Tensor) = erfc;
    /// `erfinv`
    special_erfinv(x: &Tensor) = erfinv;
    /// `i0`
    special_i0(x: &Tensor) = i0;
    /// `sigmoid`
    special_expit(x: &Tensor) = sigmoid;
    /// `log1p`
    special_log1p(x: &Tensor) = log1p;
    /// `sinc`
    special_sinc(x: &Tensor) = sinc;
    /// `logit`
    special_logit(x: &Tensor, eps: Option<f64>) = logit;
    /// `logsumexp`
    special_logsumexp(x: &Tensor, dim: &[i64], keepdim: bool) = logsumexp;
    /// `round` to decimals
    special_round(x: &Tensor, decimals: i64) = round_decimals;
    /// `igamma`
    special_gammainc(x: &Tensor, y: &Tensor) = igamma;
    /// `igammac`
    special_gammaincc(x: &Tensor, y: &Tensor) = igammac;
    /// `xlogy`
    special_xlogy(x: &Tensor, y: &Tensor) = xlogy;
    /// `xlogy` of a number
    special_xlogy_self_scalar(x: Scalar, y: &Tensor) = xlogy_scalar_self;
    /// `xlogy` with a number
    special_xlogy_other_scalar(x: &Tensor, y: Scalar) = xlogy_scalar_other;
}

/// `polygamma`
pub fn special_polygamma(n: i64, self_: &Tensor) -> Result<Tensor> {
    ops::polygamma(n, self_)
}

/// The product of a tensor with itself.
pub fn square(self_: &Tensor) -> Result<Tensor> {
    ops::pow_tensor_scalar(self_, 2)
}

/// `square` in place.
pub fn square_(self_: &Tensor) -> Result<()> {
    ops::pow_scalar_(self_, 2).map(drop)
}
