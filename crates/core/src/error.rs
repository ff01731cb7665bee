//! The one error type. Its kinds are PyTorch's exception classes, its texts PyTorch's texts.
//!
//! The `check!` family of macros is `TORCH_CHECK`: it returns an [`Error`] from the enclosing function when a condition
//! fails. Nothing in this library panics on bad input.

use std::fmt;

/// What every fallible call of this library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`], named as the Python exception that PyTorch raises in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `RuntimeError`
    Runtime,
    /// `ValueError`
    Value,
    /// `IndexError`
    Index,
    /// `TypeError`
    Type,
    /// `NotImplementedError`
    NotImplemented,
    /// `torch.linalg.LinAlgError`
    LinAlg,
    /// `torch.OutOfMemoryError`
    OutOfMemory,
}

impl ErrorKind {
    /// The name of PyTorch's exception class, `"IndexError"` for [`ErrorKind::Index`].
    pub const fn exception(self) -> &'static str {
        match self {
            Self::Runtime => "RuntimeError",
            Self::Value => "ValueError",
            Self::Index => "IndexError",
            Self::Type => "TypeError",
            Self::NotImplemented => "NotImplementedError",
            Self::LinAlg => "_LinAlgError",
            Self::OutOfMemory => "OutOfMemoryError",
        }
    }
}

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
}

/// A failed call: a kind and PyTorch's message. One pointer wide.
#[derive(Clone)]
pub struct Error(Box<Inner>);

impl Error {
    /// An error of the given kind.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into() }))
    }

    /// A `RuntimeError`.
    #[cold]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Runtime, message)
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message, as PyTorch words it.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.exception(), self.0.message)
    }
}

impl std::error::Error for Error {}

/// Returns an [`Error`] of a kind from the enclosing function: `bail!(Index, "index {i} is out of bounds")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($arg:tt)+) => {
        return ::std::result::Result::Err($crate::Error::new($crate::ErrorKind::$kind, ::std::format!($($arg)+)))
    };
}

/// `TORCH_CHECK`: returns a `RuntimeError` from the enclosing function unless the condition holds.
///
/// ```
/// # use tensor_core::{check, Result};
/// fn first(dims: usize) -> Result<()> {
///     check!(dims == 1, "Expected 1-D tensor, got {dims}-D tensor");
///     Ok(())
/// }
/// assert_eq!(first(2).unwrap_err().message(), "Expected 1-D tensor, got 2-D tensor");
/// ```
#[macro_export]
macro_rules! check {
    ($cond:expr, $($arg:tt)+) => { if !$cond { $crate::bail!(Runtime, $($arg)+) } };
}

/// `TORCH_CHECK_VALUE`: a `ValueError` unless the condition holds.
#[macro_export]
macro_rules! check_value {
    ($cond:expr, $($arg:tt)+) => { if !$cond { $crate::bail!(Value, $($arg)+) } };
}

/// `TORCH_CHECK_INDEX`: an `IndexError` unless the condition holds.
#[macro_export]
macro_rules! check_index {
    ($cond:expr, $($arg:tt)+) => { if !$cond { $crate::bail!(Index, $($arg)+) } };
}

/// `TORCH_CHECK_TYPE`: a `TypeError` unless the condition holds.
#[macro_export]
macro_rules! check_type {
    ($cond:expr, $($arg:tt)+) => { if !$cond { $crate::bail!(Type, $($arg)+) } };
}

/// `TORCH_CHECK_NOT_IMPLEMENTED`: a `NotImplementedError` unless the condition holds.
#[macro_export]
macro_rules! check_not_implemented {
    ($cond:expr, $($arg:tt)+) => { if !$cond { $crate::bail!(NotImplemented, $($arg)+) } };
}
