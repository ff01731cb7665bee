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

/// The distinct rows of `x` (n, m), sorted, or as they follow each other if `consecutive`: (u, m); the number of the row that
/// each row became (n); and how many became each (u). No-numbers are distinct.
pub fn unique<T: Key>(x: &Tensor, consecutive: bool) -> Result<[Tensor; 3]> {
    let locked = lock(&[x.as_impl()], &[])?;
    let view = locked.read::<T>(0)?;
    let (n, m) = (view.size(0), view.size(1));
    check_length::<T>(n)?;
    let x = view.dense();
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
