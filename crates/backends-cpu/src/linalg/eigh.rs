//! Eigenvalues and eigenvectors of Hermitian matrices: Householder reflections to a real tridiagonal matrix, then implicit QL.

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::{Field, number};
use super::mat::{Mat, add_scaled, inner};
use super::qr::{columns, reflection};
use super::{batch_of, batched, operands, write_matrix, write_row};
use crate::loops::views::lock;

/// Steps of QL for one eigenvalue, of which two or three are common.
const STEPS: usize = 60;

/// A tridiagonal matrix: its diagonal, what is beside it, and the reflections (one column less) that led there.
struct Tridiagonal<T: Field> {
    diagonal: Vec<T::Real>,
    beside: Vec<T::Real>,
    reflections: Mat<T>,
    tau: Vec<T>,
}

/// `Q^H A Q` is tridiagonal for the Q that reflections of all rows but the first make. `a` is full and Hermitian.
fn tridiagonal<T: Field>(mut a: Mat<T>) -> Tridiagonal<T> {
    let n = a.rows;
    let less = n.saturating_sub(1);
    let (mut reflections, mut tau) = (Mat::zeros(less, less), vec![T::NULL; less]);
    let mut beside = vec![T::Real::NULL; less];
    let mut w = vec![T::NULL; n];
    for i in 0..less {
        let mut v = a.col(i)[i + 1..].to_vec();
        tau[i] = reflection(&mut v);
        beside[i] = v[0].re();
        reflections.col_mut(i)[i..].copy_from_slice(&v);
        v[0] = T::UNIT;
        // w = tau A v - (tau / 2) (tau A v . v) v
        let w = &mut w[..n - i - 1];
        w.fill(T::NULL);
        for (j, &factor) in v.iter().enumerate() {
            add_scaled(tau[i] * factor, &a.col(i + 1 + j)[i + 1..], w);
        }
        let half = -(tau[i].times(number(0.5)) * inner(w, &v));
        add_scaled(half, &v, w);
        for j in 0..v.len() {
            let column = &mut a.col_mut(i + 1 + j)[i + 1..];
            add_scaled(-w[j].conj(), &v, column);
            add_scaled(-v[j].conj(), w, column);
        }
    }
    Tridiagonal { diagonal: (0..n).map(|i| a[(i, i)].re()).collect(), beside, reflections, tau }
}

/// Implicit QL: `d` becomes the eigenvalues, not sorted, and the columns of `z` are turned along. Gives the number of the
/// eigenvalue that was not found, counted from 1.
fn ql<T: Field>(d: &mut [T::Real], e: &mut [T::Real], mut z: Option<&mut Mat<T>>) -> i32 {
    let n = d.len();
    let (zero, one) = (T::Real::NULL, T::Real::UNIT);
    for l in 0..n {
        let mut steps = 0;
        loop {
            let mut m = l;
            while m + 1 < n && !(e[m].abs() <= T::Real::epsilon() * (d[m].abs() + d[m + 1].abs())) {
                m += 1;
            }
            if m == l {
                break;
            }
            steps += 1;
            if steps > STEPS {
                return l as i32 + 1;
            }
            let mut g = (d[l + 1] - d[l]) / (e[l] + e[l]);
            let mut r = g.hypot(one);
            g = d[m] - d[l] + e[l] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (one, one, zero);
            let mut left = None;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                r = f.hypot(g);
                e[i + 1] = r;
                if r == zero {
                    left = Some(i);
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                r = (d[i] - g) * s + (c + c) * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                if let Some(z) = z.as_deref_mut() {
                    z.rotate(i, i + 1, c, -s);
                }
            }
            match left {
                Some(i) => {
                    d[i + 1] -= p;
                    e[m] = zero;
                }
                None => {
                    d[l] -= p;
                    e[l] = g;
                    e[m] = zero;
                }
            }
        }
    }
    0
}

/// The eigenvalues of a full Hermitian matrix in rising order, its eigenvectors, and 0 if they were found.
pub(super) fn eigen<T: Field>(a: Mat<T>, vectors: bool) -> Result<(Vec<T::Real>, Option<Mat<T>>, i32)> {
    let n = a.rows;
    if !a.finite() {
        let nothing = Mat { rows: n, cols: n, data: vec![T::real(T::Real::nan()); n * n] };
        return Ok((vec![T::Real::nan(); n], vectors.then_some(nothing), 0));
    }
    let Tridiagonal { diagonal: mut d, mut beside, reflections, tau } = tridiagonal(a);
    beside.push(T::Real::NULL);
    let mut z = None;
    if vectors {
        let mut full = Mat::identity(n, n);
        let q = columns(&reflections, &tau, n.saturating_sub(1))?;
        (1..n).for_each(|j| full.col_mut(j)[1..].copy_from_slice(q.col(j - 1)));
        z = Some(full);
    }
    let info = ql(&mut d, &mut beside, z.as_mut());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].partial_cmp(&d[j]).unwrap_or(std::cmp::Ordering::Equal));
    Ok((order.iter().map(|&i| d[i]).collect(), z.map(|z| z.permuted(&order)), info))
}

/// `outputs`: real eigenvalues (.., n) in rising order, eigenvectors (.., n, n) where they are wanted, info (..) of i32;
/// `inputs`: a (.., n, n), of which one triangle counts. Flags: the upper triangle counts, eigenvectors are wanted.
pub fn eigh<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [upper, vectors]: [bool; 2]) -> Result<()> {
    let [values, out, info] = operands(outputs, "eigh")?;
    let [a] = operands(inputs, "eigh")?;
    let locked = lock(&[a.as_impl()], &[values.as_impl(), out.as_impl(), info.as_impl()])?;
    let a = locked.read::<T>(0)?;
    let (mut values, mut out) = (locked.write::<T::Real>(0)?, locked.write::<T>(1)?);
    let mut info = locked.write::<i32>(2)?;
    let n = a.size(a.dim() - 1);
    let results = batched(batch_of(a.sizes()), 4 * n * n * n, |i| {
        let mut a = if upper { Mat::read_adjoint(a.matrix(i)?) } else { Mat::read(a.matrix(i)?) };
        for j in 0..n {
            a[(j, j)] = T::real(a[(j, j)].re());
            (0..j).for_each(|i| a[(i, j)] = a[(j, i)].conj());
        }
        eigen(a, vectors)
    })?;
    for (i, (own, z, _)) in results.iter().enumerate() {
        write_row(&mut values, i, own);
        if let Some(z) = z {
            write_matrix(&mut out, i, z)?;
        }
    }
    info.copy_from(&results.iter().map(|result| result.2).collect::<Vec<_>>());
    Ok(())
}
