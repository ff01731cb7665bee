//! Operators over lists of tensors: the plain ones, tensor by tensor.

use tensor_core::{DType, Result, Scalar, check};

use crate::{Tensor, ops};

fn check_some(list: &[&Tensor]) -> Result<()> {
    check!(!list.is_empty(), "Tensor list must have at least one tensor.");
    Ok(())
}

fn check_lists(list: &[&Tensor], others: &[&[&Tensor]]) -> Result<()> {
    check_some(list)?;
    for other in others {
        check!(
            list.len() == other.len(),
            "Tensor lists must have the same number of tensors, got {} and {}",
            list.len(),
            other.len()
        );
    }
    Ok(())
}

fn check_numbers(list: &[&Tensor], numbers: &[Scalar]) -> Result<()> {
    check_some(list)?;
    check!(list.len() == numbers.len(), "Tensor list must have same number of elements as scalar list.");
    Ok(())
}

/// Operators of one tensor.
macro_rules! unary {
    ($($name:ident = $op:ident, $name_:ident = $op_:ident;)*) => { $(
        /// Of each tensor.
        pub fn $name(self_: &[&Tensor]) -> Result<Vec<Tensor>> {
            check_some(self_)?;
            self_.iter().map(|x| ops::$op(x)).collect()
        }

        /// Of each tensor, in place.
        pub fn $name_(self_: &[&Tensor]) -> Result<()> {
            check_some(self_)?;
            self_.iter().try_for_each(|x| ops::$op_(x).map(drop))
        }
    )* };
}

unary! {
    _foreach_abs = abs, _foreach_abs_ = abs_;
    _foreach_acos = acos, _foreach_acos_ = acos_;
    _foreach_asin = asin, _foreach_asin_ = asin_;
    _foreach_atan = atan, _foreach_atan_ = atan_;
    _foreach_ceil = ceil, _foreach_ceil_ = ceil_;
    _foreach_cos = cos, _foreach_cos_ = cos_;
    _foreach_cosh = cosh, _foreach_cosh_ = cosh_;
    _foreach_erf = erf, _foreach_erf_ = erf_;
    _foreach_erfc = erfc, _foreach_erfc_ = erfc_;
    _foreach_exp = exp, _foreach_exp_ = exp_;
    _foreach_expm1 = expm1, _foreach_expm1_ = expm1_;
    _foreach_floor = floor, _foreach_floor_ = floor_;
    _foreach_frac = frac, _foreach_frac_ = frac_;
    _foreach_lgamma = lgamma, _foreach_lgamma_ = lgamma_;
    _foreach_log = log, _foreach_log_ = log_;
    _foreach_log10 = log10, _foreach_log10_ = log10_;
    _foreach_log1p = log1p, _foreach_log1p_ = log1p_;
    _foreach_log2 = log2, _foreach_log2_ = log2_;
    _foreach_neg = neg, _foreach_neg_ = neg_;
    _foreach_reciprocal = reciprocal, _foreach_reciprocal_ = reciprocal_;
    _foreach_round = round, _foreach_round_ = round_;
    _foreach_rsqrt = rsqrt, _foreach_rsqrt_ = rsqrt_;
    _foreach_sigmoid = sigmoid, _foreach_sigmoid_ = sigmoid_;
    _foreach_sign = sign, _foreach_sign_ = sign_;
    _foreach_sin = sin, _foreach_sin_ = sin_;
    _foreach_sinh = sinh, _foreach_sinh_ = sinh_;
    _foreach_sqrt = sqrt, _foreach_sqrt_ = sqrt_;
    _foreach_tan = tan, _foreach_tan_ = tan_;
    _foreach_tanh = tanh, _foreach_tanh_ = tanh_;
    _foreach_trunc = trunc, _foreach_trunc_ = trunc_;
}

/// Operators of a tensor and a number, one for all tensors or one each.
macro_rules! with_number {
    ($($one:ident, $one_:ident, $many:ident, $many_:ident = |$x:ident, $y:ident| $op:expr, $op_:expr;)*) => { $(
        /// Of each tensor and a number.
        pub fn $one(self_: &[&Tensor], $y: Scalar) -> Result<Vec<Tensor>> {
            check_some(self_)?;
            self_.iter().map(|$x| $op).collect()
        }

        /// Of each tensor and a number, in place.
        pub fn $one_(self_: &[&Tensor], $y: Scalar) -> Result<()> {
            check_some(self_)?;
            self_.iter().try_for_each(|$x| $op_.map(drop))
        }

        /// Of tensors and numbers.
        pub fn $many(self_: &[&Tensor], numbers: &[Scalar]) -> Result<Vec<Tensor>> {
            check_numbers(self_, numbers)?;
            self_.iter().zip(numbers).map(|($x, &$y)| $op).collect()
        }

        /// Of tensors and numbers, in place.
        pub fn $many_(self_: &[&Tensor], numbers: &[Scalar]) -> Result<()> {
            check_numbers(self_, numbers)?;
            self_.iter().zip(numbers).try_for_each(|($x, &$y)| $op_.map(drop))
        }
    )* };
}

with_number! {
    _foreach_add_scalar, _foreach_add_scalar_, _foreach_add_scalar_list, _foreach_add_scalar_list_ =
        |x, y| ops::add_scalar(x, y, 1), ops::add_scalar_(x, y, 1);
    _foreach_sub_scalar, _foreach_sub_scalar_, _foreach_sub_scalar_list, _foreach_sub_scalar_list_ =
        |x, y| ops::sub_scalar(x, y, 1), ops::sub_scalar_(x, y, 1);
    _foreach_mul_scalar, _foreach_mul_scalar_, _foreach_mul_scalar_list, _foreach_mul_scalar_list_ =
        |x, y| ops::mul_scalar(x, y), ops::mul_scalar_(x, y);
    _foreach_div_scalar, _foreach_div_scalar_, _foreach_div_scalar_list, _foreach_div_scalar_list_ =
        |x, y| ops::div_scalar(x, y), ops::div_scalar_(x, y);
    _foreach_clamp_min_scalar, _foreach_clamp_min_scalar_, _foreach_clamp_min_scalar_list, _foreach_clamp_min_scalar_list_ =
        |x, y| ops::clamp_min(x, y), ops::clamp_min_(x, y);
    _foreach_clamp_max_scalar, _foreach_clamp_max_scalar_, _foreach_clamp_max_scalar_list, _foreach_clamp_max_scalar_list_ =
        |x, y| ops::clamp_max(x, y), ops::clamp_max_(x, y);
    _foreach_maximum_scalar, _foreach_maximum_scalar_, _foreach_maximum_scalar_list, _foreach_maximum_scalar_list_ =
        |x, y| ops::clamp_min(x, y), ops::clamp_min_(x, y);
    _foreach_minimum_scalar, _foreach_minimum_scalar_, _foreach_minimum_scalar_list, _foreach_minimum_scalar_list_ =
        |x, y| ops::clamp_max(x, y), ops::clamp_max_(x, y);
    _foreach_pow_scalar, _foreach_pow_scalar_, _foreach_pow_scalar_list, _foreach_pow_scalar_list_ =
        |x, y| ops::pow_tensor_scalar(x, y), ops::pow_scalar_(x, y);
}

/// Operators of the tensors of two lists.
macro_rules! with_list {
    ($($name:ident, $name_:ident = |$x:ident, $y:ident| $op:expr, $op_:expr;)*) => { $(
        /// Of the tensors of two lists.
        pub fn $name(self_: &[&Tensor], other: &[&Tensor]) -> Result<Vec<Tensor>> {
            check_lists(self_, &[other])?;
            self_.iter().zip(other).map(|($x, $y)| $op).collect()
        }

        /// Of the tensors of two lists, in place of the first.
        pub fn $name_(self_: &[&Tensor], other: &[&Tensor]) -> Result<()> {
            check_lists(self_, &[other])?;
            self_.iter().zip(other).try_for_each(|($x, $y)| $op_.map(drop))
        }
    )* };
}

with_list! {
    _foreach_mul_list, _foreach_mul_list_ = |x, y| ops::mul(x, y), ops::mul_(x, y);
    _foreach_div_list, _foreach_div_list_ = |x, y| ops::div(x, y), ops::div_(x, y);
    _foreach_clamp_min_list, _foreach_clamp_min_list_ = |x, y| ops::maximum(x, y), ops::clamp_min_tensor_(x, y);
    _foreach_clamp_max_list, _foreach_clamp_max_list_ = |x, y| ops::minimum(x, y), ops::clamp_max_tensor_(x, y);
    _foreach_maximum_list, _foreach_maximum_list_ = |x, y| ops::maximum(x, y), ops::clamp_min_tensor_(x, y);
    _foreach_minimum_list, _foreach_minimum_list_ = |x, y| ops::minimum(x, y), ops::clamp_max_tensor_(x, y);
    _foreach_pow_list, _foreach_pow_list_ = |x, y| ops::pow_tensor_tensor(x, y), ops::pow_(x, y);
}

/// Sums and differences of the tensors of two lists, the second times a number.
macro_rules! with_alpha {
    ($($name:ident = $op:ident, $name_:ident = $op_:ident;)*) => { $(
        /// Of the tensors of two lists.
        pub fn $name(self_: &[&Tensor], other: &[&Tensor], alpha: Scalar) -> Result<Vec<Tensor>> {
            check_lists(self_, &[other])?;
            self_.iter().zip(other).map(|(x, y)| ops::$op(x, y, alpha)).collect()
        }

        /// Of the tensors of two lists, in place of the first.
        pub fn $name_(self_: &[&Tensor], other: &[&Tensor], alpha: Scalar) -> Result<()> {
            check_lists(self_, &[other])?;
            self_.iter().zip(other).try_for_each(|(x, y)| ops::$op_(x, y, alpha).map(drop))
        }
    )* };
}

with_alpha! {
    _foreach_add_list = add, _foreach_add_list_ = add_;
    _foreach_sub_list = sub, _foreach_sub_list_ = sub_;
}

fn check_single(other: &Tensor) -> Result<()> {
    check!(
        other.dim() == 0 && other.numel() == 1,
        "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
        other.dim(),
        other.numel()
    );
    Ok(())
}

/// Operators of each tensor and one of one element.
macro_rules! with_single {
    ($($name:ident = $op:ident, $name_:ident = $op_:ident $(, $alpha:ident)?;)*) => { $(
        /// Of each tensor and one of one element.
        pub fn $name(self_: &[&Tensor], other: &Tensor $(, $alpha: Scalar)?) -> Result<Vec<Tensor>> {
            check_single(other)?;
            self_.iter().map(|x| ops::$op(x, other $(, $alpha)?)).collect()
        }

        /// Of each tensor and one of one element, in place.
        pub fn $name_(self_: &[&Tensor], other: &Tensor $(, $alpha: Scalar)?) -> Result<()> {
            check_single(other)?;
            self_.iter().try_for_each(|x| ops::$op_(x, other $(, $alpha)?).map(drop))
        }
    )* };
}

with_single! {
    _foreach_add = add, _foreach_add_ = add_, alpha;
    _foreach_mul = mul, _foreach_mul_ = mul_;
    _foreach_div = div, _foreach_div_ = div_;
}

/// A number to the power of each tensor.
pub fn _foreach_pow_scalar_and_tensor(self_: Scalar, exponent: &[&Tensor]) -> Result<Vec<Tensor>> {
    check_some(exponent)?;
    exponent.iter().map(|y| ops::pow_scalar(self_, y)).collect()
}

/// The numbers of a 1-d tensor.
fn numbers(scalars: &Tensor, count: usize) -> Result<Vec<Scalar>> {
    check!(scalars.dim() == 1, "Expected packed scalar Tensor to be of dimension 1. Got {} instead.", scalars.dim());
    check!(
        scalars.numel() as usize == count,
        "Expected length of scalars to match input of length {count} but got {} instead.",
        scalars.numel()
    );
    if scalars.is_meta() {
        return Ok(vec![Scalar::Int(1); count]);
    }
    (0..scalars.numel()).map(|i| ops::item(&ops::select_int(scalars, 0, i)?)).collect()
}

/// Operators of the tensors of three lists and a number.
macro_rules! fused {
    ($($op:ident, $op_:ident: $one:ident, $one_:ident, $many:ident, $many_:ident, $packed:ident, $packed_:ident;)*) => { $(
        /// With one number.
        pub fn $one(self_: &[&Tensor], tensor1: &[&Tensor], tensor2: &[&Tensor], value: Scalar) -> Result<Vec<Tensor>> {
            check_lists(self_, &[tensor1, tensor2])?;
            (0..self_.len()).map(|i| ops::$op(self_[i], tensor1[i], tensor2[i], value)).collect()
        }

        /// With one number, in place.
        pub fn $one_(self_: &[&Tensor], tensor1: &[&Tensor], tensor2: &[&Tensor], value: Scalar) -> Result<()> {
            check_lists(self_, &[tensor1, tensor2])?;
            (0..self_.len()).try_for_each(|i| ops::$op_(self_[i], tensor1[i], tensor2[i], value).map(drop))
        }

        /// With a number each.
        pub fn $many(
            self_: &[&Tensor],
            tensor1: &[&Tensor],
            tensor2: &[&Tensor],
            scalars: &[Scalar],
        ) -> Result<Vec<Tensor>> {
            check_numbers(self_, scalars)?;
            check_lists(self_, &[tensor1, tensor2])?;
            (0..self_.len()).map(|i| ops::$op(self_[i], tensor1[i], tensor2[i], scalars[i])).collect()
        }

        /// With a number each, in place.
        pub fn $many_(
            self_: &[&Tensor],
            tensor1: &[&Tensor],
            tensor2: &[&Tensor],
            scalars: &[Scalar],
        ) -> Result<()> {
            check_numbers(self_, scalars)?;
            check_lists(self_, &[tensor1, tensor2])?;
            (0..self_.len()).try_for_each(|i| ops::$op_(self_[i], tensor1[i], tensor2[i], scalars[i]).map(drop))
        }

        /// With the numbers of a tensor.
        pub fn $packed(
            self_: &[&Tensor],
            tensor1: &[&Tensor],
            tensor2: &[&Tensor],
            scalars: &Tensor,
        ) -> Result<Vec<Tensor>> {
            $many(self_, tensor1, tensor2, &numbers(scalars, self_.len())?)
        }

        /// With the numbers of a tensor, in place.
        pub fn $packed_(self_: &[&Tensor], tensor1: &[&Tensor], tensor2: &[&Tensor], scalars: &Tensor) -> Result<()> {
            $many_(self_, tensor1, tensor2, &numbers(scalars, self_.len())?)
        }
    )* };
}

fused! {
    addcmul, addcmul_: _foreach_addcmul_scalar, _foreach_addcmul_scalar_, _foreach_addcmul_scalar_list,
        _foreach_addcmul_scalar_list_, _foreach_addcmul, _foreach_addcmul_;
    addcdiv, addcdiv_: _foreach_addcdiv_scalar, _foreach_addcdiv_scalar_, _foreach_addcdiv_scalar_list,
        _foreach_addcdiv_scalar_list_, _foreach_addcdiv, _foreach_addcdiv_;
}

/// From the tensors of one list to those of another, by weights.
pub fn _foreach_lerp_list(self_: &[&Tensor], tensors1: &[&Tensor], weights: &[&Tensor]) -> Result<Vec<Tensor>> {
    check_lists(self_, &[tensors1, weights])?;
    (0..self_.len()).map(|i| ops::lerp(self_[i], tensors1[i], weights[i])).collect()
}

/// `_foreach_lerp.List` in place.
pub fn _foreach_lerp_list_(self_: &[&Tensor], tensors1: &[&Tensor], weights: &[&Tensor]) -> Result<()> {
    check_lists(self_, &[tensors1, weights])?;
    (0..self_.len()).try_for_each(|i| ops::lerp_(self_[i], tensors1[i], weights[i]).map(drop))
}

/// From the tensors of one list to those of another, by a number.
pub fn _foreach_lerp_scalar(self_: &[&Tensor], tensors1: &[&Tensor], weight: Scalar) -> Result<Vec<Tensor>> {
    check_lists(self_, &[tensors1])?;
    self_.iter().zip(tensors1).map(|(x, y)| ops::lerp_scalar(x, y, weight)).collect()
}

/// `_foreach_lerp.Scalar` in place.
pub fn _foreach_lerp_scalar_(self_: &[&Tensor], tensors1: &[&Tensor], weight: Scalar) -> Result<()> {
    check_lists(self_, &[tensors1])?;
    self_.iter().zip(tensors1).try_for_each(|(x, y)| ops::lerp_scalar_(x, y, weight).map(drop))
}

/// The `ord`-norm of each tensor.
pub fn _foreach_norm_scalar(self_: &[&Tensor], ord: Scalar, dtype: Option<DType>) -> Result<Vec<Tensor>> {
    check_some(self_)?;
    self_.iter().map(|x| ops::linalg_vector_norm(x, ord, None, false, dtype)).collect()
}

/// Zeros in each tensor.
pub fn _foreach_zero_(self_: &[&Tensor]) -> Result<()> {
    check_some(self_)?;
    self_.iter().try_for_each(|x| ops::zero_(x).map(drop))
}

/// Copies the tensors of one list to those of another.
pub fn _foreach_copy_(self_: &[&Tensor], src: &[&Tensor], non_blocking: bool) -> Result<()> {
    check_lists(self_, &[src])?;
    self_.iter().zip(src).try_for_each(|(x, y)| ops::copy_(x, y, non_blocking).map(drop))
}
