//! Fourier transforms of rows, by RustFFT and RealFFT, in chunks of rows over the pool. Dimensions are turned into rows, and
//! results laid out, in `aten/src/native/fft.rs`. RustFFT picks its own instructions, whatever the level.
//!
//! Forward is `out[k] = scale * sum over j of x[j] exp(-2 pi i j k / n)`, inverse the same with `+`.

mod plans;

use num_complex::Complex;
use tensor_aten::Tensor;
use tensor_core::{Element, Result, check};

use crate::isa::Baseline;
use crate::loops::views::{View, lock, par_chunks};
use crate::parallel::GRAIN;
use plans::{Part, scratch};

/// How many elements of rows with `out` results make a chunk, where a row's transform has n elements.
fn grain(n: usize, out: usize) -> usize {
    let steps = n * (n.max(2).ilog2() as usize + 1);
    (GRAIN / steps.max(1)).max(1) * out
}

/// Multiplies all elements.
fn rescale<T: Part>(values: &mut [Complex<T>], scale: T) {
    if scale != T::one() {
        values.iter_mut().for_each(|value| *value = value.scale(scale));
    }
}

/// Transforms the rows of a contiguous complex `x` (.., n) in place.
pub fn complex_rows<T: Part>(x: &Tensor, forward: bool, scale: f64) -> Result<()>
where
    Complex<T>: Element,
{
    let n = x.sizes().last().map_or(1, |&n| n as usize);
    let plan = plans::complex::<T>(n, forward);
    let scale = T::nearest(scale);
    let locked = lock(&[], &[x.as_impl()])?;
    let mut x = locked.write::<Complex<T>>(0)?;
    x.with_dense(|x| {
        par_chunks::<Baseline, _>(x, grain(n, n), |_, rows| {
            let mut space = scratch(plan.get_inplace_scratch_len());
            plan.process_with_scratch(rows, &mut space);
            rescale(rows, scale);
        });
    });
    Ok(())
}

/// Forward from rows of `x` (.., n), of any strides, to the contiguous `out` (.., n), or its first half (.., n / 2 + 1).
pub fn real_to_complex<T: Part>(out: &Tensor, x: &Tensor, scale: f64) -> Result<()>
where
    Complex<T>: Element,
{
    let (scale, n) = (T::nearest(scale), row_length(x));
    let plan = plans::from_real::<T>(n);
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let mut out = locked.write::<Complex<T>>(0)?;
    let (half, width) = (n / 2 + 1, row_length_of(out.sizes()));
    check!(width == half || width == n, "real_to_complex: rows of {n} do not give rows of {width}");
    out.with_dense(|out| {
        par_chunks::<Baseline, _>(out, grain(n, width), |start, rows| {
            let (mut row, mut space) = (vec![T::zero(); n], scratch(plan.get_scratch_len()));
            for (r, out) in rows.chunks_exact_mut(width).enumerate() {
                lane(&x, start / width + r).copy_to(&mut row);
                let (first, rest) = out.split_at_mut(half);
                checked(plan.process_with_scratch(&mut row, first, &mut space));
                rescale(first, scale);
                // The rest mirrors what comes after the first element.
                rest.iter_mut().rev().zip(&first[1..]).for_each(|(out, value)| *out = value.conj());
            }
        });
    });
    Ok(())
}

/// Inverse from rows of `x` (.., n / 2 + 1), of any strides, the first half of rows that mirror themselves, to the contiguous
/// `out` (.., n). The imaginary parts of the ends, which a mirrored row does not have, do not matter.
pub fn complex_to_real<T: Part>(out: &Tensor, x: &Tensor, scale: f64) -> Result<()>
where
    Complex<T>: Element,
{
    let (scale, n) = (T::nearest(scale), row_length(out));
    let plan = plans::to_real::<T>(n);
    let half = n / 2 + 1;
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<Complex<T>>(0)?;
    check!(row_length_of(x.sizes()) == half, "complex_to_real: rows of {n} need rows of {half}");
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<Baseline, _>(out, grain(n, n), |start, rows| {
            let (mut row, mut space) = (scratch(half), scratch(plan.get_scratch_len()));
            for (r, out) in rows.chunks_exact_mut(n).enumerate() {
                lane(&x, start / n + r).copy_to(&mut row);
                row[0].im = T::zero();
                if n % 2 == 0 {
                    row[half - 1].im = T::zero();
                }
                checked(plan.process_with_scratch(&mut row, out, &mut space));
                if scale != T::one() {
                    out.iter_mut().for_each(|value| *value = *value * scale);
                }
            }
        });
    });
    Ok(())
}

/// A transform that was given slices of the plan's lengths, and real ends: it refuses nothing else.
fn checked(done: Result<(), realfft::FftError>) {
    debug_assert!(done.is_ok(), "a transform refused its rows: {done:?}");
}

fn row_length_of(sizes: &[i64]) -> usize {
    sizes.last().map_or(1, |&n| n as usize)
}

fn row_length(x: &Tensor) -> usize {
    row_length_of(x.sizes())
}

/// Row `i`.
fn lane<'a, T: Element>(x: &View<'a, T>, i: usize) -> crate::loops::views::Lane<'a, T> {
    x.lane(x.dim().saturating_sub(1), i)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    /// The sum itself.
    fn naive(x: &[Complex<f64>], sign: f64) -> Vec<Complex<f64>> {
        let n = x.len();
        let turn = |j: usize, k: usize| Complex::from_polar(1.0, sign * TAU * ((j * k) % n) as f64 / n as f64);
        (0..n).map(|k| x.iter().enumerate().map(|(j, v)| v * turn(j, k)).sum()).collect()
    }

    fn near(got: &[Complex<f64>], want: &[Complex<f64>]) {
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).norm() < 1e-12 * (want.norm() + 1.0) * want.norm().max(8.0), "got {got}, want {want}");
        }
    }

    /// Powers of two, odd and prime lengths; enough rows for several chunks.
    #[test]
    fn transforms_are_the_sums() -> Result<()> {
        for n in [1, 2, 3, 4, 7, 12, 16, 31, 64, 97] {
            let rows = 3 + 40_000 / (n * n);
            let real: Vec<f64> = (0..rows * n).map(|i| ((i * i % 101) as f64 / 50.0 - 1.0) * 1.5).collect();
            let sizes = [rows as i64, n as i64];
            let wide: Vec<Complex<f64>> = real.iter().rev().zip(&real).map(|(&re, &im)| Complex::new(re, im)).collect();
            for forward in [true, false] {
                let x = Tensor::from_vec(wide.clone(), &sizes)?;
                complex_rows::<f64>(&x, forward, 0.5)?;
                let sign = if forward { -1.0 } else { 1.0 };
                for (got, x) in x.to_vec::<Complex<f64>>()?.chunks(n).zip(wide.chunks(n)) {
                    near(got, &naive(x, sign).iter().map(|v| v * 0.5).collect::<Vec<_>>());
                }
            }

            let half = n / 2 + 1;
            let x = Tensor::from_vec(real.clone(), &sizes)?;
            let spectra: Vec<Vec<Complex<f64>>> =
                real.chunks(n).map(|x| naive(&x.iter().map(|&re| re.into()).collect::<Vec<_>>(), -1.0)).collect();
            for width in [half, n] {
                let out = Tensor::from_vec(vec![Complex::new(0.0, 0.0); rows * width], &[sizes[0], width as i64])?;
                real_to_complex::<f64>(&out, &x, 1.0)?;
                for (got, want) in out.to_vec::<Complex<f64>>()?.chunks(width).zip(&spectra) {
                    near(got, &want[..width]);
                }
            }

            let halves = spectra.iter().flat_map(|row| &row[..half]).copied().collect::<Vec<_>>();
            let out = Tensor::from_vec(vec![0.0f64; rows * n], &sizes)?;
            complex_to_real::<f64>(&out, &Tensor::from_vec(halves, &[sizes[0], half as i64])?, 1.0 / n as f64)?;
            for (got, want) in out.to_vec::<f64>()?.iter().zip(&real) {
                assert!((got - want).abs() < 1e-12, "length {n}: got {got}, want {want}");
            }
        }
        Ok(())
    }
}
