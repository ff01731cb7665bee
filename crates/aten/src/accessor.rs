//! Elements by index from plain Rust: [`TensorAccessor`] for strided tensors, [`TensorSlice`] for contiguous ones, and
//! their writing twins. No operators, no graph: what is written here is unknown to autograd but for the version counter.
//!
//! Each holds a count in the storage (any number of readers or one writer, as `RefCell` does), not a lock: a conflict is
//! an error at once, in whoever comes second, be it an operator or another accessor.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

use tensor_core::storage::Borrow;
use tensor_core::strides;
use tensor_core::tensor_impl::Metadata;
use tensor_core::{Element, Error, ErrorKind, Result, check};

use crate::Tensor;

/// The elements between the first and the last one of a tensor, gaps included.
struct Elements<T> {
    borrow: Borrow,
    /// in bytes
    start: usize,
    nbytes: usize,
    element: PhantomData<T>,
}

impl<T: Element> Elements<T> {
    fn new(tensor: &Metadata, write: bool) -> Result<Self> {
        let Metadata { storage, sizes, strides, offset, dtype, .. } = tensor;
        check!(*dtype == T::DTYPE, "expected scalar type {} but found {}", T::DTYPE.cpp_name(), dtype.cpp_name());
        check!(storage.device().is_cpu(), "expected a tensor on the cpu, but got one on {}", storage.device());
        let borrow = if write { storage.borrow_mut()? } else { storage.borrow()? };
        let mut elements = Self { borrow, start: 0, nbytes: 0, element: PhantomData };
        if !sizes.contains(&0) {
            // The tensor lies within its storage, so none of this overflows.
            let last: i64 = sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
            elements.start = *offset as usize * size_of::<T>();
            elements.nbytes = (last as usize + 1) * size_of::<T>();
            check!(
                bytemuck::try_cast_slice::<u8, T>(elements.bytes()).is_ok(),
                "the elements of the tensor are not aligned in memory as {} needs: use clone()",
                T::DTYPE.cpp_name()
            );
        }
        Ok(elements)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.borrow.bytes().get(self.start..self.start + self.nbytes).unwrap_or(&[])
    }

    #[inline]
    fn get(&self) -> &[T] {
        bytemuck::try_cast_slice(self.bytes()).unwrap_or(&[])
    }

    #[inline]
    fn get_mut(&mut self) -> &mut [T] {
        let range = self.start..self.start + self.nbytes;
        let bytes = self.borrow.bytes_mut().get_mut(range).unwrap_or(&mut []);
        bytemuck::try_cast_slice_mut(bytes).unwrap_or(&mut [])
    }
}

/// The place of an index among a tensor's elements, unless it is out of range.
#[inline]
fn place(index: &[usize], sizes: &[usize], strides: &[usize]) -> Option<usize> {
    let mut at = 0;
    for ((&i, &size), &stride) in index.iter().zip(sizes).zip(strides) {
        if i >= size {
            return None;
        }
        at += i * stride;
    }
    Some(at)
}

/// PyTorch's text for the first index that is out of range.
#[cold]
fn out_of_range(index: &[usize], sizes: &[usize]) -> String {
    match index.iter().zip(sizes).enumerate().find(|(_, (i, size))| i >= size) {
        Some((d, (i, size))) => format!("index {i} is out of bounds for dimension {d} with size {size}"),
        None => format!("index {index:?} is out of bounds for a tensor of size {sizes:?}"),
    }
}

/// A strided view of the elements of a tensor of `N` dimensions, to read: `acc[[i, j]]`.
///
/// While it lives, in-place operators on the storage are errors. It keeps the storage alive, not the tensor.
pub struct TensorAccessor<T, const N: usize> {
    elements: Elements<T>,
    sizes: [usize; N],
    strides: [usize; N],
}

/// A strided view of the elements of a tensor of `N` dimensions, to read and write: `acc[[i, j]] = 1.0`.
///
/// While it lives, every other use of the storage is an error. Making it counts as one in-place operation.
pub struct TensorAccessorMut<T, const N: usize>(TensorAccessor<T, N>);

/// A borrowed part of a [`TensorAccessor`], with `N` of its dimensions. A loop reads faster through this.
#[derive(Clone, Copy)]
pub struct View<'a, T, const N: usize> {
    elements: &'a [T],
    sizes: &'a [usize],
    strides: &'a [usize],
}

impl<T: Element, const N: usize> TensorAccessor<T, N> {
    fn new(tensor: &Tensor, write: bool) -> Result<Self> {
        let tensor = tensor.as_impl().metadata();
        let dims = |list: &[i64]| -> Result<[usize; N]> {
            check!(list.len() == N, "TensorAccessor expected {N} dims but tensor has {}", list.len());
            Ok(std::array::from_fn(|d| list[d] as usize))
        };
        let (sizes, strides) = (dims(&tensor.sizes)?, dims(&tensor.strides)?);
        Ok(Self { elements: Elements::new(tensor, write)?, sizes, strides })
    }

    /// The shape.
    #[inline]
    pub fn sizes(&self) -> &[usize; N] {
        &self.sizes
    }

    /// The strides, in elements.
    #[inline]
    pub fn strides(&self) -> &[usize; N] {
        &self.strides
    }

    /// The whole accessor as a view.
    #[inline]
    pub fn view(&self) -> View<'_, T, N> {
        View { elements: self.elements.get(), sizes: &self.sizes, strides: &self.strides }
    }

    /// An element, unless the index is out of range.
    #[inline]
    pub fn get(&self, index: [usize; N]) -> Option<&T> {
        self.elements.get().get(place(&index, &self.sizes, &self.strides)?)
    }
}

impl<T: Element, const N: usize> TensorAccessorMut<T, N> {
    /// An element to write, unless the index is out of range.
    #[inline]
    pub fn get_mut(&mut self, index: [usize; N]) -> Option<&mut T> {
        let at = place(&index, &self.0.sizes, &self.0.strides)?;
        self.0.elements.get_mut().get_mut(at)
    }

    /// Writes an element.
    ///
    /// # Errors
    /// `IndexError` when the index is out of range.
    #[inline]
    pub fn set(&mut self, index: [usize; N], value: T) -> Result<()> {
        match self.get_mut(index) {
            Some(place) => *place = value,
            None => return Err(Error::new(ErrorKind::Index, out_of_range(&index, &self.0.sizes))),
        }
        Ok(())
    }
}

impl<T, const N: usize> Deref for TensorAccessorMut<T, N> {
    type Target = TensorAccessor<T, N>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, T, const N: usize> View<'a, T, N> {
    /// The shape.
    pub fn sizes(&self) -> &'a [usize] {
        self.sizes
    }

    /// An element, unless the index is out of range.
    #[inline]
    pub fn get(&self, index: [usize; N]) -> Option<&'a T> {
        self.elements.get(place(&index, self.sizes, self.strides)?)
    }

    /// The elements and strides at an index of the first dimension; no elements when it is out of range.
    #[inline]
    fn enter(&self, i: usize) -> (&'a [T], &'a [usize], &'a [usize]) {
        match (self.sizes, self.strides) {
            ([size, sizes @ ..], [stride, strides @ ..]) if i < *size => {
                (self.elements.get(i * stride..).unwrap_or(&[]), sizes, strides)
            }
            _ => (&[], self.sizes.get(1..).unwrap_or(&[]), self.strides.get(1..).unwrap_or(&[])),
        }
    }
}

/// `at` for `N` dimensions: a view of the `N - 1` others.
macro_rules! at {
    ($($n:literal => $less:literal),*) => { $(
        impl<'a, T> View<'a, T, $n> {
            /// The view at an index of the first dimension. Outside of the tensor it has no elements.
            #[inline]
            pub fn at(&self, i: usize) -> View<'a, T, $less> {
                let (elements, sizes, strides) = self.enter(i);
                View { elements, sizes, strides }
            }
        }

        impl<T: Element> TensorAccessor<T, $n> {
            /// The view at an index of the first dimension. Outside of the tensor it has no elements.
            #[inline]
            pub fn at(&self, i: usize) -> View<'_, T, $less> {
                self.view().at(i)
            }
        }
    )* };
}
at!(2 => 1, 3 => 2, 4 => 3, 5 => 4, 6 => 5, 7 => 6, 8 => 7);

impl<'a, T> View<'a, T, 1> {
    /// The element at an index, unless it is out of range.
    #[inline]
    pub fn at(&self, i: usize) -> Option<&'a T> {
        self.get([i])
    }
}

impl<T: Element> TensorAccessor<T, 1> {
    /// The element at an index, unless it is out of range.
    #[inline]
    pub fn at(&self, i: usize) -> Option<&T> {
        self.get([i])
    }
}

impl<T: Element, const N: usize> Index<[usize; N]> for TensorAccessor<T, N> {
    type Output = T;

    /// # Panics
    /// When the index is out of range, as slices do. [`TensorAccessor::get`] does not.
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; N]) -> &T {
        match self.get(index) {
            Some(element) => element,
            None => panic!("{}", out_of_range(&index, &self.sizes)),
        }
    }
}

impl<T, const N: usize> Index<[usize; N]> for View<'_, T, N> {
    type Output = T;

    /// # Panics
    /// When the index is out of range, as slices do. [`View::get`] does not.
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; N]) -> &T {
        match self.get(index) {
            Some(element) => element,
            None => panic!("{}", out_of_range(&index, self.sizes)),
        }
    }
}

impl<T: Element, const N: usize> Index<[usize; N]> for TensorAccessorMut<T, N> {
    type Output = T;

    /// # Panics
    /// When the index is out of range, as slices do. [`TensorAccessor::get`] does not.
    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; N]) -> &T {
        &self.0[index]
    }
}

impl<T: Element, const N: usize> IndexMut<[usize; N]> for TensorAccessorMut<T, N> {
    /// # Panics
    /// When the index is out of range, as slices do. [`TensorAccessorMut::get_mut`] and [`TensorAccessorMut::set`] do not.
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: [usize; N]) -> &mut T {
        let sizes = self.0.sizes;
        match self.get_mut(index) {
            Some(element) => element,
            None => panic!("{}", out_of_range(&index, &sizes)),
        }
    }
}

/// The elements of a contiguous tensor, to read. While it lives, in-place operators on the storage are errors.
pub struct TensorSlice<T>(Elements<T>);

/// The elements of a contiguous tensor, to read and write. While it lives, every other use of the storage is an error.
pub struct TensorSliceMut<T>(Elements<T>);

impl<T: Element> Deref for TensorSlice<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        self.0.get()
    }
}

impl<T: Element> Deref for TensorSliceMut<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        self.0.get()
    }
}

impl<T: Element> DerefMut for TensorSliceMut<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.get_mut()
    }
}

impl Tensor {
    /// Strided access to the elements: `x.accessor::<f32, 2>()?[[i, j]]`. `Bool` is the element of bool tensors.
    ///
    /// # Errors
    /// When `T` or `N` is not the tensor's, it is not on the host, or a writer of the storage is out.
    pub fn accessor<T: Element, const N: usize>(&self) -> Result<TensorAccessor<T, N>> {
        TensorAccessor::new(self, false)
    }

    /// Strided access to the elements, to write. Counts as one in-place operation, unknown to autograd otherwise.
    ///
    /// # Errors
    /// When `T` or `N` is not the tensor's, it is not on the host, or another use of the storage is out.
    pub fn accessor_mut<T: Element, const N: usize>(&self) -> Result<TensorAccessorMut<T, N>> {
        TensorAccessor::new(self, true).map(TensorAccessorMut)
    }

    /// The elements of a contiguous tensor, in row-major order, without a copy.
    ///
    /// # Errors
    /// When `T` is not the tensor's, it is not contiguous or not on the host, or a writer of the storage is out.
    pub fn as_slice<T: Element>(&self) -> Result<TensorSlice<T>> {
        Elements::new(self.contiguous_metadata("as_slice")?, false).map(TensorSlice)
    }

    /// The elements of a contiguous tensor, to write. Counts as one in-place operation, unknown to autograd otherwise.
    ///
    /// # Errors
    /// When `T` is not the tensor's, it is not contiguous or not on the host, or another use of the storage is out.
    pub fn as_mut_slice<T: Element>(&self) -> Result<TensorSliceMut<T>> {
        Elements::new(self.contiguous_metadata("as_mut_slice")?, true).map(TensorSliceMut)
    }

    /// Runs a function on the elements of a contiguous tensor.
    ///
    /// # Errors
    /// As [`Tensor::as_slice`].
    pub fn with_slice<T: Element, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        Ok(f(&self.as_slice()?))
    }

    /// Runs a function on the elements of a contiguous tensor, to write them.
    ///
    /// # Errors
    /// As [`Tensor::as_mut_slice`].
    pub fn with_mut_slice<T: Element, R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        Ok(f(&mut self.as_mut_slice()?))
    }

    fn contiguous_metadata(&self, caller: &str) -> Result<&Metadata> {
        let metadata = self.as_impl().metadata();
        check!(
            strides::is_contiguous(&metadata.sizes, &metadata.strides),
            "{caller}: expected a contiguous tensor; use contiguous() first, or an accessor"
        );
        Ok(metadata)
    }
}
