//! [`TensorImpl`]: a view of a storage: sizes, strides, offset, dtype, and an opaque slot for autograd.
//!
//! What changes in place (`t_`, `resize_`, `set_`, `.data`) is one immutable [`Metadata`] block. A change publishes a new
//! block; old ones live as long as the tensor, so `sizes()` is a plain slice that no other thread can pull away.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::element::bytes_of;
use crate::refcount::{Slot, write_fields};
use crate::strides::{self, Dims};
use crate::{DType, Device, DispatchKeySet, Element, Layout, MemoryFormat, Ref, Result, Storage, check, tls};

/// A shared tensor. `tensor_aten::Tensor` is a newtype of it with operators.
pub type TensorRef = Ref<TensorImpl>;

/// What a tensor looks like at one moment.
pub struct Metadata {
    /// the bytes
    pub storage: Storage,
    /// the shape
    pub sizes: Dims,
    /// distances between neighbours, in elements
    pub strides: Dims,
    /// the first element's index in the storage
    pub offset: i64,
    /// the product of the sizes
    pub numel: i64,
    /// the element type
    pub dtype: DType,
    contiguous: bool,
    previous: *mut Metadata,
}

/// Sizes and strides, and what follows from them.
#[derive(Clone, Copy)]
struct Shape<'a> {
    sizes: &'a [i64],
    strides: &'a [i64],
    numel: i64,
    contiguous: bool,
}

impl<'a> Shape<'a> {
    #[inline(always)]
    fn new(sizes: &'a [i64], strides: &'a [i64]) -> Self {
        // Overflows only beside a size of 0.
        let numel = sizes.iter().fold(1i64, |numel, &size| numel.wrapping_mul(size));
        Self { sizes, strides, numel, contiguous: strides::is_contiguous(sizes, strides) }
    }
}

/// Checks what sizes and strides must be whatever they view: as many of the one as of the other, none negative, and a number
/// of elements that fits.
#[inline(always)]
fn check_shape(sizes: &[i64], strides: &[i64]) -> Result<()> {
    strides::numel(sizes)?;
    check!(sizes.len() == strides.len(), "mismatch in length of strides and shape");
    // One sign bit for all of them.
    let signs = strides.iter().fold(0, |signs, &stride| signs | stride);
    check!(signs >= 0, "negative strides are not supported: {}", strides::show(strides));
    Ok(())
}

impl Metadata {
    /// Writes a view of a storage to its place. The caller has checked that it lies within the bytes.
    ///
    /// # Safety
    /// `to` is valid for writes; what it holds is not dropped.
    #[inline(always)]
    unsafe fn write(to: *mut Self, storage: Storage, dtype: DType, shape: Shape<'_>, offset: i64) {
        // SAFETY: forwarded from the caller.
        unsafe {
            write_fields!(
                to,
                Metadata {
                    storage: storage,
                    sizes: strides::dims(shape.sizes),
                    strides: strides::dims(shape.strides),
                    offset: offset,
                    numel: shape.numel,
                    dtype: dtype,
                    contiguous: shape.contiguous,
                    previous: ptr::null_mut(),
                }
            );
        }
    }

    /// [`Metadata::write`] to the heap.
    fn boxed(storage: Storage, dtype: DType, shape: Shape<'_>, offset: i64) -> Box<Self> {
        let mut block = Box::new_uninit();
        // SAFETY: the box is valid for writes, and initialised by this one.
        unsafe {
            Self::write(block.as_mut_ptr(), storage, dtype, shape, offset);
            block.assume_init()
        }
    }

    #[inline(always)]
    fn shape(&self) -> Shape<'_> {
        Shape { sizes: &self.sizes, strides: &self.strides, numel: self.numel, contiguous: self.contiguous }
    }

    /// True if row-major without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// True if some permutation of the dimensions is contiguous.
    #[inline]
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.contiguous || strides::is_non_overlapping_and_dense(&self.sizes, &self.strides)
    }
}

/// The state behind a tensor handle.
pub struct TensorImpl {
    /// The newest block; null while that is `first`.
    current: AtomicPtr<Metadata>,
    first: Metadata,
    key_set: DispatchKeySet,
    requires_grad: AtomicBool,
    wrapped_number: AtomicBool,
    inference: bool,
    /// A version counter of its own, where it is not the storage's (`.data`).
    version: Option<Box<AtomicU32>>,
    autograd: Slot,
}

// SAFETY: `current` and the blocks behind it are published with release stores, never changed, and freed by the last
// owner; `Metadata::previous` is only followed there. Everything else is `Send + Sync` by itself.
unsafe impl Send for TensorImpl {}
// SAFETY: as above.
unsafe impl Sync for TensorImpl {}

impl TensorImpl {
    /// A tensor that views a storage.
    ///
    /// # Errors
    /// When the view does not lie within the storage, or its arithmetic overflows.
    pub fn new(storage: Storage, dtype: DType, sizes: &[i64], strides: &[i64], offset: i64) -> Result<TensorRef> {
        check_shape(sizes, strides)?;
        check!(offset >= 0, "Tensor: invalid storage offset {offset}");
        crate::storage::check_in_bounds(&storage, sizes, strides, dtype.itemsize(), offset)?;
        Ok(Self::make(None, storage, dtype, Shape::new(sizes, strides), offset))
    }

    /// A fresh dense tensor. Its elements are initialised, with no particular value.
    ///
    /// # Errors
    /// When the size overflows or cannot be allocated.
    #[inline(always)]
    pub fn empty(sizes: Dims, strides: Dims, dtype: DType, device: Device) -> Result<TensorRef> {
        Self::empty_of(&sizes, &strides, dtype, device)
    }

    /// [`TensorImpl::empty`] of slices.
    ///
    /// # Errors
    /// As there.
    pub fn empty_of(sizes: &[i64], strides: &[i64], dtype: DType, device: Device) -> Result<TensorRef> {
        check_shape(sizes, strides)?;
        let nbytes = strides::storage_bytes(sizes, strides, dtype.itemsize(), 0)?;
        let storage = Storage::allocate(nbytes, device)?;
        Ok(Self::make(None, storage, dtype, Shape::new(sizes, strides), 0))
    }

    /// A fresh row-major tensor.
    ///
    /// # Errors
    /// As [`TensorImpl::empty`].
    pub fn empty_dense(sizes: &[i64], dtype: DType, device: Device) -> Result<TensorRef> {
        let numel = strides::numel(sizes)?;
        // In place: strides that are returned are stored and loaded in different widths, which makes the loads wait.
        let mut strides = strides::dims(sizes);
        strides::contiguous_into(sizes, &mut strides);
        let Some(nbytes) = numel.checked_mul(dtype.itemsize() as i64) else {
            return Self::empty_of(sizes, &strides, dtype, device);
        };
        let storage = Storage::allocate(nbytes as usize, device)?;
        Ok(Self::make(None, storage, dtype, Shape { sizes, strides: &strides, numel, contiguous: true }, 0))
    }

    /// A 0-dim tensor on the host that holds one element.
    ///
    /// # Errors
    /// When it cannot be allocated.
    #[inline]
    pub fn number<T: Element>(value: T) -> Result<TensorRef> {
        Self::number_of(bytes_of(&[value]), T::DTYPE)
    }

    fn number_of(element: &[u8], dtype: DType) -> Result<TensorRef> {
        let shape = Shape { sizes: &[], strides: &[], numel: 1, contiguous: true };
        Ok(Self::make(None, Storage::from_bytes(element)?, dtype, shape, 0))
    }

    /// A fresh row-major tensor of the sizes of one that has no gaps: they need no check.
    ///
    /// # Errors
    /// When it is too large, or cannot be allocated.
    pub(crate) fn empty_contiguous_like(like: &Metadata, dtype: DType) -> Result<TensorRef> {
        debug_assert!(like.contiguous);
        let (shape, device) = (like.shape(), like.storage.device());
        let plain = strides::is_row_major(shape.sizes, shape.strides);
        match shape.numel.checked_mul(dtype.itemsize() as i64) {
            Some(nbytes) if plain => Ok(Self::make(None, Storage::allocate(nbytes as usize, device)?, dtype, shape, 0)),
            _ => Self::empty_of(shape.sizes, &strides::contiguous(shape.sizes), dtype, device),
        }
    }

    /// The same view with a version counter of its own and no autograd: `x.data`.
    pub fn with_own_version(source: &TensorRef) -> TensorRef {
        let m = source.metadata();
        Self::make(Some(Box::default()), m.storage.clone(), m.dtype, m.shape(), m.offset)
    }

    /// The same view of the same storage, unknown to autograd, under metadata that nobody else can change: for operators
    /// that look at a shape more than once.
    pub fn pinned(&self) -> TensorRef {
        let m = self.metadata();
        // Writes through this one count for themselves where those of `self` do.
        let version = self.version.as_ref().map(|_| Box::default());
        let pinned = Self::make(version, m.storage.clone(), m.dtype, m.shape(), m.offset);
        pinned.set_wrapped_number(self.is_wrapped_number());
        pinned
    }

    /// A tensor, written where it stays.
    #[inline(always)]
    fn make(
        version: Option<Box<AtomicU32>>,
        storage: Storage,
        dtype: DType,
        shape: Shape<'_>,
        offset: i64,
    ) -> TensorRef {
        let inference = tls::inference_enabled();
        let key_set = DispatchKeySet::of_tensor(storage.device().kind(), inference);
        // SAFETY: `Ref` gives the address of the tensor to be, whose first metadata are a field of it; every field is written.
        unsafe {
            Ref::new_in_place(
                #[inline(always)]
                |to: *mut Self| {
                    write_fields!(
                        to,
                        TensorImpl {
                            current: AtomicPtr::new(ptr::null_mut()),
                            first => |first| Metadata::write(first, storage, dtype, shape, offset),
                            key_set: key_set,
                            requires_grad: AtomicBool::new(false),
                            wrapped_number: AtomicBool::new(false),
                            inference: inference,
                            version: version,
                            autograd: Slot::default(),
                        }
                    );
                },
            )
        }
    }

    /// The newest metadata.
    #[inline]
    pub fn metadata(&self) -> &Metadata {
        let current = self.current.load(Ordering::Acquire);
        if current.is_null() {
            &self.first
        } else {
            // SAFETY: published blocks are never changed and live until the tensor is dropped.
            unsafe { &*current }
        }
    }

    /// Publishes a new view in place (`t_`, `resize_`, `set_`). Slices of the old sizes stay valid.
    ///
    /// # Errors
    /// When the view does not lie within the storage, or the storage is on another device.
    pub fn set_metadata(&self, storage: Storage, dtype: DType, sizes: Dims, strides: Dims, offset: i64) -> Result<()> {
        check_shape(&sizes, &strides)?;
        check!(offset >= 0, "Tensor: invalid storage offset {offset}");
        check!(
            storage.device() == self.device(),
            "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".  This is \
             no longer allowed; the devices must match.",
            self.device(),
            storage.device()
        );
        crate::storage::check_in_bounds(&storage, &sizes, &strides, dtype.itemsize(), offset)?;
        let mut block = Metadata::boxed(storage, dtype, Shape::new(&sizes, &strides), offset);
        let mut seen = self.current.load(Ordering::Acquire);
        loop {
            block.previous = seen;
            let raw = Box::into_raw(block);
            match self.current.compare_exchange(seen, raw, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => {
                    seen = now;
                    // SAFETY: the block was not published, so it is still ours alone.
                    block = unsafe { Box::from_raw(raw) };
                }
            }
        }
    }

    /// The shape.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        &self.metadata().sizes
    }

    /// The strides, in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.metadata().strides
    }

    /// The number of dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        self.metadata().sizes.len()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        self.metadata().numel
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.metadata().dtype
    }

    /// The first element's index in the storage.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        self.metadata().offset
    }

    /// The bytes that this tensor views.
    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.metadata().storage
    }

    /// Where the bytes lie.
    #[inline]
    pub fn device(&self) -> Device {
        self.first.storage.device()
    }

    /// How the elements are arranged.
    pub fn layout(&self) -> Layout {
        Layout::Strided
    }

    /// The dispatch keys that this tensor brings to a call.
    #[inline]
    pub fn key_set(&self) -> DispatchKeySet {
        self.key_set
    }

    /// True if row-major without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.metadata().contiguous
    }

    /// True if contiguous in a memory format.
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        let m = self.metadata();
        match format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => m.contiguous,
            format => strides::is_channels_last(&m.sizes, &m.strides, format),
        }
    }

    /// True if some permutation of the dimensions is contiguous.
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.metadata().is_non_overlapping_and_dense()
    }

    /// The memory format that an operator's output takes from this tensor (`suggest_memory_format`).
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        let m = self.metadata();
        [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d]
            .into_iter()
            .find(|&format| strides::is_channels_last_like(&m.sizes, &m.strides, format))
            .unwrap_or(MemoryFormat::Contiguous)
    }

    /// The address of the first element: an identity, not a licence to read.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        let m = self.metadata();
        m.storage.data_ptr().wrapping_add(m.offset as usize * m.dtype.itemsize())
    }

    /// True for a number that an operator wrapped in a tensor: it brings only its category to type promotion.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.wrapped_number.load(Ordering::Relaxed)
    }

    /// Marks a 0-dim tensor as a wrapped number.
    pub fn set_wrapped_number(&self, wrapped: bool) {
        self.wrapped_number.store(wrapped, Ordering::Relaxed);
    }

    /// True for a tensor made in inference mode: it has no version and cannot be saved for backward.
    #[inline]
    pub fn is_inference(&self) -> bool {
        self.inference
    }

    /// True if a gradient flows to or through this tensor. Set by autograd alone.
    #[inline]
    pub fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Acquire)
    }

    /// Sets what [`TensorImpl::requires_grad`] says.
    #[inline]
    pub fn set_requires_grad(&self, requires_grad: bool) {
        self.requires_grad.store(requires_grad, Ordering::Release);
    }

    /// How many in-place operations have changed the elements.
    ///
    /// # Errors
    /// For inference tensors, which do not count.
    #[inline]
    pub fn version(&self) -> Result<u32> {
        check!(!self.inference, "Inference tensors do not track version counter.");
        Ok(match &self.version {
            Some(own) => own.load(Ordering::Acquire),
            None => self.storage().version(),
        })
    }

    /// Counts an in-place operation.
    #[inline]
    pub fn bump_version(&self) {
        if self.inference {
            return;
        }
        match &self.version {
            Some(own) => {
                own.fetch_add(1, Ordering::Release);
            }
            None => self.storage().bump_version(),
        }
    }

    /// True if autograd keeps something with this tensor.
    #[inline]
    pub fn has_autograd(&self) -> bool {
        self.autograd.is_some()
    }

    /// What autograd keeps with this tensor, if anything. One type of value can be kept.
    #[inline]
    pub fn autograd<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.autograd.get()
    }

    /// What autograd keeps with this tensor, made at first need: the default, then what `fill` makes of it. `None` if
    /// something of another type is kept.
    #[inline]
    pub fn autograd_or_init<T: Default + Send + Sync + 'static>(&self, fill: impl FnOnce(&mut T)) -> Option<&T> {
        self.autograd.get_or_init(fill)
    }
}

impl Drop for TensorImpl {
    #[inline]
    fn drop(&mut self) {
        let mut block = *self.current.get_mut();
        while !block.is_null() {
            // SAFETY: every published block came from `Box::into_raw` and is freed here once, by the last owner.
            block = unsafe { Box::from_raw(block) }.previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_sizes_outlive_a_change_in_place() {
        let sizes = Dims::from_slice(&[2, 3]);
        let tensor = TensorImpl::empty(sizes.clone(), strides::contiguous(&sizes), DType::F32, Device::CPU).unwrap();
        let old = tensor.sizes();
        tensor
            .set_metadata(tensor.storage().clone(), DType::F32, Dims::from_slice(&[3, 2]), Dims::from_slice(&[1, 3]), 0)
            .unwrap();
        assert_eq!(old, [2, 3]);
        assert_eq!(tensor.sizes(), [3, 2]);
        assert!(!tensor.is_contiguous());
    }

    #[test]
    fn views_beyond_the_storage_are_refused() {
        let storage = Storage::allocate(8, Device::CPU).unwrap();
        let one = Dims::from_slice(&[1]);
        assert!(TensorImpl::new(storage.clone(), DType::F32, &[3], &one, 0).is_err());
        assert!(TensorImpl::new(storage.clone(), DType::F32, &[2, 9], &one, 0).is_err());
        assert!(TensorImpl::new(storage, DType::F32, &[2], &one, 0).is_ok());
        let (more, fewer) = (Dims::from_slice(&[2, 9]), Dims::from_slice(&[1]));
        assert!(TensorImpl::empty(more, fewer, DType::F32, Device::CPU).is_err());
        let (square, backward) = (Dims::from_slice(&[3, 3]), Dims::from_slice(&[3, -1]));
        assert!(TensorImpl::empty(square, backward, DType::F32, Device::CPU).is_err());
        assert!(
            TensorImpl::empty(Dims::from_slice(&[i64::MAX, 4]), Dims::from_slice(&[4, 1]), DType::F32, Device::CPU)
                .is_err()
        );
    }

    #[test]
    fn a_pinned_tensor_keeps_its_shape() {
        let sizes = Dims::from_slice(&[2, 3]);
        let x = TensorImpl::empty(sizes.clone(), strides::contiguous(&sizes), DType::F32, Device::CPU).unwrap();
        x.set_wrapped_number(true);
        let pinned = x.pinned();
        x.set_metadata(x.storage().clone(), DType::F32, Dims::from_slice(&[3]), Dims::from_slice(&[1]), 2).unwrap();
        assert_eq!((pinned.sizes(), pinned.strides(), pinned.storage_offset()), (&[2, 3][..], &[3, 1][..], 0));
        assert!(pinned.storage().ptr_eq(x.storage()) && pinned.is_wrapped_number());
        let data = TensorImpl::with_own_version(&x);
        data.pinned().bump_version();
        assert_eq!((data.version().unwrap(), x.version().unwrap()), (0, 0));
    }

    #[test]
    fn data_has_a_version_of_its_own() {
        let sizes = Dims::from_slice(&[2]);
        let x = TensorImpl::empty(sizes.clone(), strides::contiguous(&sizes), DType::F32, Device::CPU).unwrap();
        let data = TensorImpl::with_own_version(&x);
        data.bump_version();
        assert_eq!((x.version().unwrap(), data.version().unwrap()), (0, 1));
    }
}
