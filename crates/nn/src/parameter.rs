//! What modules hold: [`Parameter`], [`Buffer`], and the [`Training`] flag.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor_aten::arithmetic::{Right, RightOperand};
use tensor_aten::{Arg, Operand, Tensor, TensorOptions};
use tensor_core::Result;

/// A leaf tensor that is trained (`torch.nn.Parameter`).
#[derive(Clone)]
pub struct Parameter(Tensor);

impl Parameter {
    /// A parameter over the elements of a tensor, which requires a gradient.
    ///
    /// # Errors
    /// For dtypes without gradients.
    pub fn new(data: Tensor) -> Result<Self> {
        let data = data.detach()?;
        data.requires_grad_(true)?;
        Ok(Self(data))
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// The size of a dimension as modules print it: 0 where a caller's own parameter lacks the dimension.
    pub(crate) fn extent(&self, dim: usize) -> i64 {
        self.0.sizes().get(dim).copied().unwrap_or(0)
    }
}

/// A parameter whose elements are yet to be initialised.
pub(crate) fn empty(sizes: &[i64], options: TensorOptions) -> Result<Parameter> {
    Parameter::new(Tensor::empty(sizes, options)?)
}

/// A tensor that belongs to a module's state and is not trained (`register_buffer`).
#[derive(Clone)]
pub struct Buffer(Tensor);

impl Buffer {
    /// A buffer over the elements of a tensor.
    pub fn new(data: Tensor) -> Self {
        Self(data)
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

/// Stand where a tensor does.
macro_rules! tensors {
    ($($ty:ident)*) => { $(
        impl Deref for $ty {
            type Target = Tensor;
            fn deref(&self) -> &Tensor {
                &self.0
            }
        }
        impl AsRef<Tensor> for $ty {
            fn as_ref(&self) -> &Tensor {
                &self.0
            }
        }
        impl<'a> Operand<'a> for &'a $ty {
            fn into_arg(self) -> Result<Arg<'a>> {
                Ok(Arg::Ref(&self.0))
            }
        }
        impl<'a> RightOperand<'a> for &'a $ty {
            fn into_right(self) -> Result<Right<'a>> {
                (&self.0).into_right()
            }
        }
        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )* };
}
tensors!(Parameter Buffer);

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter containing:\n{}", self.0)
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a module trains or evaluates. Modules start training.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// The mode.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the mode; [`Module::train`](crate::Module::train) and [`eval`](crate::Module::eval) do it for whole modules.
    pub fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Training {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Clone for Training {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.get()))
    }
}
