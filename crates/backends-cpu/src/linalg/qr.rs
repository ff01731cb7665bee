//! Householder reflections: `A = Q R`, and the matrices Q that reflections make.
//!
//! A reflection is `I - tau v v^H` with `v[0] = 1`; Q is the product of them, the first one leftmost. Blocks of k are applied
//! together as `I - V T V^H`, by products.

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::Field;
use super::mat::{Mat, add_scaled, inner, norm, product};
use super::{batch_of, batched, operands, write_matrix, write_row};
use crate::loops::views::lock;

/// Reflections that are applied together.
const BLOCK: usize = 32;

/// Makes the reflection whose adjoint turns `x` into a real multiple of the first unit vector: that multiple comes to `x[0]`, the
/// rest of v behind it. Gives tau.
pub(super) fn reflection<T: Field>(x: &mut [T]) -> T {
    let Some((first, rest)) = x.split_first_mut() else { return T::NULL };
    let (alpha, length) = (*first, norm(rest));
    let zero = T::Real::NULL;
    if length == zero && alpha.im() == zero {
        return T::NULL;
    }
    let beta = -alpha.modulus().hypot(length).copysign(alpha.re());
    let tau = T::of((beta - alpha.re()) / beta, -alpha.im() / beta);
    let scale = T::UNIT / (alpha - T::real(beta));
    rest.iter_mut().for_each(|v| *v *= scale);
    *first = T::real(beta);
    tau
}

/// Applies `I - tau v v^H` to a column, where `v` is 1 and then `tail`.
#[inline]
pub(super) fn reflect<T: Field>(tau: T, tail: &[T], x: &mut [T]) {
    if let Some((first, rest)) = x.split_first_mut() {
        let sum = tau * (*first + inner(tail, rest));
        *first -= sum;
        add_scaled(-sum, tail, rest);
    }
}

/// Reflections of some columns of a factored matrix: V below row `begin`, with its ones and zeros, and T.
fn block_of<T: Field>(a: &Mat<T>, tau: &[T], begin: usize, end: usize) -> (Mat<T>, Mat<T>) {
    let mut v = a.part(begin..a.rows, begin..end);
    for j in 0..v.cols {
        let column = v.col_mut(j);
        column[..j].fill(T::NULL);
        column[j] = T::UNIT;
    }
    let k = end - begin;
    let mut t = Mat::zeros(k, k);
    for j in 0..k {
        let tau = tau[begin + j];
        let against: Vec<T> = (0..j).map(|i| -(tau * inner(&v.col(i)[j..], &v.col(j)[j..]))).collect();
        for i in 0..j {
            t[(i, j)] = (i..j).fold(T::NULL, |sum, l| sum + t[(i, l)] * against[l]);
        }
        t[(j, j)] = tau;
    }
    (v, t)
}

/// `c` becomes `Q c`, or `Q^H c`, for the Q of one block that acts on the rows from `begin` and columns from `first`.
fn apply_block<T: Field>(
    v: &Mat<T>,
    t: &Mat<T>,
    c: &mut Mat<T>,
    begin: usize,
    first: usize,
    adjoint: bool,
) -> Result<()> {
    let (m, n) = (c.rows, c.cols);
    if first >= n {
        return Ok(());
    }
    let rows = c.part(begin..m, first..n);
    let mut against = Mat::zeros(v.cols, n - first);
    product(T::UNIT, v.adjoint().as_ref()?, rows.as_ref()?, against.part_mut(0..v.cols, 0..n - first)?)?;
    let t = if adjoint { t.adjoint() } else { t.clone() };
    let mut mixed = Mat::zeros(v.cols, n - first);
    product(T::UNIT, t.as_ref()?, against.as_ref()?, mixed.part_mut(0..v.cols, 0..n - first)?)?;
    product(-T::UNIT, v.as_ref()?, mixed.as_ref()?, c.part_mut(begin..m, first..n)?)
}

/// Factors in place: R on and above the diagonal, the reflections below. Gives their taus.
pub(super) fn factor<T: Field>(a: &mut Mat<T>) -> Result<Vec<T>> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let mut tau = vec![T::NULL; k];
    for begin in (0..k).step_by(BLOCK) {
        let end = k.min(begin + BLOCK);
        for j in begin..end {
            tau[j] = reflection(&mut a.col_mut(j)[j..]);
            for c in j + 1..end {
                let (left, right) = a.two_cols(j, c);
                reflect(tau[j].conj(), &left[j + 1..], &mut right[j..]);
            }
        }
        if end < n {
            let (v, t) = block_of(a, &tau, begin, end);
            apply_block(&v, &t, a, begin, end, true)?;
        }
    }
    Ok(tau)
}

/// `c` becomes `Q c`, or `Q^H c`, where Q is made of the reflections below the diagonal of `a`, which has as many rows as `c`.
pub(super) fn apply<T: Field>(a: &Mat<T>, tau: &[T], c: &mut Mat<T>, adjoint: bool) -> Result<()> {
    let k = tau.len().min(a.cols).min(a.rows);
    let blocks = k.div_ceil(BLOCK);
    for block in 0..blocks {
        let block = if adjoint { block } else { blocks - 1 - block };
        let (begin, end) = (block * BLOCK, k.min((block + 1) * BLOCK));
        let (v, t) = block_of(a, tau, begin, end);
        apply_block(&v, &t, c, begin, 0, adjoint)?;
    }
    Ok(())
}

/// The first `cols` columns of Q.
pub(super) fn columns<T: Field>(a: &Mat<T>, tau: &[T], cols: usize) -> Result<Mat<T>> {
    let mut q = Mat::identity(a.rows, cols);
    apply(a, tau, &mut q, false)?;
    Ok(q)
}

/// `outputs`: the factors (.., m, n) and taus (.., min(m, n)); `inputs`: a (.., m, n). No flags.
pub fn geqrf<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], _: [bool; 2]) -> Result<()> {
    let [out, taus] = operands(outputs, "geqrf")?;
    let [a] = operands(inputs, "geqrf")?;
    let locked = lock(&[a.as_impl()], &[out.as_impl(), taus.as_impl()])?;
    let (a, mut out, mut taus) = (locked.read::<T>(0)?, locked.write::<T>(0)?, locked.write::<T>(1)?);
    let (m, n) = (a.size(a.dim() - 2), a.size(a.dim() - 1));
    let factors = batched(batch_of(a.sizes()), m * n * m.min(n), |i| {
        let mut a = Mat::read(a.matrix(i)?);
        let tau = factor(&mut a)?;
        Ok((a, tau))
    })?;
    for (i, (values, tau)) in factors.iter().enumerate() {
        write_matrix(&mut out, i, values)?;
        write_row(&mut taus, i, tau);
    }
    Ok(())
}

/// `outputs`: the first columns of Q (.., m, n); `inputs`: the reflections (.., m, k) and taus (.., l), with l <= k. No flags.
pub fn householder_product<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], _: [bool; 2]) -> Result<()> {
    let [out] = operands(outputs, "householder_product")?;
    let [a, taus] = operands(inputs, "householder_product")?;
    let locked = lock(&[a.as_impl(), taus.as_impl()], &[out.as_impl()])?;
    let (a, taus, mut out) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.write::<T>(0)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let (m, n) = (out.size(out.dim() - 2), out.size(out.dim() - 1));
    let (k, taus) = (taus.size(taus.dim() - 1), taus.dense());
    let results =
        batched(batch_of(a.sizes()), m * n * k, |i| columns(&Mat::read(a.matrix(i)?), &taus[i * k..][..k], n))?;
    results.iter().enumerate().try_for_each(|(i, q)| write_matrix(&mut out, i, q))
}

/// `outputs`: Q c (.., m, n); `inputs`: the reflections, the taus, c (.., m, n). Flags: c is on the left (`c Q`), and it is
/// the adjoint of Q.
pub fn ormqr<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [right, adjoint]: [bool; 2]) -> Result<()> {
    let [out] = operands(outputs, "ormqr")?;
    let [a, taus, c] = operands(inputs, "ormqr")?;
    let locked = lock(&[a.as_impl(), taus.as_impl(), c.as_impl()], &[out.as_impl()])?;
    let (a, taus, c) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.read::<T>(2)?);
    let mut out = locked.write::<T>(0)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (m, n) = (out.size(out.dim() - 2), out.size(out.dim() - 1));
    let (k, taus) = (taus.size(taus.dim() - 1), taus.dense());
    let results = batched(batch_of(a.sizes()), m * n * k, |i| {
        let (a, tau) = (Mat::read(a.matrix(i)?), &taus[i * k..][..k]);
        if right {
            // The adjoint of what the adjoint makes of the adjoint.
            let mut turned = Mat::read_adjoint(c.matrix(i)?);
            apply(&a, tau, &mut turned, !adjoint)?;
            return Ok(turned.adjoint());
        }
        let mut c = Mat::read(c.matrix(i)?);
        apply(&a, tau, &mut c, adjoint)?;
        Ok(c)
    })?;
    results.iter().enumerate().try_for_each(|(i, c)| write_matrix(&mut out, i, c))
}
