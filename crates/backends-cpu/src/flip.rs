//! Reversed dimensions.

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::{Element, Result};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_rows};

/// `out[i, j, ..] = x[i', j', ..]` with i' = size - 1 - i where dimension i is flipped. Shapes are equal; `out` is contiguous.
pub fn flip<T: Element>(out: &Tensor, x: &Tensor, flipped: &[bool]) -> Result<()> {
    // Neighbours that are both flipped, or both not, are one dimension.
    let mut dims: SmallVec<[(usize, bool); 5]> = SmallVec::new();
    for (&size, &flip) in out.sizes().iter().zip(flipped) {
        match dims.last_mut() {
            Some((merged, like)) if *like == flip => *merged *= size as usize,
            _ => dims.push((size as usize, flip)),
        }
    }
    let (cols, reversed) = dims.pop().unwrap_or((1, false));
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    locked.write::<T>(0)?.with_dense(|out| {
        let rows = out.len() / cols.max(1);
        par_rows::<Baseline, T>(out, rows, cols, |row, out| {
            let (mut rest, mut from, mut step) = (row, 0, 1);
            for &(size, flip) in dims.iter().rev() {
                let at = rest % size;
                from += step * if flip { size - 1 - at } else { at };
                (rest, step) = (rest / size, step * size);
            }
            let x = &x[from * cols..][..cols];
            if reversed {
                out.iter_mut().zip(x.iter().rev()).for_each(|(out, &x)| *out = x);
            } else {
                out.copy_from_slice(x);
            }
        });
    });
    Ok(())
}
