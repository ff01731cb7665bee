//! The three products against their definition, over geometries that take every path.

use tensor_aten::kernels::ConvShape;

use super::columns::depth;
use super::{Conv, adjoint, forward, w_len, weight, x_len, y_len};
use crate::parallel::{SERIAL, get_num_threads, set_num_threads};
use crate::with_level;

/// Calls `f(y, x, w)` with the places of every product of the definition.
fn products(s: &ConvShape, mut f: impl FnMut(usize, usize, usize)) {
    let (ins, outs) = (s.in_channels / s.groups, s.out_channels / s.groups);
    let taps: usize = s.kernel.iter().product();
    let split = |i: usize, sizes: [usize; 3]| [i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]];
    let place = |n: usize, c: usize, i: usize, channels: usize, plane: usize| {
        if s.channels_last { (n * plane + i) * channels + c } else { (n * channels + c) * plane + i }
    };
    let (image, result): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    for n in 0..s.batch {
        for o in 0..s.out_channels {
            for p in 0..result {
                for i in 0..ins {
                    for tap in 0..taps {
                        let (at, k) = (split(p, s.result), split(tap, s.kernel));
                        let mut q = Some(0);
                        for d in 0..3 {
                            let x = (at[d] * s.stride[d] + k[d] * s.dilation[d]) as isize - s.padding[d];
                            let inside = x >= 0 && (x as usize) < s.image[d];
                            q = q.filter(|_| inside).map(|q| q * s.image[d] + x as usize);
                        }
                        let Some(q) = q else { continue };
                        let w = if s.channels_last { tap * ins + i } else { i * taps + tap };
                        let x = place(n, o / outs * ins + i, q, s.in_channels, image);
                        f(place(n, o, p, s.out_channels, result), x, o * depth(s) + w);
                    }
                }
            }
        }
    }
}

/// Small whole numbers: every order of sums gives the same.
fn values<T: Conv>(n: usize, seed: usize) -> Vec<T> {
    (0..n).map(|i| T::from_scalar((((i * 7919 + seed) % 11) as i64 - 5).into())).collect()
}

fn agrees<T: Conv>(s: &ConvShape) {
    let (x, y, w) = (values::<T>(x_len(s), 1), values::<T>(y_len(s), 2), values::<T>(w_len(s), 3));
    let (y_bias, x_bias) = (values::<T>(s.out_channels, 4), values::<T>(s.in_channels, 5));
    let channel = |i: usize, channels: usize, plane: usize| {
        if s.channels_last { i % channels } else { i / plane % channels }
    };
    let (image, result): (usize, usize) = (s.image.iter().product(), s.result.iter().product());
    let wrong = T::from_scalar(99.into());
    let mut expected: Vec<T> = (0..y.len()).map(|i| y_bias[channel(i, s.out_channels, result)]).collect();
    products(s, |iy, ix, iw| expected[iy] = expected[iy].add(x[ix].mul(w[iw])));
    let mut got = vec![wrong; y.len()];
    with_level!(I => forward::run::<I, T>(s, &mut got, &x, &w, Some(&y_bias)));
    assert!(got == expected, "forward of {s:?}");

    let mut expected: Vec<T> = (0..x.len()).map(|i| x_bias[channel(i, s.in_channels, image)]).collect();
    products(s, |iy, ix, iw| expected[ix] = expected[ix].add(y[iy].mul(w[iw])));
    let mut got = vec![wrong; x.len()];
    with_level!(I => adjoint::run::<I, T>(s, &mut got, &y, &w, Some(&x_bias)));
    assert!(got == expected, "adjoint of {s:?}");

    let mut expected = vec![T::ZERO; w.len()];
    products(s, |iy, ix, iw| expected[iw] = expected[iw].add(y[iy].mul(x[ix])));
    let mut got = vec![wrong; w.len()];
    with_level!(I => weight::run::<I, T>(s, &mut got, &x, &y));
    assert!(got == expected, "weight of {s:?}");
}

fn shape(
    [batch, groups, in_channels, out_channels]: [usize; 4],
    image: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [isize; 3],
    dilation: [usize; 3],
) -> ConvShape {
    let result = std::array::from_fn(|d| {
        let padded = image[d] as isize + 2 * padding[d] - (dilation[d] * (kernel[d] - 1)) as isize;
        (padded - 1) as usize / stride[d] + 1
    });
    let channels_last = false;
    ConvShape {
        batch,
        groups,
        in_channels,
        out_channels,
        image,
        kernel,
        result,
        stride,
        padding,
        dilation,
        channels_last,
    }
}

#[test]
fn products_agree_with_the_definition() {
    let shapes = [
        shape([2, 1, 3, 5], [1, 7, 8], [1, 3, 2], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([2, 1, 4, 6], [1, 9, 7], [1, 3, 3], [1, 2, 2], [0, 1, 0], [1, 1, 1]),
        shape([1, 2, 4, 6], [1, 9, 9], [1, 3, 3], [1, 2, 3], [0, 2, 1], [1, 2, 2]),
        shape([3, 1, 5, 4], [1, 6, 6], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
        shape([2, 1, 5, 4], [1, 6, 6], [1, 1, 1], [1, 2, 2], [0, 0, 0], [1, 1, 1]),
        shape([2, 1, 2, 3], [5, 4, 6], [2, 3, 2], [1, 2, 1], [1, 1, 0], [1, 1, 1]),
        shape([2, 1, 2, 3], [5, 4, 6], [2, 2, 2], [1, 1, 1], [0, 0, 0], [2, 1, 1]),
        shape([2, 6, 6, 6], [1, 8, 9], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([2, 6, 6, 6], [1, 8, 9], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        shape([2, 3, 3, 6], [1, 8, 9], [1, 3, 3], [1, 1, 2], [0, 1, 1], [1, 1, 1]),
        shape([1, 1, 40, 33], [1, 12, 12], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([1, 1, 70, 8], [1, 6, 5], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        shape([20, 1, 3, 4], [1, 10, 10], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        shape([1, 1, 1, 1], [1, 1, 40], [1, 1, 5], [1, 1, 3], [0, 0, 2], [1, 1, 2]),
        shape([1, 1, 2, 2], [1, 3, 3], [1, 2, 2], [1, 1, 1], [0, 2, 2], [1, 1, 1]),
        shape([0, 1, 2, 2], [1, 3, 3], [1, 2, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
    ];
    for s in shapes {
        agrees::<f64>(&s);
        agrees::<i32>(&s);
        agrees::<f64>(&ConvShape { channels_last: true, ..s });
    }
}

/// Parts of planes and of batches, tails of tiles, phases without elements of the kernel, and what goes through columns.
#[test]
fn every_way_to_split_agrees_with_the_definition() {
    let shapes = [
        // two parts of a plane; lines of all phases stay together
        shape([1, 1, 2, 5], [1, 50, 60], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([1, 1, 2, 3], [1, 130, 70], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        // parts of a line
        shape([1, 1, 2, 3], [1, 1, 5000], [1, 1, 5], [1, 1, 1], [0, 0, 2], [1, 1, 1]),
        shape([1, 1, 2, 3], [1, 1, 9001], [1, 1, 3], [1, 1, 2], [0, 0, 1], [1, 1, 1]),
        // several images at once, panels of eight (or six) channels and one of one
        shape([9, 1, 3, 17], [1, 5, 4], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([6, 1, 16, 16], [1, 14, 14], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([5, 1, 16, 7], [1, 14, 14], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([3, 4, 8, 12], [1, 9, 9], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        // lines of whole vectors
        shape([3, 1, 3, 9], [1, 16, 16], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([2, 2, 4, 6], [1, 9, 32], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        // windows apart from each other, few and many
        shape([2, 1, 3, 4], [1, 16, 16], [1, 4, 4], [1, 4, 4], [0, 0, 0], [1, 1, 1]),
        shape([2, 1, 3, 4], [1, 8, 9], [1, 2, 2], [1, 2, 3], [0, 0, 1], [1, 1, 1]),
        shape([2, 2, 4, 4], [1, 9, 11], [1, 2, 1], [1, 3, 3], [0, 0, 0], [1, 1, 1]),
        // more weights than results
        shape([1, 1, 64, 512], [1, 3, 3], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        // windows wider than the image, and an image whose rim is left out
        shape([1, 1, 2, 2], [1, 6, 7], [1, 3, 3], [1, 1, 1], [0, 3, 3], [1, 3, 3]),
        shape([2, 1, 2, 3], [1, 8, 8], [1, 3, 3], [1, 1, 1], [0, -1, -1], [1, 1, 1]),
        shape([2, 1, 2, 3], [1, 9, 9], [1, 3, 3], [1, 2, 2], [0, -1, 2], [1, 1, 1]),
        // one channel a group: rows of nine elements of the kernel, several results a group
        shape([3, 4, 4, 8], [1, 9, 10], [1, 5, 5], [1, 2, 1], [0, 2, 2], [1, 1, 2]),
        shape([2, 5, 5, 5], [4, 5, 6], [3, 2, 3], [2, 1, 1], [1, 0, 1], [1, 2, 1]),
        shape([2, 1, 3, 2], [5, 6, 7], [3, 3, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1]),
        // planes of results that see no plane of the image, and the other way round
        shape([2, 1, 3, 2], [2, 6, 7], [2, 3, 3], [1, 1, 1], [3, 1, 1], [1, 1, 1]),
        shape([2, 2, 4, 2], [7, 6, 7], [1, 3, 3], [3, 2, 1], [0, 1, 1], [1, 1, 1]),
    ];
    for s in shapes {
        agrees::<f32>(&s);
        agrees::<f64>(&s);
        agrees::<f32>(&ConvShape { channels_last: true, ..s });
    }
}

/// Geometries of every kernel: both layouts, few and many channels, one channel a group.
fn kinds() -> impl Iterator<Item = ConvShape> {
    let shapes = [
        shape([3, 1, 17, 34], [1, 11, 21], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([3, 2, 6, 70], [1, 11, 10], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        shape([2, 1, 20, 70], [1, 7, 7], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([3, 9, 27, 36], [1, 13, 18], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([3, 34, 34, 34], [1, 13, 18], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        shape([3, 9, 9, 9], [1, 23, 18], [1, 5, 3], [1, 2, 1], [0, 0, 1], [1, 1, 2]),
        shape([3, 1, 20, 34], [1, 20, 21], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
    ];
    shapes.into_iter().flat_map(|s| [s.clone(), ConvShape { channels_last: true, ..s }])
}

/// Results, images and weights of a geometry.
fn all(s: &ConvShape, x: &[f32], y: &[f32], w: &[f32]) -> [Vec<f32>; 3] {
    let mut out = [vec![0.0; y.len()], vec![0.0; x.len()], vec![0.0; w.len()]];
    with_level!(I => forward::run::<I, f32>(s, &mut out[0], x, w, None));
    with_level!(I => adjoint::run::<I, f32>(s, &mut out[1], y, w, None));
    with_level!(I => weight::run::<I, f32>(s, &mut out[2], x, y));
    out
}

#[test]
fn threads_do_not_change_a_bit() {
    let _serial = SERIAL.lock();
    let threads = get_num_threads();
    let fractions = |n: usize, seed: usize| -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 31) % 1009) as f32 / 101.0 - 4.9).collect()
    };
    for s in kinds() {
        let (x, y, w) = (fractions(x_len(&s), 1), fractions(y_len(&s), 2), fractions(w_len(&s), 3));
        let on = |threads: usize| {
            set_num_threads(threads);
            all(&s, &x, &y, &w).map(|out| out.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        let one = on(1);
        assert!((2..4).all(|threads| on(threads) == one), "{s:?}");
    }
    set_num_threads(threads);
}

/// An infinity meets those weights alone whose element of the kernel sees it.
#[test]
fn weights_see_nothing_beyond_their_windows() {
    for s in kinds().filter(|s| s.groups > 1) {
        let y: Vec<f32> = values::<f32>(y_len(&s), 2).into_iter().map(|y| y + 6.0).collect();
        for at in [s.image[2] - 1, x_len(&s) - 1] {
            let mut x = values::<f32>(x_len(&s), 1);
            x[at] = f32::INFINITY;
            let (mut expected, mut got) = (vec![0.0; w_len(&s)], vec![0.0; w_len(&s)]);
            products(&s, |iy, ix, iw| expected[iw] += y[iy] * x[ix]);
            with_level!(I => weight::run::<I, f32>(&s, &mut got, &x, &y));
            assert!(got == expected, "{s:?}, element {at}");
        }
    }
}
