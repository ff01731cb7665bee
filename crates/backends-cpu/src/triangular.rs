//! Triangles of matrices.

use tensor_aten::Tensor;
use tensor_core::{Element, Result};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_rows};

/// `out[.., i, j] = x[.., i, j]` where j - i <= diagonal (>= for the upper triangle), else 0; `out` is contiguous.
pub fn triangle<T: Element>(out: &Tensor, x: &Tensor, diagonal: i64, upper: bool) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?;
    let (m, n) = (x.size(x.dim().saturating_sub(2)), x.size(x.dim().saturating_sub(1)));
    let last = x.dim().saturating_sub(1);
    locked.write::<T>(0)?.with_dense(|out| {
        par_rows::<Baseline, T>(out, x.numel() / n, n, |row, out| {
            let i = (row % m) as i64;
            // The first element beyond the lower triangle, or of the upper one.
            let split = i.saturating_add(diagonal).saturating_add(i64::from(!upper)).clamp(0, n as i64) as usize;
            x.lane(last, row).copy_to(out);
            if upper { &mut out[..split] } else { &mut out[split..] }.fill(T::zeroed());
        });
    });
    Ok(())
}
