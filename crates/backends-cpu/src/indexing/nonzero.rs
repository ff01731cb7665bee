//! Positions of elements that are not zero.

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_core::strides::Dims;
use tensor_core::{DType, Device, Result};

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::{GRAIN, parallel_for};
use crate::simd::{Arith, Number};

/// The row-major numbers of the elements that are not zero.
fn numbers<T: Number>(x: &Tensor) -> Result<Vec<i64>> {
    let locked = lock(&[x.as_impl()], &[])?;
    let x = locked.read::<T>(0)?.dense();
    let find = |begin: usize, end: usize| -> Vec<i64> {
        (begin..end).filter(|&i| x[i].up().truth()).map(|i| i as i64).collect()
    };
    if x.len() <= GRAIN {
        return Ok(find(0, x.len()));
    }
    let parts: Vec<Mutex<Vec<i64>>> = (0..x.len().div_ceil(GRAIN)).map(|_| Mutex::default()).collect();
    parallel_for(x.len(), GRAIN, |begin, end| *parts[begin / GRAIN].lock() = find(begin, end));
    Ok(parts.into_iter().flat_map(Mutex::into_inner).collect())
}

/// `out[k, d]` is the index along dimension d of the k-th element that is not zero.
pub fn nonzero<T: Number>(x: &Tensor) -> Result<Tensor> {
    let sizes = x.sizes();
    let found = numbers::<T>(x)?;
    let n = found.len();
    let shape = Dims::from_slice(&[n as i64, sizes.len() as i64]);
    let out = Tensor::new_strided(shape, Dims::from_slice(&[1, n as i64]), DType::I64, Device::CPU)?;
    if n == 0 || sizes.is_empty() {
        return Ok(out);
    }
    // The columns one after the other, as they lie.
    let columns =
        out.view_of_storage(Dims::from_slice(&[sizes.len() as i64, n as i64]), Dims::from_slice(&[n as i64, 1]), 0)?;
    lock(&[], &[columns.as_impl()])?.write::<i64>(0)?.with_dense(|columns| {
        let mut step: i64 = 1;
        for (column, &size) in columns.chunks_exact_mut(n).zip(sizes).rev() {
            par_chunks::<Baseline, i64>(column, GRAIN, |start, part| {
                for (out, &at) in part.iter_mut().zip(&found[start..]) {
                    *out = at / step % size;
                }
            });
            step *= size;
        }
    });
    Ok(out)
}
