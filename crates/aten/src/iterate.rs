//! Element-wise operators around a planned iterator: the standard shape rules, and the run of a kernel with its casts.

use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::{Device, Result, Scalar};

use crate::composite::copy;
use crate::kernels::{Columns, IterKernel};
use crate::{Arg, Out, Tensor};

/// What a shape rule takes as an input: a tensor, or a number that promotes as one.
pub trait Term<'a> {
    /// The tensor, if it is one.
    fn known(&self) -> Option<&'a Tensor>;

    /// The tensor; a wrapped one for a number, which stands beside `other` if that is a tensor.
    ///
    /// # Errors
    /// When a number cannot be allocated as a tensor.
    fn term(self, other: Option<&Tensor>) -> Result<Arg<'a>>;
}
impl<'a> Term<'a> for &'a Tensor {
    #[inline]
    fn known(&self) -> Option<&'a Tensor> {
        Some(self)
    }
    #[inline]
    fn term(self, _: Option<&Tensor>) -> Result<Arg<'a>> {
        Ok(Arg::Ref(self))
    }
}
impl<'a> Term<'a> for Scalar {
    #[inline]
    fn known(&self) -> Option<&'a Tensor> {
        None
    }
    #[inline]
    fn term(self, other: Option<&Tensor>) -> Result<Arg<'a>> {
        let wrapped = match other {
            Some(other) => Tensor::wrapped_number_beside(self, other),
            None => Tensor::wrapped_number(self),
        };
        wrapped.map(Arg::Owned)
    }
}

/// Both terms as tensors.
#[inline]
fn pair<'a>(a: impl Term<'a>, b: impl Term<'a>) -> Result<(Arg<'a>, Arg<'a>)> {
    let (left, right) = (a.known(), b.known());
    Ok((a.term(right)?, b.term(left)?))
}

/// One input and an output of its dtype.
pub fn unary(out: Out<'_>, a: &Tensor) -> Result<TensorIter> {
    IterConfig::unary_op(out.target(0).map(Tensor::as_impl), a.as_impl()).build()
}

/// One input; integers compute in the default float dtype.
pub fn unary_float(out: Out<'_>, a: &Tensor) -> Result<TensorIter> {
    IterConfig::unary_float_op(out.target(0).map(Tensor::as_impl), a.as_impl()).build()
}

/// One input and a truth value.
pub fn predicate(out: Out<'_>, a: &Tensor) -> Result<TensorIter> {
    IterConfig::predicate_op(out.target(0).map(Tensor::as_impl), a.as_impl()).build()
}

/// Two inputs that broadcast and promote.
pub fn binary<'a>(out: Out<'_>, a: impl Term<'a>, b: impl Term<'a>) -> Result<TensorIter> {
    let (a, b) = pair(a, b)?;
    IterConfig::binary_op(out.target(0).map(Tensor::as_impl), a.as_impl(), b.as_impl()).build()
}

/// Two inputs that broadcast and promote; integers compute in the default float dtype.
pub fn binary_float<'a>(out: Out<'_>, a: impl Term<'a>, b: impl Term<'a>) -> Result<TensorIter> {
    let (a, b) = pair(a, b)?;
    IterConfig::binary_float_op(out.target(0).map(Tensor::as_impl), a.as_impl(), b.as_impl()).build()
}

/// Two inputs that broadcast and promote, and a truth value.
pub fn comparison<'a>(out: Out<'_>, a: impl Term<'a>, b: impl Term<'a>) -> Result<TensorIter> {
    let (a, b) = pair(a, b)?;
    IterConfig::comparison_op(out.target(0).map(Tensor::as_impl), a.as_impl(), b.as_impl()).build()
}

/// Three inputs that broadcast and promote.
pub fn ternary(out: Out<'_>, a: &Tensor, b: &Tensor, c: &Tensor) -> Result<TensorIter> {
    IterConfig::ternary_op(out.target(0).map(Tensor::as_impl), a.as_impl(), b.as_impl(), c.as_impl()).build()
}

/// Runs the kernel of a plan's dtype and device, with the casts that are due around it, and gives output 0.
///
/// Outputs that existed count a write. Nothing runs on the meta device.
///
/// # Errors
/// `NotImplemented` when the device or dtype has no kernel; before anything is written.
#[inline]
pub fn run(
    mut iter: TensorIter,
    out: Out<'_>,
    name: &'static str,
    column: impl FnOnce(Device) -> Result<&'static Columns<IterKernel>>,
) -> Result<Tensor> {
    compute(&mut iter, out, name, column)?;
    match iter.into_output() {
        Some(output) => Ok(Tensor::from_impl(output)),
        None => tensor_core::bail!(Runtime, "{name}: the plan has no output"),
    }
}

/// [`run`] for operators with several outputs.
///
/// # Errors
/// As [`run`].
pub fn run_all(
    mut iter: TensorIter,
    out: Out<'_>,
    name: &'static str,
    column: impl FnOnce(Device) -> Result<&'static Columns<IterKernel>>,
) -> Result<impl Iterator<Item = Tensor>> {
    compute(&mut iter, out, name, column)?;
    Ok(iter.into_outputs().map(Tensor::from_impl))
}

#[inline]
fn compute(
    iter: &mut TensorIter,
    out: Out<'_>,
    name: &'static str,
    column: impl FnOnce(Device) -> Result<&'static Columns<IterKernel>>,
) -> Result<()> {
    if !iter.device().is_meta() {
        let kernel = column(iter.device())?.get(iter.common_dtype(), name)?;
        if iter.numel() > 0 {
            if !iter.is_ready() {
                cast_operands(iter)?;
            }
            kernel(iter)?;
        }
    }
    let existed = !matches!(out, Out::Fresh);
    for i in 0..iter.num_outputs() {
        match iter.original(i) {
            Some(original) => {
                let (original, computed) =
                    (Tensor::from_impl(original.clone()), Tensor::from_impl(iter.tensor(i).clone()));
                copy::copy_(&original, &computed, false)?;
            }
            None if existed => iter.tensor(i).bump_version(),
            None => {}
        }
    }
    Ok(())
}

/// Gives every operand the dtype that the kernel sees.
fn cast_operands(iter: &mut TensorIter) -> Result<()> {
    for cast in iter.casts() {
        let temporary = Tensor::from_impl(iter.temporary(cast.index)?);
        if !cast.is_output {
            let source = Tensor::from_impl(iter.tensor(cast.index).clone());
            copy::copy_(&temporary, &source, false)?;
        }
        iter.set_operand(cast.index, temporary.into_impl())?;
    }
    Ok(())
}
