//! Rows of a table by index, and the gradient of the table.

use tensor_aten::Tensor;
use tensor_core::{Element, Result, Scalar, check_index};

use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks, par_rows};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Number};

/// Parts of the table that threads add to, each over all indices.
const PARTS: usize = 16;

/// `out[i, :] = table[indices[i], :]`
pub fn embedding<T: Number>(out: &Tensor, table: &Tensor, indices: &Tensor) -> Result<()> {
    let locked = lock(&[table.as_impl(), indices.as_impl()], &[out.as_impl()])?;
    let (table, indices) = (locked.read::<T>(0)?, locked.read::<i64>(1)?.dense());
    let (rows, width) = (table.size(0), table.size(1));
    for &i in indices.iter() {
        check_index!(i >= 0 && i < rows as i64, "index out of range in self");
    }
    if width == 0 {
        return Ok(());
    }
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<crate::isa::Baseline, T>(out, indices.len(), width, |i, out| {
            table.lane(1, indices[i] as usize).copy_to(out);
        });
    });
    Ok(())
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
    let counts = by_frequency.then(|| {
        let mut counts = vec![0u64; rows];
        for &i in indices.iter() {
            if let Some(count) = usize::try_from(i).ok().and_then(|i| counts.get_mut(i)) {
                *count += 1;
            }
        }
        counts
    });
    let exact = T::DTYPE == <T::Op as Element>::DTYPE;
    out.with_dense(|out| {
        let grain = rows.div_ceil(PARTS).max(GRAIN / width.max(1)).max(1) * width;
        par_chunks::<I, T>(
            out,
            grain,
            #[inline(always)]
            |start, part| {
                let first = (start / width) as i64;
                let last = first + (part.len() / width) as i64;
                let mut wide: Vec<T::Op> = if exact { Vec::new() } else { vec![T::Op::ZERO; part.len()] };
                part.fill(T::zeroed());
                for (at, &i) in indices.iter().enumerate() {
                    if i == padding_idx || i < first || i >= last {
                        continue;
                    }
                    let grad = &grad[at * width..][..width];
                    let to = (i - first) as usize * width;
                    let scale = counts
                        .as_ref()
                        .map(|counts| <T::Op as Element>::from_scalar(Scalar::Float(1.0 / counts[i as usize] as f64)));
                    let share = |g: T| scale.map_or(g.up(), |scale| g.up().mul(scale));
                    if exact {
                        for (out, &g) in part[to..to + width].iter_mut().zip(grad) {
                            *out = T::down(out.up().add(share(g)));
                        }
                    } else {
                        for (out, &g) in wide[to..to + width].iter_mut().zip(grad) {
                            *out = out.add(share(g));
                        }
                    }
                }
                for (out, wide) in part.iter_mut().zip(wide) {
                    *out = T::down(wide);
                }
            },
        );
    });
    Ok(())
}
