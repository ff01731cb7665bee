//! Counts of elements by value.

use tensor_core::strides::show;
use tensor_core::{DType, MemoryFormat, Result, Scalar, bail, check, check_type};

use crate::kernels::{self, Bins};
use crate::out::{Out, Spec, resize_output};
use crate::{Tensor, ops};

fn dense(x: &Tensor) -> Result<Tensor> {
    ops::contiguous(x, MemoryFormat::Contiguous)
}

/// The range of the elements where none is given; widened by `margin` where it is a point.
fn range_of(name: &str, x: &Tensor, given: [f64; 2], margin: f64) -> Result<[f64; 2]> {
    let [mut low, mut high] = given;
    if low == high && x.numel() > 0 {
        low = ops::item(&ops::min(x)?)?.to_f64();
        high = ops::item(&ops::max(x)?)?.to_f64();
    }
    if low == high {
        (low, high) = (low - margin, high + margin);
    }
    check!(low.is_finite() && high.is_finite(), "{name} [{}, {}] is not finite", Brief(low), Brief(high));
    Ok([low, high])
}

/// A number as C++ streams print it.
struct Brief(f64);

impl std::fmt::Display for Brief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_nan() {
            f.write_str(if self.0.is_sign_negative() { "-nan" } else { "nan" })
        } else {
            self.0.fmt(f)
        }
    }
}

/// The counts of elements in even bins between `min` and `max`, or between the least and the largest where these are equal.
pub fn histc(out: Out<'_>, self_: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    check!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    check_type!(!self_.is_complex(), "aminmax not implemented for {}", self_.dtype().cpp_name());
    let (low, high) = (min.to_f64(), max.to_f64());
    check!(low <= high || low.is_nan() || high.is_nan(), "torch.histc: max must be larger than min");
    let slot = out.prepare(0, Spec::like(&[bins], self_), &[self_])?;
    if slot.is_meta() {
        return slot.finish();
    }
    let kernel = kernels::histogram(self_.device())?.histogram.get(self_.dtype(), "histogram_cpu")?;
    let range = range_of("torch.histc: range of", self_, [low, high], 1.0)?;
    kernel(&slot.tensor, &dense(self_)?, None, Bins { range, even: true, edges: None })?;
    slot.finish()
}

/// How often each integer occurs, or the sum of its weights; at least for the integers below `minlength`.
pub fn bincount(out: Out<'_>, self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    if self_.is_meta() {
        bail!(NotImplemented, "bincount: the shape of the result follows from elements, which meta tensors lack");
    }
    if !self_.dtype().is_integral(false) {
        bail!(NotImplemented, "\"bincount_cpu\" not implemented for '{}'", self_.dtype().cpp_name());
    }
    check!(minlength >= 0, "minlength should be >= 0");
    let empty = self_.dim() == 1 && self_.numel() == 0;
    let least = |x: &Tensor| Ok::<_, tensor_core::Error>(ops::item(&ops::min(x)?)?.to_i64());
    check!(
        empty || (self_.dim() == 1 && least(self_)? >= 0),
        "bincount only supports 1-d non-negative integral inputs."
    );
    if let Some(weights) = weights {
        check!(
            empty || (weights.dim() == 1 && weights.numel() == self_.numel()),
            "weights should be 1-d and have the same length as input"
        );
    }
    // Without elements there is nothing to weigh.
    let weights = weights.filter(|_| !empty);
    let dtype = match weights {
        None => DType::I64,
        Some(weights) if weights.dtype() == DType::F32 => DType::F32,
        Some(_) => DType::F64,
    };
    let most = if empty { -1 } else { ops::item(&ops::max(self_)?)?.to_i64() };
    let Some(length) = most.checked_add(1) else { bail!(Runtime, "bincount: the integer {most} is too large") };
    let result = Tensor::new_dense(&[length.max(minlength)], dtype, self_.device())?;
    let cast = |x: &Tensor, dtype| {
        let x = dense(x)?;
        if x.dtype() == dtype { Ok(x) } else { ops::_to_copy(&x, Some(dtype), None, None, None, false, None) }
    };
    let x = cast(self_, DType::I64)?;
    let weights = weights.map(|weights| cast(weights, dtype)).transpose()?;
    let kernel = kernels::histogram(self_.device())?.bincount.get(dtype, "bincount_cpu")?;
    kernel(&result, &x, weights.as_ref())?;
    let Some(target) = out.target(0) else { return Ok(result) };
    check!(
        target.dtype() == dtype,
        "Expected out tensor to have dtype {}, but got {} instead",
        dtype.c_name(),
        target.dtype().c_name()
    );
    if target.sizes() != result.sizes() {
        resize_output(target, result.sizes(), result.strides())?;
    }
    crate::composite::copy::copy_(target, &result, false)?;
    Ok(Tensor::clone(target))
}

fn check_histogram(x: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    let Some(weight) = weight else { return Ok(()) };
    check!(
        weight.dtype() == x.dtype(),
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got \
         input({}), and weight({})",
        x.dtype().c_name(),
        weight.dtype().c_name()
    );
    check!(
        weight.numel() == x.numel(),
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its \
         innermost dimension, but got input with shape {} and weight with shape {}",
        show(&[x.numel(), 1]),
        show(&[weight.numel()])
    );
    Ok(())
}

/// The counts of the elements between `edges`, even or not; as a density if asked for.
fn count(
    out: Out<'_>,
    x: &Tensor,
    edges: &Tensor,
    weight: Option<&Tensor>,
    (even, density): (bool, bool),
) -> Result<(Tensor, Tensor)> {
    let bins = edges.numel() - 1;
    let hist = out.prepare(0, Spec::like(&[bins], x), &[x, edges])?;
    let bin_edges = out.prepare(1, Spec::like(&[bins + 1], x), &[x, edges])?;
    if !hist.is_meta() {
        let kernel = kernels::histogram(x.device())?.histogram.get(x.dtype(), "histogramdd")?;
        let edges = dense(edges)?;
        let end = |i: i64| Ok::<_, tensor_core::Error>(ops::item(&ops::select_int(&edges, 0, i)?)?.to_f64());
        let range = [end(0)?, end(-1)?];
        let weight = weight.map(dense).transpose()?;
        kernel(&hist.tensor, &dense(x)?, weight.as_ref(), Bins { range, even, edges: Some(&edges) })?;
        if density {
            let widths = ops::sub(&ops::narrow(&edges, 0, 1, bins)?, &ops::narrow(&edges, 0, 0, bins)?, 1)?;
            let share = ops::div(&hist.tensor, &ops::sum(&hist.tensor, None)?)?;
            crate::composite::copy::copy_(&hist.tensor, &ops::div(&share, &widths)?, false)?;
        }
        crate::composite::copy::copy_(&bin_edges.tensor, &edges, false)?;
    }
    Ok((hist.finish()?, bin_edges.finish()?))
}

/// The counts of the elements between given edges, and the edges.
pub fn histogram_bins_tensor(
    out: Out<'_>,
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    check!(
        bins.dtype() == self_.dtype(),
        "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and bins \
         for dimension 0 with dtype {}",
        self_.dtype().c_name(),
        bins.dtype().c_name()
    );
    check!(
        bins.dim() == 1,
        "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for dimension 0",
        bins.dim()
    );
    check!(
        bins.numel() > 0,
        "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0"
    );
    check_histogram(self_, weight)?;
    count(out, self_, bins, weight, (false, density))
}

/// The counts of the elements in even bins of a range, and the bins' edges.
pub fn histogram_bin_ct(
    out: Out<'_>,
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    check!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    check_histogram(self_, weight)?;
    let given = match range {
        Some(&[low, high]) => {
            check!(
                low <= high,
                "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension 0"
            );
            Some([low, high])
        }
        Some(range) => bail!(
            Runtime,
            "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {}",
            range.len()
        ),
        None => None,
    };
    if !self_.is_meta() {
        kernels::histogram(self_.device())?.histogram.get(self_.dtype(), "histogramdd")?;
    }
    let start = match given {
        Some([low, high]) if low == high => [low - 0.5, high + 0.5],
        Some(range) => range,
        None if self_.numel() == 0 => [0.0, 1.0],
        None if self_.is_meta() => [0.0, 1.0],
        None => range_of("torch.histogramdd: dimension 0's range", self_, [0.0, 0.0], 0.5)?,
    };
    check!(
        start.iter().all(|edge| edge.is_finite()),
        "torch.histogramdd: dimension 0's range [{}, {}] is not finite",
        Brief(start[0]),
        Brief(start[1])
    );
    let edges = ops::linspace(start[0], start[1], bins + 1, Some(self_.dtype()), None, Some(self_.device()), None)?;
    count(out, self_, &edges, weight, (true, density))
}
