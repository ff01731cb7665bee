//! Gradients of the gradients of normalisations: layer norm and group norm; batch norm's are beside, on the same [`Norm`].
//!
//! All are `out = y * weight + bias`, `y = (x - mean) * rstd`, with moments over some dimensions of `x`. With `h = g * weight`
//! the gradient of x is `rstd * (h - mean(h) - y * mean(h * y))`.

use tensor_aten::{Tensor, ops};
use tensor_core::strides::Dims;
use tensor_core::{Result, tls};

/// Gradients of input, weight and bias.
pub(super) type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::mul(a, b)
}

fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::sub(a, b, 1)
}

/// A term added to a sum that may be empty.
fn add(sum: &mut Option<Tensor>, term: Tensor) -> Result<()> {
    *sum = Some(match sum.take() {
        Some(sum) => ops::add(&sum, &term, 1)?,
        None => term,
    });
    Ok(())
}

fn mean_over(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ops::mean_dim(x, Some(dims), true, None)
}

/// Sums `x` over some dimensions and gives it a parameter's shape.
fn sum_to(x: &Tensor, dims: &[i64], shape: &[i64]) -> Result<Tensor> {
    let sum = if dims.is_empty() { x.clone() } else { ops::sum_dim_int_list(x, Some(dims), true, None)? };
    ops::reshape(&sum, shape)
}

/// One normalisation, its tensors broadcast to the shape of `x`.
pub(super) struct Norm<'a> {
    pub(super) x: &'a Tensor,
    pub(super) mean: Tensor,
    pub(super) rstd: Tensor,
    /// 1 where absent
    pub(super) weight: Option<Tensor>,
    /// over which dimensions the moments are; none if they do not depend on `x`
    pub(super) moments: Dims,
    /// over which dimensions a parameter is repeated
    pub(super) repeated: Dims,
    /// the shape of parameters
    pub(super) parameter: &'a [i64],
}

impl Norm<'_> {
    fn normal(&self) -> Result<Tensor> {
        mul(&sub(self.x, &self.mean)?, &self.rstd)
    }

    /// The gradient of x where `h` is that of y: also the adjoint of itself.
    fn through_moments(&self, h: &Tensor, y: &Tensor) -> Result<Tensor> {
        if self.moments.is_empty() {
            return mul(h, &self.rstd);
        }
        let centred = sub(h, &mean_over(h, &self.moments)?)?;
        let slope = mul(y, &mean_over(&mul(h, y)?, &self.moments)?)?;
        mul(&sub(&centred, &slope)?, &self.rstd)
    }

    fn weighted(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.as_ref().map_or_else(|| Ok(x.clone()), |weight| mul(x, weight))
    }

    /// Gradients of (input, weight, grad) of a backward pass with `grad`, from those of its results: `v` of the input's
    /// gradient, `u` of the weight's and `w` of the bias's, broadcast.
    pub(super) fn double(&self, grad: &Tensor, [v, u, w]: [Option<&Tensor>; 3], need: [bool; 3]) -> Result<Three> {
        let y = self.normal()?;
        let (mut input, mut weight, mut grad_grad) = (None, None, None);
        if let Some(v) = v {
            let back = self.through_moments(v, &y)?;
            if need[0] && !self.moments.is_empty() {
                add(&mut input, self.moments_twice(&self.weighted(grad)?, v, &y)?)?;
            }
            if need[1] {
                add(&mut weight, mul(grad, &back)?)?;
            }
            if need[2] {
                add(&mut grad_grad, self.weighted(&back)?)?;
            }
        }
        if let Some(u) = u {
            if need[0] {
                add(&mut input, self.through_moments(&mul(u, grad)?, &y)?)?;
            }
            if need[2] {
                add(&mut grad_grad, mul(u, &y)?)?;
            }
        }
        if let Some(w) = w
            && need[2]
        {
            add(&mut grad_grad, ops::expand(w, grad.sizes(), false)?)?;
        }
        let weight = weight.map(|weight| sum_to(&weight, &self.repeated, self.parameter)).transpose()?;
        Ok((input, weight, grad_grad))
    }

    /// The gradient of `sum(v * rstd * (h - mean(h) - y * mean(h * y)))` with respect to x, through y and rstd.
    fn moments_twice(&self, h: &Tensor, v: &Tensor, y: &Tensor) -> Result<Tensor> {
        let dims = &self.moments;
        let (hy, vy) = (mean_over(&mul(h, y)?, dims)?, mean_over(&mul(v, y)?, dims)?);
        // y: -rstd * (h * mean(v * y) + v * mean(h * y))
        let of_normal = ops::neg(&mul(&ops::add(&mul(h, &vy)?, &mul(v, &hy)?, 1)?, &self.rstd)?)?;
        let through_normal = self.through_moments(&of_normal, y)?;
        // rstd: n * (mean(v * h) - mean(v) * mean(h) - mean(h * y) * mean(v * y)), and d rstd / d x = -rstd^2 * y / n
        let products = sub(&mean_over(&mul(v, h)?, dims)?, &mul(&mean_over(v, dims)?, &mean_over(h, dims)?)?)?;
        let of_rstd = sub(&products, &mul(&hy, &vy)?)?;
        let through_rstd = mul(&mul(&of_rstd, &mul(&self.rstd, &self.rstd)?)?, y)?;
        sub(&through_normal, &through_rstd)
    }
}

/// Gradients of `native_layer_norm_backward` with respect to input, weight and its gradient.
#[allow(clippy::too_many_arguments)]
pub fn layer_norm_double_backward(
    grad_input: Option<&Tensor>,
    grad_weight: Option<&Tensor>,
    grad_bias: Option<&Tensor>,
    grad: &Tensor,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    normalized_shape: &[i64],
    need: [bool; 3],
) -> Result<Three> {
    let lead = x.dim() - normalized_shape.len();
    let norm = Norm {
        x,
        mean: mean.clone(),
        rstd: rstd.clone(),
        weight: weight.cloned(),
        moments: (lead as i64..x.dim() as i64).collect(),
        repeated: (0..lead as i64).collect(),
        parameter: normalized_shape,
    };
    norm.double(grad, [grad_input, grad_weight, grad_bias], need)
}

/// The gradient of what does not matter: none.
pub fn no_gradient() -> Result<Option<Tensor>> {
    Ok(None)
}

/// Gradients of `native_group_norm`, whose moments are differentiable results as well.
#[allow(clippy::too_many_arguments)]
pub fn native_group_norm_grad(
    grad: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    grad_rstd: Option<&Tensor>,
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    &[n, c, hxw, groups]: &[i64; 4],
    need: [bool; 3],
) -> Result<Three> {
    if !tls::grad_enabled() && grad_mean.is_none() && grad_rstd.is_none() {
        let Some(grad) = grad else { return Ok((None, None, None)) };
        let grad = ops::contiguous(grad, x.suggest_memory_format())?;
        return ops::native_group_norm_backward(&grad, x, mean, rstd, weight, n, c, hxw, groups, need);
    }
    // In the shape (N, groups, channels of a group, HxW), with operators that have derivatives.
    let shape = [n, groups, c / groups, hxw];
    let wide = ops::reshape(x, &shape)?;
    let parameter = [c];
    let weight = weight.map(|weight| ops::reshape(weight, &[1, groups, c / groups, 1])).transpose()?;
    let moment = |x: &Tensor| ops::reshape(x, &[n, groups, 1, 1]);
    let norm = Norm {
        x: &wide,
        mean: moment(mean)?,
        rstd: moment(rstd)?,
        weight,
        moments: Dims::from_slice(&[2, 3]),
        repeated: Dims::from_slice(&[0, 3]),
        parameter: &parameter,
    };
    let y = norm.normal()?;
    let (mut input, mut weight, mut bias) = (None, None, None);
    if let Some(grad) = grad {
        let grad = ops::reshape(grad, &shape)?;
        if need[0] {
            add(&mut input, norm.through_moments(&norm.weighted(&grad)?, &y)?)?;
        }
        if need[1] {
            weight = Some(sum_to(&mul(&grad, &y)?, &norm.repeated, &parameter)?);
        }
        if need[2] {
            bias = Some(sum_to(&grad, &norm.repeated, &parameter)?);
        }
    }
    // A result that no gradient came through: its parameters do not matter.
    let nothing = |need: bool| need.then(|| super::zeros(&parameter, x.dtype(), x.device())).transpose();
    if grad.is_none() {
        (weight, bias) = (nothing(need[1])?, nothing(need[2])?);
    }
    if need[0] {
        let count = (c / groups * hxw) as f64;
        if let Some(grad) = grad_mean {
            add(&mut input, ops::expand(&ops::div_scalar(&moment(grad)?, count)?, &shape, false)?)?;
        }
        if let Some(grad) = grad_rstd {
            let slope = mul(&moment(grad)?, &mul(&norm.rstd, &norm.rstd)?)?;
            add(&mut input, mul(&ops::div_scalar(&slope, -count)?, &y)?)?;
        }
    }
    let input = input.map(|input| ops::reshape(&input, x.sizes())).transpose()?;
    Ok((input, weight, bias))
}
