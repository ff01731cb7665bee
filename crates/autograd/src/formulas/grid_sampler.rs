//! Second derivatives of sampled images: those of the sampling written in operators.

use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result};

use super::composed::{first_order, through};

/// One dimension of an image, and how it is sampled.
struct Line {
    size: f64,
    mode: i64,
    padding: i64,
    align_corners: bool,
}

/// An element that a coordinate sees, and its weight, 0 outside of the image.
struct Tap {
    index: Tensor,
    weight: Tensor,
}

fn affine(x: &Tensor, factor: f64, term: f64) -> Result<Tensor> {
    ops::add_scalar(&ops::mul_scalar(x, factor)?, term, 1)
}

impl Line {
    /// A position brought into the image.
    fn inside(&self, at: &Tensor) -> Result<Tensor> {
        let clip = |at: &Tensor| ops::clamp_max(&ops::clamp_min(at, 0)?, self.size - 1.0);
        match self.padding {
            1 => clip(at),
            2 => {
                let (low, span) = if self.align_corners { (0.0, self.size - 1.0) } else { (-0.5, self.size) };
                if span == 0.0 {
                    return ops::mul_scalar(at, 0);
                }
                let from = ops::abs(&affine(at, 1.0, -low)?)?;
                let flips = ops::floor(&ops::div_scalar(&from, span)?)?;
                let extra = ops::sub(&from, &ops::mul_scalar(&flips, span)?, 1)?;
                let even = ops::eq_scalar(&ops::fmod_scalar(&flips, 2)?, 0)?;
                clip(&ops::where_self(&even, &affine(&extra, 1.0, low)?, &affine(&extra, -1.0, span + low)?)?)
            }
            _ => Ok(at.clone()),
        }
    }

    fn tap(&self, at: &Tensor, weight: &Tensor) -> Result<Tap> {
        let inside = ops::logical_and(&ops::ge_scalar(at, 0)?, &ops::lt_scalar(at, self.size)?)?;
        let index = ops::clamp_max(&ops::clamp_min(at, 0)?, self.size - 1.0)?;
        let weight = ops::mul(weight, &ops::to_dtype(&inside, weight.dtype(), false, false, None)?)?;
        Ok(Tap { index: ops::to_dtype(&index, DType::I64, false, false, None)?, weight })
    }

    fn taps(&self, coordinate: &Tensor) -> Result<Vec<Tap>> {
        let size = self.size;
        let at = match self.align_corners {
            true => affine(coordinate, (size - 1.0) / 2.0, (size - 1.0) / 2.0)?,
            false => affine(coordinate, size / 2.0, (size - 1.0) / 2.0)?,
        };
        match self.mode {
            0 => {
                let at = self.inside(&at)?;
                let first = ops::floor(&at)?;
                let t = ops::sub(&at, &first, 1)?;
                Ok(vec![self.tap(&first, &affine(&t, -1.0, 1.0)?)?, self.tap(&affine(&first, 1.0, 1.0)?, &t)?])
            }
            1 => {
                let one = ops::ones_like(&at, None, None, None, None, None)?;
                Ok(vec![self.tap(&ops::round(&self.inside(&at)?)?, &one)?])
            }
            2 => {
                const A: f64 = -0.75;
                let first = ops::floor(&at)?;
                let t = ops::sub(&at, &first, 1)?;
                // a x^3 + b x^2 + c x + d
                let cubic = |x: &Tensor, [a, b, c, d]: [f64; 4]| {
                    let inner = affine(&ops::mul(&affine(x, a, b)?, x)?, 1.0, c)?;
                    affine(&ops::mul(&inner, x)?, 1.0, d)
                };
                let near = |x: &Tensor| cubic(x, [A + 2.0, -(A + 3.0), 0.0, 1.0]);
                let far = |x: &Tensor| cubic(x, [A, -5.0 * A, 8.0 * A, -4.0 * A]);
                let weights = [
                    far(&affine(&t, 1.0, 1.0)?)?,
                    near(&t)?,
                    near(&affine(&t, -1.0, 1.0)?)?,
                    far(&affine(&t, -1.0, 2.0)?)?,
                ];
                let tap = |(k, weight): (usize, &Tensor)| {
                    self.tap(&self.inside(&affine(&first, 1.0, k as f64 - 1.0)?)?, weight)
                };
                weights.iter().enumerate().map(tap).collect()
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Images at the points of a grid, by operators.
fn sample(x: &Tensor, grid: &Tensor, sizes: &[i64], how: (i64, i64, bool)) -> Result<Tensor> {
    let (mode, padding, align_corners) = how;
    let (n, c, image) = (x.size(0)?, x.size(1)?, &x.sizes()[2..]);
    let planes = ops::reshape(x, &[n, c, image.iter().product()])?;
    let points = ops::reshape(grid, &[n, -1, image.len() as i64])?;
    let p = points.size(1)?;
    // Offsets and weights of the elements, a dimension more each turn.
    let mut seen: Vec<Tap> = Vec::new();
    for (d, &size) in image.iter().enumerate() {
        let coordinate = ops::select_int(&points, -1, (image.len() - 1 - d) as i64)?;
        let taps = Line { size: size as f64, mode, padding, align_corners }.taps(&coordinate)?;
        if d == 0 {
            seen = taps;
            continue;
        }
        let mut grown = Vec::with_capacity(seen.len() * taps.len());
        for outer in &seen {
            let row = ops::mul_scalar(&outer.index, size)?;
            for tap in &taps {
                let index = ops::add(&row, &tap.index, 1)?;
                grown.push(Tap { index, weight: ops::mul(&outer.weight, &tap.weight)? });
            }
        }
        seen = grown;
    }
    let mut result: Option<Tensor> = None;
    for Tap { index, weight } in seen {
        let index = ops::expand(&ops::unsqueeze(&index, 1)?, &[n, c, p], false)?;
        let part = ops::mul(&ops::gather(&planes, 2, &index, false)?, &ops::unsqueeze(&weight, 1)?)?;
        result = Some(match result {
            Some(sum) => ops::add(&sum, &part, 1)?,
            None => part,
        });
    }
    match result {
        Some(result) => ops::reshape(&result, sizes),
        None => ops::new_zeros(x, sizes, None, None, None, None),
    }
}

type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The gradients of the gradients of a sampling: of its gradient, the images and the grid.
#[allow(clippy::too_many_arguments)]
pub fn grid_sampler_double_backward(
    grad_image: Option<&Tensor>,
    grad_grid: Option<&Tensor>,
    grad_output: &Tensor,
    image: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Three> {
    let how = (interpolation_mode, padding_mode, align_corners);
    // Both inputs need a graph for the gradients that are differentiated, whether or not they need a gradient themselves.
    let known = |x: &Tensor| -> Result<Tensor> { if x.requires_grad() { Ok(x.clone()) } else { leaf(x) } };
    let compose = |[grad_output, image, grid]: [&Tensor; 3]| {
        let (x, points) = (known(image)?, known(grid)?);
        let output = sample(&x, &points, grad_output.sizes(), how)?;
        let mut grads = first_order(&output, &[&x, &points], grad_output)?.into_iter();
        Ok([grads.next().flatten(), grads.next().flatten()])
    };
    let [a, b, c] = through([grad_output, image, grid], [grad_image, grad_grid], compose)?;
    let c = match c {
        None if grid.requires_grad() => Some(ops::zeros_like(grid, None, None, None, None, None)?),
        c => c,
    };
    Ok((a, b, c))
}

/// The same elements, of which a gradient can be taken.
fn leaf(x: &Tensor) -> Result<Tensor> {
    let leaf = ops::detach(x)?;
    leaf.requires_grad_(true)?;
    Ok(leaf)
}
