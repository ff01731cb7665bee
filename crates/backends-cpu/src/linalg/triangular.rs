//! Systems of equations with triangular matrices.

use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::Field;
use super::mat::{Mat, add_scaled, product};
use super::{batch_of, batched, operands, write_matrix};
use crate::loops::views::lock;

/// Rows that are solved together; what is left is a product.
const BLOCK: usize = 64;

/// `b` becomes the solution x of `a x = b`, for a square `a` of which one triangle counts, with ones on its diagonal if `unit`.
pub(super) fn solve<T: Field>(a: &Mat<T>, b: &mut Mat<T>, upper: bool, unit: bool) -> Result<()> {
    let n = a.rows;
    let blocks = n.div_ceil(BLOCK);
    for block in 0..blocks {
        let block = if upper { blocks - 1 - block } else { block };
        let (begin, end) = (block * BLOCK, n.min((block + 1) * BLOCK));
        for column in 0..b.cols {
            let x = b.col_mut(column);
            for step in begin..end {
                let k = if upper { begin + end - 1 - step } else { step };
                if !unit {
                    x[k] /= a[(k, k)];
                }
                let factor = -x[k];
                let rest = if upper { begin..k } else { k + 1..end };
                add_scaled(factor, &a.col(k)[rest.clone()], &mut x[rest]);
            }
        }
        let rest = if upper { 0..begin } else { end..n };
        if !rest.is_empty() && b.cols > 0 {
            let solved = b.part(begin..end, 0..b.cols);
            let a = a.as_ref()?.rows_range(rest.start, rest.end).cols_range(begin, end);
            let cols = b.cols;
            product(-T::UNIT, a, solved.as_ref()?, b.part_mut(rest, 0..cols)?)?;
        }
    }
    Ok(())
}

/// `outputs`: x (.., n, k); `inputs`: a (.., n, n), b (.., n, k), all of one batch. `a x = b`; flags: the upper triangle counts,
/// and the diagonal is ones.
pub fn solve_triangular<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [upper, unit]: [bool; 2]) -> Result<()> {
    let [out] = operands(outputs, "solve_triangular")?;
    let [a, b] = operands(inputs, "solve_triangular")?;
    let locked = lock(&[a.as_impl(), b.as_impl()], &[out.as_impl()])?;
    let (a, b, mut out) = (locked.read::<T>(0)?, locked.read::<T>(1)?, locked.write::<T>(0)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let work = a.size(a.dim() - 1).pow(2) * b.size(b.dim() - 1);
    let solutions = batched(batch_of(a.sizes()), work, |i| {
        let mut x = Mat::read(b.matrix(i)?);
        solve(&Mat::read(a.matrix(i)?), &mut x, upper, unit)?;
        Ok(x)
    })?;
    solutions.iter().enumerate().try_for_each(|(i, x)| write_matrix(&mut out, i, x))
}
