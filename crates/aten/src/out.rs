//! [`Out`]: where a native function puts its results, so that one function serves its functional, in-place and out forms.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, Result, TensorImpl, check, overlap};

use crate::Tensor;

/// Which variant of an operator runs.
#[derive(Clone, Copy)]
pub enum Out<'a> {
    /// functional: results are fresh
    Fresh,
    /// in-place: the result is this tensor
    InPlace(&'a Tensor),
    /// `out=`: results are these tensors, resized where needed
    Into(&'a [&'a Tensor]),
}

/// What a result looks like.
pub struct Spec {
    /// the shape
    pub sizes: Dims,
    /// strides, row-major when absent
    pub strides: Option<Dims>,
    /// the element type
    pub dtype: DType,
    /// where it lies
    pub device: Device,
}

impl Spec {
    /// A row-major result.
    pub fn dense(sizes: &[i64], dtype: DType, device: Device) -> Self {
        Self { sizes: strides::dims(sizes), strides: None, dtype, device }
    }

    /// A fresh tensor that looks so. By reference: sizes that are moved are stored and loaded in different widths, which makes
    /// the loads wait.
    fn fresh(&self) -> Result<Tensor> {
        let Self { sizes, strides, dtype, device } = self;
        match strides {
            None => Tensor::new_dense(sizes, *dtype, *device),
            Some(strides) => TensorImpl::empty_of(sizes, strides, *dtype, *device).map(Tensor::from_impl),
        }
    }

    /// A row-major result with the dtype and device of another tensor.
    pub fn like(sizes: &[i64], other: &Tensor) -> Self {
        Self::dense(sizes, other.dtype(), other.device())
    }
}

/// A result on its way: the kernel writes `tensor`, which overlaps no input; [`Slot::finish`] brings it where it belongs.
pub struct Slot {
    /// dense in the spec's strides, not overlapping any input, of a shape that nobody else can change
    pub tensor: Tensor,
    target: Option<Tensor>,
    /// True if `tensor` is the target's memory
    direct: bool,
}

/// Refuses to go on with a tensor that has another shape than the one that was checked.
///
/// # Errors
/// When `fits` is false.
pub fn check_unchanged(fits: bool) -> Result<()> {
    check!(fits, "a tensor's metadata was changed by another thread during an operation");
    Ok(())
}

impl<'a> Out<'a> {
    /// The tensor that result `i` must end in, if it is not fresh.
    pub fn target(&self, i: usize) -> Option<&'a Tensor> {
        match self {
            Self::Fresh => None,
            Self::InPlace(t) => (i == 0).then_some(t),
            Self::Into(list) => list.get(i).copied(),
        }
    }

    /// Checks result `i` against its spec, and gives the tensor that a kernel may fill. `inputs` are what it reads.
    ///
    /// # Errors
    /// When an out tensor has another dtype or device, or an in-place one another shape.
    #[inline]
    pub fn prepare(&self, i: usize, spec: Spec, inputs: &[&Tensor]) -> Result<Slot> {
        match self.target(i) {
            None => Ok(Slot { tensor: spec.fresh()?, target: None, direct: false }),
            Some(target) => self.prepare_target(target, spec, inputs),
        }
    }

    fn prepare_target(&self, target: &Tensor, spec: Spec, inputs: &[&Tensor]) -> Result<Slot> {
        let Spec { sizes, strides, dtype, device } = spec;
        let strides = strides.unwrap_or_else(|| strides::contiguous(&sizes));
        check!(
            target.dtype() == dtype,
            "Expected out tensor to have dtype {}, but got {} instead",
            dtype.c_name(),
            target.dtype().c_name()
        );
        check!(
            target.device() == device,
            "Expected out tensor to have device {device}, but got {} instead",
            target.device()
        );
        if target.sizes() != sizes.as_slice() {
            match self {
                Self::InPlace(_) => check!(
                    false,
                    "Bad in-place call: input tensor size {} and output tensor size {} should match",
                    strides::show(target.sizes()),
                    strides::show(&sizes)
                ),
                _ => resize_output(target, &sizes, &strides)?,
            }
        } else {
            overlap::assert_no_internal_overlap(target.as_impl())?;
        }
        let own = target.pinned();
        check_unchanged(own.sizes() == sizes.as_slice() && own.dtype() == dtype)?;
        let direct =
            own.strides() == strides.as_slice() && !inputs.iter().any(|input| input.storage().ptr_eq(own.storage()));
        let tensor = if direct { own } else { Tensor::new_strided(sizes, strides, dtype, device)? };
        Ok(Slot { tensor, target: Some(target.clone()), direct })
    }
}

/// Gives an out tensor a new shape, growing its storage where needed (`resize_output`).
///
/// # Errors
/// When the storage cannot grow.
pub fn resize_output(target: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<()> {
    let needed = strides::storage_bytes(sizes, strides, target.element_size(), target.storage_offset())?;
    target.storage().grow(needed)?;
    target.as_impl().set_metadata(
        target.storage().clone(),
        target.dtype(),
        Dims::from_slice(sizes),
        Dims::from_slice(strides),
        target.storage_offset(),
    )
}

impl Slot {
    /// The result: copied into its target where the kernel could not write that, and counted as a write.
    ///
    /// # Errors
    /// When the copy fails.
    pub fn finish(self) -> Result<Tensor> {
        let Some(target) = self.target else { return Ok(self.tensor) };
        if self.direct {
            target.as_impl().bump_version();
        } else {
            crate::ops::copy_(&target, &self.tensor, false)?;
        }
        Ok(target)
    }

    /// True if the kernel writes the memory of the in-place or out tensor itself.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// True on the device without memory: nothing to compute.
    pub fn is_meta(&self) -> bool {
        self.tensor.is_meta()
    }
}

/// Which dtypes an out tensor may have whose result was computed apart.
#[derive(Clone, Copy)]
pub enum Dtypes {
    /// the result's own
    Exact,
    /// any
    Any,
    /// those that the result's can be cast to
    Cast,
    /// the result's own, or an error with these words: `{result}` and `{out}` are C names, `{Result}` and `{Out}` C++ ones
    Words(&'static str),
}

impl Dtypes {
    /// Checks an out tensor against the result that it shall get.
    ///
    /// # Errors
    /// When it may not have its dtype.
    pub fn check(self, target: &Tensor, result: &Tensor) -> Result<()> {
        let (have, want) = (target.dtype(), result.dtype());
        match self {
            Self::Exact => check!(
                have == want,
                "Expected out tensor to have dtype {}, but got {} instead",
                want.c_name(),
                have.c_name()
            ),
            Self::Any => {}
            Self::Cast => check!(
                tensor_core::promotion::can_cast(want, have),
                "result type {} can't be cast to the desired output type {}",
                want.cpp_name(),
                have.cpp_name()
            ),
            Self::Words(words) => check!(
                have == want,
                "{}",
                words
                    .replace("{result}", want.c_name())
                    .replace("{out}", have.c_name())
                    .replace("{Result}", want.cpp_name())
                    .replace("{Out}", have.cpp_name())
            ),
        }
        Ok(())
    }

    /// Ends an out variant: checks the dtype, resizes and copies.
    ///
    /// # Errors
    /// As [`Dtypes::check`], and when the copy fails.
    pub fn copy(self, target: &Tensor, result: &Tensor) -> Result<()> {
        self.check(target, result)?;
        if target.sizes() != result.sizes() {
            resize_output(target, result.sizes(), &strides::contiguous(result.sizes()))?;
        }
        crate::ops::copy_(target, result, false)?;
        Ok(())
    }
}

/// Ends an out variant whose result was computed apart, with a cast where the dtype allows it.
///
/// # Errors
/// When the result cannot be cast to the out tensor's dtype.
pub fn copy_into(target: &Tensor, result: &Tensor) -> Result<()> {
    check!(
        tensor_core::promotion::can_cast(result.dtype(), target.dtype()),
        "Expected out tensor to have dtype {}, but got {} instead",
        result.dtype().c_name(),
        target.dtype().c_name()
    );
    Dtypes::Cast.copy(target, result)
}
