//! Reductions against naive ones, over shapes that reach every way of walking.

use tensor_aten::Tensor;
use tensor_core::{DType, Device, Element};

use super::{BLOCK, RUN, amax, max_dim, min_dim, norm, sum, var};
use crate::scan::cumsum;
use crate::with_level;

/// (A, R, B): one lane, rows and columns, with and without left-over lanes and blocks.
const SHAPES: [[usize; 3]; 10] = [
    [1, 70_001, 1],
    [3, 1, 1],
    [9, 37, 1],
    [17, 2049, 1],
    [1, 5, 70],
    [2, 300, 33],
    [3, 40, 1030],
    [1, 133, 4100],
    [8, 4096, 1],
    [1, 1, 1],
];

/// Numbers that repeat, so that extremes tie.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 31) % 1009) as f32 * 0.25 - 100.0).collect()
}

fn tensor<T: Element>(values: Vec<T>, [a, r, b]: [usize; 3]) -> Tensor {
    Tensor::from_vec(values, &[a as i64, r as i64, b as i64]).unwrap()
}

fn empty(dtype: DType, sizes: &[usize]) -> Tensor {
    let sizes: Vec<i64> = sizes.iter().map(|&n| n as i64).collect();
    Tensor::new_dense(&sizes, dtype, Device::CPU).unwrap()
}

/// The lanes of (A, R, B), in the order of the results.
fn lanes(x: &[f32], [a, r, b]: [usize; 3]) -> Vec<Vec<f32>> {
    let lane = |i: usize, j: usize| (0..r).map(|k| x[(i * r + k) * b + j]).collect();
    (0..a).flat_map(|i| (0..b).map(move |j| (i, j))).map(|(i, j)| lane(i, j)).collect()
}

fn close(ours: &[f32], naive: &[f64]) {
    for (x, y) in ours.iter().zip(naive) {
        assert!((f64::from(*x) - y).abs() <= 1e-5 * y.abs().max(1.0), "{x} {y}");
    }
    assert_eq!(ours.len(), naive.len());
}

#[test]
fn sums_moments_and_norms_are_those_of_the_lanes() {
    for shape in SHAPES {
        let values = numbers(shape.iter().product());
        let lanes = lanes(&values, shape);
        let x = tensor(values, shape);
        let out = empty(DType::F32, &[shape[0], shape[2]]);
        let of = |f: &dyn Fn(&[f32]) -> f64| lanes.iter().map(|lane| f(lane)).collect::<Vec<f64>>();
        let total = |lane: &[f32]| lane.iter().map(|&x| f64::from(x)).sum::<f64>();
        with_level!(I => sum::<I, f32>(&out, &x)).unwrap();
        close(&out.to_vec().unwrap(), &of(&total));
        with_level!(I => var::<I, f32>(&out, &x, 0.0)).unwrap();
        close(
            &out.to_vec().unwrap(),
            &of(&|lane| {
                let mean = total(lane) / lane.len() as f64;
                lane.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / lane.len() as f64
            }),
        );
        for p in [0.0, 1.0, 2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
            with_level!(I => norm::<I, f32>(&out, &x, p)).unwrap();
            close(
                &out.to_vec().unwrap(),
                &of(&|lane| {
                    let moduli = lane.iter().map(|&x| f64::from(x.abs()));
                    match p {
                        0.0 => moduli.filter(|&x| x != 0.0).count() as f64,
                        f64::INFINITY => moduli.fold(0.0, f64::max),
                        f64::NEG_INFINITY => moduli.fold(f64::INFINITY, f64::min),
                        p => moduli.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
                    }
                }),
            );
        }
    }
}

/// Around the lengths at which accumulators are put aside, and blocks begin.
#[test]
fn long_rows_are_folded_whole() {
    for n in [RUN - 1, RUN, RUN + 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + RUN + 3] {
        for rows in [1, 2] {
            let shape = [rows, n, 1];
            let x = tensor((0..rows * n).map(|i| i as i64 % 1013 - 500).collect(), shape);
            let out = empty(DType::I64, &[rows, 1]);
            with_level!(I => sum::<I, i64>(&out, &x)).unwrap();
            let expected: Vec<i64> =
                (0..rows).map(|row| (row * n..(row + 1) * n).map(|i| i as i64 % 1013 - 500).sum()).collect();
            assert_eq!(out.to_vec::<i64>().unwrap(), expected, "{n}");
            // Of few rounding errors, whatever the length.
            let out = empty(DType::F32, &[rows, 1]);
            with_level!(I => sum::<I, f32>(&out, &tensor(vec![0.1f32; rows * n], shape))).unwrap();
            for got in out.to_vec::<f32>().unwrap() {
                let expected = f64::from(0.1f32) * n as f64;
                assert!((f64::from(got) - expected).abs() <= 1e-6 * expected, "{n}: {got} {expected}");
            }
            for at in [0, RUN - 2, RUN - 1, RUN, BLOCK - 1, BLOCK, n - 1].into_iter().filter(|&at| at < n) {
                for extreme in [7.5f32, f32::NAN] {
                    let mut values = numbers(rows * n).iter().map(|x| x.min(5.0)).collect::<Vec<_>>();
                    values[(rows - 1) * n + at] = extreme;
                    with_level!(I => amax::<I, f32>(&out, &tensor(values, shape))).unwrap();
                    let got = out.to_vec::<f32>().unwrap();
                    assert_eq!(got[rows - 1].to_bits(), extreme.to_bits(), "{n} {at}");
                    assert!(rows == 1 || got[0] == 5.0);
                }
            }
        }
    }
}

#[test]
fn variances_far_from_zero_and_near_the_largest_numbers() {
    for (centre, step) in [(1e6f32, 0.25f32), (-3e38, 0.0), (0.0, 1e19), (2.0, 1e-4)] {
        for n in [7, 5000, 70_001] {
            let values: Vec<f32> = (0..n).map(|i| centre + ((i * 7919) % 13) as f32 * step).collect();
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n as f64;
            let naive = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n as f64;
            for shape in [[1, n, 1], [2, n, 1]] {
                let x = tensor(values.repeat(shape[0]), shape);
                let out = empty(DType::F32, &[shape[0], 1]);
                with_level!(I => var::<I, f32>(&out, &x, 0.0)).unwrap();
                for got in out.to_vec::<f32>().unwrap() {
                    let apart = (f64::from(got) - naive).abs();
                    assert!(
                        apart <= 1e-5 * naive || f64::from(got) == naive || naive > f64::from(f32::MAX),
                        "{got} {naive}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_first_extreme_is_selected_and_no_numbers_before_it() {
    for shape in SHAPES {
        for none in [None, Some(0.3), Some(0.9)] {
            let mut values = numbers(shape.iter().product());
            if let Some(part) = none {
                let n = values.len() as f64;
                for at in [part * n, part * n + 1.0, 0.95 * n] {
                    values[(at as usize).min(n as usize - 1)] = f32::NAN;
                }
            }
            let lanes = lanes(&values, shape);
            let x = tensor(values, shape);
            let results = [shape[0], shape[2]];
            let (out, at) = (empty(DType::F32, &results), empty(DType::I64, &results));
            let check = |before: fn(f32, f32) -> bool| {
                let (out, at) = (out.to_vec::<f32>().unwrap(), at.to_vec::<i64>().unwrap());
                for ((lane, out), at) in lanes.iter().zip(out).zip(at) {
                    let naive = (1..lane.len()).fold(0, |best, i| {
                        let wins = !lane[best].is_nan() && (before(lane[i], lane[best]) || lane[i].is_nan());
                        if wins { i } else { best }
                    });
                    assert_eq!(at as usize, naive, "{shape:?}");
                    assert_eq!(out.to_bits(), lane[naive].to_bits());
                }
            };
            with_level!(I => max_dim::<I, f32>(&out, &at, &x)).unwrap();
            check(|a, b| a > b);
            with_level!(I => min_dim::<I, f32>(&out, &at, &x)).unwrap();
            check(|a, b| a < b);
        }
    }
}

#[test]
fn running_sums_are_those_of_the_lanes() {
    for shape @ [a, r, b] in SHAPES {
        let values = numbers(shape.iter().product());
        let x = tensor(values.clone(), shape);
        let out = empty(DType::F32, &shape);
        with_level!(I => cumsum::<I, f32>(&out, &x)).unwrap();
        let out = out.to_vec::<f32>().unwrap();
        for i in 0..a {
            for j in 0..b {
                let mut sum = 0.0f64;
                for k in 0..r {
                    let at = (i * r + k) * b + j;
                    sum += f64::from(values[at]);
                    assert_eq!(out[at], sum as f32);
                }
            }
        }
    }
}
