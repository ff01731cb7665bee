//! Numerical gradients by central differences, one-sided at the edges.

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{DType, Result, Scalar, check};

use crate::{Tensor, ops};

/// Checks the arguments as far as all forms share them; `spacing` is how many spacings there are.
fn check_gradient(x: &Tensor, spacing: usize, dims: Option<&[i64]>, edge_order: i64) -> Result<()> {
    check!(x.dtype() != DType::U8, "torch.gradient does not support uint8 input.");
    match dims {
        None => check!(
            spacing == x.dim(),
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = {}', \
             since dim argument was not given, but got a list of length {spacing}",
            x.dim()
        ),
        Some(dims) => check!(
            spacing == dims.len(),
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same \
             length, but got a spacing argument of length {spacing} and a dim argument of length {}.",
            dims.len()
        ),
    }
    check!(edge_order == 1 || edge_order == 2, "torch.gradient only supports edge_order=1 and edge_order=2.");
    let mut seen = vec![false; x.dim().max(1)];
    for d in all_or(x, dims) {
        let wrapped = wrap_dim(d, x.dim())?;
        check!(!seen[wrapped], "dim {wrapped} appears multiple times in the list of dims");
        seen[wrapped] = true;
    }
    for d in all_or(x, dims) {
        check!(x.size(d)? > edge_order, "torch.gradient expected each dimension size to be at least edge_order+1");
    }
    Ok(())
}

/// The given dimensions, or all of them.
fn all_or(x: &Tensor, dims: Option<&[i64]>) -> Vec<i64> {
    dims.map_or_else(|| (0..x.dim() as i64).collect(), <[i64]>::to_vec)
}

/// A range of one dimension, counted from the end where negative.
fn part(x: &Tensor, dim: i64, start: i64, end: Option<i64>) -> Result<Tensor> {
    ops::slice(x, dim, Some(start), end, 1)
}

/// `a * x + b * y + c * z`
fn weighted(x: [&Tensor; 3], by: [&Tensor; 3]) -> Result<Tensor> {
    let [a, b, c] = [ops::mul(by[0], x[0])?, ops::mul(by[1], x[1])?, ops::mul(by[2], x[2])?];
    ops::add(&ops::add(&a, &b, 1)?, &c, 1)
}

/// Gradients along dimensions with even spacings.
fn even(x: &Tensor, spacing: &[Scalar], dims: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    let mut results = Vec::with_capacity(dims.len());
    for (&dim, &step) in dims.iter().zip(spacing) {
        let d = wrap_dim(dim, x.dim())? as i64;
        let at = |start, end| part(x, d, start, end);
        let slope = |a: &Tensor, b: &Tensor| ops::div_scalar(&ops::sub(a, b, 1)?, step);
        let center = ops::div_scalar(&slope(&at(2, None)?, &at(0, Some(-2))?)?, 2)?;
        let (first, last) = if edge_order == 1 {
            (slope(&at(1, Some(2))?, &at(0, Some(1))?)?, slope(&at(-1, None)?, &at(-2, Some(-1))?)?)
        } else {
            let edge = |x: [Tensor; 3], by: [f64; 3]| {
                let [a, b, c] =
                    [ops::mul_scalar(&x[0], by[0])?, ops::mul_scalar(&x[1], by[1])?, ops::mul_scalar(&x[2], by[2])?];
                ops::div_scalar(&ops::add(&ops::add(&a, &b, 1)?, &c, 1)?, step)
            };
            (
                edge([at(0, Some(1))?, at(1, Some(2))?, at(2, Some(3))?], [-1.5, 2.0, -0.5])?,
                edge([at(-3, Some(-2))?, at(-2, Some(-1))?, at(-1, None)?], [0.5, -2.0, 1.5])?,
            )
        };
        results.push(ops::cat(&[&first, &center, &last], d)?);
    }
    Ok(results)
}

/// Gradients along dimensions with the positions of their points.
fn uneven(x: &Tensor, positions: &[&Tensor], dims: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    for points in positions {
        check!(
            x.device() == points.device(),
            "torch.gradient expected each tensor to be on the same device, but got devices {} and {}!",
            x.device(),
            points.device()
        );
    }
    let mut results = Vec::with_capacity(dims.len());
    for (&dim, points) in dims.iter().zip(positions) {
        check!(
            points.dim() == 1,
            "torch.gradient expected each element of spacing to have one dimension, but got an element with {} dimensions!",
            points.dim()
        );
        let d = wrap_dim(dim, x.dim())?;
        let mut shape = Dims::from_elem(1, x.dim());
        shape[d] = -1;
        let d = d as i64;
        let at = |start, end| part(x, d, start, end);
        let steps = ops::diff(points, 1, 0, None, None)?;
        let (before, after) = (part(&steps, 0, 0, Some(-1))?, part(&steps, 0, 1, None)?);
        let [a, b, c] = slopes(&before, &after)?;
        let spread = |x: &Tensor| ops::reshape(x, &shape);
        let center = weighted(
            [&at(0, Some(-2))?, &at(1, Some(-1))?, &at(2, None)?],
            [&spread(&a)?, &spread(&b)?, &spread(&c)?],
        )?;
        let step = |i: i64| ops::select_int(&steps, 0, i);
        let (first, last) = if edge_order == 1 {
            let slope = |a: &Tensor, b: &Tensor, by: &Tensor| ops::div(&ops::sub(a, b, 1)?, by);
            (
                slope(&at(1, Some(2))?, &at(0, Some(1))?, &step(0)?)?,
                slope(&at(-1, None)?, &at(-2, Some(-1))?, &step(-1)?)?,
            )
        } else {
            let [a, b, c] = edge_slopes(&step(0)?, &step(1)?)?;
            let first = weighted([&at(0, Some(1))?, &at(1, Some(2))?, &at(2, Some(3))?], [&a, &b, &c])?;
            let [c, b, a] = edge_slopes(&step(-1)?, &step(-2)?)?;
            let [a, b, c] = [ops::neg(&a)?, ops::neg(&b)?, ops::neg(&c)?];
            let last = weighted([&at(-3, Some(-2))?, &at(-2, Some(-1))?, &at(-1, None)?], [&a, &b, &c])?;
            (first, last)
        };
        results.push(ops::cat(&[&first, &center, &last], d)?);
    }
    Ok(results)
}

/// What a point and its neighbours count for its gradient, from the steps before and after it.
fn slopes(before: &Tensor, after: &Tensor) -> Result<[Tensor; 3]> {
    let both = ops::add(before, after, 1)?;
    Ok([
        ops::div(&ops::neg(after)?, &ops::mul(before, &both)?)?,
        ops::div(&ops::sub(after, before, 1)?, &ops::mul(before, after)?)?,
        ops::div(before, &ops::mul(after, &both)?)?,
    ])
}

/// What the first three points count for the gradient at the first, from the steps between them.
fn edge_slopes(near: &Tensor, far: &Tensor) -> Result<[Tensor; 3]> {
    let both = ops::add(near, far, 1)?;
    let more = ops::add(&ops::mul_scalar(near, 2)?, far, 1)?;
    Ok([
        ops::div(&ops::neg(&more)?, &ops::mul(near, &both)?)?,
        ops::div(&both, &ops::mul(near, far)?)?,
        ops::div(&ops::neg(near)?, &ops::mul(far, &both)?)?,
    ])
}

/// Gradients with one spacing, 1 unless given, along one dimension or all.
pub fn gradient_scalarint(
    self_: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let given = dim.map(|dim| [dim]);
    let dims = all_or(self_, given.as_ref().map(|dim| &dim[..]));
    let spacing = vec![spacing.unwrap_or(Scalar::Float(1.0)); dims.len()];
    check_gradient(self_, spacing.len(), given.as_ref().map(|dim| &dim[..]), edge_order)?;
    even(self_, &spacing, &dims, edge_order)
}

/// Gradients with one spacing along dimensions.
pub fn gradient_scalararray(self_: &Tensor, spacing: Scalar, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    gradient_scalarrayarray(self_, &vec![spacing; dim.len()], dim, edge_order)
}

/// Gradients with a spacing of 1 along dimensions.
pub fn gradient_array(self_: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    gradient_scalararray(self_, Scalar::Float(1.0), dim, edge_order)
}

/// Gradients with a spacing a dimension, along one or all.
pub fn gradient_scalarrayint(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let given = dim.map(|dim| [dim]);
    let given = given.as_ref().map(|dim| &dim[..]);
    check_gradient(self_, spacing.len(), given, edge_order)?;
    even(self_, spacing, &all_or(self_, given), edge_order)
}

/// Gradients with a spacing for each of some dimensions.
pub fn gradient_scalarrayarray(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    check_gradient(self_, spacing.len(), Some(dim), edge_order)?;
    even(self_, spacing, dim, edge_order)
}

/// Gradients with the positions of points, along one dimension or all.
pub fn gradient_tensorarrayint(
    self_: &Tensor,
    spacing: &[&Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let given = dim.map(|dim| [dim]);
    let given = given.as_ref().map(|dim| &dim[..]);
    check_gradient(self_, spacing.len(), given, edge_order)?;
    uneven(self_, spacing, &all_or(self_, given), edge_order)
}

/// Gradients with the positions of points along dimensions.
pub fn gradient_tensorarray(self_: &Tensor, spacing: &[&Tensor], dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    check_gradient(self_, spacing.len(), Some(dim), edge_order)?;
    uneven(self_, spacing, dim, edge_order)
}
