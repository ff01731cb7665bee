//! `A = L D L^T` (or `L^H`) of symmetric and Hermitian matrices, D of blocks of one and two rows (Bunch and Kaufman). Pivots are
//! LAPACK's: positive for blocks of one row, twice the same negative number for blocks of two.

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::{Field, number};
use super::mat::{Mat, add_scaled};
use super::{batch_of, batched, operands, write_matrix, write_row};
use crate::loops::views::lock;

/// The conjugate, for Hermitian matrices.
fn turned<T: Field>(v: T, hermitian: bool) -> T {
    if hermitian { v.conj() } else { v }
}

/// The place and size of the largest element of some.
fn largest<T: Field>(values: impl Iterator<Item = (usize, T)>) -> (usize, T::Real) {
    values.fold((0, T::Real::NULL), |(at, max), (i, v)| if v.size() > max { (i, v.size()) } else { (at, max) })
}

/// Which row comes next, and how many rows the block has.
fn choose<T: Field>(a: &Mat<T>, k: usize) -> Option<(usize, usize)> {
    let n = a.rows;
    let alpha: T::Real = (T::Real::UNIT + number::<T::Real>(17.0).sqrt()) / number(8.0);
    let diagonal = a[(k, k)].size();
    let (row, column) = largest(a.col(k).iter().copied().enumerate().skip(k + 1));
    if !(diagonal.max(column) > T::Real::NULL) {
        return None;
    }
    if diagonal >= alpha * column {
        return Some((k, 1));
    }
    let across = largest((k..row).map(|j| (j, a[(row, j)]))).1;
    let down = largest((row + 1..n).map(|i| (i, a[(i, row)]))).1;
    let along = across.max(down);
    if diagonal >= alpha * column * (column / along) {
        Some((k, 1))
    } else if a[(row, row)].size() >= alpha * along {
        Some((row, 1))
    } else {
        Some((row, 2))
    }
}

/// Exchanges rows and columns `j < p` of what is left from `j` on, of which the lower triangle counts.
fn exchange<T: Field>(a: &mut Mat<T>, j: usize, p: usize, hermitian: bool) {
    for i in p + 1..a.rows {
        let (x, y) = (a[(i, j)], a[(i, p)]);
        (a[(i, j)], a[(i, p)]) = (y, x);
    }
    for i in j + 1..p {
        let (x, y) = (a[(i, j)], a[(p, i)]);
        (a[(i, j)], a[(p, i)]) = (turned(y, hermitian), turned(x, hermitian));
    }
    a[(p, j)] = turned(a[(p, j)], hermitian);
    let (x, y) = (a[(j, j)], a[(p, p)]);
    (a[(j, j)], a[(p, p)]) = (y, x);
}

/// Takes a block of one row off what is left.
fn one<T: Field>(a: &mut Mat<T>, k: usize, hermitian: bool) {
    let inverse = T::UNIT / a[(k, k)];
    for j in k + 1..a.rows {
        let (left, right) = a.two_cols(k, j);
        let factor = -inverse * turned(left[j], hermitian);
        add_scaled(factor, &left[j..], &mut right[j..]);
    }
    a.col_mut(k)[k + 1..].iter_mut().for_each(|v| *v *= inverse);
}

/// Takes a block of two rows off what is left.
fn two<T: Field>(a: &mut Mat<T>, k: usize, hermitian: bool) {
    let below = a[(k + 1, k)];
    // All divided by the element beside the diagonal, so that nothing overflows.
    let first = a[(k + 1, k + 1)] / below;
    let second = a[(k, k)] / turned(below, hermitian);
    let scale = T::UNIT / (first * second - T::UNIT);
    for j in k + 2..a.rows {
        let (x, y) = (a[(j, k)], a[(j, k + 1)]);
        let left = scale * (first * x - y) / turned(below, hermitian);
        let right = scale * (second * y - x) / below;
        for i in j..a.rows {
            let taken = a[(i, k)] * turned(left, hermitian) + a[(i, k + 1)] * turned(right, hermitian);
            a[(i, j)] -= taken;
        }
        (a[(j, k)], a[(j, k + 1)]) = (left, right);
    }
}

/// Factors the lower triangle in place; gives the pivots and the first block that is zero, counted from 1.
fn factor<T: Field>(a: &mut Mat<T>, hermitian: bool) -> (Vec<i32>, i32) {
    let n = a.rows;
    let (mut pivots, mut info, mut k) = (vec![0; n], 0, 0);
    while k < n {
        let Some((pivot, size)) = choose(a, k) else {
            info = if info == 0 { k as i32 + 1 } else { info };
            pivots[k] = k as i32 + 1;
            k += 1;
            continue;
        };
        let last = k + size - 1;
        if pivot != last {
            exchange(a, last, pivot, hermitian);
            if size == 2 {
                let (x, y) = (a[(k + 1, k)], a[(pivot, k)]);
                (a[(k + 1, k)], a[(pivot, k)]) = (y, x);
            }
        }
        let number = pivot as i32 + 1;
        if size == 1 {
            one(a, k, hermitian);
            pivots[k] = number;
        } else {
            two(a, k, hermitian);
            (pivots[k], pivots[k + 1]) = (-number, -number);
        }
        if hermitian {
            (k..n).for_each(|i| a[(i, i)] = T::real(a[(i, i)].re()));
        }
        k += size;
    }
    (pivots, info)
}

/// `b` becomes the solution of `L D L^T x = b`.
fn solve<T: Field>(a: &Mat<T>, pivots: &[i32], b: &mut Mat<T>, hermitian: bool) {
    let n = a.rows;
    let row = |pivot: i32| (pivot.unsigned_abs() as usize).clamp(1, n) - 1;
    let mut k = 0;
    while k < n {
        let is_pair = pivots[k] < 0 && k + 1 < n;
        let size = if is_pair { 2 } else { 1 };
        b.swap_rows(k + size - 1, row(pivots[k + size - 1]));
        for j in 0..b.cols {
            let x = b.col_mut(j);
            for (at, rest) in (k..k + size).map(|at| (at, k + size)) {
                let factor = -x[at];
                add_scaled(factor, &a.col(at)[rest..], &mut x[rest..]);
            }
            if is_pair {
                let below = a[(k + 1, k)];
                let upper = turned(below, hermitian);
                let (first, second) = (a[(k, k)] / upper, a[(k + 1, k + 1)] / below);
                let scale = first * second - T::UNIT;
                let (u, v) = (x[k] / upper, x[k + 1] / below);
                x[k] = (second * u - v) / scale;
                x[k + 1] = (first * v - u) / scale;
            } else {
                x[k] /= a[(k, k)];
            }
        }
        k += size;
    }
    while k > 0 {
        let is_pair = pivots[k - 1] < 0 && k > 1;
        let size = if is_pair { 2 } else { 1 };
        for j in 0..b.cols {
            let x = b.col_mut(j);
            for at in k - size..k {
                let column = &a.col(at)[k..];
                let sum = column.iter().zip(&x[k..]).fold(T::NULL, |s, (&v, &x)| s + turned(v, hermitian) * x);
                x[at] -= sum;
            }
        }
        b.swap_rows(k - 1, row(pivots[k - 1]));
        k -= size;
    }
}

/// `outputs`: LD (.., n, n), pivots (.., n) and info (..) of i32; `inputs`: a (.., n, n), whose lower triangle counts. Flags: it
/// is Hermitian.
pub fn ldl_factor<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [hermitian, _]: [bool; 2]) -> Result<()> {
    let [out, pivots, info] = operands(outputs, "ldl_factor")?;
    let [a] = operands(inputs, "ldl_factor")?;
    let locked = lock(&[a.as_impl()], &[out.as_impl(), pivots.as_impl(), info.as_impl()])?;
    let a = locked.read::<T>(0)?;
    let (mut out, mut pivots, mut info) = (locked.write::<T>(0)?, locked.write::<i32>(1)?, locked.write::<i32>(2)?);
    let n = a.size(a.dim() - 1);
    let results = batched(batch_of(a.sizes()), n * n * n, |i| {
        let mut a = Mat::read(a.matrix(i)?);
        let (pivots, info) = factor(&mut a, hermitian && T::COMPLEX);
        (1..n).for_each(|j| a.col_mut(j)[..j].fill(T::NULL));
        Ok((a, pivots, info))
    })?;
    for (i, (values, rows, _)) in results.iter().enumerate() {
        write_matrix(&mut out, i, values)?;
        write_row(&mut pivots, i, rows);
    }
    info.copy_from(&results.iter().map(|result| result.2).collect::<Vec<_>>());
    Ok(())
}

/// `outputs`: x (.., n, k); `inputs`: LD (.., n, n), pivots (.., n) of i32, b (.., n, k). Flags: it is Hermitian.
pub fn ldl_solve<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [hermitian, _]: [bool; 2]) -> Result<()> {
    let [out] = operands(outputs, "ldl_solve")?;
    let [a, pivots, b] = operands(inputs, "ldl_solve")?;
    let locked = lock(&[a.as_impl(), pivots.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, pivots, b) = (locked.read::<T>(0)?, locked.read::<i32>(1)?, locked.read::<T>(2)?);
    let mut out = locked.write::<T>(0)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (n, pivots) = (a.size(a.dim() - 1), pivots.dense());
    let results = batched(batch_of(a.sizes()), n * n * b.size(b.dim() - 1), |i| {
        let mut x = Mat::read(b.matrix(i)?);
        solve(&Mat::read(a.matrix(i)?), &pivots[i * n..][..n], &mut x, hermitian && T::COMPLEX);
        Ok(x)
    })?;
    results.iter().enumerate().try_for_each(|(i, x)| write_matrix(&mut out, i, x))
}
