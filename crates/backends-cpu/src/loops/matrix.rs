//! [`MatRef`] and [`MatMut`]: strided matrices, the operands of [`crate::gemm`].

use std::marker::PhantomData;

use tensor_core::{Element, Result, check};

use super::views::{View, ViewMut};
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};

/// A matrix of elements that nobody writes while it lives. Strides are in elements.
pub struct MatRef<'a, T> {
    pointer: *const T,
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
    _elements: PhantomData<&'a [T]>,
}

impl<T> Clone for MatRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for MatRef<'_, T> {}

// SAFETY: a shared slice with two strides.
unsafe impl<T: Sync> Send for MatRef<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for MatRef<'_, T> {}

/// True if all elements of such a matrix lie within `len` elements from its first one.
#[inline]
fn fits(len: usize, rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> bool {
    if rows == 0 || cols == 0 {
        return true;
    }
    let reach = |n: usize, stride: usize| (n - 1).checked_mul(stride);
    let last = reach(rows, row_stride).zip(reach(cols, col_stride)).and_then(|(a, b)| a.checked_add(b));
    last.is_some_and(|last| last < len)
}

impl<'a, T> MatRef<'a, T> {
    /// A matrix within a slice: element (i, j) is `elements[i * row_stride + j * col_stride]`.
    ///
    /// # Errors
    /// When the slice is too short.
    #[inline]
    pub fn new(elements: &'a [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self> {
        check!(
            fits(elements.len(), rows, cols, row_stride, col_stride),
            "a {rows} x {cols} matrix with strides {row_stride} and {col_stride} does not fit {} elements",
            elements.len()
        );
        // SAFETY: checked just now; a slice's length fits an isize, so the strides do where they count.
        Ok(unsafe { Self::from_raw(elements.as_ptr(), rows, cols, row_stride as isize, col_stride as isize) })
    }

    /// A row-major matrix.
    ///
    /// # Errors
    /// When the slice is too short.
    #[inline]
    pub fn row_major(elements: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        Self::new(elements, rows, cols, cols, 1)
    }

    /// # Safety
    /// Every element is valid for reads, and not written, for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(
        pointer: *const T,
        rows: usize,
        cols: usize,
        row_stride: isize,
        col_stride: isize,
    ) -> Self {
        Self { pointer, rows, cols, row_stride, col_stride, _elements: PhantomData }
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from one row to the next.
    #[inline]
    pub fn row_stride(&self) -> isize {
        self.row_stride
    }

    /// Elements from one column to the next.
    #[inline]
    pub fn col_stride(&self) -> isize {
        self.col_stride
    }

    /// The address of element (0, 0).
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const T {
        self.pointer
    }

    /// The transposed matrix.
    #[inline]
    pub fn t(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }

    /// The element (i, j).
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> T
    where
        T: Copy,
    {
        assert!(i < self.rows && j < self.cols, "element ({i}, {j}) of a {} x {} matrix", self.rows, self.cols);
        // SAFETY: within the matrix.
        unsafe { *self.pointer.offset(i as isize * self.row_stride + j as isize * self.col_stride) }
    }

    /// Rows `begin..end`.
    ///
    /// # Panics
    /// When they are out of bounds.
    #[inline]
    pub fn rows_range(self, begin: usize, end: usize) -> Self {
        assert!(begin <= end && end <= self.rows, "rows {begin}..{end} of {}", self.rows);
        let pointer = self.pointer.wrapping_offset(begin as isize * self.row_stride);
        Self { pointer, rows: end - begin, ..self }
    }

    /// Columns `begin..end`.
    ///
    /// # Panics
    /// When they are out of bounds.
    #[inline]
    pub fn cols_range(self, begin: usize, end: usize) -> Self {
        self.t().rows_range(begin, end).t()
    }
}

/// A matrix of elements that nobody else reads or writes while it lives. Distinct indices are distinct elements.
pub struct MatMut<'a, T> {
    matrix: MatRef<'a, T>,
    _exclusive: PhantomData<&'a mut [T]>,
}

// SAFETY: an exclusive slice with two strides.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// A matrix within a slice: element (i, j) is `elements[i * row_stride + j * col_stride]`.
    ///
    /// # Errors
    /// When the slice is too short, or two indices are one element.
    #[inline]
    pub fn new(elements: &'a mut [T], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self> {
        check!(
            fits(elements.len(), rows, cols, row_stride, col_stride),
            "a {rows} x {cols} matrix with strides {row_stride} and {col_stride} does not fit {} elements",
            elements.len()
        );
        let ((near, count), (far, others)) = if row_stride < col_stride {
            ((row_stride, rows), (col_stride, cols))
        } else {
            ((col_stride, cols), (row_stride, rows))
        };
        let distinct =
            rows == 0 || cols == 0 || (count <= 1 || near > 0) && (others <= 1 || far > near * count.saturating_sub(1));
        check!(distinct, "two indices of a {rows} x {cols} output matrix are one element");
        // SAFETY: checked just now: within the slice, which is borrowed mutably, and distinct.
        Ok(unsafe { Self::from_raw(elements.as_mut_ptr(), rows, cols, row_stride as isize, col_stride as isize) })
    }

    /// A row-major matrix.
    ///
    /// # Errors
    /// When the slice is too short.
    #[inline]
    pub fn row_major(elements: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        Self::new(elements, rows, cols, cols, 1)
    }

    /// # Safety
    /// Every element is valid for reads and writes by this matrix alone, for `'a`; distinct indices are distinct elements.
    #[inline]
    pub(crate) unsafe fn from_raw(
        pointer: *mut T,
        rows: usize,
        cols: usize,
        row_stride: isize,
        col_stride: isize,
    ) -> Self {
        // SAFETY: forwarded from the caller.
        let matrix = unsafe { MatRef::from_raw(pointer, rows, cols, row_stride, col_stride) };
        Self { matrix, _exclusive: PhantomData }
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.matrix.rows
    }

    /// The number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.matrix.cols
    }

    /// Elements from one row to the next.
    #[inline]
    pub fn row_stride(&self) -> isize {
        self.matrix.row_stride
    }

    /// Elements from one column to the next.
    #[inline]
    pub fn col_stride(&self) -> isize {
        self.matrix.col_stride
    }

    /// The address of element (0, 0).
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.matrix.pointer.cast_mut()
    }

    /// The elements for reading.
    #[inline]
    pub fn as_ref(&self) -> MatRef<'_, T> {
        self.matrix.rows_range(0, self.matrix.rows)
    }

    /// The same matrix for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { matrix: self.as_ref(), _exclusive: PhantomData }
    }

    /// The transposed matrix.
    #[inline]
    pub fn t(self) -> Self {
        Self { matrix: self.matrix.t(), _exclusive: PhantomData }
    }

    /// Sets the element (i, j).
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, value: T) {
        let m = &self.matrix;
        assert!(i < m.rows && j < m.cols, "element ({i}, {j}) of a {} x {} matrix", m.rows, m.cols);
        let at = i as isize * m.row_stride + j as isize * m.col_stride;
        // SAFETY: within the matrix, which is exclusive.
        unsafe { *m.pointer.cast_mut().offset(at) = value }
    }

    /// Writes row `i`, as many elements as fit.
    ///
    /// # Panics
    /// When it is out of bounds.
    #[inline(always)]
    pub fn set_row(&mut self, i: usize, values: &[T])
    where
        T: Copy,
    {
        let n = values.len().min(self.cols());
        if self.col_stride() != 1 {
            for (j, &value) in values[..n].iter().enumerate() {
                self.set(i, j, value);
            }
            return;
        }
        assert!(i < self.rows(), "row {i} of {}", self.rows());
        let pointer = self.as_mut_ptr().wrapping_offset(i as isize * self.row_stride());
        // SAFETY: stride 1: the row begins with `n` elements of the matrix, which is exclusive, one after the other.
        unsafe { std::slice::from_raw_parts_mut(pointer, n) }.copy_from_slice(&values[..n]);
    }

    /// The matrix in blocks of `rows` rows, the last one with what is left.
    pub fn row_blocks(self, rows: usize) -> impl Iterator<Item = MatMut<'a, T>> {
        let (matrix, rows) = (self.matrix, rows.max(1));
        (0..matrix.rows).step_by(rows).map(move |first| {
            // Blocks are disjoint, and each is given once.
            MatMut { matrix: matrix.rows_range(first, matrix.rows.min(first + rows)), _exclusive: PhantomData }
        })
    }

    /// The elements of row `i`, which lie side by side.
    ///
    /// # Panics
    /// When they do not, or there is no such row.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [T] {
        let m = &self.matrix;
        assert!(i < m.rows && m.col_stride == 1, "row {i} of {} as a slice", m.rows);
        // SAFETY: the row is one of the matrix, which is exclusive, and its `cols` elements lie side by side.
        unsafe { std::slice::from_raw_parts_mut(m.pointer.cast_mut().offset(i as isize * m.row_stride), m.cols) }
    }

    /// Calls `f(first_row, first_col, block)` for blocks of at most `rows` by `cols`, in parallel.
    pub(crate) fn par_blocks(self, rows: usize, cols: usize, f: impl Fn(usize, usize, MatMut<'_, T>) + Sync)
    where
        T: Send + Sync,
    {
        let matrix = self.matrix;
        let (rows, cols) = (rows.max(1), cols.max(1));
        let (down, across) = (matrix.rows.div_ceil(rows), matrix.cols.div_ceil(cols));
        parallel_for(down * across, 1, |begin, end| {
            for block in begin..end {
                let (i, j) = (block / across * rows, block % across * cols);
                let part = matrix.rows_range(i, matrix.rows.min(i + rows)).cols_range(j, matrix.cols.min(j + cols));
                // Blocks are disjoint, and each is visited once.
                f(i, j, MatMut { matrix: part, _exclusive: PhantomData });
            }
        });
    }
}

/// Where matrix `i` over all but the last two dimensions begins, and its rows, columns and strides.
#[inline]
fn matrix_at(sizes: &[i64], strides: &[i64], i: usize) -> Result<(isize, usize, usize, isize, isize)> {
    let n = sizes.len();
    check!(n >= 2, "expected a tensor with at least 2 dimensions, got {n}");
    let mut rest = i as i64;
    let mut start = 0;
    for d in (0..n - 2).rev() {
        check!(sizes[d] > 0, "an empty batch has no matrices");
        start += ((rest % sizes[d]) * strides[d]) as isize;
        rest /= sizes[d];
    }
    check!(rest == 0, "matrix {i} is out of bounds");
    let (rows, cols) = (sizes[n - 2] as usize, sizes[n - 1] as usize);
    Ok((start, rows, cols, strides[n - 2] as isize, strides[n - 1] as isize))
}

impl<'a, T: Element> View<'a, T> {
    /// Matrix `i` over the last two dimensions, of the batch that the leading ones make (row-major).
    ///
    /// # Errors
    /// With less than two dimensions, or no such matrix.
    #[inline]
    pub fn matrix(&self, i: usize) -> Result<MatRef<'a, T>> {
        let (start, rows, cols, rs, cs) = matrix_at(self.sizes(), self.strides(), i)?;
        // SAFETY: `matrix_at` checked that the matrix is one of the view's, so its elements are (if it has any).
        Ok(unsafe { MatRef::from_raw(self.as_ptr().wrapping_offset(start), rows, cols, rs, cs) })
    }
}

impl<T: Element> ViewMut<'_, T> {
    /// Matrix `i` over the last two dimensions, of the batch that the leading ones make (row-major).
    ///
    /// # Errors
    /// With less than two dimensions, or no such matrix.
    pub fn matrix_mut(&mut self, i: usize) -> Result<MatMut<'_, T>> {
        let (start, rows, cols, rs, cs) = matrix_at(self.sizes(), self.strides(), i)?;
        let pointer = self.as_view().as_ptr().cast_mut().wrapping_offset(start);
        // SAFETY: as `View::matrix`; the view is exclusive, and its indices are distinct elements.
        Ok(unsafe { MatMut::from_raw(pointer, rows, cols, rs, cs) })
    }

    /// All matrices over the last two dimensions, in the (row-major) order of the leading ones.
    ///
    /// # Errors
    /// With less than two dimensions.
    pub fn matrices_mut(&mut self) -> Result<Vec<MatMut<'_, T>>> {
        let n = self.dim();
        check!(n >= 2, "expected a tensor with at least 2 dimensions, got {n}");
        let batch: i64 = self.sizes()[..n - 2].iter().product();
        let view = self.as_view();
        // The matrices of a batch are disjoint, and each is given once.
        (0..batch as usize).map(|i| Ok(MatMut { matrix: view.matrix(i)?, _exclusive: PhantomData })).collect()
    }

    /// Calls `f(i, matrix)` for every matrix of the batch, in parallel, compiled for the level `I`. `work` is about how many
    /// element steps a matrix costs.
    ///
    /// # Errors
    /// With less than two dimensions.
    #[inline]
    pub fn par_matrices<I: Isa>(&mut self, work: usize, f: impl Fn(usize, MatMut<'_, T>) + Sync) -> Result<()> {
        let n = self.dim();
        check!(n >= 2, "expected a tensor with at least 2 dimensions, got {n}");
        let batch: i64 = self.sizes()[..n - 2].iter().product();
        let view = self.as_view();
        parallel_for(batch as usize, (GRAIN / work.max(1)).max(1), |begin, end| {
            I::run(
                #[inline(always)]
                || {
                    for i in begin..end {
                        let Ok(m) = view.matrix(i) else { return };
                        // The matrices of a batch are disjoint, and each is visited once.
                        f(i, MatMut { matrix: m, _exclusive: PhantomData });
                    }
                },
            )
        });
        Ok(())
    }
}
