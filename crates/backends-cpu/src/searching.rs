//! Membership in sets, and places in sorted rows.

use tensor_aten::Tensor;
use tensor_core::{Bool, DType, Element, Result};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::simd::Ordered;
use crate::sorting::keys::Key;

/// `out = x is one of test`, or is not; no-numbers are no one's. All contiguous.
pub fn isin<T: Key>(out: &Tensor, x: &Tensor, test: &Tensor, invert: bool) -> Result<()> {
    let locked = lock(&[x.as_impl(), test.as_impl()], &[out.as_impl()])?;
    let (x, test) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let mut members: Vec<T::Bits> = test.iter().filter(|x| !x.is_nan()).map(|x| x.bits()).collect();
    members.sort_unstable();
    members.dedup();
    let few = members.len() <= 16;
    locked.write::<Bool>(0)?.with_dense(|out| {
        par_chunks::<Baseline, Bool>(out, GRAIN / 8, |start, out| {
            for (out, x) in out.iter_mut().zip(&x[start..]) {
                let key = x.bits();
                let found = if few { members.contains(&key) } else { members.binary_search(&key).is_ok() };
                *out = Bool::new((found && !x.is_nan()) != invert);
            }
        });
    });
    Ok(())
}

/// The first place of a sorted row whose element is not less than `x` (`right`: is larger). Written so that a no-number comes
/// after everything.
fn place<T: Ordered>(at: impl Fn(usize) -> T, n: usize, x: T::Op, right: bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        let middle_value = at(middle).up();
        let beyond = if right { middle_value > x } else { middle_value >= x };
        if beyond {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The places of `x` (rows, m) in the sorted rows of `sequence` (rows, n), or of its only row; the order of a row is that of
/// `sorter` where there is one. `out` (rows, m) is i32 or i64. All contiguous.
pub fn searchsorted<T: Ordered>(
    out: &Tensor,
    sequence: &Tensor,
    x: &Tensor,
    sorter: Option<&Tensor>,
    right: bool,
) -> Result<()> {
    if out.dtype() == DType::I32 {
        places::<T, i32>(out, sequence, x, sorter, right, |i| i as i32)
    } else {
        places::<T, i64>(out, sequence, x, sorter, right, |i| i as i64)
    }
}

fn places<T: Ordered, O: Element>(
    out: &Tensor,
    sequence: &Tensor,
    x: &Tensor,
    sorter: Option<&Tensor>,
    right: bool,
    number: fn(usize) -> O,
) -> Result<()> {
    let mut reads = vec![&**sequence.as_impl(), &**x.as_impl()];
    reads.extend(sorter.map(|sorter| &**sorter.as_impl()));
    let locked = lock(&reads, &[out.as_impl()])?;
    let (sequence, view) = (locked.read::<T>(0)?, locked.read::<T>(1)?);
    let (n, m) = (sequence.size(1), view.size(1));
    let shared = sequence.size(0) == 1;
    let (sequence, x) = (sequence.dense(), view.dense());
    let sorter = sorter.map(|_| locked.read::<i64>(2)).transpose()?.map(|sorter| sorter.dense());
    locked.write::<O>(0)?.with_dense(|out| {
        par_chunks::<Baseline, O>(out, GRAIN / 16, |start, out| {
            for (i, out) in out.iter_mut().enumerate() {
                let row = if shared { 0 } else { (start + i) / m };
                let sequence = &sequence[row * n..(row + 1) * n];
                let x = x[start + i].up();
                *out = number(match &sorter {
                    None => place(|i| sequence[i], n, x, right),
                    Some(sorter) => {
                        let sorter = &sorter[row * n..(row + 1) * n];
                        place(|i| sequence[sorter[i] as usize], n, x, right)
                    }
                });
            }
        });
    });
    Ok(())
}
