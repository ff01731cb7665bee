//! The dtypes and the device of a plan: what each operand is computed in, and which mixtures are refused.

use super::config::{IterConfig, Seen};
use super::plan::Draft;
use crate::promotion::{ResultType, can_cast, default_dtype};
use crate::{DType, Device, Error, Result, bail, check};

/// What the operands have in common.
pub(super) struct Types {
    /// Absent where the inputs differ and do not promote, or there are none.
    pub common: Option<DType>,
    pub device: Device,
}

impl IterConfig<'_> {
    fn inputs(&self) -> impl Iterator<Item = Seen<'_>> {
        self.operands[self.num_outputs..].iter().flatten().copied()
    }

    fn outputs(&self) -> impl Iterator<Item = Seen<'_>> {
        self.operands[..self.num_outputs].iter().flatten().copied()
    }

    /// The common dtype and device of the operands, and in each draft the dtype that the kernel sees.
    pub(super) fn types(&self, drafts: &mut [Draft<'_>], all_scalars: bool) -> Result<Types> {
        let flags = &self.flags;
        let first = self.inputs().next().map(|seen| seen.meta.dtype);
        let mixed = self.inputs().any(|seen| Some(seen.meta.dtype) != first);
        if flags.check_all_same_dtype {
            self.check_same_dtype(first)?;
        }
        let mut common = first;
        if flags.promote_inputs && (mixed || all_scalars || self.numbers.is_some()) {
            common = Some(self.promote());
        } else if mixed {
            common = None;
        }
        if flags.promote_integer_inputs_to_float && common.is_some_and(|dtype| dtype.is_integral(true)) {
            common = Some(default_dtype());
        }

        let device = self.common_device();
        if flags.check_all_same_device {
            self.check_device(device)?;
        }
        if flags.enforce_safe_casting_to_output
            && let Some(common) = common
            && let Some(out) = self.outputs().find(|out| !can_cast(common, out.meta.dtype))
        {
            bail!(
                Runtime,
                "result type {} can't be cast to the desired output type {}",
                common.cpp_name(),
                out.meta.dtype.cpp_name()
            );
        }

        for (draft, i) in drafts.iter_mut().zip(0..) {
            let is_output = i < self.num_outputs;
            let cast = if is_output { flags.cast_common_dtype_to_outputs } else { flags.promote_inputs };
            let own = draft.seen.map(|seen| seen.meta.dtype);
            let dtype = match own {
                Some(_) if is_output && self.static_dtype.is_some() => self.static_dtype,
                Some(own) => common.filter(|_| cast).or(Some(own)),
                None => self.static_dtype.or(common),
            };
            let Some(dtype) = dtype else { bail!(Runtime, "no type for operand {i}") };
            draft.dtype = dtype;
        }
        Ok(Types { common, device })
    }

    fn promote(&self) -> DType {
        self.inputs()
            .fold(self.numbers.unwrap_or_default(), |state: ResultType, seen| {
                state.dtype_of(seen.meta.dtype, seen.meta.sizes.len(), seen.tensor.is_wrapped_number())
            })
            .finish()
    }

    /// Refuses operands of several dtypes. Outputs alone are compared with the first of them.
    fn check_same_dtype(&self, first: Option<DType>) -> Result<()> {
        let Some(expected) = first.or_else(|| self.outputs().next().map(|seen| seen.meta.dtype)) else { return Ok(()) };
        match self.outputs().chain(self.inputs()).find(|seen| seen.meta.dtype != expected) {
            Some(seen) => {
                bail!(Runtime, "Found dtype {} but expected {}", seen.meta.dtype.cpp_name(), expected.cpp_name())
            }
            None => Ok(()),
        }
    }

    /// The first device that is not the CPU, if there is one.
    fn common_device(&self) -> Device {
        let mut devices = self.outputs().chain(self.inputs()).map(|seen| seen.meta.storage.device());
        devices
            .find(|device| !device.is_cpu())
            .or(self.static_device.filter(|_| self.operands.iter().all(Option::is_none)))
            .unwrap_or(Device::CPU)
    }

    fn check_device(&self, common: Device) -> Result<()> {
        let mut cpu_scalars = 0;
        for (i, seen) in self.operands.iter().enumerate().filter_map(|(i, seen)| seen.map(|seen| (i, seen))) {
            let device = seen.meta.storage.device();
            if device == common {
                continue;
            }
            let is_input = i >= self.num_outputs;
            if self.flags.allow_cpu_scalars && is_input && seen.meta.sizes.is_empty() && device.is_cpu() {
                cpu_scalars += 1;
                check!(cpu_scalars <= 1 || common.is_meta(), "Trying to pass too many CPU scalars to non-CPU kernel!");
                continue;
            }
            return Err(self.two_devices(common, device));
        }
        Ok(())
    }

    /// The meta device's mixtures have texts of their own.
    #[cold]
    fn two_devices(&self, common: Device, other: Device) -> Error {
        if !common.is_meta() && !other.is_meta() {
            return Error::runtime(format!(
                "Expected all tensors to be on the same device, but found at least two devices, {common} and {other}!"
            ));
        }
        let mut inputs = self.inputs().map(|seen| seen.meta.storage.device());
        let expected = inputs.next().unwrap_or(other);
        if let Some(found) = inputs.find(|&device| device != expected) {
            return Error::runtime(format!("Tensor on device {found} is not on the expected device {expected}!"));
        }
        let found = if expected == common { other } else { common };
        Error::runtime(format!(
            "Attempting to copy from device {expected} to device {found}, but cross-device copies are not allowed!"
        ))
    }
}
