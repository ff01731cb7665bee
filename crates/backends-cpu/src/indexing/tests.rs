//! Large inputs, which go to several threads, against naive loops: the corpus has small ones alone.

use tensor_aten::{Tensor, ops};
use tensor_core::{MemoryFormat, Result};

use crate::parallel::{SERIAL, set_num_threads};

/// Numbers without a pattern, the same in every run.
fn numbers(n: usize, below: u64, seed: u64) -> Vec<i64> {
    let mut state = seed.wrapping_mul(2) + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as i64
    };
    (0..n).map(next).collect()
}

fn floats(n: usize, seed: u64) -> Vec<f32> {
    numbers(n, 2001, seed).into_iter().map(|v| (v - 1000) as f32 / 64.0).collect()
}

fn tensor<T: tensor_core::Element>(values: &[T], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

/// Runs on one and on three threads: the results must be the same bits.
fn same_on_threads(run: impl Fn() -> Result<Tensor>) -> Vec<f32> {
    let _serial = SERIAL.lock();
    set_num_threads(1);
    let one = run().unwrap().to_vec::<f32>().unwrap();
    set_num_threads(3);
    let three = run().unwrap().to_vec::<f32>().unwrap();
    assert!(one.iter().zip(&three).all(|(a, b)| a.to_bits() == b.to_bits()));
    one
}

#[test]
fn rows_are_read_and_written_in_parallel() {
    let (n, m, k) = (300usize, 20usize, 6000usize);
    let (x, rows) = (floats(n * m, 1), numbers(k, n as u64, 2));
    let values = floats(k * m, 3);
    let (xt, it, vt) = (tensor(&x, &[300, 20]), tensor(&rows, &[6000]), tensor(&values, &[6000, 20]));

    let read = same_on_threads(|| ops::index(&xt, &[Some(&it)]));
    let naive: Vec<f32> = rows.iter().flat_map(|&r| x[r as usize * m..][..m].to_vec()).collect();
    assert_eq!(read, naive);

    // Sums are in the order of the values, and the last of several values stays.
    for accumulate in [true, false] {
        let written = same_on_threads(|| ops::index_put(&xt, &[Some(&it)], &vt, accumulate));
        let mut naive = x.clone();
        for (i, &r) in rows.iter().enumerate() {
            for j in 0..m {
                let to = &mut naive[r as usize * m + j];
                *to = if accumulate { *to + values[i * m + j] } else { values[i * m + j] };
            }
        }
        assert_eq!(written, naive);
    }
}

#[test]
fn blocks_of_leading_dimensions_are_independent() {
    let (b, n, k) = (50usize, 40usize, 1500usize);
    let (x, at, values) = (floats(b * n, 4), numbers(k, n as u64, 5), floats(b * k, 6));
    let (xt, it, vt) = (tensor(&x, &[50, 40]), tensor(&at, &[1500]), tensor(&values, &[50, 1500]));
    let written = same_on_threads(|| ops::index_put(&xt, &[None, Some(&it)], &vt, true));
    let mut naive = x.clone();
    for i in 0..b {
        for (j, &at) in at.iter().enumerate() {
            naive[i * n + at as usize] += values[i * k + j];
        }
    }
    assert_eq!(written, naive);

    // The same through a transposed tensor, whose memory is one block.
    let xt = ops::clone(&ops::t(&xt).unwrap(), Some(MemoryFormat::Contiguous)).unwrap();
    let view = ops::t(&xt).unwrap();
    let read = same_on_threads(|| ops::index(&view, &[None, Some(&it)]));
    let naive: Vec<f32> =
        (0..b).flat_map(|i| at.iter().map(move |&at| (i, at))).map(|(i, at)| x[i * n + at as usize]).collect();
    assert_eq!(read, naive);
}

#[test]
fn lanes_are_gathered_and_scattered() {
    // (3, 400, 60) along each dimension, with an index that is smaller elsewhere.
    let sizes = [3usize, 400, 60];
    let wanted = [2usize, 399, 50];
    let x = floats(3 * 400 * 60, 7);
    let xt = tensor(&x, &[3, 400, 60]);
    let count: usize = wanted.iter().product();
    let values = floats(count, 8);
    let vt = tensor(&values, &[2, 399, 50]);
    for dim in 0..3 {
        let index = numbers(count, sizes[dim] as u64, 9 + dim as u64);
        let it = tensor(&index, &[2, 399, 50]);
        let place = |p: usize| {
            let mut at = [p / 50 / 399, p / 50 % 399, p % 50];
            at[dim] = index[p] as usize;
            (at[0] * 400 + at[1]) * 60 + at[2]
        };
        let read = same_on_threads(|| ops::gather(&xt, dim as i64, &it, false));
        assert_eq!(read, (0..count).map(|p| x[place(p)]).collect::<Vec<_>>());
        let sums = same_on_threads(|| ops::scatter_add(&xt, dim as i64, &it, &vt));
        let mut naive = x.clone();
        (0..count).for_each(|p| naive[place(p)] += values[p]);
        assert_eq!(sums, naive);
    }
}

#[test]
fn long_scatters_are_merged_from_pieces() {
    // (n, m) from (k, m): many elements a place, and, for a wide m, few.
    for (n, m, k) in [(10usize, 1usize, 70_000usize), (30, 7, 20_000), (50, 700, 60)] {
        let (x, index, values) = (floats(n * m, 11), numbers(k * m, n as u64, 12), floats(k * m, 13));
        let shape = |rows: usize| [rows as i64, m as i64];
        let (xt, it, vt) = (tensor(&x, &shape(n)), tensor(&index, &shape(k)), tensor(&values, &shape(k)));
        let place = |p: usize| index[p] as usize * m + p % m;
        let sums = same_on_threads(|| ops::scatter_add(&xt, 0, &it, &vt));
        let mut naive = x.clone();
        (0..k * m).for_each(|p| naive[place(p)] += values[p]);
        assert_eq!(sums, naive);
        let largest = same_on_threads(|| ops::scatter_reduce_two(&xt, 0, &it, &vt, "amax", true));
        let mut naive = x.clone();
        (0..k * m).for_each(|p| naive[place(p)] = naive[place(p)].max(values[p]));
        assert_eq!(largest, naive);
        let last = same_on_threads(|| ops::scatter_src(&xt, 0, &it, &vt));
        let mut naive = x;
        (0..k * m).for_each(|p| naive[place(p)] = values[p]);
        assert_eq!(last, naive);
        // The same index at all columns.
        let row = tensor(&index[..k], &[k as i64, 1]);
        let read = same_on_threads(|| ops::gather(&xt, 0, &ops::expand(&row, &shape(k), false)?, false));
        let xs = xt.to_vec::<f32>().unwrap();
        let naive: Vec<f32> = index[..k].iter().flat_map(|&i| xs[i as usize * m..][..m].to_vec()).collect();
        assert_eq!(read, naive);
    }
}

#[test]
fn masks_choose_and_replace_in_order() {
    let n = 70_001usize;
    let (x, marks) = (floats(n, 14), numbers(n, 3, 15));
    let mask: Vec<tensor_core::Bool> = marks.iter().map(|&m| tensor_core::Bool::new(m == 0)).collect();
    let (xt, mt) = (tensor(&x, &[n as i64]), tensor(&mask, &[n as i64]));
    let chosen = same_on_threads(|| ops::masked_select(&xt, &mt));
    assert_eq!(chosen, (0..n).filter(|&i| marks[i] == 0).map(|i| x[i]).collect::<Vec<_>>());
    let replaced = same_on_threads(|| ops::masked_scatter(&xt, &mt, &tensor(&vec![7.0f32; n], &[n as i64])));
    assert!((0..n).all(|i| replaced[i] == if marks[i] == 0 { 7.0 } else { x[i] }));
    let few = tensor(&[7.0f32], &[1]);
    assert!(ops::masked_scatter_(&xt, &mt, &few).is_err());
    assert_eq!(xt.to_vec::<f32>().unwrap(), x);
}

#[test]
fn positions_are_found_in_order() {
    let n = 100_000usize;
    let values = floats(n, 10);
    let x = tensor(&values, &[100, 1000]);
    let found = ops::nonzero(&x).unwrap().to_vec::<i64>().unwrap();
    let naive: Vec<i64> =
        (0..n as i64).filter(|&i| values[i as usize] != 0.0).flat_map(|i| [i / 1000, i % 1000]).collect();
    assert_eq!(found, naive);
}

#[test]
fn nothing_is_written_when_an_index_is_out_of_bounds() {
    let x = tensor(&[1.0f32, 2.0, 3.0], &[3]);
    let (index, one) = (tensor(&[0i64, 7], &[2]), tensor(&[9.0f32, 9.0], &[2]));
    assert!(ops::index_put_(&x, &[Some(&index)], &one, false).is_err());
    assert!(ops::scatter_src_(&x, 0, &index, &one).is_err());
    assert!(ops::index_add_(&x, 0, &index, &one, 1).is_err());
    assert!(ops::put_(&x, &index, &one, false).is_err());
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}

/// Of nothing there is nothing to read or write, and every index into it is an error, not a division by zero.
#[test]
fn empty_dimensions() {
    for sizes in [[0i64, 3], [3, 0], [0, 0]] {
        let x = Tensor::zeros(&sizes, ()).unwrap();
        for count in [0i64, 2] {
            let list = tensor(&vec![0i64; count as usize], &[count]);
            for dim in [0i64, 1] {
                let (size, other) = (sizes[dim as usize], sizes[1 - dim as usize]);
                let fits = count == 0 || size > 0;
                let mut shape = sizes;
                shape[dim as usize] = count;
                let (index, src) =
                    (Tensor::zeros(&shape, tensor_core::DType::I64).unwrap(), Tensor::ones(&shape, ()).unwrap());
                for result in [
                    ops::scatter_src(&x, dim, &index, &src),
                    ops::scatter_add(&x, dim, &index, &src),
                    ops::scatter_reduce_two(&x, dim, &index, &src, "prod", true),
                ] {
                    assert_eq!(result.is_ok(), fits || other == 0, "scatter of {count} along {dim} of {sizes:?}");
                    assert!(result.is_err() || result.unwrap().sizes() == sizes);
                }
                for result in [ops::index_add(&x, dim, &list, &src, 1.0), ops::index_copy(&x, dim, &list, &src)] {
                    assert_eq!(result.is_ok(), fits, "rows: {count} along {dim} of {sizes:?}");
                }
                let read = ops::index_select(&x, dim, &list);
                assert_eq!(read.is_ok(), fits, "index_select of {count} along {dim} of {sizes:?}");
                let gathered = ops::gather(&x, dim, &index, false);
                assert_eq!(gathered.is_ok(), fits || other == 0, "gather of {count} along {dim} of {sizes:?}");
            }
            let put = ops::index_put(&x, &[Some(&list)], &Tensor::ones(&[count, sizes[1]], ()).unwrap(), true);
            assert_eq!(put.is_ok(), count == 0 || sizes[0] > 0, "index_put of {count} into {sizes:?}");
            let values = Tensor::ones(&[sizes[0], count], ()).unwrap();
            for accumulate in [true, false] {
                let put = ops::index_put(&x, &[None, Some(&list)], &values, accumulate);
                assert_eq!(put.is_ok(), count == 0 || sizes[1] > 0, "index_put of {count} columns into {sizes:?}");
            }
            let read = ops::index(&x, &[None, Some(&list)]);
            assert_eq!(read.is_ok(), count == 0 || sizes[1] > 0, "index of {count} columns of {sizes:?}");
        }
    }
}
