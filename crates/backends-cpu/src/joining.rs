//! Joins: the rows of several matrices side by side.

use smallvec::SmallVec;
use tensor_aten::Tensor;
use tensor_core::{Element, Result, bail};

use crate::isa::Baseline;
use crate::loops::beyond::{self, pays};
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;

/// Rows of a part that have at most so many bytes are short: copied inline, many rows of one part after the other.
const SHORT: usize = 64;
/// Elements of rows that stay in the nearest cache while each part's are written.
const BLOCK: usize = 2048;

/// A matrix with rows of some width.
type Part<'a, T> = (&'a [T], usize);

/// `out[r, :] = parts[0][r, :], parts[1][r, :], ..`: contiguous matrices with as many rows as `out`.
pub fn cat<T: Element>(out: &Tensor, parts: &[&Tensor]) -> Result<()> {
    let reads: SmallVec<[_; 8]> = parts.iter().map(|part| &**part.as_impl()).collect();
    let locked = lock(&reads, &[out.as_impl()])?;
    let mut sources: SmallVec<[Part<'_, T>; 8]> = SmallVec::new();
    for i in 0..parts.len() {
        let part = locked.read::<T>(i)?;
        let Some(slice) = part.slice() else { bail!(Runtime, "cat: part {i} is not contiguous") };
        sources.push((slice, part.size(1)));
    }
    let width: usize = sources.iter().map(|(_, width)| width).sum();
    let short = sources.iter().all(|(_, cols)| cols * size_of::<T>() <= SHORT);
    locked.write::<T>(0)?.with_dense(|out| {
        let streamed = pays(size_of_val(out), size_of_val(out));
        if short && width < BLOCK {
            return par_chunks::<Baseline, T>(out, GRAIN / width.max(1) * width, |start, out| {
                short_rows(out, &sources, width, start / width.max(1));
            });
        }
        par_chunks::<Baseline, T>(out, GRAIN, |start, out| long_rows(out, &sources, start, width, streamed));
    });
    Ok(())
}

/// Fills `out`, which begins at element `start` of the join, in runs of the parts' elements.
fn long_rows<T: Element>(out: &mut [T], sources: &[Part<'_, T>], start: usize, width: usize, streamed: bool) {
    let (mut row, mut column) = (start / width, start % width);
    // The part that the chunk starts in, then part by part.
    let mut part = 0;
    while column >= sources[part].1 {
        column -= sources[part].1;
        part += 1;
    }
    let mut left = out.len();
    let runs = std::iter::from_fn(|| {
        let (source, cols) = sources[part];
        let run = &source[row * cols + column..][..(cols - column).min(left)];
        left -= run.len();
        column = 0;
        part += 1;
        if part == sources.len() {
            (part, row) = (0, row + 1);
        }
        (!run.is_empty()).then_some(run)
    });
    if streamed {
        return beyond::copy_rows(out, runs);
    }
    let mut rest = out;
    for run in runs {
        let (head, tail) = rest.split_at_mut(run.len());
        head.copy_from_slice(run);
        rest = tail;
    }
}

/// Fills whole rows from number `row` on.
fn short_rows<T: Element>(out: &mut [T], sources: &[Part<'_, T>], width: usize, mut row: usize) {
    for out in out.chunks_mut((BLOCK / width).max(1) * width) {
        let rows = out.len() / width;
        let mut column = 0;
        for &(source, cols) in sources {
            let source = &source[row * cols..(row + rows) * cols];
            match cols {
                1 => columns::<T, 1>(out, source, width, column),
                2 => columns::<T, 2>(out, source, width, column),
                3 => columns::<T, 3>(out, source, width, column),
                4 => columns::<T, 4>(out, source, width, column),
                _ => {
                    for (out, from) in out.chunks_exact_mut(width).zip(source.chunks_exact(cols)) {
                        out[column..column + cols].iter_mut().zip(from).for_each(|(to, &x)| *to = x);
                    }
                }
            }
            column += cols;
        }
        row += rows;
    }
}

/// `out[r, column..column + N] = source[r]`
fn columns<T: Element, const N: usize>(out: &mut [T], source: &[T], width: usize, column: usize) {
    for (out, from) in out.chunks_exact_mut(width).zip(source.as_chunks::<N>().0) {
        if let Some(to) = out.get_mut(column..).and_then(|out| out.first_chunk_mut::<N>()) {
            *to = *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::{DType, Device};

    #[test]
    fn rows_of_any_width_come_side_by_side() -> Result<()> {
        for (rows, widths) in [
            (1, [3, 1, 5].as_slice()),
            (5000, &[1, 1, 1]),
            (3001, &[2, 3, 4, 7, 1]),
            (700, &[90, 1, 17]),
            (3, &[40_000, 9]),
        ] {
            let width: usize = widths.iter().sum();
            let whole: Vec<f32> = (0..rows * width).map(|i| i as f32).collect();
            let mut begin = 0;
            let mut parts = Vec::new();
            for &cols in widths {
                let part: Vec<f32> = whole.chunks(width).flat_map(|row| row[begin..begin + cols].to_vec()).collect();
                parts.push(Tensor::from_slice(&part, &[rows as i64, cols as i64])?);
                begin += cols;
            }
            let out = Tensor::new_dense(&[rows as i64, width as i64], DType::F32, Device::CPU)?;
            cat::<f32>(&out, &parts.iter().collect::<Vec<_>>())?;
            assert_eq!(out.to_vec::<f32>()?, whole);
        }
        Ok(())
    }
}
