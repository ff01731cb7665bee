//! Type promotion: the dtype that operands of different dtypes meet in, and the process's default dtype.
//!
//! Broadcasting of shapes is in [`crate::strides`], conversion of elements in the kernels.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::dtype::Category;
use crate::{DType, Result, Scalar, TensorImpl, check_type};

/// `PROMOTED[a.index()][b.index()]`, filled from [`promote`] at compile time.
const PROMOTED: [[DType; DType::COUNT]; DType::COUNT] = {
    let mut table = [[DType::Bool; DType::COUNT]; DType::COUNT];
    let mut a = 0;
    while a < DType::COUNT {
        let mut b = 0;
        while b < DType::COUNT {
            table[a][b] = promote(DType::ALL[a], DType::ALL[b]);
            b += 1;
        }
        a += 1;
    }
    table
};

/// The smallest dtype of the higher category that holds both.
#[inline]
const fn promote(a: DType, b: DType) -> DType {
    if a.category() as u8 > b.category() as u8 {
        return promote(b, a);
    }
    let wider = if a.itemsize() > b.itemsize() { a } else { b };
    match (a, b) {
        _ if a as u8 == b as u8 => a,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        (_, DType::C32 | DType::BC32) if a.category() as u8 >= Category::Float as u8 => {
            promote(a.to_real(), b.to_real()).to_complex()
        }
        (DType::C32 | DType::BC32, _) => b,
        (DType::F64 | DType::C128, DType::C64) => DType::C128,
        _ if a.category() as u8 == b.category() as u8 => wider,
        _ => b,
    }
}

/// The dtype that two dtypes promote to (`torch.promote_types`).
///
/// ```
/// use tensor_core::{DType, promotion::promote_types};
/// assert_eq!(promote_types(DType::I64, DType::F16), DType::F16);
/// ```
#[inline]
pub const fn promote_types(a: DType, b: DType) -> DType {
    PROMOTED[a.index()][b.index()]
}

/// True if a result may be written to an output of dtype `to` (`torch.can_cast`): no step down a category.
#[inline]
pub const fn can_cast(from: DType, to: DType) -> bool {
    from.category() as u8 <= to.category() as u8
}

/// Collects operands and says what dtype their result has (`torch.result_type`, for any number of operands).
///
/// Tensors with dimensions decide; 0-dim tensors, and after them numbers, count only where their category is higher.
/// A number counts as the default dtype of its category.
///
/// ```
/// use tensor_core::{DType, Scalar, promotion::ResultType};
/// let sum = ResultType::default().dtype_of(DType::I32, 2, false).scalar(Scalar::Float(0.5));
/// assert_eq!(sum.finish(), DType::F32);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultType {
    dim: Option<DType>,
    zero_dim: Option<DType>,
    wrapped: Option<DType>,
}

impl ResultType {
    /// Counts a tensor in.
    #[inline]
    #[must_use]
    pub fn tensor(self, tensor: &TensorImpl) -> Self {
        let metadata = tensor.metadata();
        self.dtype_of(metadata.dtype, metadata.sizes.len(), tensor.is_wrapped_number())
    }

    /// Counts a tensor of `dim` dimensions in, which may be a wrapped number.
    #[inline]
    #[must_use]
    pub fn dtype_of(mut self, dtype: DType, dim: usize, wrapped: bool) -> Self {
        let dtype = if wrapped { as_default(dtype) } else { dtype };
        let class = match (dim, wrapped) {
            (1.., _) => &mut self.dim,
            (0, true) => &mut self.wrapped,
            (0, false) => &mut self.zero_dim,
        };
        *class = Some(skip_none(*class, dtype));
        self
    }

    /// Counts a number in.
    #[inline]
    #[must_use]
    pub fn scalar(self, value: Scalar) -> Self {
        self.dtype_of(value.dtype(), 0, true)
    }

    /// The result's dtype. With no operands at all, the default dtype.
    #[inline]
    pub fn finish(self) -> DType {
        combine(self.dim, combine(self.zero_dim, self.wrapped)).unwrap_or_else(default_dtype)
    }
}

#[inline]
fn skip_none(so_far: Option<DType>, next: DType) -> DType {
    match so_far {
        Some(dtype) => promote_types(dtype, next),
        None => next,
    }
}

/// The higher class keeps its dtype unless the lower one is of a higher category.
#[inline]
fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(high), Some(low)) = (higher, lower) else {
        return higher.or(lower);
    };
    Some(match (high.category(), low.category()) {
        (Category::Float, Category::Complex) => high.to_complex(),
        (h, l) if h < l => promote_types(high, low),
        _ => high,
    })
}

/// A number's dtype: the default one of its category.
#[inline]
fn as_default(dtype: DType) -> DType {
    match dtype.category() {
        Category::Float => default_dtype(),
        Category::Complex => default_complex_dtype(),
        _ => dtype,
    }
}

/// The dtype of an operation on tensors (`torch.result_type`). None at all give the default dtype.
pub fn result_type<'a>(tensors: impl IntoIterator<Item = &'a TensorImpl>) -> DType {
    tensors.into_iter().fold(ResultType::default(), ResultType::tensor).finish()
}

/// The dtype of an operation on a tensor and a number.
#[inline]
pub fn result_type_scalar(tensor: &TensorImpl, value: Scalar) -> DType {
    ResultType::default().tensor(tensor).scalar(value).finish()
}

/// Index of the default dtype in [`DType::ALL`].
static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32.index() as u8);

/// The dtype of factories and of floating numbers (`torch.get_default_dtype`): `float32` unless it was changed.
#[inline]
pub fn default_dtype() -> DType {
    DType::ALL[DEFAULT.load(Ordering::Relaxed) as usize % DType::COUNT]
}

/// The complex dtype of the default one's precision: that of complex numbers.
#[inline]
pub fn default_complex_dtype() -> DType {
    default_dtype().to_complex()
}

/// Changes the default dtype of the process (`torch.set_default_dtype`).
///
/// # Errors
/// A `TypeError` unless the dtype is a real floating type.
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    check_type!(dtype.is_floating_point(), "only floating-point types are supported as the default type");
    DEFAULT.store(dtype.index() as u8, Ordering::Relaxed);
    Ok(())
}
