//! [`Mat`]: a column-major matrix, and the steps that factorisations are made of.

use std::ops::{Index, IndexMut, Range};

use num_traits::Float;
use tensor_core::Result;

use super::field::Field;
use crate::gemm::gemm;
use crate::isa::Baseline;
#[cfg(not(debug_assertions))]
use crate::isa::{Level, V3, V4, level};
use crate::loops::{MatMut, MatRef};

/// A matrix whose columns lie one after the other.
#[derive(Clone, Debug)]
pub(super) struct Mat<T> {
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<T>,
}

impl<T> Index<(usize, usize)> for Mat<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, (i, j): (usize, usize)) -> &T {
        &self.data[j * self.rows..][..self.rows][i]
    }
}

impl<T> IndexMut<(usize, usize)> for Mat<T> {
    #[inline(always)]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut T {
        &mut self.data[j * self.rows..][..self.rows][i]
    }
}

impl<T: Field> Mat<T> {
    /// Zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![T::NULL; rows * cols] }
    }

    /// Ones on the diagonal.
    pub fn identity(rows: usize, cols: usize) -> Self {
        let mut m = Self::zeros(rows, cols);
        (0..rows.min(cols)).for_each(|i| m[(i, i)] = T::UNIT);
        m
    }

    /// A copy.
    pub fn read(from: MatRef<'_, T>) -> Self {
        let (rows, cols) = (from.rows(), from.cols());
        let mut data = Vec::with_capacity(rows * cols);
        for j in 0..cols {
            data.extend((0..rows).map(|i| from.at(i, j)));
        }
        Self { rows, cols, data }
    }

    /// The conjugate transpose of a matrix.
    pub fn read_adjoint(from: MatRef<'_, T>) -> Self {
        let mut m = Self::read(from.t());
        m.data.iter_mut().for_each(|v| *v = v.conj());
        m
    }

    /// Copies the elements to a matrix of this shape.
    pub fn write(&self, out: MatMut<'_, T>) -> Result<()> {
        tensor_core::check!(
            out.rows() == self.rows && out.cols() == self.cols,
            "a {} x {} matrix for a result of {} x {}",
            out.rows(),
            out.cols(),
            self.rows,
            self.cols
        );
        let mut out = out.t();
        (0..self.cols).for_each(|j| out.set_row(j, self.col(j)));
        Ok(())
    }

    /// Column `j`.
    #[inline]
    pub fn col(&self, j: usize) -> &[T] {
        &self.data[j * self.rows..][..self.rows]
    }

    /// Column `j`.
    #[inline]
    pub fn col_mut(&mut self, j: usize) -> &mut [T] {
        &mut self.data[j * self.rows..][..self.rows]
    }

    /// Columns `j < k`, both at once.
    #[inline]
    pub fn two_cols(&mut self, j: usize, k: usize) -> (&mut [T], &mut [T]) {
        let rows = self.rows;
        let (left, right) = self.data.split_at_mut(k * rows);
        (&mut left[j * rows..][..rows], &mut right[..rows])
    }

    /// Exchanges two rows.
    pub fn swap_rows(&mut self, i: usize, k: usize) {
        if i != k {
            (0..self.cols).for_each(|j| self.col_mut(j).swap(i, k));
        }
    }

    /// The conjugate transpose.
    pub fn adjoint(&self) -> Self {
        let mut data = Vec::with_capacity(self.data.len());
        for i in 0..self.rows {
            data.extend((0..self.cols).map(|j| self[(i, j)].conj()));
        }
        Self { rows: self.cols, cols: self.rows, data }
    }

    /// A copy of a part.
    pub fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let mut data = Vec::with_capacity(rows.len() * cols.len());
        cols.clone().for_each(|j| data.extend_from_slice(&self.col(j)[rows.clone()]));
        Self { rows: rows.len(), cols: cols.len(), data }
    }

    /// All of it, as products take it.
    pub fn as_ref(&self) -> Result<MatRef<'_, T>> {
        MatRef::new(&self.data, self.rows, self.cols, 1, self.rows.max(1))
    }

    /// A part that products may write.
    pub fn part_mut(&mut self, rows: Range<usize>, cols: Range<usize>) -> Result<MatMut<'_, T>> {
        let (count, height) = (rows.len(), self.rows);
        let span =
            if count == 0 || cols.is_empty() { 0..0 } else { cols.start * height + rows.start..cols.end * height };
        MatMut::new(&mut self.data[span], count, cols.len(), 1, height.max(1))
    }

    /// True unless an element is infinite or no number.
    pub fn finite(&self) -> bool {
        self.data.iter().all(|v| v.finite())
    }

    /// Columns in another order.
    pub fn permuted(&self, order: &[usize]) -> Self {
        let mut data = Vec::with_capacity(self.rows * order.len());
        order.iter().for_each(|&j| data.extend_from_slice(self.col(j)));
        Self { rows: self.rows, cols: order.len(), data }
    }

    /// Turns columns `j < k` by an angle: `(x, y)` become `(c x + s y, c y - s x)`.
    #[inline]
    pub fn rotate(&mut self, j: usize, k: usize, c: T::Real, s: T::Real) {
        let (x, y) = self.two_cols(j, k);
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (x.times(c) + y.times(s), y.times(c) - x.times(s));
        }
    }
}

/// `c += alpha * a @ b`, at the machine's level.
pub(super) fn product<T: Field>(alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>, c: MatMut<'_, T>) -> Result<()> {
    #[cfg(not(debug_assertions))]
    match level() {
        Level::V4 => return gemm::<V4, T>(alpha, a, b, T::UNIT, c),
        Level::V3 => return gemm::<V3, T>(alpha, a, b, T::UNIT, c),
        Level::Baseline => {}
    }
    gemm::<Baseline, T>(alpha, a, b, T::UNIT, c)
}

/// `y += alpha * x`
#[inline]
pub(super) fn add_scaled<T: Field>(alpha: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += alpha * x;
    }
}

/// The sum of `conj(x) * y`, in four parts.
#[inline]
pub(super) fn inner<T: Field>(x: &[T], y: &[T]) -> T {
    let mut sums = [T::NULL; 4];
    let (xs, ys) = (x.chunks_exact(4), y.chunks_exact(4));
    let rest = xs.remainder().iter().zip(ys.remainder()).fold(T::NULL, |sum, (&x, &y)| sum + x.conj() * y);
    for (x, y) in xs.zip(ys) {
        for (sum, (&x, &y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x.conj() * y;
        }
    }
    sums[0] + sums[1] + (sums[2] + sums[3]) + rest
}

/// The Euclidean norm, without overflow.
pub(super) fn norm<T: Field>(x: &[T]) -> T::Real {
    let zero = T::Real::NULL;
    let largest = x.iter().fold(zero, |max, v| {
        let size = v.size();
        if size > max || size.is_nan() { size } else { max }
    });
    if largest == zero || !largest.is_finite() {
        return largest;
    }
    let sum = x.iter().fold(zero, |sum, &v| {
        let (re, im) = (v.re() / largest, v.im() / largest);
        sum + re * re + im * im
    });
    largest * sum.sqrt()
}
