//! Tables of backend kernels: a struct a family (generated), a column a dtype. Backends submit them; operators look up.

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Device, Error, ErrorKind, Generator, Result, Scalar};

use crate::Tensor;

/// A kernel that fills the outputs of a planned iterator.
pub type IterKernel = fn(&TensorIter) -> Result<()>;

/// One kernel for each dtype that has it.
#[derive(Clone, Copy)]
pub struct Columns<K: 'static>(pub [Option<K>; DType::COUNT]);

impl<K: Copy> Columns<K> {
    /// A kernel that no dtype has.
    pub const NONE: Self = Self([None; DType::COUNT]);

    /// The dtypes that have one.
    pub fn dtypes(&self) -> Vec<DType> {
        DType::ALL.into_iter().filter(|dtype| self.0[dtype.index()].is_some()).collect()
    }

    /// The kernel of a dtype; `name` is what upstream's error calls it.
    ///
    /// # Errors
    /// `NotImplemented`: `"add_stub" not implemented for 'Bool'`.
    #[inline]
    pub fn get(&self, dtype: DType, name: &str) -> Result<K> {
        match self.0[dtype.index()] {
            Some(kernel) => Ok(kernel),
            None => Err(not_implemented(name, dtype)),
        }
    }
}

#[cold]
fn not_implemented(name: &str, dtype: DType) -> Error {
    Error::new(ErrorKind::NotImplemented, format!("\"{name}\" not implemented for '{}'", dtype.cpp_name()))
}

/// The error of a family's table that no linked backend brings.
#[cold]
pub fn no_table(family: &str, device: Device) -> Error {
    Error::new(
        ErrorKind::NotImplemented,
        format!("no linked backend has the '{family}' kernels for device '{device}': enable it in the crate `tensor`"),
    )
}

/// `out = beta * old + alpha * a @ b` over matrices of any strides, those of `old` 0 where it is broadcast. Without an `old` it is
/// `out`; with `beta` 0 its elements do not matter.
pub type GemmKernel =
    fn(out: &Tensor, a: &Tensor, b: &Tensor, old: Option<&Tensor>, alpha: Scalar, beta: Scalar) -> Result<()>;

/// A [`GemmKernel`] for each matrix of a batch: the first dimension counts them.
pub type BatchedGemmKernel = GemmKernel;

/// `out = sum_i a[i] * b[i]` of two vectors of any strides.
pub type DotKernel = fn(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()>;

/// A factorisation or solve of each matrix of a batch, as the kernel says: `outputs` of any strides from `inputs`.
pub type LinalgKernel = fn(outputs: &[&Tensor], inputs: &[&Tensor], flags: [bool; 2]) -> Result<()>;

/// The Fourier transforms of the rows of a contiguous complex `x` (.., n), in place and times `scale`.
pub type FftKernel = fn(x: &Tensor, forward: bool, scale: f64) -> Result<()>;

/// The Fourier transforms, times `scale`, of the rows of `x` into those of the contiguous `out`: forward from real (.., n) to
/// complex (.., n) or its first half (.., n / 2 + 1), or back from that half.
pub type RealFftKernel = fn(out: &Tensor, x: &Tensor, scale: f64) -> Result<()>;

/// Reduces the middle dimension of a contiguous `x` (A, R, B) into a dense `out` of A x B elements.
pub type ReduceKernel = fn(out: &Tensor, x: &Tensor) -> Result<()>;

/// A [`ReduceKernel`] with a number: the correction of a variance, the order of a norm.
pub type ReduceWithKernel = fn(out: &Tensor, x: &Tensor, number: f64) -> Result<()>;

/// A [`ReduceKernel`] with two results: a selected element of each lane, and its index.
pub type SelectingKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor) -> Result<()>;

/// Runs along the middle dimension of a contiguous `x` (A, R, B); `out` has the same shape.
pub type ScanKernel = fn(out: &Tensor, x: &Tensor) -> Result<()>;

/// Joins contiguous matrices of as many rows side by side: `out[r, :] = parts[0][r, :], parts[1][r, :], ..`.
pub type CatKernel = fn(out: &Tensor, parts: &[&Tensor]) -> Result<()>;

/// Reverses the flagged dimensions of `x`; `out` is contiguous and has its shape.
pub type FlipKernel = fn(out: &Tensor, x: &Tensor, flipped: &[bool]) -> Result<()>;

/// Keeps the triangle of each matrix on one side of a diagonal; `out` is contiguous and has the shape of `x`.
pub type TriangleKernel = fn(out: &Tensor, x: &Tensor, diagonal: i64, upper: bool) -> Result<()>;

/// Fills a contiguous 1-d tensor from two numbers: start and step, or start and end.
pub type RangeKernel = fn(out: &Tensor, start: Scalar, other: Scalar) -> Result<()>;

/// Reads the elements that a plan names into `out`, which has the plan's shape.
pub type IndexKernel = fn(out: &Tensor, plan: &IndexPlan) -> Result<()>;

/// Writes `values`, of the plan's shape, to the elements that a plan names, or adds them; in their order.
pub type IndexPutKernel = fn(plan: &IndexPlan, values: &Tensor, accumulate: bool) -> Result<()>;

/// Reads `flat[p + index[p] * strides[dim]]` for each position p of the contiguous `out` and `index`, where p has `strides`
/// along the other dimensions. Indices are checked to lie in `0..size`.
pub type GatherKernel =
    fn(out: &Tensor, flat: &Tensor, index: &Tensor, strides: &[i64], dim: usize, size: i64) -> Result<()>;

/// Writes `src` to the contiguous `out`: along `dim` at `index`, along the others in place. The contiguous `index` has the
/// shape of `src`. Indices are checked.
pub type ScatterKernel = fn(out: &Tensor, index: &Tensor, src: &Tensor, dim: usize) -> Result<()>;

/// The positions of the elements that are not zero, in row-major order: i64 (n, dimensions), column by column.
pub type NonzeroKernel = fn(x: &Tensor) -> Result<Tensor>;

/// The elements of `x` that `mask`, of the same shape, chooses, as a vector.
pub type MaskedSelectKernel = fn(x: &Tensor, mask: &Tensor) -> Result<Tensor>;

/// Replaces the elements of `out` that `mask`, of the same shape, chooses by those of `source`, in row-major order; refuses
/// too short a source.
pub type MaskedScatterKernel = fn(out: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()>;

/// Fills a contiguous row with draws of a distribution with two numbers.
pub type RandomKernel = fn(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()>;

/// Fills a contiguous row with 1 by the probabilities of `p` (f64), else 0; `wide` draws f64 numbers, else f32 ones.
pub type RandomEachKernel = fn(out: &Tensor, p: &Tensor, generator: &Generator, wide: bool) -> Result<()>;

/// A leaky relu of random slopes between `bounds`; writes the result and the slopes (1 where `x` is positive), all contiguous.
pub type RandomSlopesKernel = fn(outs: [&Tensor; 2], x: &Tensor, generator: &Generator, bounds: [f64; 2]) -> Result<()>;

/// The geometry of a convolution from images of `in_channels` to `out_channels`, over three spatial dimensions: those that
/// there are not count as one element. A transposed convolution is the adjoint of one.
#[derive(Clone, Debug)]
pub struct ConvShape {
    /// the number of images
    pub batch: usize,
    /// channels are convolved in this many separate groups
    pub groups: usize,
    /// channels of the images
    pub in_channels: usize,
    /// channels of what comes out
    pub out_channels: usize,
    /// the images' sizes
    pub image: [usize; 3],
    /// the kernel's sizes
    pub kernel: [usize; 3],
    /// sizes of what comes out
    pub result: [usize; 3],
    /// steps in the image from one result to the next
    pub stride: [usize; 3],
    /// elements before the image; negative where some of it is left out
    pub padding: [isize; 3],
    /// steps in the image from one element of the kernel to the next
    pub dilation: [usize; 3],
    /// True if images are (N, D, H, W, C) and weights (out, kd, kh, kw, in / groups) in memory, not (N, C, D, H, W) and
    /// (out, in / groups, kd, kh, kw)
    pub channels_last: bool,
}

/// A product of a [`ConvShape`]'s three contiguous tensors, images `x`, weights `w` and results `y`: the third of two, with
/// a bias for each channel of it. The forward pass is `(y, x, w)`, its adjoint `(x, y, w)`, that of the weights `(w, x, y)`.
pub type ConvKernel = fn(out: &Tensor, a: &Tensor, b: &Tensor, bias: Option<&Tensor>, shape: &ConvShape) -> Result<()>;

/// The geometry of pooling over three spatial dimensions: those that there are not count as one element.
#[derive(Clone, Debug)]
pub struct PoolShape {
    /// images times channels (the planes of (planes, D, H, W)); images alone where channels come last
    pub planes: usize,
    /// 1, or the number of channels of (planes, D, H, W, channels)
    pub channels: usize,
    /// the images' sizes
    pub image: [usize; 3],
    /// sizes of what comes out
    pub result: [usize; 3],
    /// where the elements of a result come from
    pub window: PoolWindow,
}

/// How the windows of pooling lie.
#[derive(Clone, Debug)]
pub enum PoolWindow {
    /// of one size, in even steps
    Fixed {
        /// the window's sizes
        kernel: [usize; 3],
        /// steps from one window to the next
        stride: [usize; 3],
        /// elements before the image
        padding: [usize; 3],
        /// steps from one element of a window to the next
        dilation: [usize; 3],
    },
    /// the image split evenly among the results
    Adaptive,
}

/// What an average is divided by.
#[derive(Clone, Copy, Debug)]
pub enum PoolDivisor {
    /// the window's elements, those of the padding too
    WithPadding,
    /// the window's elements within the image
    Inside,
    /// a number
    Number(i64),
}

/// `values` and `indices` (i64, within a plane) of the largest elements of each window of `x`; contiguous tensors.
pub type MaxPoolKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor, shape: &PoolShape) -> Result<()>;

/// The averages of windows of `x`, or, with `grad` in its place, the gradient of that; contiguous tensors.
pub type AvgPoolKernel = fn(out: &Tensor, x: &Tensor, shape: &PoolShape, divisor: PoolDivisor) -> Result<()>;

/// Sets `out` to 0, and then adds to or overwrites its elements at `indices` of each plane with those of `x`; contiguous
/// tensors.
pub type UnpoolKernel = fn(out: &Tensor, x: &Tensor, indices: &Tensor, shape: &PoolShape, add: bool) -> Result<()>;

/// What attention may look at, and the factor of its products.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// added to the products, (b, h, l, s) of any strides
    pub mask: Option<&'a Tensor>,
    /// True if position i sees positions up to i alone
    pub causal: bool,
    /// the factor of the products
    pub scale: f64,
    /// what the softmax's weights are rounded to before they multiply: the dtype of the tensors as they were given
    pub weights: DType,
}

/// `out = softmax(scale * q @ k.t() + mask) @ v` for (b, h, l, d), (b, h, s, d), (b, h, s, d) whose last dimension has stride
/// 1, and the logarithm of each softmax's divisor (b, h, l).
pub type AttentionKernel =
    fn(out: &Tensor, logsumexp: &Tensor, q: &Tensor, k: &Tensor, v: &Tensor, attention: Attention<'_>) -> Result<()>;

/// The gradients of q, k and v from `[grad, q, k, v, out, logsumexp]`, all but the last one with a last dimension of stride 1.
pub type AttentionBackwardKernel =
    fn(grads: [&Tensor; 3], inputs: [&Tensor; 6], attention: Attention<'_>) -> Result<()>;

pub use crate::generated::kernels::*;
pub use crate::native::indexing::IndexPlan;
pub use crate::native::taps::{ResampleShape, Taps};

/// The gradient along the middle dimension of contiguous (A, R, B) tensors, from that of the result and the result.
pub type ScanBackwardKernel = fn(grad_input: &Tensor, grad: &Tensor, output: &Tensor) -> Result<()>;

/// The arguments of a normalisation of rows beside `x`, a contiguous (M, K, S): each of the M rows has K channels of S
/// elements. Row m has the channels `m % groups * K` and on. In the dtype that is computed in (f32 for f16 and bf16):
/// `weight` and `bias` have groups x K elements, `mean` and `rstd` M.
#[derive(Clone, Copy)]
pub struct RowNorm<'a> {
    /// how many runs of channels the rows take turns with
    pub groups: usize,
    /// factors of the channels
    pub weight: Option<&'a Tensor>,
    /// terms of the channels
    pub bias: Option<&'a Tensor>,
    /// means of the rows: written by the forward kernel, read by the backward one
    pub mean: &'a Tensor,
    /// 1 / sqrt(variance + eps) of the rows
    pub rstd: &'a Tensor,
}

/// `out = (x - mean) * rstd * weight + bias`, with the moments of each row.
pub type RowNormKernel = fn(out: &Tensor, x: &Tensor, norm: RowNorm<'_>, eps: f64) -> Result<()>;

/// The gradients of input (like `x`), weight and bias, those that are wanted.
pub type RowNormBackwardKernel =
    fn(grads: [Option<&Tensor>; 3], grad: &Tensor, x: &Tensor, norm: RowNorm<'_>) -> Result<()>;

/// The arguments of a normalisation of channels beside `x`, a contiguous (N, C, S): C elements each, in the dtype that is
/// computed in (f32 for f16 and bf16).
#[derive(Clone, Copy)]
pub struct ChannelNorm<'a> {
    /// factors
    pub weight: Option<&'a Tensor>,
    /// terms
    pub bias: Option<&'a Tensor>,
    /// running means and variances: updated by the forward kernel in training, read otherwise
    pub running: Option<[&'a Tensor; 2]>,
    /// means and 1 / sqrt(variance + eps) of the batch: written by the forward kernel, read by the backward one; in
    /// training alone
    pub saved: Option<[&'a Tensor; 2]>,
    /// added to variances
    pub eps: f64,
    /// the share of the batch in new running numbers
    pub momentum: f64,
    /// True if numbers are rounded to the dtype of `x` as they are computed: they are kept in it
    pub rounded: bool,
}

/// `out = (x - mean) * invstd * weight + bias`, with the moments of each channel or the running ones.
pub type ChannelNormKernel = fn(out: &Tensor, x: &Tensor, norm: ChannelNorm<'_>) -> Result<()>;

/// The gradients of input (like `x`), weight and bias, those that are wanted.
pub type ChannelNormBackwardKernel =
    fn(grads: [Option<&Tensor>; 3], grad: &Tensor, x: &Tensor, norm: ChannelNorm<'_>) -> Result<()>;

/// What a loss of classes takes beside `x` (N, C, S): `target` i64 (N, S) and `weight` of C elements.
#[derive(Clone, Copy)]
pub struct ClassLoss<'a> {
    /// the class of each element
    pub target: &'a Tensor,
    /// weights of the classes
    pub weight: Option<&'a Tensor>,
    /// 0 for each loss, 1 for their mean, 2 for their sum
    pub reduction: i64,
    /// the class of elements that do not count
    pub ignore_index: i64,
}

/// `out` (N, S) or one element, and the sum of the weights that counted (0 where `out` has each loss).
pub type ClassLossKernel = fn(out: &Tensor, total_weight: &Tensor, x: &Tensor, loss: ClassLoss<'_>) -> Result<()>;

/// The gradient of a [`ClassLossKernel`], a contiguous (N, C, S); `grad` is like its `out`.
pub type ClassLossBackwardKernel =
    fn(grad_input: &Tensor, grad: &Tensor, total_weight: &Tensor, loss: ClassLoss<'_>) -> Result<()>;

/// Says something of a tensor of any strides.
pub type PredicateKernel = fn(x: &Tensor) -> Result<bool>;

/// `out[indices[i], :] += grad[i, :] * scale[indices[i]]` over an `out` (V, D) of zeros, for contiguous tensors. Indices out
/// of range and `padding_idx` are left out. `scale` is 1, or 1 / how often an index occurs.
pub type LookupBackwardKernel =
    fn(out: &Tensor, grad: &Tensor, indices: &Tensor, padding_idx: i64, by_frequency: bool) -> Result<()>;

/// `values` and `indices` (rows, k) of the first elements in the order of the rows of `x` (rows, n), all contiguous. `true`
/// puts the largest first.
pub type SortKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor, descending: bool) -> Result<()>;

/// `values` and `indices` (rows) of the `k`-th smallest element of each row of `x` (rows, n), counted from 1.
pub type KthValueKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor, k: usize) -> Result<()>;

/// `values` and `indices` (rows) of the median of each row of `x` (rows, n), where no-numbers may be `skipped`.
pub type MedianKernel = fn(values: &Tensor, indices: &Tensor, x: &Tensor, skipped: bool) -> Result<()>;

/// The distinct rows of a contiguous `x` (n, m), the position of each row among them, and how often each occurs; sorted, or
/// as they follow each other.
pub type UniqueKernel = fn(x: &Tensor, consecutive: bool) -> Result<[Tensor; 3]>;

/// The places of `x` (rows, m) in the sorted rows of `sequence` (rows or 1, n), in the order of `sorter`; contiguous.
pub type SearchKernel =
    fn(out: &Tensor, sequence: &Tensor, x: &Tensor, sorter: Option<&Tensor>, right: bool) -> Result<()>;

/// `out = x is one of test`, or its opposite; contiguous.
pub type IsinKernel = fn(out: &Tensor, x: &Tensor, test: &Tensor, invert: bool) -> Result<()>;

/// How a segment is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentReduction {
    /// the largest element
    Max,
    /// the smallest element
    Min,
    /// the mean
    Mean,
    /// the sum
    Sum,
    /// the product
    Prod,
}

/// Segments of the middle dimension of (outer, along, inner), and what becomes of them.
#[derive(Clone, Copy)]
pub struct Segments<'a> {
    /// where each begins and the last ends: i64 (outer, segments + 1)
    pub bounds: &'a Tensor,
    /// the reduction
    pub reduction: SegmentReduction,
    /// the number that each reduction starts with, where one is given
    pub initial: Option<f64>,
}

/// Reduces segments of `x` (outer, along, inner) into `out` (outer, segments, inner), both contiguous.
pub type SegmentKernel = fn(out: &Tensor, x: &Tensor, segments: Segments<'_>) -> Result<()>;

/// Writes the gradients of a [`SegmentKernel`] into zeros `out`, from the gradient, the result and `x`, all contiguous.
pub type SegmentBackwardKernel = fn(out: &Tensor, grad_output_x: [&Tensor; 3], segments: Segments<'_>) -> Result<()>;

/// The bins of a histogram.
#[derive(Clone, Copy)]
pub struct Bins<'a> {
    /// the first and the last edge
    pub range: [f64; 2],
    /// True if the edges are evenly spaced
    pub even: bool,
    /// all edges, one more than bins
    pub edges: Option<&'a Tensor>,
}

/// `out[i]` is how many elements of `x`, by their weights, lie in bin i; contiguous.
pub type HistogramKernel = fn(out: &Tensor, x: &Tensor, weight: Option<&Tensor>, bins: Bins<'_>) -> Result<()>;

/// `out[x[i]] += weights[i]`, or 1, from zeros; `x` is i64, and fits.
pub type BincountKernel = fn(out: &Tensor, x: &Tensor, weights: Option<&Tensor>) -> Result<()>;

/// A parameter with its gradient and the state of Adam; contiguous tensors of one dtype.
#[derive(Clone, Copy)]
pub struct AdamSlot<'a> {
    /// written
    pub param: &'a Tensor,
    /// read
    pub grad: &'a Tensor,
    /// the running average of gradients, written
    pub exp_avg: &'a Tensor,
    /// the running average of squares, written
    pub exp_avg_sq: &'a Tensor,
    /// the largest of these so far, written; divides in its place
    pub max_exp_avg_sq: Option<&'a Tensor>,
    /// the number of the step, from 1
    pub step: f64,
}

/// The numbers of a step of Adam.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct AdamStep {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub weight_decay: f64,
    pub eps: f64,
    /// True if the decay is of the parameter itself (AdamW), not an L2 penalty
    pub decoupled: bool,
    pub maximize: bool,
}

/// A step of Adam of many parameters.
pub type AdamKernel = fn(slots: &[AdamSlot<'_>], step: &AdamStep) -> Result<()>;

/// A parameter with its gradient and its momentum; contiguous tensors of one dtype.
#[derive(Clone, Copy)]
pub struct SgdSlot<'a> {
    /// written
    pub param: &'a Tensor,
    /// read
    pub grad: &'a Tensor,
    /// written
    pub momentum_buffer: Option<&'a Tensor>,
}

/// The numbers of a step of gradient descent.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct SgdStep {
    pub lr: f64,
    pub momentum: f64,
    pub dampening: f64,
    pub weight_decay: f64,
    pub nesterov: bool,
    pub maximize: bool,
    /// True if the momentum starts with the gradient
    pub first: bool,
}

/// A step of gradient descent of many parameters.
pub type SgdKernel = fn(slots: &[SgdSlot<'_>], step: &SgdStep) -> Result<()>;

/// Fills images `out` with elements, or weighted sums of elements, of images `x`; contiguous (planes, D, H, W, channels).
pub type ResampleKernel = fn(out: &Tensor, x: &Tensor, shape: &ResampleShape) -> Result<()>;

/// Images (N, C, ..) and points of a grid in them (N, points, coordinates).
#[derive(Clone, Debug)]
pub struct GridShape {
    /// images
    pub batch: usize,
    /// their channels
    pub channels: usize,
    /// the images' sizes, two or three
    pub image: Vec<usize>,
    /// points of each image
    pub points: usize,
    /// 0 between two neighbours, 1 the nearest one, 2 between four
    pub mode: i64,
    /// what lies outside: 0 zeros, 1 the edge, 2 the image mirrored
    pub padding: i64,
    /// -1 and 1 are the centres of the outer elements, not their outer edges
    pub align_corners: bool,
}

/// `out[n, c, p]`: images `x` (N, C, ..) at the points of `grid`; contiguous tensors.
pub type GridSampleKernel = fn(out: &Tensor, x: &Tensor, grid: &Tensor, shape: &GridShape) -> Result<()>;

/// The gradients of image and grid, those that are wanted, from `[grad, x, grid]`; contiguous tensors.
pub type GridSampleBackwardKernel =
    fn(grads: [Option<&Tensor>; 2], inputs: [&Tensor; 3], shape: &GridShape) -> Result<()>;

/// The `p`-distances (B, P, R) of the rows of contiguous (B, P, M) and (B, R, M).
pub type CdistKernel = fn(out: &Tensor, x1: &Tensor, x2: &Tensor, p: f64) -> Result<()>;

/// The gradient of a [`CdistKernel`] with respect to `x1`, from `[grad, x1, x2, distances]`; contiguous tensors.
pub type CdistBackwardKernel = fn(out: &Tensor, inputs: [&Tensor; 4], p: f64) -> Result<()>;

/// The `p`-distances of each row of a contiguous (N, M) to those after it.
pub type PdistKernel = fn(out: &Tensor, x: &Tensor, p: f64) -> Result<()>;

/// The gradient of a [`PdistKernel`], from `[grad, x, distances]`; contiguous tensors.
pub type PdistBackwardKernel = fn(out: &Tensor, inputs: [&Tensor; 3], p: f64) -> Result<()>;

/// What a loss of one class takes beside `x` (N, C).
#[derive(Clone, Copy)]
pub struct MarginLoss<'a> {
    /// the class of each sample, i64 (N)
    pub target: &'a Tensor,
    /// weights of the classes
    pub weight: Option<&'a Tensor>,
    /// the exponent, 1 or 2
    pub p: i64,
    /// how far scores should be apart
    pub margin: f64,
    /// 0 for each loss, 1 for their mean, 2 for their sum
    pub reduction: i64,
}

/// `out` (N) or one element from scores `x` (N, C).
pub type MarginLossKernel = fn(out: &Tensor, x: &Tensor, loss: MarginLoss<'_>) -> Result<()>;

/// The gradient of a [`MarginLossKernel`], a contiguous (N, C); `grad` has one element or N.
pub type MarginLossBackwardKernel = fn(out: &Tensor, grad: &Tensor, x: &Tensor, loss: MarginLoss<'_>) -> Result<()>;

/// `out` (N) or one element, and 1 where targets are, from contiguous scores and i64 targets (N, C).
pub type MultilabelLossKernel =
    fn(out: &Tensor, is_target: &Tensor, x: &Tensor, target: &Tensor, reduction: i64) -> Result<()>;

/// The gradient of a [`MultilabelLossKernel`], from `[grad, x, target, is_target]`.
pub type MultilabelLossBackwardKernel = fn(out: &Tensor, inputs: [&Tensor; 4], reduction: i64) -> Result<()>;

/// Windows at random places, over two or three dimensions.
#[derive(Clone, Debug)]
pub struct FractionalShape {
    /// images times channels
    pub planes: usize,
    /// the images' sizes
    pub image: Vec<usize>,
    /// sizes of what comes out
    pub result: Vec<usize>,
    /// the windows' sizes
    pub kernel: Vec<usize>,
}

/// The largest elements of windows of `x`, and their places in the planes (i64); `samples` has a number for each plane and
/// dimension. Contiguous tensors.
pub type FractionalPoolKernel =
    fn(values: &Tensor, indices: &Tensor, x: &Tensor, samples: &Tensor, shape: &FractionalShape) -> Result<()>;

/// Bags of indices of rows.
#[derive(Clone, Copy)]
pub struct Bags<'a> {
    /// where bags start, and where the last one ends
    pub starts: &'a [i64],
    /// all indices, i64
    pub indices: &'a Tensor,
    /// a factor for each index
    pub weights: Option<&'a Tensor>,
    /// 0 sums, 1 averages, 2 takes the largest elements
    pub mode: i64,
    /// an index that counts nowhere, or -1
    pub padding_idx: i64,
}

/// `out` (bags, D) from the rows of `table` (V, D), and the indices of the largest elements in `places` (i64, like `out`).
pub type EmbeddingBagKernel = fn(out: &Tensor, places: &Tensor, table: &Tensor, bags: Bags<'_>) -> Result<()>;

/// The sequences of a connectionist temporal classification.
#[derive(Clone, Debug)]
pub struct CtcShape {
    /// the labels of each target sequence
    pub labels: Vec<Vec<usize>>,
    /// how long each input sequence is
    pub input_lengths: Vec<usize>,
    /// states of the longest target: its labels, and blanks around each
    pub states: usize,
    /// the class of blanks
    pub blank: usize,
    /// True if sequences that cannot be have no gradient
    pub zero_infinity: bool,
}

/// Negative log likelihoods (N) and the logarithms of forward variables (N, T, states) from contiguous log probabilities
/// (T, N, C).
pub type CtcKernel = fn(losses: &Tensor, alpha: &Tensor, log_probs: &Tensor, shape: &CtcShape) -> Result<()>;

/// The gradient of a [`CtcKernel`] (T, N, C), from contiguous `[grad, log_probs, losses, alpha]`.
pub type CtcBackwardKernel = fn(out: &Tensor, inputs: [&Tensor; 4], shape: &CtcShape) -> Result<()>;
