//! `A = L L^H` of positive definite matrices.

use num_traits::Float;
use tensor_aten::Tensor;
use tensor_core::Result;

use super::field::Field;
use super::mat::{Mat, add_scaled, product};
use super::{batch_of, batched, operands, write_matrix};
use crate::loops::views::lock;

/// Columns that are factored together.
const BLOCK: usize = 32;

/// Factors the lower triangle in place and clears the upper one. Gives the order of the first leading minor that is not
/// positive, where there is one.
pub(super) fn factor<T: Field>(a: &mut Mat<T>) -> Result<i32> {
    let n = a.rows;
    let info = lower(a)?;
    (1..n).for_each(|j| a.col_mut(j)[..j].fill(T::NULL));
    Ok(info)
}

fn lower<T: Field>(a: &mut Mat<T>) -> Result<i32> {
    let n = a.rows;
    for begin in (0..n).step_by(BLOCK) {
        let end = n.min(begin + BLOCK);
        for j in begin..end {
            let row: Vec<T> = (begin..j).map(|k| a[(j, k)]).collect();
            let square = row.iter().fold(a[(j, j)].re(), |rest, v| rest - (v.conj() * *v).re());
            a[(j, j)] = T::real(square);
            // A square that is no number fails as well. What follows stays as it is.
            if !(square > T::Real::NULL) {
                return Ok(j as i32 + 1);
            }
            for (k, v) in (begin..j).zip(row) {
                let (left, right) = a.two_cols(k, j);
                add_scaled(-v.conj(), &left[j + 1..], &mut right[j + 1..]);
            }
            let diagonal = square.sqrt();
            let column = a.col_mut(j);
            column[j] = T::real(diagonal);
            column[j + 1..].iter_mut().for_each(|v| *v /= T::real(diagonal));
        }
        for next in (end..n).step_by(BLOCK) {
            let cols = next..n.min(next + BLOCK);
            let rows = a.part(next..n, begin..end);
            let across = a.part(cols.clone(), begin..end).adjoint();
            product(-T::UNIT, rows.as_ref()?, across.as_ref()?, a.part_mut(next..n, cols)?)?;
        }
    }
    Ok(0)
}

/// `outputs`: the factor (.., n, n) and info (..) of i32; `inputs`: a (.., n, n), of which one triangle counts. Flags: the upper
/// triangle counts, and the factor is upper too, with `A = U^H U`.
pub fn cholesky<T: Field>(outputs: &[&Tensor], inputs: &[&Tensor], [upper, _]: [bool; 2]) -> Result<()> {
    let [out, info] = operands(outputs, "cholesky")?;
    let [a] = operands(inputs, "cholesky")?;
    let locked = lock(&[a.as_impl()], &[out.as_impl(), info.as_impl()])?;
    let (a, mut out, mut info) = (locked.read::<T>(0)?, locked.write::<T>(0)?, locked.write::<i32>(1)?);
    let n = a.size(a.dim() - 1);
    let factors = batched(batch_of(a.sizes()), n * n * n, |i| {
        let mut a = if upper { Mat::read_adjoint(a.matrix(i)?) } else { Mat::read(a.matrix(i)?) };
        let info = factor(&mut a)?;
        Ok((if upper { a.adjoint() } else { a }, info))
    })?;
    for (i, (values, _)) in factors.iter().enumerate() {
        write_matrix(&mut out, i, values)?;
    }
    info.copy_from(&factors.iter().map(|factor| factor.1).collect::<Vec<_>>());
    Ok(())
}
