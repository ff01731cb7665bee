//! Matrix products.

use tensor_core::{Result, check};

use crate::out::{Out, Spec};
use crate::{Tensor, kernels};

/// `self` (n, k) times `mat2` (k, m).
pub fn mm(out: Out<'_>, self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    check!(self_.dim() == 2, "self must be a matrix");
    check!(mat2.dim() == 2, "mat2 must be a matrix");
    let (n, k, m) = (self_.sizes()[0], self_.sizes()[1], mat2.sizes()[1]);
    check!(
        k == mat2.sizes()[0],
        "mm: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {}x{m})",
        mat2.sizes()[0]
    );
    check!(
        self_.dtype() == mat2.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        self_.dtype().c_name(),
        mat2.dtype().c_name()
    );
    let slot = out.prepare(0, Spec::like(&[n, m], self_), &[self_, mat2])?;
    if !slot.is_meta() && n > 0 && m > 0 {
        kernels::matmul(self_.device())?.gemm.get(self_.dtype(), "addmm_impl_cpu_")?(&slot.tensor, self_, mat2, 1.into(), 0.into())?;
    }
    slot.finish()
}
