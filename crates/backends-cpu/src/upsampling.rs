//! Upsampling: the kernels of [`crate::resample`], and bytes, whose weights are integers.

use tensor_aten::Tensor;
use tensor_aten::kernels::{ResampleShape, Taps};
use tensor_core::{Result, check};

use crate::isa::Isa;
use crate::loops::views::{lock, par_rows};

pub use crate::resample::{remap as nearest, resample as weighted};

/// Taps with weights of 16 bits, and how many of those are behind the point. Weights of one element are one.
struct IntegerTaps {
    taps: Vec<Vec<(usize, i32)>>,
    precision: u32,
}

impl IntegerTaps {
    fn new(taps: &Taps) -> Self {
        let merged: Vec<Vec<(usize, f64)>> = (0..taps.len())
            .map(|o| {
                let mut merged: Vec<(usize, f64)> = Vec::new();
                for (&i, &w) in taps.of(o).0.iter().zip(taps.of(o).1) {
                    match merged.iter_mut().find(|(index, _)| *index == i) {
                        Some((_, weight)) => *weight += w,
                        None => merged.push((i, w)),
                    }
                }
                merged
            })
            .collect();
        let most = merged.iter().flatten().map(|(_, w)| *w).fold(0.0, f64::max);
        let fits = |bits: &u32| ((0.5 + most * f64::from(1 << (bits + 1))) as i64) < 1 << 15;
        let precision = (0..22).find(|bits| !fits(bits)).unwrap_or(22);
        let integer = |w: f64| {
            let w = w * f64::from(1 << precision);
            (if w < 0.0 { w - 0.5 } else { w + 0.5 }) as i32
        };
        let rounded = |taps: Vec<(usize, f64)>| taps.into_iter().map(|(i, w)| (i, integer(w))).collect();
        Self { taps: merged.into_iter().map(rounded).collect(), precision }
    }

    /// `out = sum w * x` over elements of `n` bytes that lie side by side.
    #[inline(always)]
    fn sum<'a>(&self, o: usize, sums: &mut [i32], out: &mut [u8], x: impl Fn(usize) -> &'a [u8]) {
        sums.fill(if self.precision > 0 { 1 << (self.precision - 1) } else { 0 });
        for &(i, w) in &self.taps[o] {
            for (sum, &x) in sums.iter_mut().zip(x(i)) {
                *sum += i32::from(x) * w;
            }
        }
        for (out, &sum) in out.iter_mut().zip(sums.iter()) {
            *out = (sum >> self.precision).clamp(0, 255) as u8;
        }
    }
}

/// `out[p, i, j] = sum over taps (i', j') of weight * x[p, i', j']`, rounded to bytes after each dimension, the last one
/// first.
pub fn bytes<I: Isa, T>(out: &Tensor, x: &Tensor, shape: &ResampleShape) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[out.as_impl()])?;
    let x = locked.read::<u8>(0)?.dense();
    let mut out = locked.write::<u8>(0)?;
    let [_, height, width] = shape.image;
    let (rows, columns) = (IntegerTaps::new(&shape.taps[1]), IntegerTaps::new(&shape.taps[2]));
    let (c, result) = (shape.channels, [rows.taps.len(), columns.taps.len()]);
    let planes = shape.planes * shape.image[0];
    check!(x.len() == planes * height * width * c, "resample: {} bytes are no images", x.len());
    check!(out.numel() == planes * result[0] * result[1] * c, "resample: {} bytes are no results", out.numel());
    let row = result[1] * c;
    let mut middle = vec![0u8; planes * height * row];
    par_rows::<I, u8>(
        &mut middle,
        planes * height,
        row * 4,
        #[inline(always)]
        |r, out| {
            let x = &x[r * width * c..][..width * c];
            let mut sums = vec![0; c];
            for (o, out) in out.chunks_exact_mut(c).enumerate() {
                columns.sum(o, &mut sums, out, |i| &x[i * c..][..c]);
            }
        },
    );
    out.with_dense(|out| {
        par_rows::<I, u8>(
            out,
            planes * result[0],
            row * 4,
            #[inline(always)]
            |r, out| {
                let (plane, o) = (r / result[0], r % result[0]);
                let mut sums = vec![0; row];
                rows.sum(o, &mut sums, out, |i| &middle[(plane * height + i) * row..][..row]);
            },
        );
    });
    Ok(())
}
