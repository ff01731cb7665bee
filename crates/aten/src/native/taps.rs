//! Weighted sums along dimensions: the geometry that padding and resampling share, and their run over images. Which elements
//! an operator sums is said beside it.

use tensor_core::strides::Dims;
use tensor_core::{MemoryFormat, Result};

use crate::kernels::ResampleKernel;
use crate::{Tensor, ops};

/// Weighted sums along one dimension: result `o` is the sum of `weight[t] * x[index[t]]` for t in `first[o]..first[o + 1]`.
#[derive(Clone, Debug)]
pub struct Taps {
    first: Vec<usize>,
    index: Vec<usize>,
    weight: Vec<f64>,
}

impl Taps {
    /// No results yet.
    pub fn new() -> Self {
        Self { first: vec![0], index: Vec::new(), weight: Vec::new() }
    }

    /// Results that are elements: one an index.
    pub fn single(index: impl Iterator<Item = usize>) -> Self {
        let index: Vec<usize> = index.collect();
        Self { first: (0..=index.len()).collect(), weight: vec![1.0; index.len()], index }
    }

    /// Adds a result.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f64)>) {
        for (index, weight) in taps {
            self.index.push(index);
            self.weight.push(weight);
        }
        self.first.push(self.index.len());
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// True if there is no result.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Indices and weights of a result.
    pub fn of(&self, o: usize) -> (&[usize], &[f64]) {
        let range = self.first[o]..self.first[o + 1];
        (&self.index[range.clone()], &self.weight[range])
    }

    /// True if every result is one element as it is.
    pub fn is_single(&self) -> bool {
        self.index.len() == self.len() && self.weight.iter().all(|&w| w == 1.0)
    }

    /// How many elements every result is made of, if that is one number.
    pub fn each(&self) -> Option<usize> {
        let each = self.index.len().checked_div(self.len())?;
        self.first.iter().enumerate().all(|(o, &first)| first == o * each).then_some(each)
    }

    /// The element that each result starts with; all of it where [`Taps::is_single`].
    pub fn indices(&self) -> &[usize] {
        &self.index
    }

    /// The adjoint over an image of `n` elements: element i is the sum of the results that it is in.
    pub fn transposed(&self, n: usize) -> Self {
        let mut first = vec![0; n + 1];
        for &i in &self.index {
            first[i + 1] += 1;
        }
        for i in 0..n {
            first[i + 1] += first[i];
        }
        let mut next = first.clone();
        let (mut index, mut weight) = (vec![0; self.index.len()], vec![0.0; self.index.len()]);
        for o in 0..self.len() {
            let (indices, weights) = self.of(o);
            for (&i, &w) in indices.iter().zip(weights) {
                (index[next[i]], weight[next[i]]) = (o, w);
                next[i] += 1;
            }
        }
        Self { first, index, weight }
    }
}

impl Default for Taps {
    fn default() -> Self {
        Self::new()
    }
}

/// Sums over three spatial dimensions: those that there are not have one element.
#[derive(Clone, Debug)]
pub struct ResampleShape {
    /// images times channels (the planes of (planes, D, H, W)); images alone where channels come last
    pub planes: usize,
    /// 1, or the number of channels of (planes, D, H, W, channels)
    pub channels: usize,
    /// the images' sizes
    pub image: [usize; 3],
    /// what results are made of
    pub taps: [Taps; 3],
}

/// Where channels of an (N, C, ..) image over `dims` dimensions lie: last in memory, if they do already.
pub(super) fn format_of(x: &Tensor, dims: usize) -> MemoryFormat {
    match x.suggest_memory_format() {
        MemoryFormat::ChannelsLast if dims == 2 && x.dim() == 4 => MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d if dims == 3 && x.dim() == 5 => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::Contiguous,
    }
}

/// An image whose memory is in the order of its dimensions, channels last if they are so.
pub(super) fn ordered(x: &Tensor, last: bool) -> Result<Tensor> {
    if !last {
        return ops::contiguous(x, MemoryFormat::Contiguous);
    }
    let pick = |list: &[i64]| -> Dims { list[..1].iter().chain(&list[2..]).chain(&list[1..2]).copied().collect() };
    let view = x.view_of_storage(&pick(x.sizes()), &pick(x.strides()), x.storage_offset())?;
    ops::contiguous(&view, MemoryFormat::Contiguous)
}

/// The sizes of the last `dims` dimensions, as three.
pub(super) fn three(sizes: &[i64], dims: usize) -> [usize; 3] {
    let spatial = &sizes[sizes.len() - dims..];
    std::array::from_fn(|d| if d + dims < 3 { 1 } else { spatial[d + dims - 3] as usize })
}

/// Runs a kernel from `x` into `result`, both laid out in `format`. `taps` are those of the last `dims` dimensions.
pub(super) fn resample(
    kernel: ResampleKernel,
    result: &Tensor,
    x: &Tensor,
    format: MemoryFormat,
    dims: Vec<Taps>,
) -> Result<()> {
    if result.numel() == 0 {
        return Ok(());
    }
    let (n, last) = (dims.len(), format != MemoryFormat::Contiguous);
    let lead: i64 = x.sizes()[..x.dim() - n].iter().product();
    let channels = if last { x.sizes()[1] as usize } else { 1 };
    let mut dims = dims.into_iter();
    let mut next = |d: usize| if d + n < 3 { None } else { dims.next() }.unwrap_or_else(|| Taps::single(0..1));
    let taps = [next(0), next(1), next(2)];
    let shape = ResampleShape { planes: lead as usize / channels.max(1), channels, image: three(x.sizes(), n), taps };
    kernel(&ordered(result, last)?, &ordered(x, last)?, &shape)
}

#[cfg(test)]
mod tests {
    use super::Taps;

    fn matrix(taps: &Taps, n: usize) -> Vec<Vec<f64>> {
        let row = |o: usize| {
            let mut row = vec![0.0; n];
            let (indices, weights) = taps.of(o);
            indices.iter().zip(weights).for_each(|(&i, &w)| row[i] += w);
            row
        };
        (0..taps.len()).map(row).collect()
    }

    #[test]
    fn the_adjoint_is_the_transposed_matrix() {
        let mut taps = Taps::new();
        taps.push([(0, 0.25), (2, 0.75)]);
        taps.push([]);
        taps.push([(2, 0.5), (2, 0.125), (1, 1.0)]);
        let (rows, columns) = (matrix(&taps, 4), matrix(&taps.transposed(4), 3));
        for (o, row) in rows.iter().enumerate() {
            for (i, &weight) in row.iter().enumerate() {
                assert_eq!(columns[i][o], weight);
            }
        }
        assert!(!taps.is_single());
        assert!(Taps::single([1, 1, 0].into_iter()).is_single());
    }
}
