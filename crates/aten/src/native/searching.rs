//! Places in sorted sequences, and membership in sets.

use tensor_core::promotion::result_type;
use tensor_core::strides::{Dims, show};
use tensor_core::{DType, MemoryFormat, Result, Scalar, bail, check};

use crate::kernels;
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

fn dense(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let x = ops::contiguous(x, MemoryFormat::Contiguous)?;
    if x.dtype() == dtype { Ok(x) } else { ops::_to_copy(&x, Some(dtype), None, None, None, false, None) }
}

/// A contiguous tensor as (rows, n) by its last dimension.
fn matrix(x: &Tensor) -> Result<Tensor> {
    let n = x.sizes().last().copied().unwrap_or(1);
    let rows: i64 = x.sizes().split_last().map_or(1, |(_, outer)| outer.iter().product());
    x.view_of_storage(&[rows, n], &[n.max(1), 1], x.storage_offset())
}

fn check_places(
    sequence: &Tensor,
    x: &Tensor,
    out: Out<'_>,
    (out_int32, right): (bool, bool),
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<()> {
    if let Some(side) = side {
        check!(
            side == "left" || side == "right",
            "torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        );
        check!(
            !right || side == "right",
            "torch.searchsorted(): side and right can't be set to opposites, got side of {side} while right was True"
        );
    }
    check!(
        sequence.device() == x.device(),
        "torch.searchsorted(): boundaries and input value tensors should have same device type, but got boundaries tensor \
         device type {} and input value tensor device type {}",
        sequence.device(),
        x.device()
    );
    if let Some(sorter) = sorter {
        check!(
            sequence.sizes() == sorter.sizes(),
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {}and got sorter \
             tensor {}",
            show(sequence.sizes()),
            show(sorter.sizes())
        );
        check!(
            sorter.dtype() == DType::I64,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            sorter.dtype().cpp_name()
        );
        if sorter.numel() > 0 && !sorter.is_meta() {
            let (least, most) = (ops::item(&ops::min(sorter)?)?.to_i64(), ops::item(&ops::max(sorter)?)?.to_i64());
            let n = sorter.sizes().last().copied().unwrap_or(1);
            check!(least >= 0 && most < n, "torch.searchsorted(): sorter index out of range");
        }
    }
    check!(
        x.dim() > 0 || (x.numel() == 1 && sequence.dim() == 1),
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries \
         tensor dim({}) and input value's dim({}) numel({})",
        sequence.dim(),
        x.dim(),
        x.numel()
    );
    check!(
        sequence.dim() != 0,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
    );
    let leading = |x: &Tensor| Dims::from_slice(&x.sizes()[..x.dim().saturating_sub(1)]);
    check!(
        sequence.dim() == 1 || (sequence.dim() == x.dim() && leading(sequence) == leading(x)),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and \
         input value tensor must match, but we got boundaries tensor {} and input value tensor {}",
        show(sequence.sizes()),
        show(x.sizes())
    );
    if let Some(target) = out.target(0) {
        let wanted = if out_int32 { DType::I32 } else { DType::I64 };
        check!(
            target.dtype() == wanted,
            "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on \
             whether out_int32 flag is True, but we got output tensor's dtype {} and out_int32 flag is {}",
            target.dtype().cpp_name(),
            if out_int32 { "True" } else { "False" }
        );
    }
    let length = sequence.sizes().last().copied().unwrap_or(0);
    check!(
        !out_int32 || length < i64::from(i32::MAX),
        "torch.searchsorted(): the size of boundaries' last dimension should be less than {}, but we got {length}",
        i32::MAX
    );
    Ok(())
}

/// The places where elements would stand in sorted rows: before equal elements, or after them (`right`).
#[allow(clippy::too_many_arguments)]
pub fn searchsorted(
    out: Out<'_>,
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    check_places(sorted_sequence, self_, out, (out_int32, right), side, sorter)?;
    let dtype = if out_int32 { DType::I32 } else { DType::I64 };
    let inputs = [sorted_sequence, self_];
    let slot = out.prepare(0, Spec::dense(self_.sizes(), dtype, self_.device()), &inputs)?;
    if !slot.is_meta() && self_.numel() > 0 {
        let common = result_type([&**sorted_sequence.as_impl(), &**self_.as_impl()]);
        let kernel = kernels::searching(self_.device())?.searchsorted.get(common, "searchsorted_out_cpu")?;
        let (sequence, x) = (matrix(&dense(sorted_sequence, common)?)?, matrix(&dense(self_, common)?)?);
        let sorter = sorter.map(|sorter| matrix(&dense(sorter, DType::I64)?)).transpose()?;
        let right = right || side == Some("right");
        kernel(&matrix(&slot.tensor)?, &sequence, &x, sorter.as_ref(), right)?;
    }
    slot.finish()
}

/// A number as a tensor beside another one: marked as wrapped, so that it promotes as numbers do.
fn number(value: Scalar, beside: &Tensor) -> Result<Tensor> {
    let number = Tensor::wrapped_number(value)?;
    if beside.is_meta() { Tensor::new_dense(&[], number.dtype(), beside.device()) } else { Ok(number) }
}

/// [`searchsorted`] of a number.
#[allow(clippy::too_many_arguments)]
pub fn searchsorted_scalar(
    out: Out<'_>,
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    searchsorted(out, sorted_sequence, &number(self_, sorted_sequence)?, out_int32, right, side, sorter)
}

/// The number of the bucket of each element, between `boundaries`.
pub fn bucketize(out: Out<'_>, self_: &Tensor, boundaries: &Tensor, out_int32: bool, right: bool) -> Result<Tensor> {
    check!(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim({})", boundaries.dim());
    searchsorted(out, boundaries, self_, out_int32, right, None, None)
}

/// [`bucketize`] of a number.
pub fn bucketize_scalar(
    out: Out<'_>,
    self_: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Tensor> {
    bucketize(out, &number(self_, boundaries)?, boundaries, out_int32, right)
}

/// Whether each element is one of some others.
pub fn isin_tensor_tensor(
    out: Out<'_>,
    elements: &Tensor,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    for x in [elements, test_elements] {
        if x.is_complex() || x.dtype() == DType::Bool {
            bail!(NotImplemented, "Unsupported input type encountered for isin(): {}", x.dtype().cpp_name());
        }
    }
    let inputs = [elements, test_elements];
    let slot = out.prepare(0, Spec::dense(elements.sizes(), DType::Bool, elements.device()), &inputs)?;
    if !slot.is_meta() && elements.numel() > 0 {
        let common = result_type([&**elements.as_impl(), &**test_elements.as_impl()]);
        let kernel = kernels::searching(elements.device())?.isin.get(common, "isin_default_cpu")?;
        kernel(&slot.tensor, &dense(elements, common)?, &dense(test_elements, common)?, invert)?;
    }
    slot.finish()
}

/// Whether each element is a number.
pub fn isin_tensor_scalar(
    out: Out<'_>,
    elements: &Tensor,
    test_element: Scalar,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin_tensor_tensor(out, elements, &number(test_element, elements)?, assume_unique, invert)
}

/// Whether a number is one of some elements.
pub fn isin_scalar_tensor(
    out: Out<'_>,
    element: Scalar,
    test_elements: &Tensor,
    assume_unique: bool,
    invert: bool,
) -> Result<Tensor> {
    isin_tensor_tensor(out, &number(element, test_elements)?, test_elements, assume_unique, invert)
}
