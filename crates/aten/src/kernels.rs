//! Tables of backend kernels: a struct a family (generated), a column a dtype. Backends submit them; operators look up.

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Device, Error, ErrorKind, Result, Scalar};

use crate::Tensor;

/// A kernel that fills the outputs of a planned iterator.
pub type IterKernel = fn(&TensorIter) -> Result<()>;

/// One kernel for each dtype that has it.
#[derive(Clone, Copy)]
pub struct Columns<K: 'static>(pub [Option<K>; DType::COUNT]);

impl<K: Copy> Columns<K> {
    /// A kernel that no dtype has.
    pub const NONE: Self = Self([None; DType::COUNT]);

    /// The dtypes that have one.
    pub fn dtypes(&self) -> Vec<DType> {
        DType::ALL.into_iter().filter(|dtype| self.0[dtype.index()].is_some()).collect()
    }

    /// The kernel of a dtype; `name` is what upstream's error calls it.
    ///
    /// # Errors
    /// `NotImplemented`: `"add_stub" not implemented for 'Bool'`.
    #[inline]
    pub fn get(&self, dtype: DType, name: &str) -> Result<K> {
        match self.0[dtype.index()] {
            Some(kernel) => Ok(kernel),
            None => Err(not_implemented(name, dtype)),
        }
    }
}

#[cold]
fn not_implemented(name: &str, dtype: DType) -> Error {
    Error::new(ErrorKind::NotImplemented, format!("\"{name}\" not implemented for '{}'", dtype.cpp_name()))
}

/// The error of a family's table that no linked backend brings.
#[cold]
pub fn no_table(family: &str, device: Device) -> Error {
    Error::new(
        ErrorKind::NotImplemented,
        format!("no linked backend has the '{family}' kernels for device '{device}': enable it in the crate `tensor`"),
    )
}

/// `out = beta * out + alpha * a @ b` over matrices of any strides; with `beta` 0 the old elements do not matter.
pub type GemmKernel =
    fn(out: &Tensor, a: &Tensor, b: &Tensor, alpha: Scalar, beta: Scalar) -> Result<()>;

/// Reduces the middle dimension of a contiguous `x` (A, R, B) into a dense `out` of A x B elements.
pub type ReduceKernel = fn(out: &Tensor, x: &Tensor) -> Result<()>;

/// A [`ReduceKernel`] with a number: the correction of a variance, the order of a norm.
pub type ReduceWithKernel = fn(out: &Tensor, x: &Tensor, number: f64) -> Result<()>;

/// A [`ReduceKernel`] with two results: a selected element of each lane, and its index.
pub type SelectingKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()>;

/// Runs along the middle dimension of a contiguous `x` (A, R, B); `out` has the same shape.
pub type ScanKernel = fn(out: &Tensor, x: &Tensor) -> Result<()>;

pub use crate::generated::kernels::*;
