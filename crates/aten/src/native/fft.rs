//! Fourier transforms along dimensions: where results lie, and how dimensions become the rows that kernels transform.
//!
//! A result is dense with its transformed dimensions innermost, as PyTorch's is. Each dimension in turn is copied innermost
//! and transformed in place, the last one of the result's memory in the result itself.

use smallvec::SmallVec;
use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, check, check_index, check_not_implemented, check_type};

use crate::Tensor;
use crate::composite::copy::copy_elements;
use crate::composite::view::permute;
use crate::kernels::{self, FftKernel};
use crate::out::{Out, Spec};

/// Dimensions, outermost first.
type Order = SmallVec<[usize; 6]>;

/// The dimensions of a call, each once.
fn dims_of(dim: &[i64], ndim: usize) -> Result<Order> {
    let mut dims = Order::new();
    for &d in dim {
        check_index!(ndim > 0, "Dimension specified as {d} but tensor has no dimensions");
        let d = wrap_dim(d, ndim)?;
        check!(!dims.contains(&d), "FFT dims must be unique");
        dims.push(d);
    }
    Ok(dims)
}

/// The dtypes that have transforms, by their real ones.
fn check_dtype(dtype: DType) -> Result<()> {
    let real = dtype.to_real();
    check_not_implemented!(
        matches!(real, DType::F32 | DType::F64),
        "MKL FFT doesn't support tensors of type: {}",
        real.cpp_name()
    );
    Ok(())
}

fn check_complex(x: &Tensor) -> Result<()> {
    check!(x.is_complex(), "Only supports complex dtypes, but found: {}", x.dtype().cpp_name());
    check_dtype(x.dtype())
}

fn check_points(n: i64) -> Result<()> {
    check!(n > 0, "Invalid number of data points ({n}) specified");
    Ok(())
}

/// What results are multiplied by: nothing, or the inverse of (the root of) how many elements are transformed together.
fn scale(normalization: i64, elements: i64) -> f64 {
    match normalization {
        0 => 1.0,
        1 => 1.0 / (elements as f64).sqrt(),
        _ => 1.0 / elements as f64,
    }
}

fn elements(sizes: &[i64], dims: &[usize]) -> i64 {
    dims.iter().map(|&d| sizes[d]).product()
}

/// The order of dimensions in a result's memory: those that stay by falling strides of the input, then the transformed ones
/// likewise; but for the last `fixed` of them, which stay where they were named.
fn layout(strides: &[i64], dims: &[usize], fixed: usize) -> Order {
    let mut order: Order = (0..strides.len()).filter(|d| !dims.contains(d)).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    let mut transformed = Order::from_slice(dims);
    let sorted = dims.len().saturating_sub(fixed);
    transformed[..sorted].sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    order.extend(transformed);
    order
}

/// The strides of a dense tensor whose dimensions lie in this order; those of an empty one with huge sizes end at the largest
/// number.
fn strides_in(order: &[usize], sizes: &[i64]) -> Dims {
    let mut strides = Dims::from_slice(sizes);
    let mut step = 1i64;
    for &d in order.iter().rev() {
        strides[d] = step;
        step = step.saturating_mul(sizes[d].max(1));
    }
    strides
}

/// `x` with its dimensions in this order: contiguous if they lie so.
fn in_order(x: &Tensor, order: &[usize]) -> Result<Tensor> {
    let order: SmallVec<[i64; 6]> = order.iter().map(|&d| d as i64).collect();
    permute(x, &order)
}

/// A fresh tensor whose dimensions lie in this order.
fn fresh(order: &[usize], sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    Tensor::new_strided(Dims::from_slice(sizes), strides_in(order, sizes), like.dtype(), like.device())
}

/// Transforms the dimensions `dims` of the complex `x`, one after the other, into `out`, whose dimensions lie in `order`.
fn transform(
    kernel: FftKernel,
    out: &Tensor,
    order: &[usize],
    x: &Tensor,
    dims: &[usize],
    forward: bool,
    scale: f64,
) -> Result<()> {
    let mut current = x.clone();
    for (i, &d) in dims.iter().enumerate() {
        let is_last = i + 1 == dims.len();
        let mut own: Order = order.iter().copied().filter(|&other| other != d).collect();
        own.push(d);
        let into = if is_last && own.as_slice() == order { out.clone() } else { fresh(&own, x.sizes(), x)? };
        copy_elements(&into, &current)?;
        kernel(&in_order(&into, &own)?, forward, if is_last { scale } else { 1.0 })?;
        current = into;
    }
    if current.is_same(out) { Ok(()) } else { copy_elements(out, &current) }
}

/// Complex to complex.
pub fn _fft_c2c(out: Out<'_>, self_: &Tensor, dim: &[i64], normalization: i64, forward: bool) -> Result<Tensor> {
    let x = &self_.pinned();
    check_complex(x)?;
    let dims = dims_of(dim, x.dim())?;
    let order = layout(x.strides(), &dims, 0);
    let strides = Some(strides_in(&order, x.sizes()));
    let spec = Spec { sizes: Dims::from_slice(x.sizes()), strides, dtype: x.dtype(), device: x.device() };
    let slot = out.prepare(0, spec, &[x])?;
    if !slot.is_meta() && x.numel() > 0 {
        let kernel = kernels::fft(x.device())?.complex_rows.get(x.dtype().to_real(), "_fft_c2c")?;
        let scale = scale(normalization, elements(x.sizes(), &dims));
        let last = order.len() - dims.len();
        transform(kernel, &slot.tensor, &order, x, &order[last..], forward, scale)?;
    }
    slot.finish()
}

/// Real to complex: all of the last dimension, or its first half.
pub fn _fft_r2c(out: Out<'_>, self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
    let x = &self_.pinned();
    check_type!(x.is_floating_point(), "Only supports floating-point dtypes, but found: {}", x.dtype().cpp_name());
    check_dtype(x.dtype())?;
    let dims = dims_of(dim, x.dim())?;
    let Some((&last, others)) = dims.split_last() else {
        tensor_core::bail!(Runtime, "_fft_r2c must transform at least one axis")
    };
    check_points(x.sizes()[last])?;
    let mut sizes = Dims::from_slice(x.sizes());
    if onesided {
        sizes[last] = sizes[last] / 2 + 1;
    }
    let order = layout(x.strides(), &dims, 1);
    let strides = Some(strides_in(&order, &sizes));
    let spec = Spec { sizes: sizes.clone(), strides, dtype: x.dtype().to_complex(), device: x.device() };
    let slot = out.prepare(0, spec, &[x])?;
    if !slot.is_meta() && x.numel() > 0 {
        let table = kernels::fft(x.device())?;
        let real = table.real_to_complex.get(x.dtype(), "_fft_r2c")?;
        let scale = scale(normalization, elements(x.sizes(), &dims));
        if others.is_empty() {
            real(&in_order(&slot.tensor, &order)?, &in_order(x, &order)?, scale)?;
        } else {
            let complex = table.complex_rows.get(x.dtype(), "_fft_r2c")?;
            let half = fresh(&order, &sizes, &slot.tensor)?;
            real(&in_order(&half, &order)?, &in_order(x, &order)?, 1.0)?;
            transform(complex, &slot.tensor, &order, &half, others, true, scale)?;
        }
    }
    slot.finish()
}

/// Complex to real, from the first half of the last dimension.
pub fn _fft_c2r(out: Out<'_>, self_: &Tensor, dim: &[i64], normalization: i64, last_dim_size: i64) -> Result<Tensor> {
    let x = &self_.pinned();
    check_complex(x)?;
    let dims = dims_of(dim, x.dim())?;
    let Some((&last, others)) = dims.split_last() else {
        tensor_core::bail!(Runtime, "_fft_c2r must transform at least one axis")
    };
    check_points(last_dim_size)?;
    let half = last_dim_size / 2 + 1;
    let given = x.sizes()[last];
    check!(given >= half, "_fft_c2r: {last_dim_size} elements need {half} along dimension {last}, got {given}");
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[last] = last_dim_size;
    // The other dimensions come first, and decide how the input of the last one lies.
    let inner = (!others.is_empty()).then(|| layout(x.strides(), others, 0));
    let order = match &inner {
        Some(inner) => layout(&strides_in(inner, x.sizes()), &[last], 1),
        None => layout(x.strides(), &[last], 1),
    };
    let strides = Some(strides_in(&order, &sizes));
    let spec = Spec { sizes: sizes.clone(), strides, dtype: x.dtype().to_real(), device: x.device() };
    let slot = out.prepare(0, spec, &[x])?;
    if !slot.is_meta() && sizes.iter().all(|&n| n > 0) {
        let table = kernels::fft(x.device())?;
        let real = table.complex_to_real.get(x.dtype().to_real(), "_fft_c2r")?;
        let scale = scale(normalization, elements(&sizes, &dims));
        let mut x = crate::composite::view::slice(x, last as i64, Some(0), Some(half), 1)?;
        if let Some(inner) = inner {
            let complex = table.complex_rows.get(x.dtype().to_real(), "_fft_c2r")?;
            let between = fresh(&inner, x.sizes(), &x)?;
            transform(complex, &between, &inner, &x, &inner[inner.len() - others.len()..], false, 1.0)?;
            x = between;
        }
        real(&in_order(&slot.tensor, &order)?, &in_order(&x, &order)?, scale)?;
    }
    slot.finish()
}
