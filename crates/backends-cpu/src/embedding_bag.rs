//! Bags of rows of a table.

use tensor_aten::Tensor;
use tensor_aten::kernels::Bags;
use tensor_core::Result;

use crate::isa::Isa;
use crate::layer_norm::with_options;
use crate::loops::views::{lock, par_rows2};
use crate::simd::{Arith, Math, RealFloating};

/// `out[b, :]` = sum, mean or maximum of `table[i, :] * weight` over the indices i of bag b; and the index of each maximum.
/// Padding counts nowhere; nothing makes 0.
pub fn embedding_bag<I: Isa, T: RealFloating>(
    out: &Tensor,
    places: &Tensor,
    table: &Tensor,
    bags: Bags<'_>,
) -> Result<()> {
    let locked = lock(&with_options(&[table, bags.indices], &[bags.weights]), &[out.as_impl(), places.as_impl()])?;
    let (table, indices) = (locked.read::<T>(0)?, locked.read::<i64>(1)?.dense());
    let (rows, width) = (table.size(0), table.size(1));
    let table = table.dense();
    let weights = if bags.weights.is_some() { Some(locked.read::<T>(2)?.dense()) } else { None };
    let (mut out, mut places) = (locked.write::<T>(0)?, locked.write::<i64>(1)?);
    let count = bags.starts.len().saturating_sub(1);
    let work = width * (indices.len() / count.max(1)).max(1);
    out.with_dense(|out| {
        places.with_dense(|places| {
            par_rows2::<I, T, i64>(
                out,
                places,
                count,
                work,
                #[inline(always)]
                |b, out, places| {
                    let mut sums = vec![T::Op::ZERO; width];
                    let mut seen = 0;
                    for at in bags.starts[b] as usize..bags.starts[b + 1] as usize {
                        let i = indices[at];
                        if i == bags.padding_idx || i < 0 || i as usize >= rows {
                            continue;
                        }
                        let row = &table[i as usize * width..][..width];
                        if bags.mode == 2 {
                            for (k, x) in row.iter().enumerate() {
                                if seen == 0 || x.up() > sums[k] {
                                    (sums[k], places[k]) = (x.up(), i);
                                }
                            }
                        } else {
                            let weight = weights.as_ref().map_or(T::Op::ONE, |weights| weights[at].up());
                            for (sum, x) in sums.iter_mut().zip(row) {
                                *sum = sum.add(x.up().mul(weight));
                            }
                        }
                        seen += 1;
                    }
                    let divisor = T::Op::from_f64(if bags.mode == 1 && seen > 0 { f64::from(seen) } else { 1.0 });
                    for (out, sum) in out.iter_mut().zip(&sums) {
                        *out = T::down(sum.div(divisor));
                    }
                    if seen == 0 {
                        places.fill(0);
                    }
                },
            );
        });
    });
    Ok(())
}
