//! Windows, and what is made of them, against their definition.

use tensor_aten::Tensor;
use tensor_aten::kernels::{PoolDivisor, PoolShape, PoolWindow};
use tensor_core::{DType, Device};

use super::lines::{Stage, Steps};
use super::windows::Windows;
use super::{avg_pool, max_pool};
use crate::with_level;

#[test]
fn windows_are_what_their_definition_says() {
    for (image, kernel, stride, pad, dilation) in [
        (7, 3, 2, 1, 1),
        (6, 2, 2, 1, 1),
        (9, 3, 1, 1, 2),
        (5, 4, 3, 2, 1),
        (8, 2, 5, 0, 3),
        (4, 3, 2, 1, 2),
        (30, 5, 4, 2, 3),
        (17, 3, 7, 1, 1),
    ] {
        let results = (image + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        let s = PoolShape {
            planes: 1,
            channels: 1,
            image: [1, 1, image],
            result: [1, 1, results],
            window: PoolWindow::Fixed {
                kernel: [1, 1, kernel],
                stride: [1, 1, stride],
                padding: [0, 0, pad],
                dilation: [1, 1, dilation],
            },
        };
        let all = Windows::all(&s);
        let (windows, steps) = (&all[2], Steps::of(&s).unwrap());
        let mut stage = Stage::new(&s, &all, steps, -1i64);
        stage.put(&(0..image as i64).collect::<Vec<_>>(), 0, 1);
        for o in 0..results {
            let at = |k: usize| (o * stride + k * dilation).checked_sub(pad).filter(|&i| i < image);
            let expected: Vec<usize> = (0..kernel).filter_map(at).collect();
            let (a, b) = windows.bounds[o];
            assert_eq!(
                (a..b).step_by(windows.step).collect::<Vec<_>>(),
                expected,
                "{image} {kernel} {stride} {pad} at {o}"
            );
            let seen = (0..kernel).map(|k| {
                let (from, step) = stage.from(0, k * dilation);
                from[o * step]
            });
            let seen: Vec<usize> = seen.filter(|&i| i >= 0).map(|i| i as usize).collect();
            assert_eq!(seen, expected);
            if dilation == 1 {
                for i in 0..image {
                    assert_eq!(windows.holding(i).contains(&o), expected.contains(&i));
                }
            }
        }
    }
}

#[test]
fn adaptive_windows_cover_the_image() {
    for (image, results) in [(7, 3), (4, 6), (5, 5), (9, 1)] {
        let s = PoolShape {
            planes: 1,
            channels: 1,
            image: [1, 1, image],
            result: [1, 1, results],
            window: PoolWindow::Adaptive,
        };
        let [_, _, windows] = Windows::all(&s);
        assert_eq!(windows.bounds[0].0, 0);
        assert_eq!(windows.bounds[results - 1].1, image);
        assert!(windows.bounds.windows(2).all(|w| w[1].0 <= w[0].1));
    }
}

/// Three dimensions of windows.
fn fixed(planes: usize, image: [usize; 3], [kernel, stride, padding, dilation]: [[usize; 3]; 4]) -> PoolShape {
    let result =
        std::array::from_fn(|d| (image[d] + 2 * padding[d] - (kernel[d] - 1) * dilation[d] - 1) / stride[d] + 1);
    PoolShape { planes, channels: 1, image, result, window: PoolWindow::Fixed { kernel, stride, padding, dilation } }
}

fn adaptive(planes: usize, image: [usize; 3], result: [usize; 3]) -> PoolShape {
    PoolShape { planes, channels: 1, image, result, window: PoolWindow::Adaptive }
}

/// Short lines, many at once, and long ones; windows over lines of all phases; those that lie over the rim.
fn shapes() -> Vec<PoolShape> {
    let one = [1, 1, 1];
    vec![
        fixed(70, [1, 8, 8], [[1, 2, 2], [1, 2, 2], [0, 0, 0], one]),
        fixed(300, [1, 5, 3], [[1, 2, 3], [1, 1, 1], [0, 1, 1], one]),
        fixed(3, [1, 9, 90], [[1, 3, 3], [1, 2, 2], [0, 1, 1], one]),
        fixed(3, [1, 3, 1100], [[1, 2, 3], [1, 1, 3], [0, 0, 1], one]),
        fixed(5, [1, 30, 31], [[1, 5, 4], [1, 3, 4], [0, 2, 1], one]),
        fixed(40, [1, 7, 7], [[1, 7, 7], [1, 7, 7], [0, 0, 0], one]),
        fixed(4, [6, 7, 13], [[3, 2, 3], [2, 1, 5], [1, 1, 1], [1, 2, 2]]),
        fixed(3, [1, 2, 2], [[1, 2, 2], [1, 1, 1], [0, 1, 1], [1, 1, 1]]),
        fixed(2, [1, 12, 60], [[1, 3, 20], [1, 1, 40], [0, 0, 0], [1, 2, 1]]),
        adaptive(9, [1, 12, 12], [1, 5, 4]),
        adaptive(9, [4, 12, 13], [2, 3, 5]),
        adaptive(2, [1, 2, 40], [1, 1, 1]),
    ]
}

/// Calls `f(result, elements)` with the elements of a result's window in their order.
fn each_window(s: &PoolShape, mut f: impl FnMut(usize, &[usize])) {
    let windows = Windows::all(s);
    let (image, result) = (s.image, s.result);
    for o in 0..s.planes * result.iter().product::<usize>() {
        let at = [o / (result[1] * result[2]) % result[0], o / result[2] % result[1], o % result[2]];
        let plane = o / result.iter().product::<usize>() * image.iter().product::<usize>();
        let of = |d: usize| (windows[d].bounds[at[d]].0..windows[d].bounds[at[d]].1).step_by(windows[d].step);
        let mut seen = Vec::new();
        for z in of(0) {
            for y in of(1) {
                seen.extend(of(2).map(|x| plane + (z * image[1] + y) * image[2] + x));
            }
        }
        f(o, &seen);
    }
}

#[test]
fn the_largest_are_those_of_the_windows() {
    for channels in [1, 3] {
        for s in shapes().into_iter().map(|s| PoolShape { channels, ..s }) {
            let plane: usize = s.image.iter().product();
            let n = s.planes * plane * channels;
            // Equals, infinities and no-numbers.
            let x: Vec<f32> = (0..n)
                .map(|i| match i * 7919 % 1009 {
                    0 => f32::NAN,
                    1..80 => f32::NEG_INFINITY,
                    v => (v % 12) as f32,
                })
                .collect();
            let mut expected = Vec::new();
            for channel in 0..channels {
                each_window(&s, |o, seen| {
                    let (mut best, mut place) = (f32::NEG_INFINITY, seen[0]);
                    for &i in seen {
                        let v = x[i * channels + channel];
                        if v > best || v.is_nan() {
                            (best, place) = (v, i);
                        }
                    }
                    expected.push((o * channels + channel, best, (place % plane) as i64));
                });
            }
            let size = [expected.len() as i64];
            let values = Tensor::new_dense(&size, DType::F32, Device::CPU).unwrap();
            let indices = Tensor::new_dense(&size, DType::I64, Device::CPU).unwrap();
            let x = Tensor::from_vec(x, &[n as i64]).unwrap();
            with_level!(I => max_pool::<I, f32>(&values, &indices, &x, &s)).unwrap();
            let (values, indices) = (values.to_vec::<f32>().unwrap(), indices.to_vec::<i64>().unwrap());
            for (o, value, place) in expected {
                assert_eq!(values[o].to_bits(), value.to_bits(), "{s:?} at {o}");
                assert_eq!(indices[o], place, "{s:?} at {o}");
            }
        }
    }
}

#[test]
fn averages_are_those_of_the_windows() {
    // Averages know no dilation.
    let dense = |s: &PoolShape| !matches!(s.window, PoolWindow::Fixed { dilation, .. } if dilation != [1; 3]);
    for s in shapes().into_iter().filter(dense) {
        let n = s.planes * s.image.iter().product::<usize>();
        let x: Vec<f64> = (0..n).map(|i| (i * 7919 % 31) as f64 - 9.0).collect();
        let mut expected = Vec::new();
        each_window(&s, |_, seen| {
            expected.push(seen.iter().map(|&i| x[i]).sum::<f64>() / seen.len() as f64);
        });
        let out = Tensor::new_dense(&[expected.len() as i64], DType::F64, Device::CPU).unwrap();
        let x = Tensor::from_vec(x, &[n as i64]).unwrap();
        with_level!(I => avg_pool::<I, f64>(&out, &x, &s, PoolDivisor::Inside)).unwrap();
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
        assert!(out.to_vec::<f64>().unwrap().iter().zip(&expected).all(close), "{s:?}");
    }
}
