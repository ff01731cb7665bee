//! `gather` and the `scatter` operators: an index an element, along one dimension.

use tensor_aten::Tensor;
use tensor_core::strides::contiguous;
use tensor_core::{Element, Error, Result, bail};

use super::rows::check_bounds;
use super::walk::{Walk, offsets};
use crate::isa::Baseline;
use crate::loops::views::{Dense, lock, par_chunks, par_rows};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Number, Ordered, Real};

fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::runtime(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `dim`; `flat` is the memory of x.
pub fn gather<T: Element>(
    out: &Tensor,
    flat: &Tensor,
    index: &Tensor,
    strides: &[i64],
    dim: usize,
    size: i64,
) -> Result<()> {
    let locked = lock(&[flat.as_impl(), index.as_impl()], &[out.as_impl()])?;
    let index = locked.read::<i64>(1)?.dense();
    check_bounds(&index, 0, size).map_err(|i| out_of_bounds(i, dim, size))?;
    let Some(x) = locked.read::<T>(0)?.slice() else { bail!(Runtime, "gather: the memory is not contiguous") };
    // Rows are runs of the last dimension.
    let sizes = out.sizes();
    let Some((&cols, outer)) = sizes.split_last() else { bail!(Runtime, "gather: the output has no dimensions") };
    let last = outer.len();
    let cols = cols as usize;
    let step = strides[dim] as usize;
    let mut others = strides.to_vec();
    others[dim] = 0;
    let along = others[last] as usize;
    locked.write::<T>(0)?.with_dense(|out| {
        par_chunks::<Baseline, T>(out, (GRAIN / cols).max(1) * cols, |start, part| {
            let mut walk = Walk::new(outer, [&others[..last]], start / cols);
            let index = &index[start..start + part.len()];
            for (out, index) in part.chunks_exact_mut(cols).zip(index.chunks_exact(cols)) {
                let x = &x[walk.at[0]..];
                for (k, (out, &i)) in out.iter_mut().zip(index).enumerate() {
                    *out = x[k * along + i as usize * step];
                }
                walk.step();
            }
        });
    });
    Ok(())
}

/// Where the source's elements come from.
enum Source<'a, T: Copy> {
    Each(Dense<'a, T>),
    One(T),
}

/// The shape of a block: the dimension that is indexed, and the later ones.
struct Block {
    /// the distance of neighbours along the dimension
    inner: usize,
    /// the places of the later dimensions' elements that the index has
    later: Vec<usize>,
}

impl Block {
    /// Calls `put` for each element of a block of indices, in order; `first` is the number of the first one.
    #[inline]
    fn scatter<T: Copy, A>(
        &self,
        out: &mut [A],
        index: &[i64],
        src: &Source<'_, T>,
        first: usize,
        put: impl Fn(&mut A, T),
    ) {
        let cols = self.later.len();
        for (row, index) in index.chunks_exact(cols).enumerate() {
            let places = index.iter().zip(&self.later).map(|(&i, &at)| i as usize * self.inner + at);
            match src {
                Source::Each(src) => {
                    places.zip(&src[first + row * cols..][..cols]).for_each(|(at, &value)| put(&mut out[at], value));
                }
                Source::One(value) => places.for_each(|at| put(&mut out[at], *value)),
            }
        }
    }
}

/// Sets `out[.., index[.., i, ..], ..] = put(that, src[.., i, ..])` along `dim` for all elements in order. Sums in f16 and
/// bf16 are `accumulated` in f32.
#[inline]
fn scatter_with<T: Number>(
    out: &Tensor,
    index: &Tensor,
    src: &Tensor,
    dim: usize,
    accumulated: bool,
    put: impl Fn(T::Op, T::Op) -> T::Op + Sync,
) -> Result<()> {
    let locked = lock(&[index.as_impl(), src.as_impl()], &[out.as_impl()])?;
    let (sizes, wanted) = (out.sizes(), index.sizes());
    let index = locked.read::<i64>(0)?.dense();
    let size = sizes[dim];
    check_bounds(&index, 0, size).map_err(|i| out_of_bounds(i, dim, size))?;
    let view = locked.read::<T>(1)?;
    let src = if view.strides().iter().all(|&stride| stride == 0) {
        Source::One(view.at(&vec![0; view.dim()]))
    } else {
        Source::Each(view.dense())
    };
    let strides = contiguous(sizes);
    let inner = strides[dim] as usize;
    let block = Block { inner, later: offsets(&wanted[dim + 1..], &strides[dim + 1..]) };
    let count = wanted[dim] as usize * block.later.len();
    let steps = contiguous(&wanted[..dim]);
    let wide = accumulated && T::DTYPE.opmath() != T::DTYPE;
    locked.write::<T>(0)?.with_dense(|out| {
        let blocks = out.len() / (size as usize * inner).max(1);
        par_rows::<Baseline, T>(out, blocks, count, |r, out| {
            // The block of indices at this place of the earlier dimensions, if the index reaches it.
            let place = Walk::new(&sizes[..dim], [&steps], r);
            if place.index().iter().zip(wanted).any(|(i, wanted)| i >= wanted) {
                return;
            }
            let first = place.at[0] * count;
            let index = &index[first..first + count];
            if wide {
                let mut sums: Vec<T::Op> = out.iter().map(|x| x.up()).collect();
                block.scatter(&mut sums, index, &src, first, |to, value| *to = put(*to, value.up()));
                out.iter_mut().zip(sums).for_each(|(out, x)| *out = T::down(x));
            } else {
                block.scatter(out, index, &src, first, |to, value| *to = T::down(put(to.up(), value.up())));
            }
        });
    });
    Ok(())
}

/// `out[index] = src`
pub fn scatter<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, false, |_, x| x)
}

/// `out[index] += src`
pub fn scatter_add<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, true, |s, x| s.add(x))
}

/// `out[index] *= src`
pub fn scatter_multiply<T: Number>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, true, |s, x| s.mul(x))
}

/// `out[index] = max(out[index], src)`
pub fn scatter_amax<T: Number + Ordered>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, true, |s, x| s.maximum(x))
}

/// `out[index] = min(out[index], src)`
pub fn scatter_amin<T: Number + Ordered>(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()> {
    scatter_with::<T>(out, index, src, dim, true, |s, x| s.minimum(x))
}
