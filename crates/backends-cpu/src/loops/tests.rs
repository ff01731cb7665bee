//! Tests of the driver, the block loop and the views.

use tensor_core::iter::IterConfig;
use tensor_core::strides;
use tensor_core::{Bool, DType, Element, Result, Scalar, Storage, TensorImpl, TensorRef, f16};

use super::stream::{STREAM, pays};
use super::views::{lock, par_chunks, par_rows, par_rows2};
use crate::isa::{Baseline, Level, level};
use crate::simd::{Arith, Floating, Number, Ordered};
use crate::{elementwise, with_level};

elementwise! {
    fn axpy<>(a: f32, b: f32; alpha: f32) -> f32 { a + alpha * b }
    fn less<>(a: f64, b: f64) -> Bool { Bool::new(a < b) }
    fn iota<>() -> i64 { 7 }
    fn both<>(a: f32) -> (f32, i32) { (a * 2.0, a as i32) }
    fn scaled<T: Floating>(a: T, b: T; scale: T::Op) -> T { T::down(a.up().mul(scale).add(b.up())) }
    fn above<T: Ordered>(a: T, b: T) -> Bool { Bool::new(a.up() > b.up()) }
    fn sum<T: Number>(a: T, b: T) -> T { T::down(a.up().add(b.up())) }
    fn twice_c<>(a: tensor_core::Complex64) -> tensor_core::Complex64 { a + a }
}

fn dense<T: Element + bytemuck::Pod>(values: Vec<T>, sizes: &[i64]) -> TensorRef {
    view(&Storage::from_vec(values), T::DTYPE, sizes, &strides::contiguous(sizes), 0)
}

fn view(storage: &Storage, dtype: DType, sizes: &[i64], strides: &[i64], offset: i64) -> TensorRef {
    TensorImpl::new(storage.clone(), dtype, sizes, strides, offset).unwrap()
}

fn values<T: Element>(tensor: &TensorRef) -> Vec<T> {
    lock(&[tensor], &[]).unwrap().read::<T>(0).unwrap().dense().into_owned()
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 - 3.0).collect()
}

fn run(out: &TensorRef, a: &TensorRef, b: &TensorRef, alpha: f64) -> Result<()> {
    let mut iter = IterConfig::binary_op(Some(out), a, b).build()?;
    iter.set_params(&[Scalar::Float(alpha)]);
    with_level!(I => axpy::<I>(&iter))
}

#[test]
fn every_length_is_right_in_place_and_not() {
    for n in [0usize, 1, 2, 4, 5, 31, 63, 64, 65, 127, 128, 200, 40_000] {
        let (x, y) = (ramp(n), (0..n).map(|i| (i * 7 % 13) as f32).collect::<Vec<_>>());
        let expected: Vec<f32> = x.iter().zip(&y).map(|(a, b)| a + 2.0 * b).collect();
        let size = [n as i64];
        let (a, b, out) = (dense(x, &size), dense(y, &size), dense(vec![0f32; n], &size));
        run(&out, &a, &b, 2.0).unwrap();
        assert_eq!(values::<f32>(&out), expected);
        run(&a, &a, &b, 2.0).unwrap();
        assert_eq!(values::<f32>(&a), expected);
        run(&a, &a, &a, -1.0).unwrap();
        assert!(values::<f32>(&a).iter().all(|&v| v == 0.0));
    }
}

#[test]
fn large_outputs_are_written_whole_and_nothing_beyond() {
    let n = STREAM / 4 + 13;
    let (a, b) = (dense(ramp(n), &[n as i64]), dense(vec![0.5f32; n], &[n as i64]));
    for offset in [0, 3, 16] {
        let storage = Storage::from_vec(vec![-7f32; n + 40]);
        run(&view(&storage, DType::F32, &[n as i64], &[1], offset), &a, &b, 2.0).unwrap();
        let all = values::<f32>(&view(&storage, DType::F32, &[n as i64 + 40], &[1], 0));
        let (before, rest) = all.split_at(offset as usize);
        let (written, after) = rest.split_at(n);
        assert!(before.iter().chain(after).all(|&v| v == -7.0));
        assert!(written.iter().enumerate().all(|(i, &v)| v == i as f32 - 3.0 + 1.0));
    }
    let (twice, whole) = (dense(vec![0f32; n], &[n as i64]), dense(vec![0i32; n], &[n as i64]));
    let iter = IterConfig::new()
        .check_all_same_dtype(false)
        .output(Some(&twice))
        .output(Some(&whole))
        .input(&a)
        .build()
        .unwrap();
    with_level!(I => both::<I>(&iter)).unwrap();
    let (twice, whole) = (values::<f32>(&twice), values::<i32>(&whole));
    assert!(twice.iter().zip(&whole).enumerate().all(|(i, (t, w))| *t == 2.0 * (i as f32 - 3.0) && *w == i as i32 - 3));
}

#[test]
fn halves_are_computed_as_floats_and_rounded_once() {
    for n in [1usize, 9, 1023, 1024, 1025, 40_000] {
        let size = [n as i64];
        let x: Vec<f16> = (0..n).map(|i| f16::from_f32((i * 37 % 2039) as f32 * 0.01 - 9.0)).collect();
        let y: Vec<f16> = (0..n).map(|i| f16::from_f32((i * 11 % 509) as f32 * 0.03 - 7.0)).collect();
        let (a, b) = (dense(x.clone(), &size), dense(y.clone(), &size));
        let mask = dense(vec![Bool::new(false); n], &size);
        let iter = IterConfig::comparison_op(Some(&mask), &a, &b).build().unwrap();
        with_level!(I => above::<I, f16>(&iter)).unwrap();
        assert!(values::<Bool>(&mask).iter().zip(x.iter().zip(&y)).all(|(m, (x, y))| m.get() == (x > y)));
        // In place: the output is an input.
        let mut iter = IterConfig::binary_op(Some(&a), &a, &b).build().unwrap();
        iter.set_params(&[Scalar::Float(1.5)]);
        with_level!(I => scaled::<I, f16>(&iter)).unwrap();
        let expected = x.iter().zip(&y).map(|(x, y)| f16::from_f32(x.to_f32() * 1.5 + y.to_f32()));
        assert_eq!(values::<f16>(&a), expected.collect::<Vec<_>>());
    }
}

#[test]
fn broadcast_transposed_and_strided_operands() {
    let (rows, cols) = (67i64, 1031i64);
    let n = (rows * cols) as usize;
    let a = dense(ramp(n), &[rows, cols]);
    let wide = Storage::from_vec(ramp(2 * n));
    let others = [
        dense(ramp(cols as usize), &[cols]),
        dense(ramp(rows as usize), &[rows, 1]),
        dense(vec![5f32], &[]),
        view(&wide, DType::F32, &[rows, cols], &[1, rows], 3),
        view(&wide, DType::F32, &[rows, cols], &[2 * cols, 2], 1),
    ];
    let spread = view(&Storage::from_vec(vec![0f32; 2 * n]), DType::F32, &[rows, cols], &[1, 2 * rows], 0);
    for (k, b) in others.iter().enumerate() {
        for out in [dense(vec![0f32; n], &[rows, cols]), spread.clone()] {
            run(&out, &a, b, 3.0).unwrap();
            let got = values::<f32>(&out);
            let (x, y) = (values::<f32>(&a), values::<f32>(b));
            for r in 0..rows as usize {
                for c in 0..cols as usize {
                    let i = r * cols as usize + c;
                    let other = match k {
                        0 => y[c],
                        1 => y[r],
                        2 => y[0],
                        _ => y[i],
                    };
                    assert_eq!(got[i], x[i] + 3.0 * other, "operand {k} at {r}, {c}");
                }
            }
        }
    }
}

#[test]
fn broadcasts_of_halves_of_any_width() {
    let half = |n: i64, by: i64| -> Vec<f16> { (0..n).map(|i| f16::from_f32((i * by % 23) as f32 * 0.25)).collect() };
    for cols in [1i64, 3, 63, 64, 127, 128, 129, 300] {
        let rows = 7;
        let whole = dense(half(rows * cols, 5), &[rows, cols]);
        let (row, column, one) = (half(cols, 7), half(rows, 11), half(1, 3));
        let others = [dense(row, &[cols]), dense(column, &[rows, 1]), dense(one, &[])];
        for (a, b) in
            others.iter().flat_map(|other| [(&whole, other), (other, &whole)]).chain([(&others[0], &others[1])])
        {
            let mut iter = IterConfig::binary_op(None, a, b).build().unwrap();
            iter.set_params(&[Scalar::Float(1.5)]);
            with_level!(I => scaled::<I, f16>(&iter)).unwrap();
            let at = |x: &TensorRef, i: usize| {
                let values = values::<f16>(x);
                let (r, c) = (i / cols as usize, i % cols as usize);
                values[if x.sizes().len() == 2 && x.sizes()[1] == 1 {
                    r
                } else if x.sizes().len() == 1 {
                    c
                } else {
                    i.min(values.len() - 1)
                }]
                .to_f32()
            };
            for (i, got) in values::<f16>(iter.output(0)).iter().enumerate() {
                assert_eq!(*got, f16::from_f32(at(a, i) * 1.5 + at(b, i)), "element {i} of rows of {cols}");
            }
        }
    }
}

/// `a + b` of any layouts against one element at a time, also into a transposed output and onto `a` itself. Elements count up.
fn check_sum<T: Number + bytemuck::Pod + PartialEq + std::fmt::Debug>(sizes: &[i64], a: &[i64], b: &[i64]) {
    let count = |n: usize| (0..n).map(|i| T::from_scalar(Scalar::Int((i % 61) as i64))).collect::<Vec<T>>();
    let reach = |strides: &[i64]| 1 + sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum::<i64>() as usize;
    let over = |strides: &[i64]| view(&Storage::from_vec(count(reach(strides) + 3)), T::DTYPE, sizes, strides, 3);
    let (x, y) = (over(a), over(b));
    let expected: Vec<T> =
        values::<T>(&x).iter().zip(&values::<T>(&y)).map(|(x, y)| T::down(x.up().add(y.up()))).collect();
    let dense = strides::contiguous(sizes);
    let turned: Vec<i64> =
        strides::contiguous(&sizes.iter().rev().copied().collect::<Vec<_>>()).iter().rev().copied().collect();
    for out in [over(&dense), over(&turned), x.clone()] {
        let iter = IterConfig::binary_op(Some(&out), &x, &y).build().unwrap();
        with_level!(I => sum::<I, T>(&iter)).unwrap();
        assert_eq!(values::<T>(&out), expected, "{sizes:?} of strides {a:?} and {b:?} into {:?}", out.strides());
    }
}

#[test]
fn rows_and_columns_are_broadcast_at_every_width() {
    for cols in [2i64, 5, 20, 63, 100, 133, 333, 600, 1030] {
        for rows in [2i64, 9, 70] {
            let dense = [3 * rows * cols, cols, 1];
            check_sum::<f32>(&[2, rows, cols], &dense, &[0, 0, 1]);
            check_sum::<f32>(&[2, rows, cols], &dense, &[rows, 1, 0]);
            check_sum::<f64>(&[1, rows, cols], &dense, &[0, 0, 1]);
            check_sum::<i16>(&[1, rows, cols], &dense, &[rows, 1, 0]);
            check_sum::<u8>(&[1, rows, cols], &dense, &[rows, 0, 1]);
            check_sum::<tensor_core::Complex64>(&[2, rows, cols], &dense, &[0, 1, 0]);
        }
    }
}

#[test]
fn operands_that_lie_across_are_walked_in_tiles() {
    for [rows, cols] in [[2i64, 300], [16, 64], [37, 150], [130, 20], [700, 90]] {
        let (dense, across) = ([rows * cols, cols, 1], [rows * cols + 1, 1, rows]);
        check_sum::<u8>(&[2, rows, cols], &dense, &across);
        check_sum::<i16>(&[2, rows, cols], &dense, &across);
        check_sum::<f32>(&[2, rows, cols], &dense, &across);
        check_sum::<f32>(&[2, rows, cols], &dense, &[0, 1, 2 * rows]);
        check_sum::<f64>(&[2, rows, cols], &across, &across);
        check_sum::<tensor_core::Complex64>(&[2, rows, cols], &dense, &across);
    }
}

#[test]
fn strided_elements_are_laid_side_by_side() {
    for step in [2i64, 3, 4, 5, 8] {
        for cols in [7i64, 64, 333, 1100] {
            let strides = [cols * step + 1, step];
            check_sum::<u8>(&[5, cols], &strides, &strides);
            check_sum::<i16>(&[5, cols], &strides, &strides);
            check_sum::<f32>(&[5, cols], &strides, &[cols, 1]);
            check_sum::<f64>(&[5, cols], &strides, &strides);
            check_sum::<tensor_core::Complex64>(&[2, cols], &strides, &strides);
        }
    }
}

#[test]
fn large_transposed_outputs_are_written_whole() {
    let (rows, cols) = (2050i64, 2061i64);
    assert!((rows * cols) as usize * 4 > STREAM);
    let n = (rows * cols) as usize;
    let x = view(&Storage::from_vec(ramp(n)), DType::F32, &[rows, cols], &[1, rows], 0);
    let storage = Storage::from_vec(vec![-7f32; n + 9]);
    run(&view(&storage, DType::F32, &[rows, cols], &[cols, 1], 5), &x, &x, 1.0).unwrap();
    let all = values::<f32>(&view(&storage, DType::F32, &[n as i64 + 9], &[1], 0));
    let (before, rest) = all.split_at(5);
    let (written, after) = rest.split_at(n);
    assert!(before.iter().chain(after).all(|&v| v == -7.0));
    let (rows, cols) = (rows as usize, cols as usize);
    assert!(written.iter().enumerate().all(|(i, &v)| v == 2.0 * ((i % cols * rows + i / cols) as f32 - 3.0)));
}

#[test]
fn large_broadcasts_are_written_whole() {
    let (rows, cols) = (5900i64, 1031i64);
    assert!(pays((rows * cols) as usize * 4, (rows * cols) as usize * 4));
    let a = dense(ramp((rows * cols) as usize), &[rows, cols]);
    let out = dense(vec![0f32; (rows * cols) as usize], &[rows, cols]);
    for (k, other) in [dense(vec![5f32], &[]), dense(ramp(rows as usize), &[rows, 1])].iter().enumerate() {
        run(&out, &a, other, 2.0).unwrap();
        let expected = |i: usize| i as f32 - 3.0 + 2.0 * if k == 0 { 5.0 } else { (i / cols as usize) as f32 - 3.0 };
        assert!(values::<f32>(&out).iter().enumerate().all(|(i, &v)| v == expected(i)));
    }
}

#[test]
fn other_dtypes_and_several_outputs() {
    let n = 777usize;
    let size = [n as i64];
    let a = dense((0..n).map(|i| (i % 5) as f64).collect::<Vec<_>>(), &size);
    let b = dense((0..n).map(|i| (i % 7) as f64).collect::<Vec<_>>(), &size);
    let iter = IterConfig::comparison_op(None, &a, &b).build().unwrap();
    with_level!(I => less::<I>(&iter)).unwrap();
    assert!(values::<Bool>(iter.output(0)).iter().enumerate().all(|(i, v)| v.get() == (i % 5 < i % 7)));

    let x = dense(ramp(n), &size);
    let (y, z) = (dense(vec![0f32; n], &size), dense(vec![0i32; n], &size));
    let iter =
        IterConfig::new().check_all_same_dtype(false).output(Some(&y)).output(Some(&z)).input(&x).build().unwrap();
    with_level!(I => both::<I>(&iter)).unwrap();
    assert_eq!(values::<f32>(&y)[5], 4.0);
    assert_eq!(values::<i32>(&z)[776], 773);

    let c = dense(vec![tensor_core::Complex64::new(1.0, -2.0); 37], &[37]);
    let iter = IterConfig::unary_op(None, &c).build().unwrap();
    with_level!(I => twice_c::<I>(&iter)).unwrap();
    assert!(values::<tensor_core::Complex64>(iter.output(0)).iter().all(|v| v.im == -4.0));

    let filled = dense(vec![0i64; n], &size);
    with_level!(I => iota::<I>(&IterConfig::nullary_op(&filled).build().unwrap())).unwrap();
    assert!(values::<i64>(&filled).iter().all(|&v| v == 7));
}

#[test]
fn wrong_dtypes_and_counts_are_errors() {
    let (a, b) = (dense(vec![0f64; 8], &[8]), dense(vec![0f64; 8], &[8]));
    let iter = IterConfig::binary_op(None, &a, &b).build().unwrap();
    assert!(axpy::<Baseline>(&iter).is_err());
    assert!(iota::<Baseline>(&iter).is_err());
    assert!(lock(&[&a], &[]).unwrap().read::<f32>(0).is_err());
    assert!(lock(&[&a], &[]).unwrap().read::<f64>(1).is_err());
}

#[test]
fn overlapping_outputs_are_refused() {
    let storage = Storage::from_vec(ramp(20));
    let a = view(&storage, DType::F32, &[10], &[1], 0);
    let b = view(&storage, DType::F32, &[10], &[1], 9);
    let c = view(&storage, DType::F32, &[10], &[1], 10);
    let expanded = view(&storage, DType::F32, &[3, 4], &[0, 1], 0);
    assert!(lock(&[&a], &[&b]).is_err());
    assert!(lock(&[], &[&a, &b]).is_err());
    assert!(lock(&[], &[&expanded]).is_err());
    let locked = lock(&[&a], &[&c]).unwrap();
    assert!(locked.write::<f32>(0).is_ok());
    assert!(locked.write::<f32>(0).is_err(), "an output is handed out once");
}

#[test]
fn lanes_and_elements_follow_the_strides() {
    let x = view(&Storage::from_vec(ramp(24)), DType::F32, &[2, 4, 3], &[12, 1, 4], 0);
    let locked = lock(&[&x], &[]).unwrap();
    let v = locked.read::<f32>(0).unwrap();
    assert!(v.slice().is_none());
    assert_eq!((v.lanes(1), v.size(1)), (6, 4));
    for i in 0..2i64 {
        for k in 0..3i64 {
            let lane = v.lane(1, (i * 3 + k) as usize);
            assert_eq!(lane.len(), 4);
            assert!(lane.slice().is_some());
            for j in 0..4i64 {
                assert_eq!(lane.get(j as usize), (i * 12 + j + k * 4) as f32 - 3.0);
                assert_eq!(v.at(&[i, j, k]), lane.get(j as usize));
            }
        }
    }
    let dense = v.dense();
    assert_eq!(dense[1], v.at(&[0, 0, 1]));
    assert!(v.lane(2, 0).slice().is_none());
    assert_eq!(v.lane(2, 1).iter().collect::<Vec<_>>(), [-2.0, 2.0, 6.0]);
}

#[test]
fn outputs_of_any_strides_are_filled() {
    let out = view(&Storage::from_vec(vec![0f32; 24]), DType::F32, &[4, 5], &[1, 4], 2);
    {
        let locked = lock(&[], &[&out]).unwrap();
        let mut v = locked.write::<f32>(0).unwrap();
        assert!(v.slice_mut().is_none());
        v.with_dense(|s| par_rows::<Baseline, _>(s, 4, 1, |r, row| row.fill(r as f32)));
    }
    assert_eq!(values::<f32>(&out)[..6], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    {
        let locked = lock(&[], &[&out]).unwrap();
        locked.write::<f32>(0).unwrap().par_lanes::<Baseline>(0, 1, |i, mut lane| {
            for k in 0..lane.len() {
                lane.set(k, (10 * i + k) as f32);
            }
        });
    }
    assert_eq!(values::<f32>(&out)[5..10], [1.0, 11.0, 21.0, 31.0, 41.0]);
}

#[test]
fn rows_and_chunks_cover_their_outputs() {
    let (mut a, mut b) = (vec![0u32; 3 * 50_000], vec![0u64; 50_000]);
    par_rows2::<Baseline, _, _>(&mut a, &mut b, 50_000, 8, |r, a, b| {
        a.fill(r as u32);
        b[0] += r as u64;
    });
    assert!(a.iter().enumerate().all(|(i, &v)| v as usize == i / 3));
    assert!(b.iter().enumerate().all(|(i, &v)| v as usize == i));
    par_chunks::<Baseline, _>(&mut b, 1000, |start, run| {
        for (i, v) in run.iter_mut().enumerate() {
            *v -= (start + i) as u64;
        }
    });
    assert!(b.iter().all(|&v| v == 0));
    par_rows::<Baseline, u8>(&mut [], 0, 1, |_, _| ());
}

#[test]
fn empty_and_scalar_views() {
    let empty = dense(Vec::<f32>::new(), &[0, 3]);
    let locked = lock(&[&empty], &[]).unwrap();
    assert!(locked.read::<f32>(0).unwrap().dense().is_empty());
    let scalar = dense(vec![4f32], &[]);
    let locked = lock(&[&scalar], &[]).unwrap();
    let v = locked.read::<f32>(0).unwrap();
    assert_eq!((v.lanes(0), v.size(0), v.at(&[]), v.lane(0, 0).get(0)), (1, 1, 4.0, 4.0));
    assert!(level() >= Level::Baseline);
}

/// Row sums of products, as kernels on views write them.
#[cfg(not(debug_assertions))]
fn squares<I: crate::isa::Isa>(x: &TensorRef, out: &TensorRef) -> Result<()> {
    let (rows, cols) = (x.sizes()[0] as usize, x.sizes()[1] as usize);
    let locked = lock(&[x], &[out])?;
    let x = locked.read::<f32>(0)?.dense();
    locked.write::<f32>(0)?.with_dense(|out| {
        par_rows::<I, _>(out, rows, cols, |r, out| {
            let row = &x[r * cols..][..cols];
            out[0] = super::fold2(row, row, 0.0, |sum, a, b| I::mul_add(a, b, sum), |a, b| a + b);
        });
    });
    Ok(())
}

/// A body that is not inlined into its level's trampoline calls the C library for each fused multiply-add: right, and twenty
/// times slower than the baseline.
#[cfg(not(debug_assertions))]
#[test]
fn bodies_over_views_are_compiled_for_their_level() {
    let (x, out) = (dense(vec![0.5f32; 64 * 4096], &[64, 4096]), dense(vec![0f32; 64], &[64]));
    let fastest = |run: &dyn Fn()| {
        (0..20).map(|_| (std::time::Instant::now(), run()).0.elapsed()).min().unwrap_or_default().as_secs_f64()
    };
    let baseline = fastest(&|| squares::<Baseline>(&x, &out).unwrap());
    let best = fastest(&|| with_level!(I => squares::<I>(&x, &out)).unwrap());
    assert!(best < 3.0 * baseline, "{best} s at the best level, {baseline} s at the baseline");
}
