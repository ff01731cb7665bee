//! [`tensor!`](crate::tensor!): tensors from numbers and nested lists of them, with the dtype that `torch.tensor` infers.
//! For large data of one type there are `Tensor::from_vec` and `Tensor::from_slice`.

use tensor_core::{
    Complex, DType, Device, Element, Error, ErrorKind, Result, Scalar, bail, bf16, dispatch, f16, promotion, strides,
};

use super::TensorOptions;
use crate::{Tensor, ops};

/// A number, or a list of lists of numbers: arrays, slices, vectors.
pub trait NestedData {
    /// The dtype that `torch.tensor` infers: int64 for integers, the default dtype for floats.
    fn dtype() -> DType;

    /// Appends the sizes, outermost first, as the first item of each list says.
    fn sizes(&self, sizes: &mut Vec<i64>);

    /// Appends the numbers in row-major order. `depth` lists are around this one.
    ///
    /// # Errors
    /// `ValueError` when a list has another length than the first one of its depth.
    fn flatten(&self, sizes: &[i64], depth: usize, numbers: &mut Vec<Scalar>) -> Result<()>;
}

macro_rules! numbers {
    ($($ty:ty)* => $dtype:expr) => { $(
        impl NestedData for $ty {
            fn dtype() -> DType { $dtype }
            fn sizes(&self, _: &mut Vec<i64>) {}
            fn flatten(&self, _: &[i64], _: usize, numbers: &mut Vec<Scalar>) -> Result<()> {
                numbers.push((*self).into());
                Ok(())
            }
        }
    )* };
}
numbers!(bool => DType::Bool);
numbers!(i64 i32 i16 i8 usize u32 u16 u8 => DType::I64);
numbers!(f64 f32 f16 bf16 => promotion::default_dtype());
numbers!(Complex<f64> Complex<f32> => promotion::default_complex_dtype());

impl<D: NestedData> NestedData for [D] {
    fn dtype() -> DType {
        D::dtype()
    }

    fn sizes(&self, sizes: &mut Vec<i64>) {
        sizes.push(self.len() as i64);
        if let Some(first) = self.first() {
            first.sizes(sizes);
        }
    }

    fn flatten(&self, sizes: &[i64], depth: usize, numbers: &mut Vec<Scalar>) -> Result<()> {
        let expected = sizes.get(depth).copied().unwrap_or(0);
        if self.len() as i64 != expected {
            bail!(Value, "expected sequence of length {expected} at dim {depth} (got {})", self.len());
        }
        self.iter().try_for_each(|item| item.flatten(sizes, depth + 1, numbers))
    }
}

/// Lists that are slices at heart.
macro_rules! lists {
    ($($(for $n:ident in)? ($ty:ty))*) => { $(
        impl<D: NestedData $(, const $n: usize)?> NestedData for $ty {
            fn dtype() -> DType { D::dtype() }
            fn sizes(&self, sizes: &mut Vec<i64>) { self[..].sizes(sizes) }
            fn flatten(&self, sizes: &[i64], depth: usize, numbers: &mut Vec<Scalar>) -> Result<()> {
                self[..].flatten(sizes, depth, numbers)
            }
        }
    )* };
}
lists!((Vec<D>) for N in ([D; N]));

impl<D: NestedData + ?Sized> NestedData for &D {
    fn dtype() -> DType {
        D::dtype()
    }
    fn sizes(&self, sizes: &mut Vec<i64>) {
        (**self).sizes(sizes);
    }
    fn flatten(&self, sizes: &[i64], depth: usize, numbers: &mut Vec<Scalar>) -> Result<()> {
        (**self).flatten(sizes, depth, numbers)
    }
}

impl Tensor {
    /// `torch.tensor(data)`: a copy of a number or of nested lists. Integers become int64 and floats the default dtype,
    /// whatever their Rust types, unless the options say otherwise.
    ///
    /// # Errors
    /// `ValueError` for lists of unequal lengths; when a number does not fit the dtype that was asked for.
    pub fn from_data(data: impl NestedData, options: impl Into<TensorOptions>) -> Result<Tensor> {
        fn inferred<D: NestedData>(_: &D) -> DType {
            D::dtype()
        }
        let options: TensorOptions = options.into();
        let dtype = options.dtype.unwrap_or_else(|| inferred(&data));
        let (mut sizes, mut numbers) = (Vec::new(), Vec::new());
        data.sizes(&mut sizes);
        numbers.reserve(strides::numel(&sizes)? as usize);
        data.flatten(&sizes, 0, &mut numbers)?;
        if let Some(number) = numbers.iter().find(|&&number| !fits(number, dtype)) {
            return Err(overflow(*number, dtype));
        }
        let host = dispatch!(dtype, T => {
            let elements: Vec<T> = numbers.into_iter().map(<T as Element>::from_scalar).collect();
            Self::from_vec(elements, &sizes)
        })?;
        let device = options.device_or_default();
        let tensor = if device == Device::CPU {
            host
        } else {
            ops::_to_copy(&host, None, None, Some(device), None, false, None)?
        };
        options.finish(tensor)
    }
}

/// Whether a dtype can hold a number, give or take rounding. Negative numbers wrap in unsigned types, as they do in C.
fn fits(number: Scalar, dtype: DType) -> bool {
    if let Scalar::Complex(c) = number
        && !dtype.is_complex()
        && dtype != DType::Bool
        && c.im != 0.0
    {
        return false;
    }
    if !dtype.is_integral(false) {
        return true;
    }
    let bits = 8 * dtype.itemsize() as i32;
    let (least, most) = if dtype.is_signed() {
        (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1))
    } else {
        (1.0 - 2f64.powi(bits), 2f64.powi(bits))
    };
    match number {
        Scalar::Int(_) if dtype == DType::I64 => true,
        number => {
            let value = number.to_f64().trunc();
            value >= least && value < most
        }
    }
}

#[cold]
fn overflow(number: Scalar, dtype: DType) -> Error {
    if number.is_complex() {
        return Error::new(ErrorKind::Type, "must be real number, not complex");
    }
    Error::runtime(format!("value cannot be converted to type {} without overflow", dtype.name()))
}

/// A tensor from a number or nested lists, as `torch.tensor` makes it; a `Result`.
///
/// `tensor!([[1.0, 2.0], [3.0, 4.0]])` is float32 (the default dtype), `tensor!([1, 2])` int64, `tensor!(true)` bool;
/// `tensor!([1, 2], DType::U8)` and `tensor!(0.5, TensorOptions::new().requires_grad(true))` say more.
#[macro_export]
macro_rules! tensor {
    ($data:expr $(,)?) => {
        $crate::Tensor::from_data($data, ())
    };
    ($data:expr, $options:expr $(,)?) => {
        $crate::Tensor::from_data($data, $options)
    };
}
