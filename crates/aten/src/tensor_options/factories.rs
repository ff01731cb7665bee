//! `Tensor::zeros`, `Tensor::rand`, `x.ones_like()` and the other makers of tensors, over the operators of those names.

use tensor_core::{DType, Result, Scalar};

use super::TensorOptions;
use crate::{Tensor, ops};

/// Factories: `name(arguments) = operator(arguments);`, with the options last.
macro_rules! factories {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $op:ident($($pass:expr),*) $(, $dtype:expr)?;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// As the operator; and for gradients of dtypes that have none.
        pub fn $name($($arg: $ty,)* options: impl Into<TensorOptions>) -> Result<Tensor> {
            let options: TensorOptions = options.into();
            let dtype = options.dtype$(.or(Some($dtype)))?;
            options.finish(ops::$op($($pass,)* dtype, options.layout, options.device, None)?)
        }
    )* };
}

impl Tensor {
    factories! {
        /// Zeros (`torch.zeros`).
        zeros(size: &[i64]) = zeros(size);
        /// Ones (`torch.ones`).
        ones(size: &[i64]) = ones(size);
        /// One value everywhere, whose category decides the default dtype (`torch.full`).
        full(size: &[i64], value: impl Into<Scalar>) = full(size, value);
        /// Uniform on `[0, 1)`, from the default generator (`torch.rand`).
        rand(size: &[i64]) = rand(size);
        /// Standard normal, from the default generator (`torch.randn`).
        randn(size: &[i64]) = randn(size);
        /// Uniform integers of `low..high`, int64 by default (`torch.randint`).
        randint(low: i64, high: i64, size: &[i64]) = randint_low(low, high, size), DType::I64;
        /// A random order of `0..n`, int64 by default (`torch.randperm`).
        randperm(n: i64) = randperm(n), DType::I64;
        /// `0, 1, ..` below `end`; int64 for an integer (`torch.arange(end)`).
        arange(end: impl Into<Scalar>) = arange(end);
        /// `start, start + step, ..` before `end`; int64 for integers (`torch.arange(start, end, step)`).
        arange_step(start: impl Into<Scalar>, end: impl Into<Scalar>, step: impl Into<Scalar>)
            = arange_start_step(start, end, step);
        /// `steps` numbers from `start` to `end`, both included (`torch.linspace`).
        linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: i64) = linspace(start, end, steps);
        /// Ones on the diagonal of an `n` by `n` matrix (`torch.eye`).
        eye(n: i64) = eye(n);
        /// Ones on the diagonal of an `n` by `m` matrix (`torch.eye(n, m)`).
        eye_m(n: i64, m: i64) = eye_m(n, m);
    }

    /// Elements of no particular value (`torch.empty`).
    ///
    /// # Errors
    /// As the operator; and for gradients of dtypes that have none.
    pub fn empty(size: &[i64], options: impl Into<TensorOptions>) -> Result<Tensor> {
        let options: TensorOptions = options.into();
        let format = options.memory_format;
        options.finish(ops::empty_memory_format(size, options.dtype, options.layout, options.device, None, format)?)
    }

    /// Zeros of this tensor's shape, dtype, device and order in memory (`torch.zeros_like`).
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn zeros_like(&self) -> Result<Tensor> {
        ops::zeros_like(self, None, None, None, None, None)
    }

    /// Ones of this tensor's shape, dtype, device and order in memory (`torch.ones_like`).
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn ones_like(&self) -> Result<Tensor> {
        ops::ones_like(self, None, None, None, None, None)
    }

    /// One value in this tensor's shape, dtype, device and order in memory (`torch.full_like`).
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        ops::full_like(self, value, None, None, None, None, None)
    }

    /// Elements of no particular value in this tensor's shape, dtype, device and order in memory (`torch.empty_like`).
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn empty_like(&self) -> Result<Tensor> {
        ops::empty_like(self, None, None, None, None, None)
    }

    /// Uniform on `[0, 1)` in this tensor's shape, dtype, device and order in memory (`torch.rand_like`).
    ///
    /// # Errors
    /// For dtypes that are not floating.
    pub fn rand_like(&self) -> Result<Tensor> {
        ops::rand_like(self, None, None, None, None, None)
    }

    /// Standard normal in this tensor's shape, dtype, device and order in memory (`torch.randn_like`).
    ///
    /// # Errors
    /// For dtypes that are not floating.
    pub fn randn_like(&self) -> Result<Tensor> {
        ops::randn_like(self, None, None, None, None, None)
    }
}
