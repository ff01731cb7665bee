//! Singular values and vectors: Householder reflections to a real bidiagonal matrix, then implicit QR (Golub and Kahan).

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::Field;
use super::mat::{Mat, add_scaled};
use super::qr::{self, columns, reflect, reflection};
use super::{batch_of, batched, operands, write_matrix, write_row};
use crate::loops::views::lock;

/// Steps of QR for one singular value, of which two or three are common.
const STEPS: usize = 75;

/// `a = U diag(s) V^H` with falling `s`; `info` is not 0 where they were not found.
pub(super) struct Singular<T: Field> {
    pub u: Option<Mat<T>>,
    pub s: Vec<T::Real>,
    pub v: Option<Mat<T>>,
    pub info: i32,
}

/// The reflections that make an upper bidiagonal matrix of one with at least as many rows as columns.
struct Bidiagonal<T: Field> {
    diagonal: Vec<T::Real>,
    beside: Vec<T::Real>,
    left: Mat<T>,
    left_tau: Vec<T>,
    right: Mat<T>,
    right_tau: Vec<T>,
}

fn bidiagonal<T: Field>(mut a: Mat<T>) -> Bidiagonal<T> {
    let (m, n) = (a.rows, a.cols);
    let less = n.saturating_sub(1);
    let (mut diagonal, mut beside) = (vec![T::Real::NULL; n], vec![T::Real::NULL; n]);
    let (mut left_tau, mut right_tau) = (vec![T::NULL; n], vec![T::NULL; less]);
    let mut right = Mat::zeros(less, less);
    let mut w = vec![T::NULL; m];
    for k in 0..n {
        left_tau[k] = reflection(&mut a.col_mut(k)[k..]);
        diagonal[k] = a[(k, k)].re();
        for c in k + 1..n {
            let (left, right) = a.two_cols(k, c);
            reflect(left_tau[k].conj(), &left[k + 1..], &mut right[k..]);
        }
        if k + 1 >= n {
            continue;
        }
        let mut v: Vec<T> = (k + 1..n).map(|c| a[(k, c)].conj()).collect();
        let tau = reflection(&mut v);
        right_tau[k] = tau;
        beside[k] = v[0].re();
        right.col_mut(k)[k..].copy_from_slice(&v);
        v[0] = T::UNIT;
        let w = &mut w[..m - k - 1];
        w.fill(T::NULL);
        for (j, &factor) in v.iter().enumerate() {
            add_scaled(tau * factor, &a.col(k + 1 + j)[k + 1..], w);
        }
        for (j, factor) in v.iter().enumerate() {
            add_scaled(-factor.conj(), w, &mut a.col_mut(k + 1 + j)[k + 1..]);
        }
    }
    Bidiagonal { diagonal, beside, left: a, left_tau, right, right_tau }
}

/// Both factors, whose columns are turned together with the bidiagonal matrix.
struct Turned<T> {
    u: Option<Mat<T>>,
    v: Option<Mat<T>>,
}

fn rotate<T: Field>(z: &mut Option<Mat<T>>, j: usize, k: usize, c: T::Real, s: T::Real) {
    if let Some(z) = z {
        z.rotate(j, k, c, s);
    }
}

/// A rotation that turns (f, g) into (r, 0).
fn rotation<R: Float>(f: R, g: R) -> (R, R, R) {
    let r = f.hypot(g);
    if r == R::zero() { (R::one(), R::zero(), r) } else { (f / r, g / r, r) }
}

/// The shift of a QR step over `first..=last`: an eigenvalue of the lower end of `B^H B`, and where it begins.
fn shift<R: Float>(d: &[R], e: &[R], first: usize, last: usize) -> (R, R) {
    let two = R::one() + R::one();
    let ends = [d[last].abs(), d[last - 1].abs(), e[last - 1].abs(), d[first].abs(), e[first].abs()];
    let scale = ends.iter().fold(R::zero(), |max, &v| max.max(v));
    let (sp, spm1, epm1) = (d[last] / scale, d[last - 1] / scale, e[last - 1] / scale);
    let (sk, ek) = (d[first] / scale, e[first] / scale);
    let b = ((spm1 + sp) * (spm1 - sp) + epm1 * epm1) / two;
    let c = (sp * epm1) * (sp * epm1);
    let mut shift = R::zero();
    if b != R::zero() || c != R::zero() {
        shift = c / (b + (b * b + c).sqrt().copysign(b));
    }
    ((sk + sp) * (sk - sp) + shift, sk * ek)
}

/// Implicit QR: `d` becomes the singular values, of any signs and order. Gives how many were not found.
fn iterate<T: Field>(d: &mut [T::Real], e: &mut [T::Real], turned: &mut Turned<T>) -> i32 {
    let zero = T::Real::NULL;
    let (epsilon, tiny) = (T::Real::epsilon(), T::Real::min_positive_value());
    let mut left = d.len();
    let mut steps = 0;
    while left > 1 {
        let last = left - 1;
        let negligible =
            |d: &[T::Real], e: &[T::Real], k: usize| e[k].abs() <= tiny + epsilon * (d[k].abs() + d[k + 1].abs());
        // What ends is split off; then the part first..=last has nothing that is zero beside the diagonal.
        let mut first = last;
        while first > 0 && !negligible(d, e, first - 1) {
            first -= 1;
        }
        if first > 0 {
            e[first - 1] = zero;
        }
        if first == last {
            left -= 1;
            steps = 0;
            continue;
        }
        steps += 1;
        if steps > STEPS {
            return left as i32;
        }
        let vanished = |d: &[T::Real], e: &[T::Real], k: usize| {
            let right = if k < last { e[k].abs() } else { zero };
            let above = if k > first { e[k - 1].abs() } else { zero };
            d[k].abs() <= tiny + epsilon * (right + above)
        };
        if vanished(d, e, last) {
            // A zero at the end: the element above it is rotated out through the columns.
            d[last] = zero;
            let mut f = e[last - 1];
            e[last - 1] = zero;
            for j in (first..last).rev() {
                let (c, s, r) = rotation(d[j], f);
                d[j] = r;
                if j > first {
                    f = -s * e[j - 1];
                    e[j - 1] = c * e[j - 1];
                }
                rotate(&mut turned.v, j, last, c, s);
            }
            continue;
        }
        if let Some(k) = (first..last).find(|&k| vanished(d, e, k)) {
            // A zero within: the element beside it is rotated out through the rows.
            d[k] = zero;
            let mut f = e[k];
            e[k] = zero;
            for j in k + 1..=last {
                let (c, s, r) = rotation(d[j], f);
                d[j] = r;
                if j < last {
                    f = -s * e[j];
                    e[j] = c * e[j];
                }
                if let Some(u) = &mut turned.u {
                    // Columns in this order: rotate wants the smaller first.
                    u.rotate(k, j, c, -s);
                }
            }
            continue;
        }
        let (mut f, mut g) = shift(d, e, first, last);
        for j in first..last {
            let (c, s, r) = rotation(f, g);
            if j > first {
                e[j - 1] = r;
            }
            f = c * d[j] + s * e[j];
            e[j] = c * e[j] - s * d[j];
            g = s * d[j + 1];
            d[j + 1] = c * d[j + 1];
            rotate(&mut turned.v, j, j + 1, c, s);
            let (c, s, r) = rotation(f, g);
            d[j] = r;
            f = c * e[j] + s * d[j + 1];
            d[j + 1] = c * d[j + 1] - s * e[j];
            if j + 1 < last {
                g = s * e[j + 1];
                e[j + 1] = c * e[j + 1];
            }
            rotate(&mut turned.u, j, j + 1, c, s);
        }
        e[last - 1] = f;
    }
    0
}

/// Scales a matrix whose squares would over- or underflow; gives the factor that undoes it.
fn rescale<T: Field>(a: &mut Mat<T>) -> T::Real {
    let one = T::Real::UNIT;
    let largest = a.data.iter().fold(T::Real::NULL, |max, v| max.max(v.size()));
    let (small, large) = (T::Real::min_positive_value().sqrt(), T::Real::max_value().sqrt());
    if largest == T::Real::NULL || (largest > small / T::Real::epsilon() && largest < large * T::Real::epsilon()) {
        return one;
    }
    a.data.iter_mut().for_each(|v| *v = v.times(one / largest));
    largest
}

/// Of a matrix with more rows than columns, by way of `A = Q R`: the columns of Q beyond R's are vectors already.
fn tall<T: Field>(mut a: Mat<T>, vectors: bool, full: bool) -> Result<Singular<T>> {
    let (m, n) = (a.rows, a.cols);
    let tau = qr::factor(&mut a)?;
    let mut r = a.part(0..n, 0..n);
    (0..n).for_each(|j| r.col_mut(j)[j + 1..].fill(T::NULL));
    let Singular { u, s, v, info } = direct(r, vectors, full)?;
    let Some(inner) = u else { return Ok(Singular { u, s, v, info }) };
    let mut whole = Mat::identity(m, if full { m } else { n });
    (0..n).for_each(|j| whole.col_mut(j)[..n].copy_from_slice(inner.col(j)));
    qr::apply(&a, &tau, &mut whole, false)?;
    Ok(Singular { u: Some(whole), s, v, info })
}

/// The singular values of a matrix, and its vectors: all of them if `full`.
pub(super) fn decompose<T: Field>(a: Mat<T>, vectors: bool, full: bool) -> Result<Singular<T>> {
    if !a.finite() {
        return Ok(Singular { u: None, s: vec![T::Real::nan(); a.rows.min(a.cols)], v: None, info: -4 });
    }
    if a.rows > a.cols {
        return tall(a, vectors, full);
    }
    let Singular { u, s, v, info } = direct(a.adjoint(), vectors, full)?;
    Ok(Singular { u: v, s, v: u, info })
}

/// Of a matrix with at least as many rows as columns, by way of a bidiagonal one.
fn direct<T: Field>(mut a: Mat<T>, vectors: bool, full: bool) -> Result<Singular<T>> {
    let (m, n) = (a.rows, a.cols);
    let scale = rescale(&mut a);
    let Bidiagonal { diagonal: mut d, beside: mut e, left, left_tau, right, right_tau } = bidiagonal(a);
    let mut turned = Turned { u: None, v: None };
    if vectors {
        turned.u = Some(columns(&left, &left_tau, if full { m } else { n })?);
        let mut v = Mat::identity(n, n);
        let q = columns(&right, &right_tau, n.saturating_sub(1))?;
        (1..n).for_each(|j| v.col_mut(j)[1..].copy_from_slice(q.col(j - 1)));
        turned.v = Some(v);
    }
    let info = iterate(&mut d, &mut e, &mut turned);
    let Turned { u, mut v } = turned;
    for (j, d) in d.iter_mut().enumerate() {
        if d.is_sign_negative() {
            *d = -*d;
            if let Some(v) = &mut v {
                v.col_mut(j).iter_mut().for_each(|v| *v = -*v);
            }
        }
        *d *= scale;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[j].partial_cmp(&d[i]).unwrap_or(std::cmp::Ordering::Equal));
    let s = order.iter().map(|&i| d[i]).collect();
    let v = v.map(|v| v.permuted(&order));
    let u = u.map(|u| {
        order.extend(n..u.cols);
        u.permuted(&order)
    });
    Ok(Singular { u, s, v, info })
}

/// `outputs`: U (.., m, k or m), real singular values (.., k) in falling order, V^H (.., k or n, n), info (..) of i32; U and V^H
/// are not touched unless they are wanted. `inputs`: a (.., m, n). Flags: all columns of U and V, vectors are wanted.
pub fn svd<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [full, vectors]: [bool; 2]) -> Result<()> {
    let [u, s, vh, info] = operands(outputs, "svd")?;
    let [a] = operands(inputs, "svd")?;
    let locked = lock(&[a.as_impl()], &[u.as_impl(), s.as_impl(), vh.as_impl(), info.as_impl()])?;
    let a = locked.read::<T>(0)?;
    let (mut u, mut s, mut vh) = (locked.write::<T>(0)?, locked.write::<T::Real>(1)?, locked.write::<T>(2)?);
    let mut info = locked.write::<i32>(3)?;
    let (m, n) = (a.size(a.dim() - 2), a.size(a.dim() - 1));
    let results =
        batched(batch_of(a.sizes()), 8 * m * n * m.min(n), |i| decompose(Mat::read(a.matrix(i)?), vectors, full))?;
    for (i, result) in results.iter().enumerate() {
        write_row(&mut s, i, &result.s);
        if let (Some(left), Some(right)) = (&result.u, &result.v) {
            write_matrix(&mut u, i, left)?;
            write_matrix(&mut vh, i, &right.adjoint())?;
        }
    }
    info.copy_from(&results.iter().map(|result| result.info).collect::<Vec<_>>());
    Ok(())
}
