//! The gradient of a table whose rows were read by index.

use tensor_aten::Tensor;
use tensor_core::{Element, Result, Scalar};

use crate::isa::Isa;
use crate::loops::beyond::{self, pays};
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::simd::compress::{PLACES, within};
use crate::simd::{Arith, Number};

/// Parts of the table, each of which looks through all indices.
const PARTS: usize = 16;

/// The rows of a part of the table, and the numbers of the gradients that each is the sum of, in order.
struct Shares {
    /// where the numbers of each row begin, and where the last ones end
    starts: Vec<usize>,
    numbers: Vec<usize>,
}

impl Shares {
    /// Those of `rows` rows from `first` on; indices that are `left_out`, or belong to others, count for nothing.
    #[inline(always)]
    fn new<I: Isa>(indices: &[i64], first: usize, rows: usize, left_out: i64) -> Self {
        let mut found = [0; PLACES];
        let mut mine: Vec<(usize, usize)> = Vec::new();
        for (block, places) in indices.chunks(PLACES).enumerate() {
            let n = within::<I>(&mut found, places, first, rows);
            let pairs = found[..n].iter().map(|&k| (places[k as usize], block * PLACES + k as usize));
            mine.extend(pairs.filter(|&(i, _)| i != left_out).map(|(i, at)| (i as usize - first, at)));
        }
        let mut starts = vec![0; rows + 1];
        mine.iter().for_each(|&(row, _)| starts[row + 1] += 1);
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; mine.len()];
        for (row, at) in mine {
            numbers[next[row]] = at;
            next[row] += 1;
        }
        Self { starts, numbers }
    }

    #[inline(always)]
    fn of(&self, row: usize) -> &[usize] {
        &self.numbers[self.starts[row]..self.starts[row + 1]]
    }
}

/// `out[indices[i], :] += grad[i, :]`, divided by how often the index occurs if that is wanted. Half floats are summed in
/// f32.
pub fn embedding_backward<I: Isa, T: Number>(
    out: &Tensor,
    grad: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
    by_frequency: bool,
) -> Result<()> {
    let locked = lock(&[grad.as_impl(), indices.as_impl()], &[out.as_impl()])?;
    let (grad, indices) = (locked.read::<T>(0)?.dense(), locked.read::<i64>(1)?.dense());
    let mut out = locked.write::<T>(0)?;
    let (rows, width) = (out.size(0), out.size(1));
    let streamed = pays(rows * width * size_of::<T>(), 0);
    out.with_dense(|out| {
        let grain = rows.div_ceil(PARTS).max(GRAIN / width.max(1)).max(1) * width;
        par_chunks::<I, T>(
            out,
            grain,
            #[inline(always)]
            |start, part| {
                let shares = Shares::new::<I>(&indices, start / width, part.len() / width, padding_idx);
                let mut sums = vec![T::Op::ZERO; width];
                let mut cleared = 0;
                for row in 0..part.len() / width {
                    let numbers = shares.of(row);
                    if numbers.is_empty() {
                        continue;
                    }
                    let (before, to) = part[..(row + 1) * width].split_at_mut(row * width);
                    clear(&mut before[cleared..], streamed);
                    cleared = (row + 1) * width;
                    let scale = 1.0 / if by_frequency { numbers.len() as f64 } else { 1.0 };
                    let scale = <T::Op as Element>::from_scalar(Scalar::Float(scale));
                    sums.fill(T::Op::ZERO);
                    for &at in numbers {
                        for (sum, g) in sums.iter_mut().zip(&grad[at * width..][..width]) {
                            *sum = sum.add(if by_frequency { g.up().mul(scale) } else { g.up() });
                        }
                    }
                    to.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = T::down(sum));
                }
                clear(&mut part[cleared..], streamed);
            },
        );
    });
    Ok(())
}

/// Zeros, past the caches where the table is larger than they are.
fn clear<T: Element>(out: &mut [T], streamed: bool) {
    if streamed { beyond::clear(out) } else { out.fill(T::zeroed()) }
}
