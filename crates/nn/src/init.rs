//! Initialisers that draw PyTorch's own numbers from the same seed (`torch.nn.init`).

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::{DType, Result, Scalar, check, check_value};

/// The nonlinearity that a gain or a Kaiming bound is meant for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// none, or a convolution: gain 1
    Linear,
    /// gain 1
    Sigmoid,
    /// gain 5/3
    Tanh,
    /// gain sqrt(2)
    ReLU,
    /// gain sqrt(2 / (1 + slope^2))
    LeakyReLU(f64),
    /// gain 3/4
    SELU,
}

/// Which fan a Kaiming initialiser keeps the variance of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanMode {
    /// of the forward pass
    FanIn,
    /// of the backward pass
    FanOut,
}

/// The recommended gain of a nonlinearity.
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::ReLU => std::f64::consts::SQRT_2,
        Nonlinearity::LeakyReLU(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
        Nonlinearity::SELU => 0.75,
    }
}

/// Inputs and outputs of a weight (out, in, ..), each times the receptive field.
///
/// # Errors
/// For fewer than two dimensions.
pub fn calculate_fan_in_and_fan_out(tensor: &Tensor) -> Result<(i64, i64)> {
    check_value!(tensor.dim() >= 2, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    let field: i64 = tensor.sizes()[2..].iter().product();
    Ok((tensor.sizes()[1] * field, tensor.sizes()[0] * field))
}

/// Fills with uniform numbers of [a, b).
///
/// # Errors
/// When the operator fails.
pub fn uniform_(tensor: &Tensor, a: f64, b: f64) -> Result<()> {
    no_grad(|| ops::uniform_(tensor, a, b, None).map(drop))
}

/// Fills with normal numbers.
///
/// # Errors
/// When the operator fails.
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<()> {
    no_grad(|| ops::normal_(tensor, mean, std, None).map(drop))
}

/// Fills with a number.
///
/// # Errors
/// When the operator fails.
pub fn constant_(tensor: &Tensor, value: impl Into<Scalar>) -> Result<()> {
    no_grad(|| ops::fill_scalar_(tensor, value).map(drop))
}

/// Fills with zeros.
///
/// # Errors
/// When the operator fails.
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 0)
}

/// Fills with ones.
///
/// # Errors
/// When the operator fails.
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1)
}

/// Glorot's uniform initialisation.
///
/// # Errors
/// For fewer than two dimensions.
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(tensor)?;
    let bound = 3f64.sqrt() * gain * (2.0 / (fan_in + fan_out) as f64).sqrt();
    uniform_(tensor, -bound, bound)
}

/// Glorot's normal initialisation.
///
/// # Errors
/// For fewer than two dimensions.
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<()> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(tensor)?;
    normal_(tensor, 0.0, gain * (2.0 / (fan_in + fan_out) as f64).sqrt())
}

fn kaiming_std(tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<f64> {
    let (fan_in, fan_out) = calculate_fan_in_and_fan_out(tensor)?;
    let fan = if mode == FanMode::FanIn { fan_in } else { fan_out };
    Ok(calculate_gain(nonlinearity) / (fan as f64).sqrt())
}

/// He's uniform initialisation.
///
/// # Errors
/// For fewer than two dimensions.
pub fn kaiming_uniform_(tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    if tensor.sizes().contains(&0) {
        return Ok(());
    }
    let bound = 3f64.sqrt() * kaiming_std(tensor, mode, nonlinearity)?;
    uniform_(tensor, -bound, bound)
}

/// He's normal initialisation.
///
/// # Errors
/// For fewer than two dimensions.
pub fn kaiming_normal_(tensor: &Tensor, mode: FanMode, nonlinearity: Nonlinearity) -> Result<()> {
    if tensor.sizes().contains(&0) {
        return Ok(());
    }
    normal_(tensor, 0.0, kaiming_std(tensor, mode, nonlinearity)?)
}

/// What `Linear` and `Conv2d` do to a fresh weight and bias: Kaiming with slope sqrt(5), the bias within 1/sqrt(fan in).
pub(crate) fn reset_linear(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    kaiming_uniform_(weight, FanMode::FanIn, Nonlinearity::LeakyReLU(5f64.sqrt()))?;
    if let Some(bias) = bias {
        let (fan_in, _) = calculate_fan_in_and_fan_out(weight)?;
        if fan_in > 0 {
            let bound = 1.0 / (fan_in as f64).sqrt();
            uniform_(bias, -bound, bound)?;
        }
    }
    Ok(())
}

/// The identity matrix.
///
/// # Errors
/// For other than two dimensions.
pub fn eye_(tensor: &Tensor) -> Result<()> {
    check!(tensor.dim() == 2, "Only tensors with 2 dimensions are supported");
    let (rows, columns) = (tensor.sizes()[0], tensor.sizes()[1]);
    let eye = ops::eye_m(rows, columns, Some(tensor.dtype()), None, Some(tensor.device()), None)?;
    no_grad(|| ops::copy_(tensor, &eye, false).map(drop))
}

/// A (semi-)orthogonal matrix times a gain: the rows, or the columns if there are fewer, are of length `gain` and at right
/// angles to each other. Of more than two dimensions the last ones count as one ("Exact solutions to the nonlinear dynamics
/// of learning in deep linear neural networks", Saxe et al., 2013).
///
/// # Errors
/// For fewer than two dimensions, and for dtypes without factorisations.
pub fn orthogonal_(tensor: &Tensor, gain: f64) -> Result<()> {
    check_value!(tensor.dim() >= 2, "Only tensors with 2 or more dimensions are supported");
    if tensor.numel() == 0 {
        return Ok(());
    }
    no_grad(|| {
        let rows = tensor.sizes()[0];
        let columns = tensor.numel() / rows;
        let draw = ops::new_empty(tensor, &[rows, columns], None, None, None, None)?;
        ops::normal_(&draw, 0.0, 1.0, None)?;
        let wide = rows < columns;
        let (q, r) = ops::linalg_qr(&if wide { ops::t(&draw)? } else { draw }, "reduced")?;
        // The signs of the diagonal make the result uniform ("How to generate random matrices from the classical compact
        // groups", Mezzadri, 2006).
        ops::mul_(&q, &ops::sign(&ops::diag(&r, 0)?)?)?;
        let q = if wide { ops::t(&q)? } else { q };
        ops::copy_(&ops::view(tensor, q.sizes())?, &q, false)?;
        ops::mul_scalar_(tensor, gain).map(drop)
    })
}

/// How much of a normal distribution lies below `x`.
fn normal_cdf(x: f64) -> Result<f64> {
    let erf = ops::erf(&Tensor::scalar_tensor(x / std::f64::consts::SQRT_2, DType::F64)?)?;
    Ok((1.0 + ops::item(&erf)?.to_f64()) / 2.0)
}

/// Fills with normal numbers that lie in [a, b]: those that do not are drawn again; or, where few would, uniform numbers
/// of [a, b] that are kept in proportion to their density.
///
/// # Errors
/// When an operator fails.
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, a: f64, b: f64) -> Result<()> {
    if tensor.is_meta() {
        return Ok(());
    }
    no_grad(|| {
        let within = normal_cdf((b - mean) / std)? - normal_cdf((a - mean) / std)?;
        let result =
            if within > 0.3 { redrawn(tensor, mean, std, [a, b]) } else { accepted(tensor, mean, std, [a, b]) };
        ops::copy_(tensor, &result?, false).map(drop)
    })
}

fn any(mask: &Tensor) -> Result<bool> {
    Ok(ops::item(&ops::any(mask)?)?.to_bool())
}

fn redrawn(tensor: &Tensor, mean: f64, std: f64, [a, b]: [f64; 2]) -> Result<Tensor> {
    // Bounds as the dtype holds them.
    let bound = |x: f64| ops::item(&Tensor::scalar_tensor(x, tensor.dtype())?);
    let (low, high) = (bound(a)?, bound(b)?);
    let mut result = ops::normal_(tensor, mean, std, None)?.clone();
    loop {
        let outside = ops::logical_or(&ops::lt_scalar(&result, low)?, &ops::gt_scalar(&result, high)?)?;
        if !any(&outside)? {
            return Ok(result);
        }
        let fresh = ops::empty_like(&result, None, None, None, None, None)?;
        result = ops::where_self(&outside, ops::normal_(&fresh, mean, std, None)?, &result)?;
    }
}

fn accepted(tensor: &Tensor, mean: f64, std: f64, [a, b]: [f64; 2]) -> Result<Tensor> {
    let peak = -0.5 * ((mean.min(b).max(a) - mean) / std).powi(2);
    let draw = ops::empty_like(tensor, None, None, None, None, None)?;
    // Refused: a uniform number's logarithm is above that of the density, relative to the peak's.
    let refused = |x: &Tensor| {
        let density = ops::div_scalar(&ops::sub_scalar(x, mean, 1)?, std)?;
        let density = ops::mul_scalar(&ops::pow_tensor_scalar(&density, 2)?, -0.5)?;
        let density = ops::sub_scalar(&density, peak, 1)?;
        ops::gt(ops::log_(ops::uniform_(&draw, 0.0, 1.0, None)?)?, &density)
    };
    let mut result = ops::uniform_(tensor, a, b, None)?.clone();
    let mut pending = refused(&result)?;
    let candidates = ops::empty_like(tensor, None, None, None, None, None)?;
    while any(&pending)? {
        ops::uniform_(&candidates, a, b, None)?;
        result = ops::where_self(&pending, &candidates, &result)?;
        pending = ops::logical_and(&pending, &refused(&candidates)?)?;
    }
    Ok(result)
}
