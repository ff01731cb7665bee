//! Long rows, which sort by digits and in pieces, against a comparison sort.

use super::*;
use crate::parallel::{SERIAL, set_num_threads};

/// Numbers with ties, zeros of both signs and no-numbers.
fn numbers(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 28 {
                0 => f32::NAN,
                1 => -0.0,
                2 => 0.0,
                3..8 => (state >> 8 & 63) as f32 - 32.0,
                _ => f32::from_bits(state.rotate_right(1)),
            }
        })
        .collect()
}

fn naive(x: &[f32], descending: bool) -> Vec<i64> {
    let mut order: Vec<i64> = (0..x.len() as i64).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (x[a as usize], x[b as usize]);
        let up = a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal));
        if descending { up.reverse() } else { up }
    });
    order
}

fn row(n: usize, dtype: tensor_core::DType) -> Result<Tensor> {
    Tensor::new_dense(&[1, n as i64], dtype, tensor_core::Device::CPU)
}

fn elements<T: tensor_core::Element>(x: &Tensor) -> Result<Vec<T>> {
    Ok(lock(&[x.as_impl()], &[])?.read::<T>(0)?.dense().into_owned())
}

#[test]
fn long_rows_sort_as_short_ones() -> Result<()> {
    let _serial = SERIAL.lock();
    for n in [5, 700, 5000, 200_001] {
        let numbers = numbers(n);
        let x = Tensor::from_slice(&numbers, &[1, n as i64])?;
        for (descending, threads) in [(false, 1), (true, 1), (false, 3), (true, 4)] {
            set_num_threads(threads);
            let (values, indices) = (row(n, tensor_core::DType::F32)?, row(n, tensor_core::DType::I64)?);
            sort::<f32>(&values, &indices, &x, descending)?;
            let wanted = naive(&numbers, descending);
            assert_eq!(elements::<i64>(&indices)?, wanted);
            let bits: Vec<u32> = elements::<f32>(&values)?.iter().map(|x| x.to_bits()).collect();
            let wanted: Vec<u32> = wanted.iter().map(|&i| numbers[i as usize].to_bits()).collect();
            assert_eq!(bits, wanted);
        }
    }
    Ok(())
}

/// Sorted values and indices against a stable sort by `key`, at each length and on one thread and more.
fn check<T: Key + std::fmt::Debug + PartialEq, K: Ord>(
    lengths: &[usize],
    at: impl Fn(usize) -> T,
    key: impl Fn(T) -> K,
) -> Result<()> {
    let _serial = SERIAL.lock();
    for &n in lengths {
        let x: Vec<T> = (0..n).map(&at).collect();
        let mut wanted: Vec<i64> = (0..n as i64).collect();
        wanted.sort_by_key(|&i| key(x[i as usize]));
        let x = Tensor::from_slice(&x, &[1, n as i64])?;
        for threads in [1, 3] {
            set_num_threads(threads);
            let (values, indices) = (row(n, T::DTYPE)?, row(n, tensor_core::DType::I64)?);
            sort::<T>(&values, &indices, &x, false)?;
            assert_eq!(elements::<i64>(&indices)?, wanted, "{} of {n}", T::DTYPE);
            let x = elements::<T>(&x)?;
            assert!(elements::<T>(&values)?.into_iter().eq(wanted.iter().map(|&i| x[i as usize])));
        }
    }
    Ok(())
}

/// A number from 0 on below 2^64, the same one for the same place.
fn mixed(i: usize) -> u64 {
    (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd134_2543_de82_ef95)
}

#[test]
fn keys_of_any_spread_sort() -> Result<()> {
    let lengths = [31, 100, 1000, 5000, 40_000, 300_000];
    // All bits, a few low ones, high ones alone, negative ones, and one number.
    check(&lengths, |i| mixed(i) as i64, |x| x)?;
    check(&lengths, |i| (mixed(i) % 1000) as i64 - 500, |x| x)?;
    check(&lengths, |i| ((mixed(i) % 7) << 60) as i64, |x| x)?;
    check(&lengths, |_| -3i64, |x| x)?;
    check(&lengths, |i| mixed(i) as u8, |x| x)?;
    check(&lengths, |i| mixed(i) as i32, |x| x)?;
    check(&lengths, |i| (mixed(i) >> 11) as f64 - 1e15, |x| (x * 2.0) as i64)?;
    // Almost all in one bucket, again and again.
    check(&lengths, |i| if i % 1000 == 0 { mixed(i) as i64 } else { (mixed(i) >> 44) as i64 }, |x| x)?;
    check(&lengths, |i| (mixed(i) >> (mixed(i + 1) % 64)) as i64, |x| x)
}

#[test]
fn the_largest_are_the_first_of_the_sorted() -> Result<()> {
    let n = 20_000;
    for numbers in [numbers(n), (0..n).map(|i| i as f32).collect(), vec![f32::NAN; n]] {
        let x = Tensor::from_slice(&numbers, &[1, n as i64])?;
        for k in [1, 7, 300, 9000] {
            for largest in [false, true] {
                let (values, indices) = (row(k, tensor_core::DType::F32)?, row(k, tensor_core::DType::I64)?);
                topk::<Baseline, f32>(&values, &indices, &x, largest)?;
                assert_eq!(elements::<i64>(&indices)?, naive(&numbers, largest)[..k]);
            }
        }
    }
    Ok(())
}
