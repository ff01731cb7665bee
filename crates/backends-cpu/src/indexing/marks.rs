//! Elements by marks: positions of elements that are not zero, and the elements that a mask chooses or replaces.
//!
//! The marks become words of bits, which are counted; so each chunk knows where its elements belong.

use tensor_aten::Tensor;
use tensor_core::strides::Dims;
use tensor_core::{Bool, DType, Device, Element, Result, check};

use crate::isa::{Baseline, Isa};
use crate::loops::tiles::par_tiles;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::simd::compress::{WORD, compress, compress_numbers, expand, word};
use crate::simd::{Arith, Number};
use crate::with_level;

/// Words of a chunk.
const CHUNK: usize = 256;
/// Elements of a chunk.
const ELEMENTS: usize = CHUNK * WORD;

/// The marks of elements, as bits.
pub(crate) struct Marks {
    words: Vec<u64>,
    /// how many are marked before each chunk, and in all
    starts: Vec<usize>,
}

impl Marks {
    /// Marks what is not zero.
    pub(crate) fn new<T: Number>(x: &[T]) -> Self {
        let mut words = vec![0; x.len().div_ceil(WORD)];
        let mut starts = vec![0];
        with_level!(I => {
            par_chunks::<I, u64>(
                &mut words,
                GRAIN / WORD,
                #[inline(always)]
                |start, words| {
                    for (to, x) in words.iter_mut().zip(x[start * WORD..].chunks(WORD)) {
                        let mut marks = [0; WORD];
                        match x.as_chunks::<WORD>().0 {
                            [x] => {
                                for i in 0..WORD {
                                    marks[i] = u8::from(x[i].up().truth());
                                }
                            }
                            _ => marks.iter_mut().zip(x).for_each(|(mark, x)| *mark = u8::from(x.up().truth())),
                        }
                        *to = word::<I>(&marks);
                    }
                },
            );
            I::run(
                #[inline(always)]
                || {
                    let mut all = 0;
                    for words in words.chunks(CHUNK) {
                        for word in words {
                            all += word.count_ones() as usize;
                        }
                        starts.push(all);
                    }
                },
            );
        });
        Self { words, starts }
    }

    /// How many are marked.
    pub(crate) fn count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The words of a chunk.
    #[inline(always)]
    fn chunk(&self, k: usize) -> &[u64] {
        &self.words[k * CHUNK..self.words.len().min((k + 1) * CHUNK)]
    }

    /// The marked ones of as many elements, as a vector.
    pub(crate) fn select<T: Element>(&self, x: &[T]) -> Result<Tensor> {
        let out = Tensor::new_dense(&[self.count() as i64], T::DTYPE, Device::CPU)?;
        lock(&[], &[out.as_impl()])?.write::<T>(0)?.with_dense(|out| {
            with_level!(I => par_tiles::<I, T>(
                out,
                [1, 1],
                &self.starts,
                ELEMENTS,
                #[inline(always)]
                |_, k, mut tile| compress::<I, T>(tile.row(0), &x[k * ELEMENTS..], self.chunk(k)),
            ));
        });
        Ok(out)
    }

    /// The numbers of the marked elements.
    pub(crate) fn numbers(&self, out: &mut [i64]) {
        with_level!(I => par_tiles::<I, i64>(
            out,
            [1, 1],
            &self.starts,
            ELEMENTS,
            #[inline(always)]
            |_, k, mut tile| compress_numbers::<I>(tile.row(0), (k * ELEMENTS) as i64, self.chunk(k)),
        ));
    }

    /// How many are marked up to each element, less one.
    pub(crate) fn ranks(&self, out: &mut [i64]) {
        par_chunks::<Baseline, i64>(out, ELEMENTS, |start, out| {
            let k = start / ELEMENTS;
            let mut rank = self.starts[k] as i64 - 1;
            for (out, &word) in out.chunks_mut(WORD).zip(self.chunk(k)) {
                for (i, out) in out.iter_mut().enumerate() {
                    rank += (word >> i & 1) as i64;
                    *out = rank;
                }
            }
        });
    }
}

/// `out[k, d]` is the index along dimension d of the k-th element that is not zero.
pub fn nonzero<T: Number>(x: &Tensor) -> Result<Tensor> {
    let locked = lock(&[x.as_impl()], &[])?;
    let view = locked.read::<T>(0)?;
    let sizes = view.sizes();
    let marks = Marks::new(&view.dense());
    let (n, dims) = (marks.count(), sizes.len());
    let shape = Dims::from_slice(&[n as i64, dims as i64]);
    let out = Tensor::new_strided(shape, Dims::from_slice(&[1, n as i64]), DType::I64, Device::CPU)?;
    if n == 0 || dims == 0 {
        return Ok(out);
    }
    // The columns one after the other, as they lie.
    let columns = out.view_of_storage(&[(dims * n) as i64], &[1], 0)?;
    lock(&[], &[columns.as_impl()])?.write::<i64>(0)?.with_dense(|columns| {
        with_level!(I => par_tiles::<I, i64>(
            columns,
            [1, dims],
            &marks.starts,
            ELEMENTS,
            #[inline(always)]
            |_, k, mut tile| {
                let first = (k * ELEMENTS) as i64;
                compress_numbers::<I>(tile.row(dims - 1), first, marks.chunk(k));
                if dims > 1 {
                    // What is left of the numbers: exact, since they are small integers.
                    let mut left: Vec<f64> = tile.row(dims - 1).iter().map(|&i| to_float(i)).collect();
                    let mut step: i64 = sizes.iter().product();
                    for (d, &size) in sizes[..dims - 1].iter().enumerate() {
                        step /= size;
                        divide(tile.row(d), &mut left, to_float(step));
                    }
                    tile.row(dims - 1).iter_mut().zip(&left).for_each(|(out, &left)| *out = to_integer(left));
                }
            },
        ));
    });
    Ok(out)
}

/// 2^52: the sum of it and a smaller natural number has that in its low bits, which vectorises everywhere.
const BIAS: f64 = (1u64 << 52) as f64;

#[inline(always)]
fn to_float(i: i64) -> f64 {
    f64::from_bits(i as u64 | BIAS.to_bits()) - BIAS
}

#[inline(always)]
fn to_integer(x: f64) -> i64 {
    ((x + BIAS).to_bits() ^ BIAS.to_bits()) as i64
}

/// Quotients by `step`, and what is left, of natural numbers.
#[inline(always)]
fn divide(quotients: &mut [i64], left: &mut [f64], step: f64) {
    let inverse = 1.0 / step;
    for (out, x) in quotients.iter_mut().zip(left) {
        // The nearest integer is the quotient or one more.
        let nearest = (*x * inverse + BIAS) - BIAS;
        let rest = *x - nearest * step;
        let more = rest < 0.0;
        *out = to_integer(if more { nearest - 1.0 } else { nearest });
        *x = if more { rest + step } else { rest };
    }
}

/// The elements of `x` that `mask`, of the same shape, chooses, as a vector.
pub fn masked_select<T: Element>(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let locked = lock(&[x.as_impl(), mask.as_impl()], &[])?;
    Marks::new(&locked.read::<Bool>(1)?.dense()).select(&locked.read::<T>(0)?.dense())
}

/// Replaces the elements of `out` that `mask`, of the same shape, chooses by the elements of `source`, in order.
///
/// # Errors
/// When there are too few.
pub fn masked_scatter<T: Element>(out: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    let locked = lock(&[mask.as_impl(), source.as_impl()], &[out.as_impl()])?;
    let marks = Marks::new(&locked.read::<Bool>(0)?.dense());
    let source = locked.read::<T>(1)?;
    check!(marks.count() <= source.numel(), "Number of elements of source < number of ones in mask");
    let source = source.dense();
    locked.write::<T>(0)?.with_dense(|out| {
        with_level!(I => par_chunks::<I, T>(
            out,
            ELEMENTS,
            #[inline(always)]
            |start, out| {
                let k = start / ELEMENTS;
                expand::<I, T>(out, &source[marks.starts[k]..marks.starts[k + 1]], marks.chunk(k));
            },
        ));
    });
    Ok(())
}
