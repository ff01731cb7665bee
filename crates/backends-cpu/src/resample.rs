//! Elements and weighted sums of elements of images (planes, D, H, W, channels), a dimension at a time: padding, upsampling and
//! their adjoints. Which elements, `aten`'s `Taps` says.

use tensor_aten::Tensor;
use tensor_aten::kernels::{ResampleShape, Taps};
use tensor_core::{Element, Result, check};

use crate::isa::{Baseline, Isa};
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Floating, Math, Value};

/// The rows of results: sizes, and how many elements a row has.
struct Rows<'a> {
    shape: &'a ResampleShape,
    sizes: [usize; 3],
    width: usize,
    source: usize,
}

impl<'a> Rows<'a> {
    fn new(shape: &'a ResampleShape, results: usize, elements: usize) -> Result<Self> {
        let sizes: [usize; 3] = std::array::from_fn(|d| shape.taps[d].len());
        let all = |sizes: &[usize; 3]| shape.planes * sizes.iter().product::<usize>() * shape.channels;
        check!(all(&sizes) == results, "resample: {results} results where {} are due", all(&sizes));
        check!(all(&shape.image) == elements, "resample: {elements} elements where {} are due", all(&shape.image));
        for (taps, size) in shape.taps.iter().zip(shape.image) {
            check!(taps.indices().iter().all(|&i| i < size), "resample: an index is beyond an image's {size} elements");
        }
        Ok(Self { shape, sizes, width: sizes[2] * shape.channels, source: shape.image[2] * shape.channels })
    }

    /// Results that make a chunk, whole rows, where a row costs `work`.
    fn grain(&self, work: usize) -> usize {
        (GRAIN / work.max(1)).max(1) * self.width
    }

    /// Plane, and place in the first two dimensions, of a row.
    #[inline]
    fn place(&self, row: usize) -> (usize, usize, usize) {
        let [depth, height, _] = self.sizes;
        (row / (depth * height), row / height % depth, row % height)
    }

    /// Where a row of the image starts.
    #[inline]
    fn start(&self, plane: usize, i: usize, j: usize) -> usize {
        ((plane * self.shape.image[0] + i) * self.shape.image[1] + j) * self.source
    }
}

/// A run of results that are neighbours in the image too.
struct Run {
    to: usize,
    from: usize,
    len: usize,
}

fn runs(indices: &[usize], channels: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (to, &from) in indices.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.from + run.len == from * channels => run.len += channels,
            _ => runs.push(Run { to: to * channels, from: from * channels, len: channels }),
        }
    }
    runs
}

/// `out[p, i, j, k] = x[p, i', j', k']`, where each dimension has one tap a result.
pub fn remap<T: Element>(out: &Tensor, x: &Tensor, shape: &ResampleShape) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let mut out = locked.write::<T>(0)?;
    let rows = Rows::new(shape, out.numel(), x.len())?;
    check!(shape.taps.iter().all(Taps::is_single), "remap: results that are no elements");
    let [depth, height, columns] = shape.taps.each_ref().map(Taps::indices);
    let runs = runs(columns, shape.channels);
    // Copies of long runs, single elements otherwise.
    let long = rows.width >= 8 * runs.len();
    out.with_dense(|out| {
        par_chunks::<Baseline, T>(out, rows.grain(rows.width), |start, part| {
            let mut last = None;
            for row in 0..part.len() / rows.width {
                let (plane, i, j) = rows.place(start / rows.width + row);
                let from = rows.start(plane, depth[i], height[j]);
                let (before, rest) = part.split_at_mut(row * rows.width);
                let out = &mut rest[..rows.width];
                let x = &x[from..][..rows.source];
                if last == Some(from) {
                    out.copy_from_slice(&before[(row - 1) * rows.width..]);
                } else if long {
                    for run in &runs {
                        out[run.to..][..run.len].copy_from_slice(&x[run.from..][..run.len]);
                    }
                } else if shape.channels == 1 {
                    for (out, &k) in out.iter_mut().zip(columns) {
                        *out = x[k];
                    }
                } else {
                    for (out, &k) in out.chunks_exact_mut(shape.channels).zip(columns) {
                        out.copy_from_slice(&x[k * shape.channels..][..shape.channels]);
                    }
                }
                last = Some(from);
            }
        });
    });
    Ok(())
}

/// Weights in the type that sums are made in.
fn weights<T: Floating>(taps: &Taps) -> Vec<<T::Op as Math>::Part> {
    (0..taps.len()).flat_map(|o| taps.of(o).1).map(|&w| Math::from_f64(w)).collect()
}

/// `sums = weight * x`, or that added to what there is.
#[inline(always)]
fn accumulate<A: Math>(sums: &mut [A], x: impl Iterator<Item = A>, weight: A::Part, first: bool) {
    if first {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = x.scale(weight);
        }
    } else {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = sum.add(x.scale(weight));
        }
    }
}

/// `out[o] = sum over k of weights[o, k] * sums[indices[o, k]]`, for K elements each.
#[inline(always)]
fn gather<T: Floating, const K: usize>(
    out: &mut [T],
    sums: &[T::Op],
    indices: &[usize],
    weights: &[<T::Op as Math>::Part],
) {
    let (indices, weights) = (indices.as_chunks::<K>().0, weights.as_chunks::<K>().0);
    for o in 0..out.len().min(indices.len()).min(weights.len()) {
        let mut sum = sums[indices[o][0]].scale(weights[o][0]);
        for k in 1..K {
            sum = sum.add(sums[indices[o][k]].scale(weights[o][k]));
        }
        out[o] = <T as Value>::down(sum);
    }
}

/// `out[p, i, j, k] = sum over taps (i', j', k') of weight * x[p, i', j', k']`. Halves are summed in f32.
pub fn resample<I: Isa, T: Floating>(out: &Tensor, x: &Tensor, shape: &ResampleShape) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let mut out = locked.write::<T>(0)?;
    let rows = Rows::new(shape, out.numel(), x.len())?;
    let [depth, height, columns] = &shape.taps;
    let last = weights::<T>(columns);
    let channels = shape.channels;
    let each = columns.each().filter(|_| channels == 1);
    let one = |sums: &[usize]| sums.len() / rows.sizes[1].max(1) + 1;
    let work = rows.source * one(height.indices()) + columns.indices().len() * channels;
    out.with_dense(|out| {
        par_chunks::<I, T>(
            out,
            rows.grain(work),
            #[inline(always)]
            |start, part| {
                let mut sums = vec![<T::Op as Arith>::ZERO; rows.source];
                for row in 0..part.len() / rows.width {
                    let (plane, i, j) = rows.place(start / rows.width + row);
                    // The rows that there are to see, summed.
                    let (outer, inner) = (depth.of(i), height.of(j));
                    let mut first = true;
                    for (&i, &wi) in outer.0.iter().zip(outer.1) {
                        for (&j, &wj) in inner.0.iter().zip(inner.1) {
                            let x = &x[rows.start(plane, i, j)..][..rows.source];
                            accumulate(&mut sums, x.iter().map(|x| x.up()), Math::from_f64(wi * wj), first);
                            first = false;
                        }
                    }
                    if first {
                        sums.fill(<T::Op as Arith>::ZERO);
                    }
                    // Then their elements.
                    let out = &mut part[row * rows.width..][..rows.width];
                    let indices = columns.indices();
                    match each {
                        Some(1) => gather::<T, 1>(out, &sums, indices, &last),
                        Some(2) => gather::<T, 2>(out, &sums, indices, &last),
                        Some(4) => gather::<T, 4>(out, &sums, indices, &last),
                        _ => spread(out, &sums, columns, &last, channels),
                    }
                }
            },
        );
    });
    Ok(())
}

/// [`gather`] for any number of elements each, with channels side by side.
#[inline(always)]
fn spread<T: Floating>(
    out: &mut [T],
    sums: &[T::Op],
    columns: &Taps,
    weights: &[<T::Op as Math>::Part],
    channels: usize,
) {
    let mut wide = vec![<T::Op as Arith>::ZERO; channels];
    let mut t = 0;
    for o in 0..columns.len() {
        let taps = columns.of(o).0;
        let own = &weights[t..][..taps.len()];
        t += taps.len();
        wide.fill(<T::Op as Arith>::ZERO);
        for (k, (&element, &w)) in taps.iter().zip(own).enumerate() {
            accumulate(&mut wide, sums[element * channels..][..channels].iter().copied(), w, k == 0);
        }
        let out = &mut out[o * channels..][..channels];
        for (out, &wide) in out.iter_mut().zip(&wide) {
            *out = <T as Value>::down(wide);
        }
    }
}
