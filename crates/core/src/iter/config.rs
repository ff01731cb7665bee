//! [`IterConfig`]: what a plan is asked for. The planning itself is in [`super::plan`].

use smallvec::SmallVec;

use super::TensorIter;
use crate::promotion::ResultType;
use crate::tensor_impl::Metadata;
use crate::{DType, Device, Result, Scalar, TensorRef};

/// A tensor of the call and what it looked like when it was named. The plan reads no later state of it.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub tensor: &'a TensorRef,
    pub meta: &'a Metadata,
}

impl<'a> Seen<'a> {
    #[inline]
    fn new(tensor: &'a TensorRef) -> Self {
        Self { tensor, meta: tensor.metadata() }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub check_mem_overlap: bool,
    pub promote_inputs: bool,
    pub promote_integer_inputs_to_float: bool,
    pub cast_common_dtype_to_outputs: bool,
    pub enforce_safe_casting_to_output: bool,
    pub check_all_same_dtype: bool,
    pub check_all_same_device: bool,
    pub allow_cpu_scalars: bool,
    pub resize_outputs: bool,
    pub is_reduction: bool,
}

const DEFAULTS: Flags = Flags {
    check_mem_overlap: true,
    promote_inputs: false,
    promote_integer_inputs_to_float: false,
    cast_common_dtype_to_outputs: false,
    enforce_safe_casting_to_output: false,
    check_all_same_dtype: true,
    check_all_same_device: true,
    allow_cpu_scalars: false,
    resize_outputs: true,
    is_reduction: false,
};

/// What most operators of several tensors do: promote, and cast the result to the output that was given.
const PROMOTING: Flags = Flags {
    promote_inputs: true,
    cast_common_dtype_to_outputs: true,
    enforce_safe_casting_to_output: true,
    check_all_same_dtype: false,
    ..DEFAULTS
};

/// Describes an operation's outputs, inputs and rules; [`IterConfig::build`] plans it (`TensorIteratorConfig`).
///
/// Outputs come before inputs. An output that is also an input makes the operation in-place: it is not resized.
#[must_use = "a configuration plans nothing until `build`"]
pub struct IterConfig<'a> {
    /// Outputs, then inputs. Only an output may be `None`: the planner allocates it.
    pub(super) operands: SmallVec<[Option<Seen<'a>>; 4]>,
    pub(super) num_outputs: usize,
    pub(super) flags: Flags,
    pub(super) static_dtype: Option<DType>,
    pub(super) static_device: Option<Device>,
    pub(super) static_shape: Option<&'a [i64]>,
    pub(super) numbers: Option<ResultType>,
}

impl Default for IterConfig<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> IterConfig<'a> {
    /// No operands; overlap, dtype and device are checked, nothing is promoted, outputs are resized.
    #[inline]
    pub fn new() -> Self {
        Self::with(DEFAULTS, 0, [None; 4], 0)
    }

    /// The first operands, as many as are used.
    #[inline(always)]
    fn with(flags: Flags, num_outputs: usize, operands: [Option<&'a TensorRef>; 4], used: usize) -> Self {
        // Not `map`, which is a call for each.
        let [a, b, c, d] = operands;
        let seen = |tensor: Option<&'a TensorRef>| tensor.map(Seen::new);
        Self {
            operands: SmallVec::from_buf_and_len([seen(a), seen(b), seen(c), seen(d)], used),
            num_outputs,
            flags,
            static_dtype: None,
            static_device: None,
            static_shape: None,
            numbers: None,
        }
    }

    /// An output; with `None` the planner allocates it.
    #[inline]
    pub fn output(mut self, tensor: Option<&'a TensorRef>) -> Self {
        self.operands.insert(self.num_outputs, tensor.map(Seen::new));
        self.num_outputs += 1;
        self
    }

    /// An input.
    #[inline]
    pub fn input(mut self, tensor: &'a TensorRef) -> Self {
        self.operands.push(Some(Seen::new(tensor)));
        self
    }

    /// A number that takes part in type promotion and is no operand: kernels get it as a parameter.
    #[inline]
    pub fn number(mut self, value: Scalar) -> Self {
        self.numbers = Some(self.numbers.unwrap_or_default().scalar(value));
        self
    }

    /// Refuse outputs that overlap themselves or, partially, an input. On by default.
    pub fn check_mem_overlap(mut self, on: bool) -> Self {
        self.flags.check_mem_overlap = on;
        self
    }

    /// Compute in the dtype that the inputs promote to. Turns [`IterConfig::check_all_same_dtype`] off.
    pub fn promote_inputs(mut self, on: bool) -> Self {
        self.flags.promote_inputs = on;
        self.flags.check_all_same_dtype &= !on;
        self
    }

    /// Compute in the default dtype where the inputs are all integers or booleans. Turns promotion on.
    pub fn promote_integer_inputs_to_float(mut self, on: bool) -> Self {
        self.flags.promote_integer_inputs_to_float = on;
        if on { self.promote_inputs(true) } else { self }
    }

    /// Let the kernel write the common dtype, to be cast to the output's own. Turns [`IterConfig::check_all_same_dtype`] off.
    pub fn cast_common_dtype_to_outputs(mut self, on: bool) -> Self {
        self.flags.cast_common_dtype_to_outputs = on;
        self.flags.check_all_same_dtype &= !on;
        self
    }

    /// Refuse an output whose dtype the common one cannot be cast to.
    pub fn enforce_safe_casting_to_output(mut self, on: bool) -> Self {
        self.flags.enforce_safe_casting_to_output = on;
        self
    }

    /// Refuse operands of different dtypes. On by default.
    pub fn check_all_same_dtype(mut self, on: bool) -> Self {
        self.flags.check_all_same_dtype = on;
        self
    }

    /// Refuse operands on different devices. On by default.
    pub fn check_all_same_device(mut self, on: bool) -> Self {
        self.flags.check_all_same_device = on;
        self
    }

    /// Let one 0-dim input lie on the CPU while the others lie elsewhere.
    pub fn allow_cpu_scalars(mut self, on: bool) -> Self {
        self.flags.allow_cpu_scalars = on;
        self
    }

    /// Resize outputs of another shape (those that are inputs too never are). On by default; when off, outputs take part in
    /// broadcasting.
    pub fn resize_outputs(mut self, on: bool) -> Self {
        self.flags.resize_outputs = on;
        self
    }

    /// The outputs are broadcast along the reduced dimensions, which come first in the plan.
    pub fn is_reduction(mut self, on: bool) -> Self {
        self.flags.is_reduction = on;
        self
    }

    /// The dtype that the kernel writes, in place of the common one. Outputs of another dtype get it cast.
    pub fn static_dtype(mut self, dtype: DType) -> Self {
        self.static_dtype = Some(dtype);
        self
    }

    /// The device of outputs that the planner allocates, in place of the common one.
    pub fn static_device(mut self, device: Device) -> Self {
        self.static_device = Some(device);
        self
    }

    /// The shape to walk, in place of the broadcast one: every operand's strides are taken for this shape.
    pub fn static_shape(mut self, shape: &'a [i64]) -> Self {
        self.static_shape = Some(shape);
        self
    }

    /// Checks the operands, allocates or resizes the outputs, and plans the walk.
    ///
    /// # Errors
    /// With PyTorch's texts when shapes do not broadcast, dtypes or devices do not fit, or memory overlaps; nothing has been
    /// written by then.
    #[inline]
    pub fn build(self) -> Result<TensorIter> {
        self.plan()
    }
}

/// The configurations of common kinds of operators (`build_binary_op` and friends).
impl<'a> IterConfig<'a> {
    /// Fills one output that exists, of any dtype.
    #[inline]
    pub fn nullary_op(out: &'a TensorRef) -> Self {
        let flags = Flags { check_all_same_dtype: false, resize_outputs: false, ..DEFAULTS };
        Self::with(flags, 1, [Some(out), None, None, None], 1)
    }

    #[inline]
    fn unary(flags: Flags, out: Option<&'a TensorRef>, a: &'a TensorRef) -> Self {
        Self::with(flags, 1, [out, Some(a), None, None], 2)
    }

    #[inline]
    fn binary(flags: Flags, out: Option<&'a TensorRef>, a: &'a TensorRef, b: &'a TensorRef) -> Self {
        Self::with(flags, 1, [out, Some(a), Some(b), None], 3)
    }

    /// One input and an output of its dtype: `neg`, `abs`.
    #[inline]
    pub fn unary_op(out: Option<&'a TensorRef>, a: &'a TensorRef) -> Self {
        Self::unary(DEFAULTS, out, a)
    }

    /// One input, integers as the default float dtype: `exp`, `sin`.
    #[inline]
    pub fn unary_float_op(out: Option<&'a TensorRef>, a: &'a TensorRef) -> Self {
        Self::unary(Flags { promote_integer_inputs_to_float: true, ..PROMOTING }, out, a)
    }

    /// One input and a truth value: `isnan`, `signbit`.
    #[inline]
    pub fn predicate_op(out: Option<&'a TensorRef>, a: &'a TensorRef) -> Self {
        Self::unary(Flags { check_all_same_dtype: false, ..DEFAULTS }, out, a).static_dtype(DType::Bool)
    }

    /// Two inputs that promote: `add`, `mul`.
    #[inline]
    pub fn binary_op(out: Option<&'a TensorRef>, a: &'a TensorRef, b: &'a TensorRef) -> Self {
        Self::binary(Flags { allow_cpu_scalars: true, ..PROMOTING }, out, a, b)
    }

    /// Two inputs that promote, integers to the default float dtype: `div`, `atan2`.
    #[inline]
    pub fn binary_float_op(out: Option<&'a TensorRef>, a: &'a TensorRef, b: &'a TensorRef) -> Self {
        let flags = Flags { allow_cpu_scalars: true, promote_integer_inputs_to_float: true, ..PROMOTING };
        Self::binary(flags, out, a, b)
    }

    /// Two inputs that promote, and a truth value: `eq`, `lt`. An output of another dtype gets it cast.
    #[inline]
    pub fn comparison_op(out: Option<&'a TensorRef>, a: &'a TensorRef, b: &'a TensorRef) -> Self {
        let flags = Flags {
            allow_cpu_scalars: true,
            cast_common_dtype_to_outputs: false,
            enforce_safe_casting_to_output: false,
            ..PROMOTING
        };
        Self::binary(flags, out, a, b).static_dtype(DType::Bool)
    }

    /// Three inputs that promote: `addcmul`.
    #[inline]
    pub fn ternary_op(out: Option<&'a TensorRef>, a: &'a TensorRef, b: &'a TensorRef, c: &'a TensorRef) -> Self {
        Self::with(PROMOTING, 1, [out, Some(a), Some(b), Some(c)], 4)
    }

    /// A reduction of `a` into `out`, whose reduced dimensions are of size 1.
    #[inline]
    pub fn reduce_op(out: &'a TensorRef, a: &'a TensorRef) -> Self {
        let flags = Flags {
            check_mem_overlap: false,
            check_all_same_dtype: false,
            promote_inputs: true,
            resize_outputs: false,
            is_reduction: true,
            ..DEFAULTS
        };
        Self::unary(flags, Some(out), a)
    }
}
