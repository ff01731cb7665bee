//! Distinct elements and rows.

use std::cmp::Ordering;

use tensor_aten::Tensor;
use tensor_core::{DType, Device, Element, Result};

use crate::indexing::Marks;
use crate::isa::Baseline;
use crate::loops::scratch;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::sorting::check_length;
use crate::sorting::keys::Key;
use crate::sorting::radix::sort_row;
use crate::with_level;

/// The rows (n, m) of `x` in order, by their numbers.
fn order<T: Key>(x: &[T], m: usize) -> Vec<usize> {
    let n = x.len() / m.max(1);
    let row = |i: usize| x[i * m..(i + 1) * m].iter().map(|x| x.bits());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| match row(a).cmp(row(b)) {
        Ordering::Equal => a.cmp(&b),
        other => other,
    });
    order
}

/// A new vector of `n` elements that `f` fills. From the allocator that keeps large blocks.
fn vector<T: Element>(n: usize, f: impl FnOnce(&mut [T])) -> Result<Tensor> {
    let out = Tensor::new_dense(&[n as i64], T::DTYPE, Device::CPU)?;
    lock(&[], &[out.as_impl()])?.write::<T>(0)?.with_dense(f);
    Ok(out)
}

/// A vector of some elements.
fn from_vec<T: Element>(values: Vec<T>) -> Result<Tensor> {
    let n = values.len() as i64;
    Tensor::from_vec(values, &[n])
}

/// Distinct elements, the number of the one that each element is, and how often each occurs.
type Found = [Tensor; 3];

/// The sorted distinct elements, by counting those of each key; `None` where keys lie too far from each other, or do not
/// tell what their elements are.
fn counted<T: Key>(x: &[T]) -> Result<Option<Found>> {
    let key = |x: T| -> u64 { x.bits().into() };
    let (low, high) = x.iter().fold((u64::MAX, 0), |(low, high), &x| (low.min(key(x)), high.max(key(x))));
    if high.checked_sub(low).is_none_or(|span| span >= x.len() as u64) {
        return Ok(None);
    }
    let place = |x: T| (key(x) - low) as usize;
    let mut all = vec![0i64; (high - low) as usize + 1];
    x.iter().for_each(|&x| all[place(x)] += 1);
    let (mut values, mut counts) = (Vec::new(), Vec::new());
    for (k, number) in all.iter_mut().enumerate() {
        if *number > 0 {
            counts.push(*number);
            *number = values.len() as i64;
            let Some(value) = T::of_bits(low + k as u64) else { return Ok(None) };
            values.push(value);
        }
    }
    let inverse = vector(x.len(), |inverse: &mut [i64]| {
        par_chunks::<Baseline, i64>(inverse, GRAIN, |start, inverse| {
            inverse.iter_mut().zip(&x[start..]).for_each(|(number, &x)| *number = all[place(x)]);
        });
    })?;
    Ok(Some([from_vec(values)?, inverse, from_vec(counts)?]))
}

/// The elements that differ from the one before; those of a sorted row have the numbers `order` in the whole.
fn runs<T: Key>(x: &[T], order: Option<&[i64]>) -> Result<Found> {
    let n = x.len();
    let marks = scratch::with(n, |differs: &mut [u8]| {
        with_level!(I => par_chunks::<I, u8>(
            differs,
            GRAIN,
            #[inline(always)]
            |start, differs| {
                let x = &x[start.saturating_sub(1)..start + differs.len()];
                if start == 0 {
                    differs[0] = 1;
                }
                let differs = if start == 0 { &mut differs[1..] } else { differs };
                for i in 0..differs.len() {
                    let value = x[i + 1];
                    differs[i] = u8::from((x[i].bits() != value.bits()) | value.is_nan());
                }
            },
        ));
        Marks::new(differs)
    });
    let found = marks.count();
    let inverse = vector(n, |inverse: &mut [i64]| match order {
        None => marks.ranks(inverse),
        Some(order) => scratch::with(n, |ranks: &mut [i64]| {
            marks.ranks(ranks);
            order.iter().zip(ranks).for_each(|(&i, rank)| inverse[i as usize] = *rank);
        }),
    })?;
    let counts = vector(found, |counts: &mut [i64]| {
        scratch::with(found, |firsts: &mut [i64]| {
            marks.numbers(firsts);
            par_chunks::<Baseline, i64>(counts, GRAIN, |start, counts| {
                for (i, count) in counts.iter_mut().enumerate() {
                    let end = firsts.get(start + i + 1).map_or(n as i64, |&end| end);
                    *count = end - firsts[start + i];
                }
            });
        })
    })?;
    Ok([marks.select(x)?, inverse, counts])
}

/// The sorted distinct elements.
fn sorted<T: Key>(x: &[T]) -> Result<Found> {
    let n = x.len() as i64;
    let values = Tensor::new_dense(&[n], T::DTYPE, Device::CPU)?;
    let order = Tensor::new_dense(&[n], DType::I64, Device::CPU)?;
    let locked = lock(&[], &[values.as_impl(), order.as_impl()])?;
    let (mut values, mut order) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    values.with_dense(|values| {
        order.with_dense(|order| {
            sort_row(values, order, x, false)?;
            runs(values, Some(order))
        })
    })
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
        let [values, inverse, counts] = match consecutive {
            true => runs(&x, None)?,
            false => match counted(&x)? {
                Some(found) => found,
                None => sorted(&x)?,
            },
        };
        let column = values.view_of_storage(&[values.numel(), 1], &[1, 1], 0)?;
        return Ok([column, inverse, counts]);
    }
    let order = if consecutive || n == 0 { (0..n).collect() } else { order(&x, m) };
    let row = |i: usize| &x[i * m..(i + 1) * m];
    let equal = |a: &[T], b: &[T]| a.iter().zip(b).all(|(a, b)| a.bits() == b.bits() && !a.is_nan());
    let (mut inverse, mut counts, mut firsts) = (vec![0i64; n], Vec::<i64>::new(), Vec::new());
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
    Ok([rows, from_vec(inverse)?, from_vec(counts)?])
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
        let [rows, inverse, counts] = unique::<i64>(&Tensor::from_slice(&[1i64, 2, 0, 5, 1, 2], &[3, 2])?, false)?;
        assert_eq!(rows.to_vec::<i64>()?, [0, 5, 1, 2]);
        assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
        assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
        Ok(())
    }
}
