//! Padding with what lies inside: mirrored at the edges (reflection) or the edges repeated (replication), over one, two and
//! three dimensions, and the gradients. Constants and turns around are composites.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, MemoryFormat, Result, check};

use super::convolution::list;
use super::taps::{Taps, format_of, resample};
use crate::Tensor;
use crate::kernels::{self, PaddingKernels};
use crate::out::{Out, Spec, resize_output};

/// What lies beyond the edges.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Reflection,
    Replication,
}

use Mode::{Reflection, Replication};

impl Mode {
    /// The name of the operator, or of its gradient.
    fn name(self, dims: usize, backward: bool) -> &'static str {
        const NAMES: [[[&str; 3]; 2]; 2] = [
            [
                ["reflection_pad1d", "reflection_pad2d", "reflection_pad3d"],
                ["reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward"],
            ],
            [
                ["replication_pad1d", "replication_pad2d", "replication_pad3d"],
                ["replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"],
            ],
        ];
        NAMES[usize::from(self == Replication)][usize::from(backward)][dims - 1]
    }

    /// The element of an image of `size` that stands at `at`, counted from the image's start.
    fn source(self, at: i64, size: i64) -> usize {
        let at = match self {
            Replication => at,
            Reflection if at < 0 => -at,
            Reflection if at >= size => 2 * (size - 1) - at,
            Reflection => at,
        };
        at.clamp(0, size - 1) as usize
    }
}

/// A padding of the last dimensions: (before, after) each, the last dimension first.
struct Padding<'a> {
    mode: Mode,
    pairs: &'a [[i64; 2]],
    /// the shape of what comes out
    sizes: Dims,
}

const DIMS: [&str; 3] = ["W", "H", "D"];

impl<'a> Padding<'a> {
    /// Checks the arguments of a forward pass.
    fn new(mode: Mode, dims: usize, x: &Tensor, padding: &'a [i64]) -> Result<Self> {
        check!(padding.len() == 2 * dims, "padding size is expected to be {}, but got: {}", 2 * dims, padding.len());
        let (pairs, _) = padding.as_chunks::<2>();
        let (n, sizes) = (x.dim(), x.sizes());
        check!(
            (n == dims + 1 && !sizes.contains(&0)) || (n == dims + 2 && !sizes[1..].contains(&0)),
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, \
             but got: {}",
            dims + 1,
            dims + 2,
            list(sizes)
        );
        for (k, [before, after]) in pairs.iter().enumerate() {
            let size = sizes[n - 1 - k];
            check!(
                mode == Replication || (*before < size && *after < size),
                "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding \
                 ({before}, {after}) at dimension {} of input {}",
                4 + 2 * k,
                n - 1 - k,
                list(sizes)
            );
        }
        let mut result = Dims::from_slice(sizes);
        for (k, [before, after]) in pairs.iter().enumerate() {
            result[n - 1 - k] = result[n - 1 - k].saturating_add(*before).saturating_add(*after);
        }
        let spatial = &result[n - dims..];
        if dims == 1 {
            check!(spatial[0] >= 1, "input (W: {}) is too small. Calculated output W: {}", sizes[n - 1], spatial[0]);
        } else {
            let named = |sizes: &[i64], between: &str| {
                let all: Vec<String> =
                    sizes.iter().zip(DIMS[..dims].iter().rev()).map(|(size, name)| format!("{name}: {size}")).collect();
                all.join(between)
            };
            check!(
                spatial.iter().all(|&size| size >= 1),
                "Calculated output {} must be >= 1 in every dimension (input {})",
                named(spatial, " "),
                named(&sizes[n - dims..], ", ")
            );
        }
        Ok(Self { mode, pairs, sizes: result })
    }

    fn dims(&self) -> usize {
        self.pairs.len()
    }

    /// Which element each result is, a dimension at a time.
    fn taps(&self, x: &Tensor) -> Vec<Taps> {
        let (n, dims) = (x.dim(), self.dims());
        let of = |d: usize| {
            let (size, [before, _]) = (x.sizes()[d], self.pairs[n - 1 - d]);
            Taps::single((0..self.sizes[d]).map(move |o| self.mode.source(o.saturating_sub(before), size)))
        };
        (n - dims..n).map(of).collect()
    }

    /// Refuses a gradient that is not like the result.
    fn check_grad(&self, grad: &Tensor, x: &Tensor) -> Result<()> {
        let (n, dims) = (x.dim(), self.dims());
        check!(
            dims < 3 || grad.dim() == n,
            "Expected grad_output.dim() == input.dim() to be true, but got false.  (Could this error message be improved?  \
             If so, please report an enhancement request to PyTorch.)"
        );
        let names = ["width", "height", "depth", "channel"];
        let order = std::iter::once(dims).chain(0..dims);
        for k in order {
            let d = n - 1 - k;
            let (expected, got) = (self.sizes[d], grad.size(d as i64)?);
            let name = if k == dims { names[3] } else { names[k] };
            check!(expected == got, "grad_output {name} unexpected. Expected: {expected}, Got: {got}");
        }
        check!(
            grad.sizes() == self.sizes.as_slice(),
            "grad_output batch unexpected. Expected: {}, Got: {}",
            list(&self.sizes),
            list(grad.sizes())
        );
        Ok(())
    }
}

fn table(x: &Tensor) -> Result<&'static PaddingKernels> {
    kernels::padding(x.device())
}

fn spec(sizes: &[i64], x: &Tensor, format: MemoryFormat) -> Result<Spec> {
    Ok(Spec { strides: Some(strides::of_format(sizes, format)?), ..Spec::like(sizes, x) })
}

/// Refuses a tensor of another dtype, in the words of a typed pointer.
pub(super) fn check_scalar_type(expected: DType, found: DType) -> Result<()> {
    check!(expected == found, "expected scalar type {} but found {}", expected.cpp_name(), found.cpp_name());
    Ok(())
}

/// [`check_scalar_type`] of an out tensor.
pub(super) fn check_target(out: &Out<'_>, x: &Tensor) -> Result<()> {
    out.target(0).map_or(Ok(()), |target| check_scalar_type(x.dtype(), target.dtype()))
}

fn forward(out: Out<'_>, mode: Mode, dims: usize, x: &Tensor, padding: &[i64]) -> Result<Tensor> {
    let padding = Padding::new(mode, dims, x, padding)?;
    if !x.is_meta() {
        table(x)?.remap.get(x.dtype(), mode.name(dims, false))?;
    }
    if mode == Reflection && dims == 2 {
        check_target(&out, x)?;
    }
    let format = format_of(x, dims);
    // PyTorch lays an unbatched result out anew.
    let anew = mode == Replication && dims == 2 && x.dim() == 3;
    let fits = |target: &&Tensor| anew && target.dtype() == x.dtype() && target.sizes() == padding.sizes.as_slice();
    if let Some(target) = out.target(0).filter(fits) {
        resize_output(target, &padding.sizes, &strides::contiguous(&padding.sizes))?;
    }
    let slot = out.prepare(0, spec(&padding.sizes, x, format)?, &[x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let kernel = table(x)?.remap.get(x.dtype(), mode.name(dims, false))?;
        resample(kernel, &slot.tensor, x, format, padding.taps(x))?;
    }
    slot.finish()
}

fn backward(out: Out<'_>, mode: Mode, dims: usize, grad: &Tensor, x: &Tensor, padding: &[i64]) -> Result<Tensor> {
    let padding = Padding::new(mode, dims, x, padding)?;
    padding.check_grad(grad, x)?;
    if !x.is_meta() {
        table(x)?.resample.get(grad.dtype(), mode.name(dims, true))?;
    }
    check_scalar_type(grad.dtype(), x.dtype())?;
    if dims == 2 || (mode == Replication && dims == 3) {
        check_target(&out, x)?;
    }
    let format = format_of(x, dims);
    let slot = out.prepare(0, spec(x.sizes(), x, format)?, &[grad, x])?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        let kernel = table(x)?.resample.get(x.dtype(), mode.name(dims, true))?;
        let image = &x.sizes()[x.dim() - dims..];
        let taps = padding.taps(x).iter().zip(image).map(|(taps, &n)| taps.transposed(n as usize)).collect();
        resample(kernel, &slot.tensor, grad, format, taps)?;
    }
    slot.finish()
}

macro_rules! pads {
    ($($mode:ident $dims:literal: $name:ident, $backward:ident;)*) => { $(
        #[doc = concat!("`self` with its last ", $dims, " dimension(s) padded: (before, after) each, the last dimension first.")]
        pub fn $name(out: Out<'_>, self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            forward(out, $mode, $dims, self_, padding)
        }
        #[doc = concat!("Gradient of [`", stringify!($name), "`].")]
        pub fn $backward(out: Out<'_>, grad_output: &Tensor, self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            backward(out, $mode, $dims, grad_output, self_, padding)
        }
    )* };
}

pads! {
    Reflection 1: reflection_pad1d, reflection_pad1d_backward;
    Reflection 2: reflection_pad2d, reflection_pad2d_backward;
    Reflection 3: reflection_pad3d, reflection_pad3d_backward;
    Replication 1: replication_pad1d, replication_pad1d_backward;
    Replication 2: replication_pad2d, replication_pad2d_backward;
    Replication 3: replication_pad3d, replication_pad3d_backward;
}
