//! [`Operand`]: what stands where a method takes a tensor: a tensor, a reference, or the result of another call.

use std::ops::Deref;

use tensor_core::Result;

use crate::Tensor;

/// A tensor argument, borrowed or owned.
pub enum Arg<'a> {
    /// borrowed
    Ref(&'a Tensor),
    /// owned
    Owned(Tensor),
}

impl Deref for Arg<'_> {
    type Target = Tensor;
    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            Self::Ref(tensor) => tensor,
            Self::Owned(tensor) => tensor,
        }
    }
}

/// `&Tensor`, `Tensor` and `Result<Tensor>`, so that `x.matmul(w.t())?` needs no inner `?`.
pub trait Operand<'a> {
    /// The tensor, or the error that stood in its place.
    ///
    /// # Errors
    /// The error of a failed call.
    fn into_arg(self) -> Result<Arg<'a>>;
}

impl<'a> Operand<'a> for &'a Tensor {
    #[inline]
    fn into_arg(self) -> Result<Arg<'a>> {
        Ok(Arg::Ref(self))
    }
}
impl<'a> Operand<'a> for Tensor {
    #[inline]
    fn into_arg(self) -> Result<Arg<'a>> {
        Ok(Arg::Owned(self))
    }
}
impl<'a> Operand<'a> for Result<Tensor> {
    #[inline]
    fn into_arg(self) -> Result<Arg<'a>> {
        self.map(Arg::Owned)
    }
}
impl<'a> Operand<'a> for &'a Arg<'_> {
    #[inline]
    fn into_arg(self) -> Result<Arg<'a>> {
        Ok(Arg::Ref(self))
    }
}
