//! [`Tensor`]: the handle, its accessors, and how it is made from and read into plain memory. Operators are generated.

use tensor_core::strides::{self, Dims};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{
    DType, Device, DispatchKeySet, Element, Layout, MemoryFormat, Ref, Result, Scalar, Storage, TensorImpl, TensorRef,
    check, dispatch, dtype::Category, read,
};

/// A multi-dimensional array of one dtype on one device: a strided view of a shared storage.
///
/// Cloning shares the elements, as a second name in Python does. Use `clone_tensor` (PyTorch's `clone`) for a copy.
#[derive(Clone)]
pub struct Tensor(TensorRef);

macro_rules! delegate {
    ($($(#[$doc:meta])* $name:ident() -> $ret:ty;)*) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> $ret { self.0.$name() }
    )* };
}

impl Tensor {
    delegate! {
        /// The shape.
        sizes() -> &[i64];
        /// The strides, in elements.
        strides() -> &[i64];
        /// The number of dimensions.
        dim() -> usize;
        /// The number of elements.
        numel() -> i64;
        /// The element type.
        dtype() -> DType;
        /// The first element's index in the storage.
        storage_offset() -> i64;
        /// The bytes that this tensor views.
        storage() -> &Storage;
        /// Where the bytes lie.
        device() -> Device;
        /// How the elements are arranged.
        layout() -> Layout;
        /// The dispatch keys that this tensor brings to a call.
        key_set() -> DispatchKeySet;
        /// True if row-major without gaps.
        is_contiguous() -> bool;
        /// True if some permutation of the dimensions is contiguous.
        is_non_overlapping_and_dense() -> bool;
        /// The memory format that an operator's output takes from this tensor.
        suggest_memory_format() -> MemoryFormat;
        /// The address of the first element: an identity, not a licence to read.
        data_ptr() -> *mut u8;
        /// True for a number that an operator wrapped in a tensor.
        is_wrapped_number() -> bool;
        /// True for a tensor made in inference mode.
        is_inference() -> bool;
        /// How many in-place operations have changed the elements (`_version`).
        ///
        /// # Errors
        /// For inference tensors.
        version() -> Result<u32>;
    }

    /// True if a gradient flows to or through this tensor.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.0.requires_grad() || (self.0.has_autograd() && crate::hooks::view_requires_grad(self))
    }

    /// The handle of a core tensor.
    #[inline]
    pub fn from_impl(inner: TensorRef) -> Self {
        Self(inner)
    }

    /// The core tensor, given away: its count stays what it was.
    #[inline]
    pub fn into_impl(self) -> TensorRef {
        self.0
    }

    /// The core tensor behind the handle.
    #[inline]
    pub fn as_impl(&self) -> &TensorRef {
        &self.0
    }

    /// True if contiguous in a memory format.
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        self.0.is_contiguous_in(format)
    }

    /// True if both handles name the same tensor.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Ref::ptr_eq(&self.0, &other.0)
    }

    /// The size of a dimension, counted from the end when negative.
    ///
    /// # Errors
    /// `IndexError` when there is no such dimension.
    pub fn size(&self, dim: i64) -> Result<i64> {
        let sizes = self.sizes();
        Ok(sizes[existing_dim(dim, sizes.len())?])
    }

    /// The stride of a dimension, counted from the end when negative.
    ///
    /// # Errors
    /// `IndexError` when there is no such dimension.
    pub fn stride(&self, dim: i64) -> Result<i64> {
        let list = self.strides();
        Ok(list[existing_dim(dim, list.len())?])
    }

    /// Bytes of one element.
    pub fn element_size(&self) -> usize {
        self.dtype().itemsize()
    }

    /// True for real floating dtypes.
    pub fn is_floating_point(&self) -> bool {
        self.dtype().is_floating_point()
    }

    /// True for complex dtypes.
    pub fn is_complex(&self) -> bool {
        self.dtype().is_complex()
    }

    /// True on the device without memory.
    #[inline]
    pub fn is_meta(&self) -> bool {
        self.device().is_meta()
    }

    /// A view of a storage.
    ///
    /// # Errors
    /// When the view does not lie within the storage.
    pub fn from_storage(storage: Storage, dtype: DType, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Self> {
        TensorImpl::new(storage, dtype, sizes, strides, offset).map(Self)
    }

    /// Another view of this tensor's storage, unknown to autograd: what view operators are made of.
    ///
    /// # Errors
    /// When the view does not lie within the storage.
    #[inline]
    pub fn view_of_storage(&self, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Self> {
        Self::view_of(self.as_impl().metadata(), sizes, strides, offset)
    }

    /// The same view of the same storage, unknown to autograd, with a shape that no other thread can change: for native
    /// functions that look at it more than once, so that what they checked holds until their kernel has run.
    #[inline]
    pub fn pinned(&self) -> Self {
        Self(self.as_impl().pinned())
    }

    /// Another view of the storage that this tensor had when `m` was read, as [`Tensor::view_of_storage`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn view_of(m: &Metadata, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Self> {
        TensorImpl::new(m.storage.clone(), m.dtype, sizes, strides, offset).map(Self)
    }

    /// A fresh row-major tensor whose elements have no particular value. No dispatch: for the insides of operators.
    ///
    /// # Errors
    /// When the size overflows or cannot be allocated.
    #[inline]
    pub fn new_dense(sizes: &[i64], dtype: DType, device: Device) -> Result<Self> {
        TensorImpl::empty_dense(sizes, dtype, device).map(Self)
    }

    /// A fresh tensor with given strides. No dispatch: for the insides of operators.
    ///
    /// # Errors
    /// When the size overflows or cannot be allocated.
    #[inline]
    pub fn new_strided(sizes: Dims, strides: Dims, dtype: DType, device: Device) -> Result<Self> {
        TensorImpl::empty(sizes, strides, dtype, device).map(Self)
    }

    /// A row-major tensor of the host over a vector's memory, without a copy.
    ///
    /// # Errors
    /// When the vector's length is not the product of the sizes.
    pub fn from_vec<T: Element>(values: Vec<T>, sizes: &[i64]) -> Result<Self> {
        let numel = strides::numel(sizes)?;
        check!(
            numel as usize == values.len(),
            "shape '{}' is invalid for input of size {}",
            strides::show(sizes),
            values.len()
        );
        Self::from_storage(Storage::from_vec(values), T::DTYPE, sizes, &strides::contiguous(sizes), 0)
    }

    /// A row-major tensor of the host that holds a copy of a slice.
    ///
    /// # Errors
    /// When the slice's length is not the product of the sizes.
    pub fn from_slice<T: Element>(values: &[T], sizes: &[i64]) -> Result<Self> {
        let numel = strides::numel(sizes)?;
        check!(
            numel as usize == values.len(),
            "shape '{}' is invalid for input of size {}",
            strides::show(sizes),
            values.len()
        );
        let storage = Storage::from_bytes(bytes_of(values))?;
        Self::from_storage(storage, T::DTYPE, sizes, &strides::contiguous(sizes), 0)
    }

    /// A 0-dim tensor of a dtype on the host.
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn scalar_tensor(value: impl Into<Scalar>, dtype: DType) -> Result<Self> {
        let value = value.into();
        dispatch!(dtype, T => TensorImpl::number(<T as Element>::from_scalar(value)).map(Self))
    }

    /// A number as an operator's tensor argument: 0-dim, of the number's own dtype, marked as wrapped.
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn wrapped_number(value: impl Into<Scalar>) -> Result<Self> {
        let value = value.into();
        let dtype = match value.dtype().category() {
            Category::Float => DType::F64,
            Category::Complex => DType::C128,
            _ => value.dtype(),
        };
        let tensor = Self::scalar_tensor(value, dtype)?;
        tensor.0.set_wrapped_number(true);
        Ok(tensor)
    }

    /// [`Tensor::wrapped_number`] for an operator with another tensor. Where both promote to that one's f32 or f64 anyway, the
    /// number has that dtype from the start, so that nothing is cast.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn wrapped_number_beside(value: impl Into<Scalar>, other: &Tensor) -> Result<Self> {
        let value = value.into();
        let dtype = other.dtype();
        if matches!(value, Scalar::Complex(_)) || !matches!(dtype, DType::F32 | DType::F64) || other.is_wrapped_number()
        {
            return Self::wrapped_number(value);
        }
        let tensor = match dtype {
            DType::F32 => TensorImpl::number(value.to_f32())?,
            _ => TensorImpl::number(value.to_f64())?,
        };
        tensor.set_wrapped_number(true);
        Ok(Self(tensor))
    }

    /// The elements in row-major order, copied; waits for a kernel that writes them.
    ///
    /// # Errors
    /// When `T` is not the dtype's type, the tensor is not on the host, or a writing accessor of the storage is out.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        read::elements(self.0.metadata())
    }
}

/// A dimension of a tensor that has some, counted from the end when negative.
fn existing_dim(dim: i64, ndim: usize) -> Result<usize> {
    tensor_core::check_index!(ndim > 0, "Dimension specified as {dim} but tensor has no dimensions");
    strides::wrap_dim(dim, ndim)
}

fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    tensor_core::element::bytes_of(values)
}

pub use tensor_core::read::for_each_offset;

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}
