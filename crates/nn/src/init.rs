//! Initialisers that draw PyTorch's own numbers from the same seed (`torch.nn.init`).

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::{Result, Scalar, check, check_value};

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
