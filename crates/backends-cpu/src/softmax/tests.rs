//! Softmax and its gradients against the definition, at every level of the machine.

use tensor_core::{bf16, f16};

use super::*;
use crate::isa::{Baseline, Level, V3, V4, level};
use crate::simd::Math;

fn values(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| (((i + seed) * 7919) % 1013) as f64 / 100.0 - 5.0).collect()
}

fn tensor<T: RealFloating>(values: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(values.iter().map(|&x| T::down(T::Op::from_f64(x))).collect::<Vec<T>>(), sizes).unwrap()
}

fn numbers<T: RealFloating>(x: &Tensor) -> Vec<f64> {
    x.to_vec::<T>().unwrap().iter().map(|x| crate::simd::Real::to_f64(x.up())).collect()
}

fn agree(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(near || got.is_nan() && want.is_nan(), "{what} at {i}: {got}, not {want}");
    }
}

fn check<I: Isa, T: RealFloating>(sizes: &[i64], tolerance: f64) {
    let (a, r, b) = (sizes[0] as usize, sizes[1] as usize, sizes.get(2).map_or(1, |&b| b as usize));
    let x = tensor::<T>(&values(a * r * b, 1), sizes);
    let grad = tensor::<T>(&values(a * r * b, 2), sizes);
    let [y, log, dy, dlog] = [(); 4].map(|()| tensor::<T>(&vec![9.0; a * r * b], sizes));
    softmax::<I, T>(&y, &x).unwrap();
    log_softmax::<I, T>(&log, &x).unwrap();
    softmax_backward::<I, T>(&dy, &grad, &y).unwrap();
    log_softmax_backward::<I, T>(&dlog, &grad, &log).unwrap();
    let [x, grad, y, log, dy, dlog] = [&x, &grad, &y, &log, &dy, &dlog].map(|t| numbers::<T>(t));
    let mut want = [(); 4].map(|()| vec![0.0; a * r * b]);
    for lane in 0..a * b {
        let at = |i: usize| lane / b * r * b + i * b + lane % b;
        let total: f64 = (0..r).map(|i| x[at(i)].exp()).sum();
        let dot: f64 = (0..r).map(|i| grad[at(i)] * y[at(i)]).sum();
        let sum: f64 = (0..r).map(|i| grad[at(i)]).sum();
        for i in (0..r).map(at) {
            want[0][i] = x[i].exp() / total;
            want[1][i] = x[i] - total.ln();
            want[2][i] = (grad[i] - dot) * y[i];
            want[3][i] = grad[i] - log[i].exp() * sum;
        }
    }
    let case = format!("{sizes:?} {} {:?}", T::DTYPE, I::LEVEL);
    let names = ["softmax", "log_softmax", "softmax_backward", "log_softmax_backward"];
    for ((got, want), name) in [y, log, dy, dlog].iter().zip(&want).zip(names) {
        agree(got, want, tolerance, &format!("{name} of {case}"));
    }
}

fn check_all<I: Isa>() {
    // Rows shorter than a vector, with and without a rest, longer than a block; many planes and few, wide ones.
    let rows: [&[i64]; 8] = [&[3, 1], &[2, 5], &[3, 16], &[2, 33], &[2, 64], &[1, 100], &[2, 2049], &[1, 5000]];
    let planes: [&[i64]; 7] =
        [&[1, 40_003, 3], &[1, 1, 3], &[2, 7, 5], &[9, 3, 2], &[2, 300, 70], &[1, 40, 1000], &[1, 2, 20000]];
    for sizes in rows.into_iter().chain(planes) {
        check::<I, f32>(sizes, 3e-6 * sizes[1] as f64);
        check::<I, f64>(sizes, 1e-14 * sizes[1] as f64);
        check::<I, f16>(sizes, 2e-2);
        check::<I, bf16>(sizes, 2e-1);
    }
}

#[test]
fn rows_and_columns_agree_with_the_definition() {
    check_all::<Baseline>();
    if level() >= Level::V3 {
        check_all::<V3>();
    }
    if level() >= Level::V4 {
        check_all::<V4>();
    }
}

/// What is no number, or infinite, spoils its row; minus infinity has no weight.
#[test]
fn special_values() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows: [[f64; 3]; 5] = [[nan, 1.0, 2.0], [inf, 1.0, 2.0], [-inf, 0.0, 0.0], [-inf; 3], [1e4, 0.0, -1e4]];
    let want: [[f64; 3]; 5] = [[nan; 3], [nan; 3], [0.0, 0.5, 0.5], [nan; 3], [1.0, 0.0, 0.0]];
    for length in [3, 40] {
        for (row, want) in rows.iter().zip(&want) {
            for columns in [1, 2] {
                let x = row.iter().copied().chain(std::iter::repeat_n(-inf, length - 3));
                let x: Vec<f64> = x.flat_map(|x| vec![x; columns]).collect();
                let sizes = [1, length as i64, columns as i64];
                let (x, y) = (tensor::<f64>(&x, &sizes), tensor::<f64>(&vec![9.0; x.len()], &sizes));
                crate::with_level!(I => softmax::<I, f64>(&y, &x)).unwrap();
                for (i, got) in numbers::<f64>(&y).into_iter().take(3 * columns).enumerate() {
                    let want = want[i / columns];
                    assert!(got == want || got.is_nan() && want.is_nan(), "{row:?} of {length}: {got}, not {want}");
                }
            }
        }
    }
}
