//! `+ - * / % & | ^ << >>`, negation and `!` on tensors, as results of operators: `(&x * &w + &b)?`. The operators are in `ops`.
//!
//! The left operand is a tensor, an `f64` or `i64` before a tensor, or a `Result<Tensor>` before a tensor; the right one
//! is whatever [`RightOperand`] says. Put `?` after a left operand that is a result when a number or another result
//! follows, or when it is negated: `(x.pow(2.0)? * 3.0 - &y)?`, `((&a + &b)? * (&c + &d))?`.
//!
//! Numbers do what they do in Python: they are wrapped in a tensor that brings its category alone to type promotion.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use tensor_core::{Complex, Result, Scalar, bf16, f16};

use crate::{Arg, Operand, Tensor, ops};

/// What stands on the right of an operator.
pub enum Right<'a> {
    /// a tensor
    Tensor(Arg<'a>),
    /// a number
    Number(Scalar),
}

/// Tensors, results of operators, and numbers: what an operator takes on its right.
pub trait RightOperand<'a> {
    /// The operand, or the error that stood in its place.
    ///
    /// # Errors
    /// The error of a failed call.
    fn into_right(self) -> Result<Right<'a>>;

    /// Calls an operator with the operand; a number is wrapped, as one that stands beside `left`.
    ///
    /// # Errors
    /// As [`RightOperand::into_right`], and those of the operator.
    #[inline]
    fn beside(self, left: &Tensor, call: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor>
    where
        Self: Sized,
    {
        match self.into_right()? {
            Right::Tensor(tensor) => call(&tensor),
            Right::Number(number) => call(&Tensor::wrapped_number_beside(number, left)?),
        }
    }
}

macro_rules! right_tensors {
    ($($ty:ty),*) => { $(
        impl<'a> RightOperand<'a> for $ty {
            #[inline]
            fn into_right(self) -> Result<Right<'a>> { self.into_arg().map(Right::Tensor) }
        }
    )* };
}
right_tensors!(&'a Tensor, Tensor, Result<Tensor>);

macro_rules! right_numbers {
    ($($ty:ty),*) => { $(
        impl<'a> RightOperand<'a> for $ty {
            #[inline]
            fn into_right(self) -> Result<Right<'a>> { Ok(Right::Number(self.into())) }
        }
    )* };
}
right_numbers!(Scalar, bool, f64, f32, f16, bf16, i64, i32, i16, i8, usize, u32, u16, u8, Complex<f64>, Complex<f32>);

/// Operators of two operands: `Trait method(left, right) = result;`.
macro_rules! binary {
    ($($trait:ident $method:ident($left:ident, $right:ident) = $body:expr;)*) => { $(
        impl<'r, R: RightOperand<'r>> $trait<R> for &Tensor {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: R) -> Result<Tensor> {
                let $left = self;
                right.beside($left, |$right| $body)
            }
        }

        impl<'r, R: RightOperand<'r>> $trait<R> for Tensor {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: R) -> Result<Tensor> { $trait::$method(&self, right) }
        }

        impl $trait<&Tensor> for Result<Tensor> {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: &Tensor) -> Result<Tensor> { $trait::$method(&self?, right) }
        }

        impl $trait<Tensor> for Result<Tensor> {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: Tensor) -> Result<Tensor> { $trait::$method(&self?, right) }
        }
    )* };
}

binary! {
    Add add(a, b) = ops::add(a, b, 1);
    Sub sub(a, b) = ops::sub(a, b, 1);
    Mul mul(a, b) = ops::mul(a, b);
    Div div(a, b) = ops::div(a, b);
    Rem rem(a, b) = ops::remainder(a, b);
    BitAnd bitand(a, b) = ops::bitwise_and(a, b);
    BitOr bitor(a, b) = ops::bitwise_or(a, b);
    BitXor bitxor(a, b) = ops::bitwise_xor(a, b);
    Shl shl(a, b) = ops::bitwise_left_shift(a, b);
    Shr shr(a, b) = ops::bitwise_right_shift(a, b);
}

/// Operators of a number and a tensor.
macro_rules! left_numbers {
    ($trait:ident $method:ident: $($number:ty),* => |$left:ident, $right:ident| $body:expr) => { $(
        impl $trait<&Tensor> for $number {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: &Tensor) -> Result<Tensor> {
                let ($left, $right) = (self, right);
                $body
            }
        }

        impl $trait<Tensor> for $number {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self, right: Tensor) -> Result<Tensor> { self.$method(&right) }
        }
    )* };
}

left_numbers!(Add add: f64, i64 => |a, b| b + a);
left_numbers!(Sub sub: f64, i64 => |a, b| ops::rsub_scalar(b, a, 1));
left_numbers!(Mul mul: f64, i64 => |a, b| b * a);
left_numbers!(Div div: f64, i64 => |a, b| ops::mul(&ops::reciprocal(b)?, &Tensor::wrapped_number_beside(a, b)?));

/// Operators of one operand.
macro_rules! unary {
    ($($trait:ident $method:ident = $op:path;)*) => { $(
        impl $trait for &Tensor {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self) -> Result<Tensor> { $op(self) }
        }

        impl $trait for Tensor {
            type Output = Result<Tensor>;
            #[inline]
            fn $method(self) -> Result<Tensor> { $op(&self) }
        }
    )* };
}

unary! {
    Neg neg = ops::neg;
    Not not = ops::bitwise_not;
}
