//! Typed views of locked tensors, for kernels that are no elementwise iterator: reductions, softmax, pooling, indexing.
//!
//! [`lock`] locks the storages and checks that no output overlaps an input or another output. After that an input is a
//! [`View`] and an output a [`ViewMut`], and everything is safe: slices where contiguous, lanes where strided, and
//! splitting over the pool in [`par_rows`], [`par_chunks`] and their siblings. A row-wise softmax, whole:
//!
//! ```
//! use tensor_backends_cpu::isa::Isa;
//! use tensor_backends_cpu::loops::views::{lock, par_rows};
//! use tensor_core::{Result, TensorImpl};
//!
//! /// out[r, :] = softmax(x[r, :]); both are f32 of shape (rows, cols), `x` of any strides.
//! fn softmax<I: Isa>(x: &TensorImpl, out: &TensorImpl) -> Result<()> {
//!     let locked = lock(&[x], &[out])?;
//!     let x = locked.read::<f32>(0)?;
//!     let mut out = locked.write::<f32>(0)?;
//!     let rows = x.size(0);
//!     let cols = x.size(1);
//!     let x = x.dense(); // the elements in row-major order; copied only if `x` is not contiguous
//!     out.with_dense(|out| {
//!         // Chunks of rows go to the threads. The closure is compiled for the level `I`: LLVM vectorises its loops.
//!         par_rows::<I, _>(out, rows, cols * 10, #[inline(always)] |r, out| {
//!             let x = &x[r * cols..][..cols];
//!             let max = x.iter().fold(f32::NEG_INFINITY, |m, &v| m.max(v));
//!             let mut sum = 0.0;
//!             for (o, &v) in out.iter_mut().zip(x) {
//!                 *o = (v - max).exp(); // a real kernel calls `simd::Math::exp::<I>(v - max)`
//!                 sum += *o;
//!             }
//!             out.iter_mut().for_each(|o| *o /= sum);
//!         });
//!     });
//!     Ok(())
//! }
//! # use tensor_core::{DType, Device, strides::{contiguous, Dims}};
//! # let shape = Dims::from_slice(&[2, 3]);
//! # let new = || TensorImpl::empty(shape.clone(), contiguous(&shape), DType::F32, Device::CPU);
//! # softmax::<tensor_backends_cpu::isa::Baseline>(&*new()?, &*new()?)?;
//! # Ok::<(), tensor_core::Error>(())
//! ```
//!
//! | need | call |
//! |---|---|
//! | all elements of an input in row-major order | [`View::dense`] |
//! | the same without a copy, or `None` | [`View::slice`] |
//! | an output in row-major order, whatever its strides | [`ViewMut::with_dense`] |
//! | rows of an output, in parallel | [`par_rows`], [`par_rows2`], [`par_rows3`] |
//! | runs of elements of an output, in parallel | [`par_chunks`], [`par_chunks2`] |
//! | lanes along any dimension, strided | [`View::lane`], [`ViewMut::par_lanes`] |
//! | one element | [`View::at`], [`ViewMut::set`] |
//! | matrices of a batch, for [`crate::gemm`] | [`View::matrix`], [`ViewMut::matrix_mut`], [`ViewMut::par_matrices`] |
//!
//! Elementwise kernels use [`map`](super::map) instead: that one allows outputs that alias inputs.

use std::cell::Cell;
use std::marker::PhantomData;

use smallvec::SmallVec;
use tensor_core::storage::Access;
use tensor_core::strides::{self, Dims};
use tensor_core::tensor_impl::Metadata;
use tensor_core::{Element, Result, TensorImpl, bail, check};

pub use super::parts::{column_runs, par_chunks, par_chunks2, par_rows, par_rows2, par_rows3};
use super::parts::{par_chunks_by, rows_per_chunk};
use crate::isa::Isa;
use crate::parallel::parallel_for;

/// Tensors whose storages are locked: inputs shared, outputs exclusive.
pub struct Locked<'a> {
    /// Inputs, then outputs.
    tensors: SmallVec<[&'a Metadata; 8]>,
    inputs: usize,
    /// Whether each output was handed out.
    taken: SmallVec<[Cell<bool>; 8]>,
    access: Access<'a>,
}

/// Locks tensors for a kernel that reads `reads` and writes `writes`.
///
/// # Errors
/// When an output overlaps an input, another output or itself; when a slice of a storage is out; for tensors that are
/// not on the CPU.
#[inline(always)]
pub fn lock<'a>(reads: &[&'a TensorImpl], writes: &[&'a TensorImpl]) -> Result<Locked<'a>> {
    let mut locked =
        Locked { tensors: SmallVec::new(), inputs: reads.len(), taken: SmallVec::new(), access: Access::new() };
    take_locks(&mut locked, reads, writes)?;
    Ok(locked)
}

/// [`lock`] where the result lies: it is too large to be moved.
fn take_locks<'a>(locked: &mut Locked<'a>, reads: &[&'a TensorImpl], writes: &[&'a TensorImpl]) -> Result<()> {
    let Locked { tensors, taken, access, .. } = locked;
    // One look at each tensor: what is locked is what is used, even if another thread calls `set_` meanwhile.
    for (tensors_of, written) in [(reads, false), (writes, true)] {
        for tensor in tensors_of {
            let m = tensor.metadata();
            tensors.push(m);
            access.add(&m.storage, written);
        }
    }
    access.lock()?;
    let all = tensors.as_slice();
    for (i, &m) in all.iter().enumerate() {
        check!(m.storage.device().is_cpu(), "expected a CPU tensor, got one on {}", m.storage.device());
        // Again under the lock: a view may have been made over a storage by other means.
        if !lies_within(m) {
            tensor_core::storage::check_in_bounds(&m.storage, &m.sizes, &m.strides, m.dtype.itemsize(), m.offset)?;
        }
        if i >= reads.len() {
            let own = range(m);
            for &other in &all[..i] {
                let other = range(other);
                check!(
                    own.0 >= other.1 || other.0 >= own.1,
                    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single \
                     memory location. Please clone() the tensor before performing the operation."
                );
            }
            check!(
                m.is_contiguous() || !strides_overlap(&m.sizes, &m.strides),
                "unsupported operation: more than one element of the written-to tensor refers to a single memory \
                 location. Please clone() the tensor before performing the operation."
            );
        }
    }
    for _ in writes {
        taken.push(Cell::new(false));
    }
    Ok(())
}

/// The address of the first element. The caller holds the lock of the storage.
fn address(m: &Metadata) -> *mut u8 {
    m.storage.data_ptr().wrapping_add(m.offset as usize * m.dtype.itemsize())
}

/// True if a tensor without gaps lies within its storage: what most tensors are, and quick to see.
#[inline]
fn lies_within(m: &Metadata) -> bool {
    let end = m.offset.checked_add(m.numel).and_then(|end| end.checked_mul(m.dtype.itemsize() as i64));
    m.is_contiguous() && m.offset >= 0 && end.is_some_and(|end| end as usize <= m.storage.nbytes())
}

/// Where the bytes from the first to the last element begin and end; nowhere for a tensor without elements.
#[inline]
fn range(m: &Metadata) -> (usize, usize) {
    if m.numel == 0 {
        return (0, 0);
    }
    let mut last = m.numel - 1;
    if !m.is_contiguous() {
        last = 0;
        for d in 0..m.sizes.len().min(m.strides.len()) {
            last += (m.sizes[d] - 1) * m.strides[d];
        }
    }
    let begin = address(m) as usize;
    (begin, begin + (last as usize + 1) * m.dtype.itemsize())
}

/// True unless it is certain that all indices give distinct addresses: sorted by stride, each stride steps over
/// everything below it.
fn strides_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    if sizes.contains(&0) || strides::is_contiguous(sizes, strides) {
        return false;
    }
    let mut dims: SmallVec<[(i64, i64); 6]> =
        strides.iter().copied().zip(sizes.iter().copied()).filter(|&(_, size)| size > 1).collect();
    dims.sort_unstable();
    let mut reach = 0;
    for (stride, size) in dims {
        if stride <= reach {
            return true;
        }
        reach += stride * (size - 1);
    }
    false
}

impl<'a> Locked<'a> {
    /// A view of a locked tensor as elements of type `T`.
    fn view<T: Element>(&self, m: &'a Metadata) -> Result<View<'_, T>> {
        check!(m.dtype == T::DTYPE, "kernel expected a tensor of {}, got {}", T::DTYPE, m.dtype);
        let pointer = if m.numel == 0 { std::ptr::dangling_mut() } else { address(m).cast::<T>() };
        check!(pointer.is_aligned(), "storage of a {} tensor is not aligned to {} bytes", m.dtype, align_of::<T>());
        Ok(View { pointer, sizes: &m.sizes, strides: &m.strides, numel: m.numel as usize, _elements: PhantomData })
    }

    /// The input `i` as elements of type `T`.
    ///
    /// # Errors
    /// When its dtype is another one, or there is no such input.
    pub fn read<T: Element>(&self, i: usize) -> Result<View<'_, T>> {
        let Some(meta) = self.tensors[..self.inputs].get(i) else { bail!(Runtime, "kernel has no input {i}") };
        self.view(meta)
    }

    /// The output `i` as elements of type `T`. Each output is handed out once.
    ///
    /// # Errors
    /// When its dtype is another one, when it is out already, or there is no such output.
    pub fn write<T: Element>(&self, i: usize) -> Result<ViewMut<'_, T>> {
        let Some(taken) = self.taken.get(i) else { bail!(Runtime, "kernel has no output {i}") };
        let view = self.view(self.tensors[self.inputs + i])?;
        check!(!taken.replace(true), "output {i} of a kernel was taken twice");
        Ok(ViewMut { view, _exclusive: PhantomData })
    }

    /// How many inputs there are.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How many outputs there are.
    pub fn outputs(&self) -> usize {
        self.taken.len()
    }
}

/// A strided, read-only view of elements that nobody writes while it lives.
pub struct View<'a, T> {
    pointer: *const T,
    sizes: &'a [i64],
    strides: &'a [i64],
    numel: usize,
    _elements: PhantomData<&'a [T]>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

// SAFETY: a view is a shared slice with strides.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for View<'_, T> {}

impl<'a, T: Element> View<'a, T> {
    /// The shape.
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    /// The number of dimensions.
    pub fn dim(&self) -> usize {
        self.sizes.len()
    }

    /// The size of dimension `d`; 1 beyond the last one, so that a 0-dim tensor has one lane of one element.
    #[inline]
    pub fn size(&self, d: usize) -> usize {
        self.sizes.get(d).map_or(1, |&n| n as usize)
    }

    /// The stride of dimension `d`; 1 beyond the last one.
    #[inline]
    fn stride(&self, d: usize) -> isize {
        self.strides.get(d).map_or(1, |&s| s as isize)
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.numel
    }

    /// The address of the first element.
    pub(super) fn as_ptr(&self) -> *const T {
        self.pointer
    }

    /// True if the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        strides::is_contiguous(self.sizes, self.strides)
    }

    /// The elements in row-major order, if they lie so.
    pub fn slice(&self) -> Option<&'a [T]> {
        // SAFETY: contiguous, so `numel` elements lie from `pointer` on, within the storage (checked by `lock`), aligned,
        // initialised, and locked against writers for `'a`.
        self.is_contiguous().then(|| unsafe { std::slice::from_raw_parts(self.pointer, self.numel) })
    }

    /// Everything from the first to the last element, what lies between rows included: for kernels that step over it.
    pub fn span(&self) -> &'a [T] {
        let last: i64 = self.sizes.iter().zip(self.strides).map(|(&n, &s)| (n - 1) * s).sum();
        let len = if self.numel == 0 { 0 } else { last as usize + 1 };
        // SAFETY: within the storage (checked by `lock`), initialised as all storages are, and written by nobody: `lock`
        // holds the storage for reading and refuses outputs that begin before the last element and end after the first.
        unsafe { std::slice::from_raw_parts(self.pointer, len) }
    }

    /// The elements in row-major order; copied if they do not lie so.
    pub fn dense(&self) -> Dense<'a, T> {
        match self.slice() {
            Some(slice) => Dense { borrowed: slice, copied: Vec::new() },
            None => {
                let mut copied = vec![T::zeroed(); self.numel];
                self.copy_to(&mut copied);
                Dense { borrowed: &[], copied }
            }
        }
    }

    /// Copies the elements to `out` in row-major order, as many as fit.
    pub fn copy_to(&self, out: &mut [T]) {
        let cols = self.sizes.last().map_or(1, |&n| n as usize).max(1);
        let last = self.dim().saturating_sub(1);
        let fits = out.len().min(self.numel);
        par_chunks_by(&mut out[..fits], cols, |row, out| {
            for (r, out) in out.chunks_mut(cols).enumerate() {
                self.lane(last, row + r).copy_to(out);
            }
        });
    }

    /// The element at an index.
    ///
    /// # Panics
    /// When the index is out of bounds, as slices do.
    #[inline]
    pub fn at(&self, index: &[i64]) -> T {
        // SAFETY: `offset` checked the index, so the element lies within the view.
        unsafe { *self.pointer.offset(offset(self.sizes, self.strides, index)) }
    }

    /// The elements along dimension `d` at row-major position `i` of the other dimensions: `numel / size(d)` lanes.
    ///
    /// # Panics
    /// When there is no such lane.
    #[inline]
    pub fn lane(&self, d: usize, i: usize) -> Lane<'a, T> {
        let start = lane_offset(self.sizes, self.strides, d, i);
        // SAFETY: `lane_offset` checked that the lane is one of the view's.
        let pointer = unsafe { self.pointer.offset(start) };
        Lane { pointer, len: self.size(d), stride: self.stride(d), _elements: PhantomData }
    }

    /// How many lanes there are along dimension `d`.
    pub fn lanes(&self, d: usize) -> usize {
        lanes(self.sizes, d)
    }
}

/// Elements in row-major order: a slice of a [`View`] or a copy. A slice by dereference; that is inlined always, which
/// `Cow`'s is not, so that bodies that use it are compiled for their level (see [`crate::isa`]).
pub struct Dense<'a, T> {
    borrowed: &'a [T],
    copied: Vec<T>,
}

impl<T> std::ops::Deref for Dense<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        if self.copied.is_empty() { self.borrowed } else { self.copied.as_slice() }
    }
}

impl<T: Clone> Dense<'_, T> {
    /// The elements as a vector.
    pub fn into_owned(self) -> Vec<T> {
        if self.copied.is_empty() { self.borrowed.to_vec() } else { self.copied }
    }
}

fn lanes(sizes: &[i64], d: usize) -> usize {
    sizes.iter().enumerate().filter(|&(k, _)| k != d).map(|(_, &n)| n as usize).product()
}

/// The offset of an index.
#[inline]
fn offset(sizes: &[i64], strides: &[i64], index: &[i64]) -> isize {
    assert_eq!(index.len(), sizes.len(), "index has another number of dimensions than the view");
    let mut at = 0;
    for ((&i, &n), &s) in index.iter().zip(sizes).zip(strides) {
        assert!(i >= 0 && i < n, "index {i} is out of bounds for a dimension of size {n}");
        at += (i * s) as isize;
    }
    at
}

/// The offset of the first element of lane `i` along `d`. The view has that lane, and the lane has an element.
#[inline]
fn lane_offset(sizes: &[i64], strides: &[i64], d: usize, i: usize) -> isize {
    assert!(!sizes.contains(&0), "an empty view has no lanes");
    let mut rest = i as i64;
    let mut at = 0;
    for k in (0..sizes.len()).rev() {
        if k != d {
            at += ((rest % sizes[k]) * strides[k]) as isize;
            rest /= sizes[k];
        }
    }
    assert!(rest == 0, "lane {i} is out of bounds");
    at
}

/// A strided row of a [`View`].
#[derive(Clone, Copy)]
pub struct Lane<'a, T> {
    pointer: *const T,
    len: usize,
    stride: isize,
    _elements: PhantomData<&'a [T]>,
}

impl<'a, T: Copy> Lane<'a, T> {
    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements as a slice, if they lie side by side.
    #[inline(always)]
    pub fn slice(&self) -> Option<&'a [T]> {
        // SAFETY: stride 1: the lane is `len` elements of the view in a row.
        (self.stride == 1 || self.len <= 1).then(|| unsafe { std::slice::from_raw_parts(self.pointer, self.len) })
    }

    /// The element `i`.
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn get(&self, i: usize) -> T {
        assert!(i < self.len, "index {i} is out of bounds for a lane of {}", self.len);
        // SAFETY: checked above; every element of a lane lies within the view.
        unsafe { *self.pointer.offset(i as isize * self.stride) }
    }

    /// The elements in order.
    #[inline(always)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        let lane = *self;
        // SAFETY: `i < len`; every element of a lane lies within the view.
        (0..self.len).map(move |i| unsafe { *lane.pointer.offset(i as isize * lane.stride) })
    }

    /// Copies the elements to `out`, as many as fit.
    #[inline]
    pub fn copy_to(&self, out: &mut [T]) {
        match self.slice() {
            Some(slice) => {
                let n = slice.len().min(out.len());
                out[..n].copy_from_slice(&slice[..n]);
            }
            None => out.iter_mut().zip(self.iter()).for_each(|(o, v)| *o = v),
        }
    }
}

/// A strided view of elements that nobody else reads or writes while it lives. Distinct indices are distinct elements.
pub struct ViewMut<'a, T> {
    view: View<'a, T>,
    _exclusive: PhantomData<&'a mut [T]>,
}

// SAFETY: an exclusive view is a mutable slice with strides.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}

impl<'a, T: Element> ViewMut<'a, T> {
    /// The shape.
    pub fn sizes(&self) -> &'a [i64] {
        self.view.sizes
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &'a [i64] {
        self.view.strides
    }

    /// The number of dimensions.
    pub fn dim(&self) -> usize {
        self.view.dim()
    }

    /// The size of dimension `d`; 1 beyond the last one.
    #[inline]
    pub fn size(&self, d: usize) -> usize {
        self.view.size(d)
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.view.numel
    }

    /// True if the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.view.is_contiguous()
    }

    /// The elements for reading.
    pub fn as_view(&self) -> View<'_, T> {
        self.view
    }

    /// The elements in row-major order, if they lie so.
    pub fn slice_mut(&mut self) -> Option<&mut [T]> {
        // SAFETY: as `View::slice`; the lock is exclusive and `lock` checked that nothing else overlaps.
        self.is_contiguous()
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.view.pointer.cast_mut(), self.view.numel) })
    }

    /// Runs `f` on the elements in row-major order. Unless they lie so, `f` gets a copy that is written back after.
    #[inline]
    pub fn with_dense<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> R {
        if let Some(slice) = self.slice_mut() {
            return f(slice);
        }
        let mut copy = self.view.dense().into_owned();
        let result = f(&mut copy);
        self.copy_from(&copy);
        result
    }

    /// Writes `values`, in row-major order, as many as fit.
    pub fn copy_from(&mut self, values: &[T]) {
        if self.view.numel == 0 {
            return;
        }
        let last = self.dim().saturating_sub(1);
        let cols = self.size(last);
        let rows = values.len().min(self.view.numel).div_ceil(cols);
        for r in 0..rows {
            self.lane_mut(last, r).copy_from(&values[r * cols..]);
        }
    }

    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        if self.view.numel == 0 {
            return;
        }
        match self.slice_mut() {
            Some(slice) => slice.fill(value),
            None => {
                let last = self.dim().saturating_sub(1);
                for r in 0..self.view.lanes(last) {
                    self.lane_mut(last, r).fill(value);
                }
            }
        }
    }

    /// Sets the element at an index.
    ///
    /// # Panics
    /// When the index is out of bounds, as slices do.
    #[inline]
    pub fn set(&mut self, index: &[i64], value: T) {
        let at = offset(self.view.sizes, self.view.strides, index);
        // SAFETY: `offset` checked the index; the view is exclusive.
        unsafe { *self.view.pointer.cast_mut().offset(at) = value }
    }

    /// The elements along dimension `d` at row-major position `i` of the other dimensions.
    ///
    /// # Panics
    /// When there is no such lane.
    #[inline]
    pub fn lane_mut(&mut self, d: usize, i: usize) -> LaneMut<'_, T> {
        LaneMut { lane: self.view.lane(d, i), _exclusive: PhantomData }
    }

    /// Calls `f(i, lane)` for every lane along dimension `d`, in parallel, compiled for the level `I`. `work` is about how
    /// many element steps a lane costs.
    #[inline]
    pub fn par_lanes<I: Isa>(&mut self, d: usize, work: usize, f: impl Fn(usize, LaneMut<'_, T>) + Sync) {
        if self.view.numel == 0 {
            return;
        }
        let view = self.view;
        parallel_for(view.lanes(d), rows_per_chunk(work), |begin, end| {
            I::run(
                #[inline(always)]
                || {
                    for i in begin..end {
                        // Distinct lanes are distinct elements, and each `i` is visited once: the lane is exclusive.
                        f(i, LaneMut { lane: view.lane(d, i), _exclusive: PhantomData });
                    }
                },
            )
        });
    }
}

/// A strided row of a [`ViewMut`].
pub struct LaneMut<'a, T> {
    lane: Lane<'a, T>,
    _exclusive: PhantomData<&'a mut [T]>,
}

impl<T: Copy> LaneMut<'_, T> {
    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.lane.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.lane.len == 0
    }

    /// The elements as a slice, if they lie side by side.
    #[inline(always)]
    pub fn slice_mut(&mut self) -> Option<&mut [T]> {
        // SAFETY: stride 1: the lane is `len` elements in a row, and exclusive.
        (self.lane.stride == 1 || self.lane.len <= 1)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.lane.pointer.cast_mut(), self.lane.len) })
    }

    /// The element `i`.
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn get(&self, i: usize) -> T {
        self.lane.get(i)
    }

    /// Sets the element `i`.
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn set(&mut self, i: usize, value: T) {
        assert!(i < self.lane.len, "index {i} is out of bounds for a lane of {}", self.lane.len);
        // SAFETY: checked above; the lane is exclusive.
        unsafe { *self.lane.pointer.cast_mut().offset(i as isize * self.lane.stride) = value }
    }

    /// Writes `values`, as many as fit.
    #[inline]
    pub fn copy_from(&mut self, values: &[T]) {
        let n = self.lane.len.min(values.len());
        if let Some(slice) = self.slice_mut() {
            return slice[..n].copy_from_slice(&values[..n]);
        }
        for (i, &v) in values[..n].iter().enumerate() {
            self.set(i, v);
        }
    }

    /// Sets every element.
    #[inline]
    pub fn fill(&mut self, value: T) {
        for i in 0..self.lane.len {
            self.set(i, value);
        }
    }
}

/// Sizes without dimension `d`.
pub fn without_dim(sizes: &[i64], d: usize) -> Dims {
    sizes.iter().enumerate().filter(|&(k, _)| k != d).map(|(_, &n)| n).collect()
}
