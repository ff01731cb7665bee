//! Rarer distributions, samples of categories, and the leaky relu of random slopes: PyTorch's own numbers from the same seed.

use tensor_core::stream::Streamed;
use tensor_core::strides::{Dims, show};
use tensor_core::{DType, Generator, MemoryFormat, Result, Scalar, check, check_not_implemented};

use super::random::{fill_by, row, stream};
use crate::{Tensor, kernels, ops};

/// Cauchy numbers of a median and a scale, in place.
pub fn cauchy_(self_: &Tensor, median: f64, sigma: f64, generator: Option<&Generator>) -> Result<()> {
    check!(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma={}", Streamed(sigma));
    check!(
        self_.is_floating_point(),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {}",
        self_.dtype().c_name()
    );
    let kernel = || kernels::distributions(self_.device())?.cauchy.get(self_.dtype(), "cauchy_cpu");
    fill_by(self_, generator, kernel, [median.into(), sigma.into()])
}

/// Exponentials of normal numbers, in place.
pub fn log_normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    check!(std > 0.0, "log_normal_ expects std > 0.0, but found std={}", Streamed(std));
    let kernel = || kernels::distributions(self_.device())?.log_normal.get(self_.dtype(), "log_normal_cpu");
    fill_by(self_, generator, kernel, [mean.into(), std.into()])
}

/// How many trials of probability `p` the first success takes, in place.
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    check!(p > 0.0 && p < 1.0, "geometric_ expects p to be in (0, 1), but got p={}", Streamed(p));
    let kernel = || kernels::distributions(self_.device())?.geometric.get(self_.dtype(), "geometric_cpu");
    fill_by(self_, generator, kernel, [p.into(), Scalar::Int(0)])
}

/// Cauchy numbers in the image of a tensor.
pub fn cauchy(self_: &Tensor, median: f64, sigma: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::cauchy_(&result, median, sigma, generator)?;
    Ok(result)
}

/// Exponentials of normal numbers in the image of a tensor.
pub fn log_normal(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::log_normal_(&result, mean, std, generator)?;
    Ok(result)
}

/// Numbers of trials in the image of a tensor.
pub fn geometric(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::geometric_(&result, p, generator)?;
    Ok(result)
}

/// Whole numbers with the rates that a tensor has.
pub fn poisson(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let result = Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())?;
    if self_.is_meta() {
        return Ok(result);
    }
    let kernel = kernels::distributions(self_.device())?.poisson.get(self_.dtype(), "poisson_cpu")?;
    let rates = ops::to_dtype(&ops::contiguous(self_, MemoryFormat::Contiguous)?, DType::F64, false, false, None)?;
    kernel(&row(&result)?, &row(&rates)?, stream(self_, generator)?, true)?;
    Ok(result)
}

/// Indices of categories, with probabilities in proportion to the elements of a row.
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check!(self_.dim() > 0 && self_.dim() <= 2, "prob_dist must be 1 or 2 dim");
    check!(
        self_.is_floating_point(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        self_.dtype().cpp_name()
    );
    check!(num_samples > 0, "cannot sample n_sample <= 0 samples");
    let categories = self_.size(-1)?;
    check!(
        replacement || num_samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    check!(categories <= 1 << 24, "number of categories cannot exceed 2^24");
    let mut sizes = Dims::from_slice(self_.sizes());
    if let Some(last) = sizes.last_mut() {
        *last = num_samples;
    }
    let empty = || Tensor::new_dense(&sizes, DType::I64, self_.device());
    if self_.is_meta() || sizes.contains(&0) {
        return empty();
    }
    if replacement && num_samples > 1 {
        let kernel = kernels::distributions(self_.device())?.multinomial.get(self_.dtype(), "multinomial")?;
        let result = empty()?;
        kernel(&result, &ops::contiguous(self_, MemoryFormat::Contiguous)?, stream(self_, generator)?, true)?;
        return Ok(result);
    }
    // Without replacement: the largest of p / q, where q is exponential.
    let truth = |x: Tensor| Ok::<_, tensor_core::Error>(ops::item(&x)?.to_bool());
    let valid =
        ops::logical_and(&ops::lt_scalar(&ops::max(self_)?, f64::INFINITY)?, &ops::ge_scalar(&ops::min(self_)?, 0)?);
    check!(truth(valid?)?, "probability tensor contains either `inf`, `nan` or element < 0");
    let sums = ops::sum_dim_int_list(self_, Some(&[-1]), false, None)?;
    check!(
        !truth(ops::any(&ops::eq_scalar(&sums, 0)?)?)?,
        "invalid multinomial distribution (sum of probabilities <= 0)"
    );
    let q = ops::empty_like(self_, None, None, None, None, None)?;
    ops::exponential_(&q, 1.0, generator)?;
    let keys = ops::div(self_, &q)?;
    if num_samples == 1 {
        return ops::argmax(&keys, Some(-1), true);
    }
    Ok(ops::topk(&keys, num_samples, -1, true, true)?.1)
}

/// 1 with probability `p`, else 0, into a tensor of the dtype and shape of `self`.
pub fn bernoulli_float_out(self_: &Tensor, p: f64, generator: Option<&Generator>, out: &Tensor) -> Result<()> {
    check!(
        out.dtype() == self_.dtype(),
        "Expected out tensor to have dtype {}, but got {} instead",
        self_.dtype().c_name(),
        out.dtype().c_name()
    );
    let result = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::bernoulli_float_(&result, p, generator)?;
    crate::out::copy_into(out, &result)
}

fn check_bounds(lower: Scalar, upper: Scalar) -> Result<()> {
    let (low, high) = (lower.to_f64(), upper.to_f64());
    check!(low <= high, "Lower bound should be less than or equal to the upper bound");
    Ok(())
}

/// A leaky relu: of random slopes in training, of the bounds' mean otherwise.
pub fn rrelu(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_bounds(lower, upper)?;
    let noise = ops::empty_like(self_, None, None, None, None, None)?;
    ops::rrelu_with_noise(self_, &noise, lower, upper, training, generator)
}

/// [`rrelu`] in place.
pub fn rrelu_(
    self_: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<()> {
    check_bounds(lower, upper)?;
    let noise = ops::empty_like(self_, None, None, None, None, None)?;
    ops::rrelu_with_noise_(self_, &noise, lower, upper, training, generator).map(drop)
}

/// The slope outside of training.
fn mean_slope(lower: Scalar, upper: Scalar) -> f64 {
    (lower.to_f64() + upper.to_f64()) / 2.0
}

/// [`rrelu`] that writes its slopes, in training, to `noise`.
pub fn rrelu_with_noise(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check!(
        self_.sizes() == noise.sizes(),
        "noise tensor shape must match self tensor shape. Got self.shape = {}, noise.shape = {}",
        show(self_.sizes()),
        show(noise.sizes())
    );
    if !training {
        return ops::leaky_relu(self_, mean_slope(lower, upper));
    }
    check_not_implemented!(
        self_.is_floating_point(),
        "\"rrelu_with_noise_out_cpu\" not implemented for '{}'",
        self_.dtype().cpp_name()
    );
    check!(
        noise.dtype() == self_.dtype(),
        "expected scalar type {} but found {}",
        self_.dtype().cpp_name(),
        noise.dtype().cpp_name()
    );
    tensor_core::overlap::assert_no_internal_overlap(noise.as_impl())?;
    let result = Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())?;
    if self_.is_meta() {
        return Ok(result);
    }
    let kernel = kernels::distributions(self_.device())?.rrelu.get(self_.dtype(), "rrelu_with_noise_out_cpu")?;
    let slopes = Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())?;
    let x = ops::contiguous(self_, MemoryFormat::Contiguous)?;
    kernel([&result, &slopes], &x, stream(self_, generator)?, [lower.to_f64(), upper.to_f64()])?;
    // The node keeps the slopes, so that this counts as no change.
    super::copy::copy_elements(noise, &slopes)?;
    Ok(result)
}

/// [`rrelu_with_noise`] in place.
pub fn rrelu_with_noise_(
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    generator: Option<&Generator>,
) -> Result<()> {
    if !training {
        return ops::leaky_relu_(self_, mean_slope(lower, upper)).map(drop);
    }
    tensor_core::overlap::assert_no_internal_overlap(self_.as_impl())?;
    let result = rrelu_with_noise(self_, noise, lower, upper, training, generator)?;
    super::copy::copy_(self_, &result, false)
}

/// Gradient of [`rrelu_with_noise`].
pub fn rrelu_with_noise_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    noise: &Tensor,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    self_is_result: bool,
) -> Result<Tensor> {
    if training && upper.to_f64() as f32 - lower.to_f64() as f32 > 1e-6 {
        return ops::mul(grad_output, noise);
    }
    ops::leaky_relu_backward(grad_output, self_, mean_slope(lower, upper), self_is_result)
}
