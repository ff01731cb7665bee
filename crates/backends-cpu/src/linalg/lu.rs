//! `P A = L U` with partial pivoting.

use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::Field;
use super::mat::{Mat, add_scaled, product};
use super::{batch_of, batched, operands, write_matrix, write_row};
use crate::loops::views::lock;

/// Columns that are factored together; what is right of them is updated by a product.
const BLOCK: usize = 32;

/// Factors in place: L below the diagonal, U above. Gives the pivots, counted from 1, and the first zero of U's diagonal,
/// counted from 1.
pub(super) fn factor<T: Field>(a: &mut Mat<T>) -> Result<(Vec<i32>, i32)> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (mut pivots, mut info) = (vec![0; k], 0);
    for begin in (0..k).step_by(BLOCK) {
        let end = k.min(begin + BLOCK);
        for j in begin..end {
            let mut pivot = j;
            let mut largest = a[(j, j)].size();
            for (i, v) in a.col(j).iter().enumerate().skip(j + 1) {
                if v.size() > largest {
                    (pivot, largest) = (i, v.size());
                }
            }
            pivots[j] = pivot as i32 + 1;
            a.swap_rows(j, pivot);
            let diagonal = a[(j, j)];
            if diagonal == T::NULL {
                info = if info == 0 { j as i32 + 1 } else { info };
            } else {
                a.col_mut(j)[j + 1..].iter_mut().for_each(|v| *v /= diagonal);
            }
            for c in j + 1..end {
                let (left, right) = a.two_cols(j, c);
                let factor = -right[j];
                add_scaled(factor, &left[j + 1..], &mut right[j + 1..]);
            }
        }
        // The rows of U that this block ends, then all that is below them.
        for c in end..n {
            for j in begin..end {
                let (left, right) = a.two_cols(j, c);
                let factor = -right[j];
                add_scaled(factor, &left[j + 1..end], &mut right[j + 1..end]);
            }
        }
        if end < m && end < n {
            let (lower, upper) = (a.part(end..m, begin..end), a.part(begin..end, end..n));
            product(-T::UNIT, lower.as_ref()?, upper.as_ref()?, a.part_mut(end..m, end..n)?)?;
        }
    }
    Ok((pivots, info))
}

/// `outputs`: LU (.., m, n), pivots (.., min(m, n)) and info (..) of i32; `inputs`: a (.., m, n). No flags.
pub fn lu_factor<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], _: [bool; 2]) -> Result<()> {
    let [lu, pivots, info] = operands(outputs, "lu_factor")?;
    let [a] = operands(inputs, "lu_factor")?;
    let locked = lock(&[a.as_impl()], &[lu.as_impl(), pivots.as_impl(), info.as_impl()])?;
    let a = locked.read::<T>(0)?;
    let (mut lu, mut pivots, mut info) = (locked.write::<T>(0)?, locked.write::<i32>(1)?, locked.write::<i32>(2)?);
    let (m, n) = (a.size(a.dim() - 2), a.size(a.dim() - 1));
    let factors = batched(batch_of(a.sizes()), m * n * m.min(n), |i| {
        let mut a = Mat::read(a.matrix(i)?);
        let (pivots, info) = factor(&mut a)?;
        Ok((a, pivots, info))
    })?;
    for (i, (values, rows, _)) in factors.iter().enumerate() {
        write_matrix(&mut lu, i, values)?;
        write_row(&mut pivots, i, rows);
    }
    info.copy_from(&factors.iter().map(|factor| factor.2).collect::<Vec<_>>());
    Ok(())
}
