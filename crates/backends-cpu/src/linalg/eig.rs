//! Eigenvalues and eigenvectors of any square matrices: reflections to Hessenberg form, then shifted QR to Schur form: complex
//! here, of real matrices in `schur.rs`.

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::{Field, number};
use super::mat::{Mat, add_scaled, norm};
use super::qr::{columns, reflect, reflection};
use super::{batch_of, batched, operands, schur, write_matrix, write_row};
use crate::loops::views::lock;

/// Steps of QR for one eigenvalue, of which two or three are common.
const STEPS: usize = 100;

/// `a` becomes the Hessenberg matrix `Q^H a Q`; gives Q.
pub(super) fn hessenberg<T: Field>(a: &mut Mat<T>, vectors: bool) -> Result<Mat<T>> {
    let n = a.rows;
    let less = n.saturating_sub(1);
    let (mut reflections, mut tau) = (Mat::zeros(less, less), vec![T::NULL; less]);
    let mut w = vec![T::NULL; n];
    for (k, tau) in tau.iter_mut().enumerate().take(n.saturating_sub(2)) {
        let mut v = a.col(k)[k + 1..].to_vec();
        *tau = reflection(&mut v);
        reflections.col_mut(k)[k..].copy_from_slice(&v);
        let column = &mut a.col_mut(k)[k + 1..];
        column.fill(T::NULL);
        column[0] = v[0];
        v[0] = T::UNIT;
        for j in k + 1..n {
            reflect(tau.conj(), &v[1..], &mut a.col_mut(j)[k + 1..]);
        }
        w.fill(T::NULL);
        for (j, &factor) in v.iter().enumerate() {
            add_scaled(*tau * factor, a.col(k + 1 + j), &mut w);
        }
        for (j, factor) in v.iter().enumerate() {
            add_scaled(-factor.conj(), &w, a.col_mut(k + 1 + j));
        }
    }
    let mut q = Mat::identity(n, n);
    if vectors {
        let inner = columns(&reflections, &tau, less)?;
        (1..n).for_each(|j| q.col_mut(j)[1..].copy_from_slice(inner.col(j - 1)));
    }
    Ok(q)
}

/// A rotation `[c s; -conj(s) c]` that turns (x, y) into (r, 0).
fn rotation<T: Field>(x: T, y: T) -> (T::Real, T) {
    let (a, b) = (x.modulus(), y.modulus());
    let r = a.hypot(b);
    if r == T::Real::NULL {
        return (T::Real::UNIT, T::NULL);
    }
    let phase = if a == T::Real::NULL { T::UNIT } else { x.times(T::Real::UNIT / a) };
    (a / r, phase * y.conj().times(T::Real::UNIT / r))
}

/// The eigenvalue of `[a b; c d]` that is nearer to d.
fn shift<T: Field>(a: T, b: T, c: T, d: T) -> T {
    let half = (a - d).times(number(0.5));
    let product = b * c;
    let square = half * half + product;
    // The square root with the sign of `half`.
    let r = square.modulus();
    let re = ((r + square.re().abs()) * number(0.5)).sqrt();
    let root = if re == T::Real::NULL {
        T::NULL
    } else if square.re() >= T::Real::NULL {
        T::of(re, square.im() / (re + re))
    } else {
        T::of(square.im().abs() / (re + re), re.copysign(square.im()))
    };
    let along = half.re() * root.re() + half.im() * root.im();
    let root = if along < T::Real::NULL { -root } else { root };
    let sum = half + root;
    if sum == T::NULL { d } else { d - product / sum }
}

/// The Hessenberg matrix `h` becomes triangular, `z` turns along. Gives how many eigenvalues were not found.
fn triangular<T: Field>(h: &mut Mat<T>, z: &mut Mat<T>, vectors: bool) -> i32 {
    let n = h.rows;
    let mut left = n;
    let mut steps = 0;
    let scale = norm(&h.data);
    while left > 1 {
        let last = left - 1;
        let mut first = last;
        while first > 0 {
            let near = h[(first - 1, first - 1)].size() + h[(first, first)].size();
            let near = if near == T::Real::NULL { scale } else { near };
            if h[(first, first - 1)].size() <= T::Real::epsilon() * near {
                h[(first, first - 1)] = T::NULL;
                break;
            }
            first -= 1;
        }
        if first == last {
            left -= 1;
            steps = 0;
            continue;
        }
        steps += 1;
        if steps > STEPS || !scale.is_finite() {
            return left as i32;
        }
        let sigma = if usize::is_multiple_of(steps, 10) {
            h[(last, last)] + T::real(h[(last, last - 1)].size())
        } else {
            shift(h[(last - 1, last - 1)], h[(last - 1, last)], h[(last, last - 1)], h[(last, last)])
        };
        let (mut x, mut y) = (h[(first, first)] - sigma, h[(first + 1, first)]);
        for k in first..last {
            let (c, s) = rotation(x, y);
            let begin = if k > first { k - 1 } else { first };
            for j in begin..n {
                let column = h.col_mut(j);
                let (a, b) = (column[k], column[k + 1]);
                column[k] = a.times(c) + s * b;
                column[k + 1] = b.times(c) - s.conj() * a;
            }
            if k > first {
                h[(k + 1, k - 1)] = T::NULL;
            }
            let turn = |m: &mut Mat<T>, rows: usize| {
                let (a, b) = m.two_cols(k, k + 1);
                for (a, b) in a[..rows].iter_mut().zip(&mut b[..rows]) {
                    (*a, *b) = (a.times(c) + s.conj() * *b, b.times(c) - s * *a);
                }
            };
            turn(h, (k + 3).min(last + 1));
            if vectors {
                turn(z, n);
            }
            if k + 2 <= last {
                (x, y) = (h[(k + 1, k)], h[(k + 2, k)]);
            }
        }
    }
    0
}

/// The eigenvectors of an upper triangular matrix.
fn back<T: Field>(t: &Mat<T>) -> Mat<T> {
    let n = t.rows;
    let smallest = norm(&t.data) * T::Real::epsilon();
    let smallest = smallest.max(T::Real::min_positive_value());
    let large = T::Real::max_value().sqrt();
    let mut vectors = Mat::zeros(n, n);
    for k in 0..n {
        let mut x = t.col(k)[..k].to_vec();
        x.iter_mut().for_each(|v| *v = -*v);
        x.push(T::UNIT);
        for i in (0..k).rev() {
            let gap = t[(i, i)] - t[(k, k)];
            x[i] /= if gap.size() < smallest { T::real(smallest) } else { gap };
            if x[i].size() > large {
                let factor = T::Real::UNIT / x[i].size();
                x.iter_mut().for_each(|v| *v = v.times(factor));
            }
            let factor = -x[i];
            add_scaled(factor, &t.col(i)[..i], &mut x[..i]);
        }
        vectors.col_mut(k)[..=k].copy_from_slice(&x);
    }
    vectors
}

/// Scales a vector to length 1, and turns its largest element to the real line.
fn normalise<T: Field>(v: &mut [T]) {
    let length = norm(v);
    if length == T::Real::NULL || !length.is_finite() {
        return;
    }
    v.iter_mut().for_each(|v| *v = v.times(T::Real::UNIT / length));
    let largest = v.iter().copied().fold(T::NULL, |max, v| if v.modulus() > max.modulus() { v } else { max });
    if largest.im() != T::Real::NULL {
        let turn = largest.conj().times(T::Real::UNIT / largest.modulus());
        for v in v.iter_mut() {
            let is_largest = *v == largest;
            *v *= turn;
            if is_largest {
                *v = T::real(v.re());
            }
        }
    }
}

/// The eigenvalues and eigenvectors of a matrix, and 0 if they were found.
pub(super) fn eigen<T: Field>(mut a: Mat<T>, vectors: bool) -> Result<(Vec<T::Complex>, Mat<T::Complex>, i32)> {
    let n = a.rows;
    let mut z = hessenberg(&mut a, vectors)?;
    let (values, mut found, info) = if T::COMPLEX {
        let info = triangular(&mut a, &mut z, vectors);
        let values = (0..n).map(|i| a[(i, i)].complex()).collect();
        let mut found = Mat::zeros(n, n);
        if vectors {
            let small = back(&a);
            let mut own = Mat::zeros(n, n);
            super::mat::product(T::UNIT, z.as_ref()?, small.as_ref()?, own.part_mut(0..n, 0..n)?)?;
            found.data.iter_mut().zip(&own.data).for_each(|(to, v)| *to = v.complex());
        }
        (values, found, info)
    } else {
        let real = |m: &Mat<T>| Mat { rows: n, cols: n, data: m.data.iter().map(|v| v.re()).collect() };
        schur::eigen(real(&a), real(&z), vectors)
    };
    (0..found.cols).for_each(|j| normalise(found.col_mut(j)));
    Ok((values, found, info))
}

/// `outputs`: complex eigenvalues (.., n), complex eigenvectors (.., n, n) if they are wanted, info (..) of i32; `inputs`: a
/// (.., n, n). Flags: eigenvectors are wanted.
pub fn eig<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [vectors, _]: [bool; 2]) -> Result<()> {
    let [values, out, info] = operands(outputs, "eig")?;
    let [a] = operands(inputs, "eig")?;
    let locked = lock(&[a.as_impl()], &[values.as_impl(), out.as_impl(), info.as_impl()])?;
    let a = locked.read::<T>(0)?;
    let (mut values, mut out) = (locked.write::<T::Complex>(0)?, locked.write::<T::Complex>(1)?);
    let mut info = locked.write::<i32>(2)?;
    let n = a.size(a.dim() - 1);
    let results = batched(batch_of(a.sizes()), 16 * n * n * n, |i| eigen(Mat::read(a.matrix(i)?), vectors))?;
    for (i, (own, z, _)) in results.iter().enumerate() {
        write_row(&mut values, i, own);
        if vectors {
            write_matrix(&mut out, i, z)?;
        }
    }
    info.copy_from(&results.iter().map(|result| result.2).collect::<Vec<_>>());
    Ok(())
}
