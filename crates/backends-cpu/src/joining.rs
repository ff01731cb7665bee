//! Joins: the rows of several matrices side by side.

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::{Element, Result, bail};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;

/// `out[r, :] = parts[0][r, :], parts[1][r, :], ..`: contiguous matrices with as many rows as `out`.
pub fn cat<T: Element>(out: &Tensor, parts: &[&Tensor]) -> Result<()> {
    let reads: SmallVec<[_; 8]> = parts.iter().map(|part| &**part.as_impl()).collect();
    let locked = lock(&reads, &[out.as_impl()])?;
    let mut sources: SmallVec<[(&[T], usize); 8]> = SmallVec::new();
    for i in 0..parts.len() {
        let part = locked.read::<T>(i)?;
        let Some(slice) = part.slice() else { bail!(Runtime, "cat: part {i} is not contiguous") };
        sources.push((slice, part.size(1)));
    }
    let width: usize = sources.iter().map(|(_, width)| width).sum();
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<Baseline, T>(out, GRAIN, |start, mut rest| {
            let (mut row, mut column) = (start / width, start % width);
            // The part that the chunk starts in, then part by part.
            let mut part = 0;
            while column >= sources[part].1 {
                column -= sources[part].1;
                part += 1;
            }
            while !rest.is_empty() {
                let (source, cols) = sources[part];
                let n = (cols - column).min(rest.len());
                let (head, tail) = rest.split_at_mut(n);
                head.copy_from_slice(&source[row * cols + column..][..n]);
                rest = tail;
                column = 0;
                part += 1;
                if part == sources.len() {
                    (part, row) = (0, row + 1);
                }
            }
        });
    });
    Ok(())
}
