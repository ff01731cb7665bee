//! Floating-point numbers taken apart.

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Result, check};

use crate::Tensor;
use crate::kernels;
use crate::out::{Out, Spec};

/// The mantissa, of the input's dtype, and the exponent, int32.
pub fn frexp(out: Out<'_>, self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = &self_.pinned();
    check!(x.is_floating_point(), "torch.frexp() only supports floating-point dtypes");
    let (float, int) = (x.dtype(), DType::I32);
    for (i, dtype, expected) in [
        (0, float, format!("mantissa to have dtype {}", float.c_name())),
        (1, int, "exponent to have int dtype".to_string()),
    ] {
        if let Some(target) = out.target(i) {
            let got = target.dtype();
            check!(got == dtype, "torch.frexp() expects {expected} but got {}", got.c_name());
        }
    }
    let spec = |dtype| Spec {
        sizes: Dims::from_slice(x.sizes()),
        strides: Some(match x.is_non_overlapping_and_dense() {
            true => Dims::from_slice(x.strides()),
            false => strides::dense_like(x.sizes(), x.strides()),
        }),
        dtype,
        device: x.device(),
    };
    let (mantissa, exponent) = (out.prepare(0, spec(x.dtype()), &[x])?, out.prepare(1, spec(DType::I32), &[x])?);
    if !mantissa.is_meta() && x.numel() > 0 {
        kernels::frexp(x.device())?.frexp.get(x.dtype(), "frexp")?(&mantissa.tensor, &exponent.tensor, x)?;
    }
    Ok((mantissa.finish()?, exponent.finish()?))
}
