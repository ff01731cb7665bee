//! Factors multiply to what was factored, for sizes around the blocks, all dtypes, and matrices that are singular.

use num_traits::Float;
use tensor_core::{Complex, Result};

use super::field::{Field, number};
use super::mat::{Mat, norm, product};
use super::{cholesky, eig, eigh, lu, qr, svd, triangular};

const SIZES: [usize; 6] = [0, 1, 2, 5, 33, 70];

/// Numbers between -1 and 1 without an order.
fn random<T: Field>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number::<T::Real>(((state >> 33) as f64) / f64::from(1u32 << 30) - 1.0)
    };
    let mut m = Mat::zeros(rows, cols);
    m.data.iter_mut().for_each(|v| *v = T::of(next(), next()));
    m
}

fn times<T: Field>(a: &Mat<T>, b: &Mat<T>) -> Mat<T> {
    let mut c = Mat::zeros(a.rows, b.cols);
    let (rows, cols) = (a.rows, b.cols);
    product(T::UNIT, a.as_ref().unwrap(), b.as_ref().unwrap(), c.part_mut(0..rows, 0..cols).unwrap()).unwrap();
    c
}

/// Equal up to rounding of matrices of this size.
fn near<T: Field>(a: &Mat<T>, b: &Mat<T>, what: &str) {
    assert_eq!((a.rows, a.cols), (b.rows, b.cols), "{what}");
    let difference: Vec<T> = a.data.iter().zip(&b.data).map(|(&x, &y)| x - y).collect();
    let scale = norm(&b.data) + T::Real::UNIT;
    let bound = T::Real::epsilon() * number(40.0 + 4.0 * a.rows as f64) * scale;
    assert!(norm(&difference) <= bound, "{what}: {} x {}", a.rows, a.cols);
}

fn is_unitary<T: Field>(q: &Mat<T>, what: &str) {
    near(&times(&q.adjoint(), q), &Mat::identity(q.cols, q.cols), what);
}

/// A matrix of these numbers on its diagonal.
fn diagonal<T: Field>(rows: usize, cols: usize, values: &[T::Real]) -> Mat<T> {
    let mut m = Mat::zeros(rows, cols);
    values.iter().enumerate().for_each(|(i, &v)| m[(i, i)] = T::real(v));
    m
}

fn factors<T: Field>() -> Result<()> {
    for (i, &m) in SIZES.iter().enumerate() {
        for &n in &SIZES {
            let a = random::<T>(m, n, (i * 7 + n) as u64);
            let mut f = a.clone();
            let (pivots, info) = lu::factor(&mut f)?;
            assert_eq!(info, 0);
            let k = m.min(n);
            let (mut l, mut u) = (f.part(0..m, 0..k), f.part(0..k, 0..n));
            for j in 0..k {
                l.col_mut(j)[..j].fill(T::NULL);
                l[(j, j)] = T::UNIT;
            }
            (0..n.min(k)).for_each(|j| u.col_mut(j)[j + 1..].fill(T::NULL));
            let mut permuted = a.clone();
            pivots.iter().enumerate().for_each(|(i, &p)| permuted.swap_rows(i, p as usize - 1));
            near(&times(&l, &u), &permuted, "L U");

            let mut f = a.clone();
            let tau = qr::factor(&mut f)?;
            let q = qr::columns(&f, &tau, m)?;
            is_unitary(&q, "Q");
            (0..n).for_each(|j| f.col_mut(j).iter_mut().skip(j + 1).for_each(|v| *v = T::NULL));
            near(&times(&q, &f), &a, "Q R");

            for full in [false, true] {
                let found = svd::decompose(a.clone(), true, full)?;
                let (u, v) = (found.u.unwrap(), found.v.unwrap());
                assert_eq!(found.info, 0);
                assert!(found.s.windows(2).all(|pair| pair[0] >= pair[1]));
                is_unitary(&u, "U");
                is_unitary(&v, "V");
                let s = diagonal(u.cols, v.cols, &found.s);
                near(&times(&times(&u, &s), &v.adjoint()), &a, "U S V");
                let alone = svd::decompose(a.clone(), false, false)?;
                near(&diagonal::<T>(k, k, &alone.s), &diagonal::<T>(k, k, &found.s), "S alone");
            }
        }
        let mut hermitian = random::<T>(m, m, 3);
        let other = hermitian.adjoint();
        hermitian.data.iter_mut().zip(&other.data).for_each(|(v, &w)| *v += w);
        let (values, vectors, info) = eigh::eigen(hermitian.clone(), true)?;
        assert_eq!(info, 0);
        assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        let vectors = vectors.unwrap();
        is_unitary(&vectors, "eigenvectors");
        near(&times(&hermitian, &vectors), &times(&vectors, &diagonal(m, m, &values)), "A V");

        let mut positive = times(&hermitian, &hermitian);
        (0..m).for_each(|i| positive[(i, i)] += T::UNIT);
        let mut l = positive.clone();
        assert_eq!(cholesky::factor(&mut l)?, 0);
        near(&times(&l, &l.adjoint()), &positive, "L L^H");
        for upper in [false, true] {
            let triangle = if upper { l.adjoint() } else { l.clone() };
            let b = random::<T>(m, 3, 9);
            let mut x = b.clone();
            triangular::solve(&triangle, &mut x, upper, false)?;
            near(&times(&triangle, &x), &b, "a triangular system");
        }
    }
    Ok(())
}

#[test]
fn factors_multiply_to_the_matrix() -> Result<()> {
    factors::<f32>()?;
    factors::<f64>()?;
    factors::<Complex<f32>>()?;
    factors::<Complex<f64>>()
}

fn spectra<T: Field>() -> Result<()> {
    for &n in &SIZES {
        let a = random::<T>(n, n, n as u64);
        let (values, vectors, info) = eig::eigen(a.clone(), true)?;
        assert_eq!(info, 0);
        let wide = Mat { rows: n, cols: n, data: a.data.iter().map(|v| v.complex()).collect() };
        let mut scaled = vectors.clone();
        for (j, &value) in values.iter().enumerate() {
            scaled.col_mut(j).iter_mut().for_each(|v| *v *= value);
            let length = norm(vectors.col(j));
            assert!((length - T::Real::UNIT).abs() < number(1e-5), "eigenvectors have length 1");
        }
        near(&times(&wide, &vectors), &scaled, "A V");
        let (alone, _, _) = eig::eigen(a, false)?;
        let sum = |values: &[T::Complex]| {
            let total = values.iter().fold(T::Complex::NULL, |sum, &v| sum + v);
            Mat { rows: 1, cols: 1, data: vec![total] }
        };
        near(&sum(&alone), &sum(&values), "eigenvalues alone");
        if !T::COMPLEX {
            // Pairs are exact, the one above the real line first.
            let mut i = 0;
            while i < n {
                if values[i].im() != T::Real::NULL {
                    assert!(values[i].im() > T::Real::NULL && values[i + 1] == values[i].conj());
                    i += 1;
                }
                i += 1;
            }
        }
    }
    Ok(())
}

#[test]
fn eigenvectors_are_scaled_alone() -> Result<()> {
    spectra::<f32>()?;
    spectra::<f64>()?;
    spectra::<Complex<f32>>()?;
    spectra::<Complex<f64>>()
}

#[test]
fn singular_matrices_are_told() -> Result<()> {
    let mut ones = Mat { rows: 3, cols: 3, data: vec![1.0f64; 9] };
    assert_eq!(lu::factor(&mut ones.clone())?.1, 2);
    assert_eq!(cholesky::factor(&mut ones.clone())?, 2);
    let found = svd::decompose(ones.clone(), true, true)?;
    is_unitary(&found.u.unwrap(), "U of a singular matrix");
    is_unitary(&found.v.unwrap(), "V of a singular matrix");
    assert!((found.s[0] - 3.0).abs() < 1e-14 && found.s[1] < 1e-14 && found.s[2] < 1e-14);
    ones.data[4] = f64::NAN;
    assert_eq!(svd::decompose(ones.clone(), true, true)?.info, -4);
    assert!(eigh::eigen(ones.clone(), true)?.0.iter().all(|v| v.is_nan()));
    assert_ne!(eig::eigen(ones, true)?.2, 0);
    let found = svd::decompose(Mat::<f32>::zeros(4, 3), true, true)?;
    assert_eq!(found.s, [0.0; 3]);
    is_unitary(&found.u.unwrap(), "U of zeros");
    Ok(())
}

/// A rotation, whose eigenvalues lie on the unit circle; a Jordan block, which has one eigenvector; equal eigenvalues.
#[test]
fn eigenvalues_of_special_matrices() -> Result<()> {
    let turn = Mat { rows: 2, cols: 2, data: vec![0.0f64, 1.0, -1.0, 0.0] };
    let (values, ..) = eig::eigen(turn, true)?;
    assert_eq!(values, [Complex::new(0.0, 1.0), Complex::new(0.0, -1.0)]);
    let jordan = Mat { rows: 2, cols: 2, data: vec![2.0f64, 0.0, 1.0, 2.0] };
    let (values, vectors, info) = eig::eigen(jordan, true)?;
    assert_eq!((values, info), (vec![Complex::new(2.0, 0.0); 2], 0));
    assert!(vectors.finite());
    let (values, ..) = eig::eigen(Mat::<f64>::identity(5, 5), true)?;
    assert_eq!(values, vec![Complex::new(1.0, 0.0); 5]);
    let mut cycle = Mat::<f64>::zeros(6, 6);
    (0..6).for_each(|i| cycle[((i + 1) % 6, i)] = 1.0);
    let (values, _, info) = eig::eigen(cycle, true)?;
    assert_eq!(info, 0);
    assert!(values.iter().all(|v| (v.norm() - 1.0).abs() < 1e-12), "{values:?}");
    Ok(())
}
