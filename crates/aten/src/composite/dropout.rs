//! Dropout and its relatives: products with random masks.

use tensor_core::stream::Streamed;
use tensor_core::strides::Dims;
use tensor_core::{DType, Result, check};

use crate::out::copy_into;
use crate::{Tensor, ops};

/// Negative saturation value of the SELU function: what `alpha_dropout` sets elements to.
const ALPHA: f64 = 1.758_099_340_847_376_6;

fn check_probability(p: f64) -> Result<()> {
    check!((0.0..=1.0).contains(&p), "dropout probability has to be between 0 and 1, but got {}", Streamed(p));
    Ok(())
}

/// What a dropout does to its input.
enum Plan {
    /// nothing
    Keep,
    /// `x * factor`
    Scale(Tensor),
    /// `x * factor + term`
    Affine(Tensor, Tensor),
}

/// What is drawn for `x`: `feature` draws once a channel, `alpha` keeps mean and variance of SELU's outputs.
fn plan(x: &Tensor, p: f64, train: bool, feature: bool, alpha: bool) -> Result<Plan> {
    check_probability(p)?;
    if p == 0.0 || !train || x.numel() == 0 {
        return Ok(Plan::Keep);
    }
    if p == 1.0 {
        return Ok(Plan::Scale(ops::zeros(&[], Some(x.dtype()), None, Some(x.device()), None)?));
    }
    // Real also where x is complex.
    let real = x.dtype().to_real();
    let noise = if feature {
        check!(x.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
        let sizes: Dims = x.sizes().iter().enumerate().map(|(d, &size)| if d < 2 { size } else { 1 }).collect();
        ops::empty_memory_format(&sizes, Some(real), None, Some(x.device()), None, None)?
    } else {
        ops::empty_like(x, Some(real), None, None, None, None)?
    };
    ops::bernoulli_float_(&noise, 1.0 - p, None)?;
    if !alpha {
        ops::div_scalar_(&noise, 1.0 - p)?;
        return Ok(Plan::Scale(noise));
    }
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let term = ops::mul_scalar(&ops::sub_scalar(&noise, 1, 1)?, ALPHA * a)?;
    let term = ops::add_scalar(&term, ALPHA * a * p, 1)?;
    ops::mul_scalar_(&noise, a)?;
    Ok(Plan::Affine(noise, term))
}

fn fresh(x: &Tensor, plan: Plan) -> Result<Tensor> {
    match plan {
        Plan::Keep => Ok(x.clone()),
        Plan::Scale(factor) => ops::mul(x, &factor),
        Plan::Affine(factor, term) => ops::add(&ops::mul(x, &factor)?, &term, 1),
    }
}

fn in_place(x: &Tensor, plan: Plan) -> Result<()> {
    match plan {
        Plan::Keep => {}
        Plan::Scale(factor) => drop(ops::mul_(x, &factor)?),
        Plan::Affine(factor, term) => {
            ops::mul_(x, &factor)?;
            ops::add_(x, &term, 1)?;
        }
    }
    Ok(())
}

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident $in_place:ident $feature:literal $alpha:literal;)*) => { $(
        $(#[$doc])*
        pub fn $name(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
            fresh(input, plan(input, p, train, $feature, $alpha)?)
        }

        /// In-place form.
        pub fn $in_place(self_: &Tensor, p: f64, train: bool) -> Result<()> {
            in_place(self_, plan(self_, p, train, $feature, $alpha)?)
        }
    )* };
}
dropouts! {
    /// Zeroes each element with probability `p` and divides the others by 1 - `p`, in training.
    dropout dropout_ false false;
    /// Dropout of whole channels (dimensions 0 and 1).
    feature_dropout feature_dropout_ true false;
    /// Dropout that keeps the mean and variance of SELU's outputs.
    alpha_dropout alpha_dropout_ false true;
    /// `alpha_dropout` of whole channels.
    feature_alpha_dropout feature_alpha_dropout_ true true;
}

/// Dropout with a node of its own: the result and the mask of what was kept.
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    if input.numel() == 0 {
        return Ok((input.clone(), ops::empty_like(input, None, None, None, None, None)?));
    }
    if !train.unwrap_or(true) || p == 0.0 {
        let mask = ops::ones_like(input, Some(DType::Bool), None, None, None, None)?;
        return Ok((ops::clone(input, None)?, mask));
    }
    let kept = 1.0 - p;
    let mask = ops::empty_like(input, Some(DType::Bool), None, None, None, None)?;
    ops::bernoulli_float_(&mask, kept, None)?;
    let output = ops::mul(input, &mask)?;
    ops::mul_scalar_(&output, if kept == 0.0 { 0.0 } else { 1.0 / kept })?;
    Ok((output, mask))
}

/// `grad_output * mask * scale`
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    ops::mul_scalar(&ops::mul(grad_output, mask)?, scale)
}

/// A result where it belongs, which has its dtype.
fn put(out: &Tensor, result: &Tensor) -> Result<()> {
    check!(
        out.dtype() == result.dtype(),
        "Expected out tensor to have dtype {}, but got {} instead",
        result.dtype().c_name(),
        out.dtype().c_name()
    );
    copy_into(out, result)
}

/// [`native_dropout`] into tensors of its dtypes.
pub fn native_dropout_out(input: &Tensor, p: f64, train: Option<bool>, out0: &Tensor, out1: &Tensor) -> Result<()> {
    let (output, mask) = native_dropout(input, p, train)?;
    put(out0, &output)?;
    put(out1, &mask)
}

/// [`native_dropout_backward`] into a tensor of its dtype.
pub fn native_dropout_backward_out(grad_output: &Tensor, mask: &Tensor, scale: f64, out: &Tensor) -> Result<()> {
    put(out, &native_dropout_backward(grad_output, mask, scale)?)
}
