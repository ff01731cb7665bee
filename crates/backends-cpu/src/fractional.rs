//! The largest elements of windows at random places.

use tensor_aten::Tensor;
use tensor_aten::kernels::FractionalShape;
use tensor_core::Result;

use crate::isa::Baseline;
use crate::loops::views::{lock, par_rows2};
use crate::simd::{Math, Real, RealFloating, Value};

/// Where the windows of a dimension start, by a random number: even steps, rounded down, the last one at the end.
fn starts<T: Value<Op: Math + Real>>(sample: T, size: usize, results: usize, window: usize) -> Vec<usize> {
    let round = |x: f64| T::down(T::Op::from_f64(x)).up().to_f64();
    let sample = sample.up().to_f64();
    let mut starts = Vec::with_capacity(results);
    if results > 1 {
        let step = round((size - window) as f64 / (results - 1) as f64);
        let at = |i: usize| round(round(i as f64 + sample) * step) as i64;
        let last = (size - window) as i64;
        starts.extend((0..results - 1).map(|i| at(i).saturating_sub(at(0)).clamp(0, last) as usize));
    }
    if results > 0 {
        starts.push(size - window);
    }
    starts
}

/// `values` and `indices` (within a plane) of the largest elements of the windows of planes `x`; `samples` (.., 2 or 3) has a
/// number for each dimension: the last one first for two, the first one first for three. The last no-number counts.
pub fn fractional_max_pool<T: RealFloating>(
    values: &Tensor,
    indices: &Tensor,
    x: &Tensor,
    samples: &Tensor,
    s: &FractionalShape,
) -> Result<()> {
    let locked = lock(&[x.as_impl(), samples.as_impl()], &[values.as_impl(), indices.as_impl()])?;
    let (x, samples) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (mut values, mut indices) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let dims = s.image.len();
    let three =
        |list: &[usize]| -> [usize; 3] { if dims == 3 { [list[0], list[1], list[2]] } else { [1, list[0], list[1]] } };
    let (image, result, window) = (three(&s.image), three(&s.result), three(&s.kernel));
    let plane: usize = image.iter().product();
    values.with_dense(|values| {
        indices.with_dense(|indices| {
            let work = result.iter().chain(&window).product();
            par_rows2::<Baseline, T, i64>(values, indices, s.planes, work, |p, values, indices| {
                let (x, samples) = (&x[p * plane..][..plane], &samples[p * dims..][..dims]);
                let lines: [Vec<usize>; 3] = std::array::from_fn(|d| match dims {
                    3 => starts(samples[d], image[d], result[d], window[d]),
                    _ if d == 0 => vec![0],
                    _ => starts(samples[2 - d], image[d], result[d], window[d]),
                });
                let mut o = 0;
                for &d in &lines[0] {
                    for &h in &lines[1] {
                        for &w in &lines[2] {
                            let at = |i: usize, j: usize, k: usize| ((d + i) * image[1] + h + j) * image[2] + w + k;
                            let (mut most, mut index) = (T::Op::from_f64(f64::NEG_INFINITY), at(0, 0, 0));
                            for i in 0..window[0] {
                                for j in 0..window[1] {
                                    for k in 0..window[2] {
                                        let value = x[at(i, j, k)].up();
                                        if value > most || crate::simd::Arith::is_nan(value) {
                                            (most, index) = (value, at(i, j, k));
                                        }
                                    }
                                }
                            }
                            (values[o], indices[o]) = (T::down(most), index as i64);
                            o += 1;
                        }
                    }
                }
            });
        });
    });
    Ok(())
}
