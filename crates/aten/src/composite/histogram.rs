//! Counts of points by where they lie in a box of bins, made of searches and sums.

use tensor_core::strides::show;
use tensor_core::{DType, MemoryFormat, Result, check, check_not_implemented};

use crate::{Tensor, ops};

fn check_points(x: &Tensor, bins: usize, weight: Option<&Tensor>) -> Result<()> {
    check!(x.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got {}", x.dim());
    let n = x.size(-1)?;
    check!(
        bins as i64 == n,
        "torch.histogramdd: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {bins}"
    );
    let Some(weight) = weight else { return Ok(()) };
    check!(
        weight.dtype() == x.dtype(),
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got \
         input({}), and weight({})",
        x.dtype().c_name(),
        weight.dtype().c_name()
    );
    let outer = &x.sizes()[..x.dim() - 1];
    check!(
        weight.sizes() == outer || (weight.dim() == 0 && outer == [1]),
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its \
         innermost dimension, but got input with shape {} and weight with shape {}",
        show(x.sizes()),
        show(weight.sizes())
    );
    Ok(())
}

fn check_dtype(x: &Tensor) -> Result<()> {
    check_not_implemented!(x.is_floating_point(), "\"histogramdd\" not implemented for '{}'", x.dtype().cpp_name());
    Ok(())
}

/// The counts of points (.., n) in the box that n vectors of edges make.
fn count(x: &Tensor, edges: &[&Tensor], weight: Option<&Tensor>, density: bool) -> Result<Tensor> {
    check_dtype(x)?;
    let n = edges.len() as i64;
    let points = ops::reshape(x, &[-1, n])?;
    let total = points.size(0)?;
    let device = Some(x.device());
    let mut place = ops::zeros(&[total], Some(DType::I64), None, device, None)?;
    let mut inside = ops::ones(&[total], Some(DType::Bool), None, device, None)?;
    let mut sizes = Vec::with_capacity(edges.len());
    for (d, edges) in edges.iter().enumerate() {
        let bins = edges.numel() - 1;
        sizes.push(bins);
        let column = ops::contiguous(&ops::select_int(&points, 1, d as i64)?, MemoryFormat::Contiguous)?;
        let edges = ops::contiguous(edges, MemoryFormat::Contiguous)?;
        let above = ops::ge(&column, &ops::select_int(&edges, 0, 0)?)?;
        let below = ops::le(&column, &ops::select_int(&edges, 0, -1)?)?;
        inside = ops::logical_and(&inside, &ops::logical_and(&above, &below)?)?;
        // The last bin has its upper edge too.
        let at = ops::searchsorted(&edges, &column, false, true, None, None)?;
        let at = ops::clamp(&ops::sub_scalar(&at, 1, 1)?, Some(0.into()), Some((bins - 1).max(0).into()))?;
        place = ops::add(&ops::mul_scalar(&place, bins)?, &at, 1)?;
    }
    let weights = match weight {
        Some(weight) => ops::reshape(weight, &[-1])?,
        None => ops::ones(&[total], Some(x.dtype()), None, device, None)?,
    };
    // What lies outside counts nothing, somewhere.
    let outside = ops::logical_not(&inside)?;
    let place = ops::masked_fill_scalar(&place, &outside, 0)?;
    let weights = ops::masked_fill_scalar(&weights, &outside, 0)?;
    let flat = ops::zeros(&[sizes.iter().product()], Some(x.dtype()), None, device, None)?;
    let mut hist = ops::reshape(&ops::index_add(&flat, 0, &place, &weights, 1)?, &sizes)?;
    if density {
        hist = ops::div(&hist, &ops::sum(&hist, None)?)?;
        for (d, edges) in edges.iter().enumerate() {
            let widths = ops::diff(edges, 1, 0, None, None)?;
            let mut shape = vec![1; sizes.len()];
            shape[d] = sizes[d];
            hist = ops::div(&hist, &ops::reshape(&widths, &shape)?)?;
        }
    }
    Ok(hist)
}

/// The edges of even bins in a box: the given one, or that of the points.
pub fn _histogramdd_bin_edges(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    _density: bool,
) -> Result<Vec<Tensor>> {
    check!(
        self_.dim() >= 2 && self_.size(-1)? == bins.len() as i64,
        "histogramdd: The size of bins must be equal to the innermost dimension of the input."
    );
    check_points(self_, bins.len(), weight)?;
    check_dtype(self_)?;
    for (d, &bins) in bins.iter().enumerate() {
        check!(bins > 0, "torch.histogram(): bins must be > 0, but got {bins} for dimension {d}");
    }
    let n = bins.len();
    if let Some(range) = range {
        check!(
            range.len() == 2 * n,
            "torch.histogramdd: for a {n}-dimensional histogram range should have {} elements, but got {}",
            2 * n,
            range.len()
        );
    }
    let points = ops::reshape(self_, &[-1, n as i64])?;
    let mut edges = Vec::with_capacity(n);
    for (d, &bins) in bins.iter().enumerate() {
        let (mut low, mut high) = match range {
            Some(range) => (range[2 * d], range[2 * d + 1]),
            None if points.numel() == 0 || points.is_meta() => (0.0, 1.0),
            None => {
                let column = ops::select_int(&points, 1, d as i64)?;
                (ops::item(&ops::min(&column)?)?.to_f64(), ops::item(&ops::max(&column)?)?.to_f64())
            }
        };
        check!(
            low.is_finite() && high.is_finite(),
            "torch.histogramdd: dimension {d}'s range [{low}, {high}] is not finite"
        );
        check!(
            low <= high,
            "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {d}"
        );
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        edges.push(ops::linspace(low, high, bins + 1, Some(self_.dtype()), None, Some(self_.device()), None)?);
    }
    Ok(edges)
}

/// The counts of points in even bins of a box.
pub fn _histogramdd_from_bin_cts(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    let edges = _histogramdd_bin_edges(self_, bins, range, weight, density)?;
    count(self_, &edges.iter().collect::<Vec<_>>(), weight, density)
}

/// The counts of points between given edges.
pub fn _histogramdd_from_bin_tensors(
    self_: &Tensor,
    bins: &[&Tensor],
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    check_points(self_, bins.len(), weight)?;
    for (d, edges) in bins.iter().enumerate() {
        check!(
            edges.dtype() == self_.dtype(),
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and \
             bins for dimension {d} with dtype {}",
            self_.dtype().c_name(),
            edges.dtype().c_name()
        );
        check!(
            edges.dim() == 1,
            "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for \
             dimension {d}",
            edges.dim()
        );
        check!(
            edges.numel() > 0,
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for \
             dimension {d}"
        );
    }
    count(self_, bins, weight, density)
}

/// The counts of points in even bins of a box, and the edges.
pub fn histogramdd(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let hist = ops::_histogramdd_from_bin_cts(self_, bins, range, weight, density)?;
    let edges = ops::_histogramdd_bin_edges(self_, bins, range, weight, density)?;
    Ok((hist, edges))
}

/// The counts of points in as many even bins along each dimension, and the edges.
pub fn histogramdd_int_bins(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    histogramdd(self_, &vec![bins; self_.size(-1)?.max(0) as usize], range, weight, density)
}

/// The counts of points between given edges, and those.
pub fn histogramdd_tensor_list_bins(
    self_: &Tensor,
    bins: &[&Tensor],
    _range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let hist = ops::_histogramdd_from_bin_tensors(self_, bins, weight, density)?;
    Ok((hist, bins.iter().copied().cloned().collect()))
}
