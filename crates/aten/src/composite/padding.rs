//! Padding with a constant, around the other end, and by a mode's name.

use tensor_core::{Result, Scalar, bail, check};

use crate::{Tensor, ops};

/// (before, after) of dimension `d`, where pairs are listed from the last dimension on.
fn pair(pad: &[i64], dims: usize, d: usize) -> (i64, i64) {
    let at = 2 * (dims - 1 - d);
    (pad[at], pad[at + 1])
}

/// `self` with `value` around its last dimensions; negative padding cuts.
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    let self_ = &self_.pinned();
    check!(pad.len().is_multiple_of(2), "Length of pad must be even but instead it equals {}", pad.len());
    let (n, padded) = (self_.dim(), pad.len() / 2);
    check!(
        padded <= n,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {}while the input \
         has {n}dimensions.",
        pad.len()
    );
    let mut inner = self_.clone();
    for d in n - padded..n {
        let (before, after) = pair(pad, n, d);
        if before < 0 {
            inner =
                ops::narrow(&inner, d as i64, before.saturating_neg(), inner.size(d as i64)?.saturating_add(before))?;
        }
        if after < 0 {
            inner = ops::narrow(&inner, d as i64, 0, inner.size(d as i64)?.saturating_add(after))?;
        }
    }
    if pad.iter().all(|&p| p <= 0) {
        return ops::clone(&inner, None);
    }
    let mut sizes = self_.sizes().to_vec();
    for (d, size) in sizes.iter_mut().enumerate().skip(n - padded) {
        let (before, after) = pair(pad, n, d);
        *size = size.saturating_add(before).saturating_add(after);
        check!(
            *size >= 0,
            "The input size {}, plus negative padding {before} and {after} resulted in a negative output size, which is \
             invalid. Check dimension {d} of your input.",
            self_.sizes()[d]
        );
    }
    let format = Some(self_.suggest_memory_format());
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let out = ops::empty_memory_format(&sizes, dtype, None, device, None, format)?;
    ops::fill_scalar_(&out, value)?;
    let mut middle = out.clone();
    for d in n - padded..n {
        let (before, after) = pair(pad, n, d);
        if before > 0 {
            middle = ops::narrow(&middle, d as i64, before, middle.size(d as i64)? - before)?;
        }
        if after > 0 {
            middle = ops::narrow(&middle, d as i64, 0, middle.size(d as i64)? - after)?;
        }
    }
    ops::copy_(&middle, &inner, false)?;
    Ok(out)
}

/// `self` (n, c, ..) or (c, ..) with the other end's elements beyond each edge of its spatial dimensions.
pub fn _pad_circular(self_: &Tensor, pad: &[i64]) -> Result<Tensor> {
    let (n, padded) = (self_.dim(), pad.len() / 2);
    check!(
        pad.len() + 4 == 2 * n || pad.len() + 2 == 2 * n,
        "Invalid padding size, expected 1 or 2 non-padded dimensions, which would be equivalent to padding of length {} or \
         {} respectively but got {}",
        2 * n as i64 - 2,
        2 * n as i64 - 4,
        pad.len()
    );
    let mut sizes = self_.sizes().to_vec();
    for (d, size) in sizes.iter_mut().enumerate().skip(n - padded) {
        let (before, after) = pair(pad, n, d);
        check!(before <= *size && after <= *size, "Padding value causes wrapping around more than once.");
        *size = size.saturating_add(before).saturating_add(after);
        check!(*size >= 0, "Negative padding value is resulting in an empty dimension");
    }
    let out = ops::new_empty(self_, &sizes, Some(self_.dtype()), None, Some(self_.device()), None)?;
    let slice = |x: &Tensor, d: usize, start: i64, end: i64| ops::slice(x, d as i64, Some(start), Some(end), 1);
    let (mut to, mut from) = (out.clone(), self_.clone());
    for (d, &size) in sizes.iter().enumerate().skip(n - padded) {
        let (before, after) = pair(pad, n, d);
        to = slice(&to, d, before.max(0), size - after.max(0))?;
        from = slice(&from, d, (-before).max(0), self_.sizes()[d] - (-after).max(0))?;
    }
    ops::copy_(&to, &from, false)?;
    // What is written by one dimension is read by the next, corners too.
    for (d, &size) in sizes.iter().enumerate().skip(n - padded).rev() {
        let (before, after) = pair(pad, n, d);
        if before > 0 {
            let end = size - after.max(0);
            ops::copy_(&slice(&out, d, 0, before)?, &slice(&out, d, end - before, end)?, false)?;
        }
        if after > 0 {
            let start = before.max(0);
            ops::copy_(&slice(&out, d, size - after, size)?, &slice(&out, d, start, start + after)?, false)?;
        }
    }
    Ok(out)
}

const MODES: [&str; 4] = ["reflect", "replicate", "circular", "constant"];

/// [`pad`] with the mode's number: reflect, replicate, circular, constant.
pub fn _pad_enum(self_: &Tensor, pad: &[i64], mode: i64, value: Option<f64>) -> Result<Tensor> {
    let (n, dims) = (self_.dim(), pad.len() / 2);
    check!(pad.len().is_multiple_of(2), "Padding length must be divisible by 2");
    check!(
        dims <= n,
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input \
         of dimension {n}",
        pad.len()
    );
    if mode == 3 {
        return ops::constant_pad_nd(self_, pad, value.unwrap_or(0.0));
    }
    let name = usize::try_from(mode).ok().and_then(|mode| MODES.get(mode)).copied().unwrap_or("Unknown");
    check!(value.is_none_or(|value| value == 0.0), "Padding mode \"{name}\" doesn't take in value argument");
    if n == dims + 1 || n == dims + 2 {
        match (mode, dims) {
            (0, 1) => return ops::reflection_pad1d(self_, pad),
            (0, 2) => return ops::reflection_pad2d(self_, pad),
            (0, 3) => return ops::reflection_pad3d(self_, pad),
            (1, 1) => return ops::replication_pad1d(self_, pad),
            (1, 2) => return ops::replication_pad2d(self_, pad),
            (1, 3) => return ops::replication_pad3d(self_, pad),
            (2, 1..=3) => return ops::_pad_circular(self_, pad),
            _ => {}
        }
    }
    bail!(
        NotImplemented,
        "Padding size {} is not supported for {n}D input tensor.\nSupported combinations for non-constant padding:\n  - 2D \
         or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 \
         dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
        pad.len()
    )
}

/// `self` padded in a mode: constant, reflect, replicate or circular.
pub fn pad(self_: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    match MODES.iter().position(|&name| name == mode) {
        Some(number) => ops::_pad_enum(self_, pad, number as i64, value),
        None => bail!(NotImplemented, "Unrecognised padding mode {mode}"),
    }
}
