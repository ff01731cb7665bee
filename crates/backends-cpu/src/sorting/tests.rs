//! Long rows, which sort by digits and in pieces, against a comparison sort.

use super::*;
use crate::parallel::set_num_threads;

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

#[test]
fn the_largest_are_the_first_of_the_sorted() -> Result<()> {
    let n = 20_000;
    for numbers in [numbers(n), (0..n).map(|i| i as f32).collect()] {
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
