//! Distinct elements and rows.

use std::cmp::Ordering;

use tensor_aten::Tensor;
use tensor_core::{Device, Result};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::sorting::keys::{Key, Pair, pair};
use crate::sorting::{check_length, radix};

/// The rows (n, m) of `x` in order, by their numbers.
fn order<T: Key>(x: &[T], m: usize) -> Result<Vec<usize>> {
    let n = x.len() / m;
    if m == 1 {
        return radix::with_pairs(2 * n, |memory: &mut [T::Pair]| {
            let (pairs, scratch) = memory.split_at_mut(n);
            par_chunks::<Baseline, T::Pair>(pairs, GRAIN, |start, pairs| {
                for (i, to) in pairs.iter_mut().enumerate() {
                    *to = pair(x[start + i], T::LEAST, start + i);
                }
            });
            radix::sort(pairs, scratch, T::WIDTH);
            pairs.iter().map(|pair| pair.index()).collect()
        });
    }
    let row = |i: usize| x[i * m..(i + 1) * m].iter().map(|x| x.bits());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| match row(a).cmp(row(b)) {
        Ordering::Equal => a.cmp(&b),
        other => other,
    });
    Ok(order)
}

fn vector(values: Vec<i64>) -> Result<Tensor> {
    let n = values.len() as i64;
    Tensor::from_vec(values, &[n])
}

/// Distinct elements, the number of the one that each element is, and how often each occurs.
type Found<T> = (Vec<T>, Vec<i64>, Vec<i64>);

/// The sorted distinct elements, by counting those of each key; `None` where keys lie too far from each other, or do not
/// tell what their elements are.
fn counted<T: Key>(x: &[T]) -> Option<Found<T>> {
    let key = |x: T| -> u64 { x.bits().into() };
    let (low, high) = x.iter().fold((u64::MAX, 0), |(low, high), &x| (low.min(key(x)), high.max(key(x))));
    if high.checked_sub(low)? >= x.len() as u64 {
        return None;
    }
    let place = |x: T| (key(x) - low) as usize;
    let mut all = vec![0i64; (high - low) as usize + 1];
    x.iter().for_each(|&x| all[place(x)] += 1);
    let (mut values, mut counts) = (Vec::new(), Vec::new());
    for (k, number) in all.iter_mut().enumerate() {
        if *number > 0 {
            counts.push(*number);
            *number = values.len() as i64;
            values.push(T::of_bits(low + k as u64)?);
        }
    }
    let mut inverse = vec![0; x.len()];
    par_chunks::<Baseline, i64>(&mut inverse, GRAIN, |start, inverse| {
        inverse.iter_mut().zip(&x[start..]).for_each(|(number, &x)| *number = all[place(x)]);
    });
    Some((values, inverse, counts))
}

/// The elements that differ from the one before.
fn runs<T: Key>(x: &[T]) -> Found<T> {
    let n = x.len();
    let (mut firsts, mut inverse, mut next) = (vec![0; n], vec![0; n], 0);
    for (i, &value) in x.iter().enumerate() {
        // Without a branch that data decides: what is no first one is written over.
        firsts[next] = i;
        next += usize::from(i == 0 || x[i - 1].bits() != value.bits() || value.is_nan());
        inverse[i] = next as i64 - 1;
    }
    firsts.truncate(next);
    let ends = firsts.iter().skip(1).copied().chain([n]);
    let counts = firsts.iter().zip(ends).map(|(&first, end)| (end - first) as i64).collect();
    (firsts.iter().map(|&i| x[i]).collect(), inverse, counts)
}

/// The distinct rows of `x` (n, m), sorted, or as they follow each other if `consecutive`: (u, m); the number of the row that
/// each row became (n); and how many became each (u). No-numbers are distinct.
pub fn unique<T: Key>(x: &Tensor, consecutive: bool) -> Result<[Tensor; 3]> {
    let locked = lock(&[x.as_impl()], &[])?;
    let view = locked.read::<T>(0)?;
    let (n, m) = (view.size(0), view.size(1));
    check_length::<T>(n)?;
    let x = view.dense();
    if m == 1 && n > 0 {
        let found = if consecutive { Some(runs(&x)) } else { counted(&x) };
        if let Some((values, inverse, counts)) = found {
            let u = values.len() as i64;
            return Ok([Tensor::from_vec(values, &[u, 1])?, vector(inverse)?, vector(counts)?]);
        }
    }
    let order = if consecutive || n == 0 { (0..n).collect() } else { order(&x, m)? };
    let row = |i: usize| &x[i * m..(i + 1) * m];
    let equal = |a: &[T], b: &[T]| a.iter().zip(b).all(|(a, b)| a.bits() == b.bits() && !a.is_nan());
    let (mut inverse, mut counts, mut firsts) = (vec![0; n], Vec::new(), Vec::new());
    let mut last: Option<usize> = None;
    for &i in &order {
        if last.is_none_or(|last| !equal(row(last), row(i))) {
            firsts.push(i);
            counts.push(0);
        }
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        inverse[i] = counts.len() as i64 - 1;
        last = Some(i);
    }
    let rows = Tensor::new_dense(&[firsts.len() as i64, m as i64], T::DTYPE, Device::CPU)?;
    lock(&[], &[rows.as_impl()])?.write::<T>(0)?.with_dense(|rows| {
        for (to, &i) in rows.chunks_mut(m.max(1)).zip(&firsts) {
            to.copy_from_slice(row(i));
        }
    });
    Ok([rows, vector(inverse)?, vector(counts)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in order, with repeats beside and apart from each other.
    fn numbers(n: i64, spread: i64) -> Vec<i64> {
        (0..n).map(|i| (i / 3 * 7919 % 37 - 18) * spread).collect()
    }

    #[test]
    fn all_ways_find_the_same() -> Result<()> {
        // Few keys side by side are counted, others are sorted.
        for spread in [1, 1 << 40] {
            let x = numbers(1000, spread);
            let [values, inverse, counts] = unique::<i64>(&Tensor::from_slice(&x, &[1000, 1])?, false)?;
            let (values, inverse) = (values.to_vec::<i64>()?, inverse.to_vec::<i64>()?);
            let mut wanted = x.clone();
            wanted.sort_unstable();
            wanted.dedup();
            assert_eq!(values, wanted);
            assert!(x.iter().zip(&inverse).all(|(&x, &i)| values[i as usize] == x));
            let count = |v: &i64| x.iter().filter(|&x| x == v).count() as i64;
            assert_eq!(counts.to_vec::<i64>()?, values.iter().map(count).collect::<Vec<_>>());
        }
        let x = [2.0f32, 2.0, 0.0, -0.0, f32::NAN, f32::NAN, 2.0];
        let [values, inverse, counts] = unique::<f32>(&Tensor::from_slice(&x, &[7, 1])?, true)?;
        assert_eq!(values.numel(), 5);
        assert_eq!(inverse.to_vec::<i64>()?, [0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(counts.to_vec::<i64>()?, [2, 2, 1, 1, 1]);
        Ok(())
    }
}
