//! Autograd kernels that are not generated: operators that change what a tensor is rather than its elements.

use tensor_aten::dispatch::{Registration, Registrations};
use tensor_aten::{Tensor, op};
use tensor_core::{DispatchKey, DispatchKeySet, MemoryFormat, Result, check, tls};

use crate::meta;

fn detach_(keys: DispatchKeySet, self_: &Tensor) -> Result<()> {
    meta::detach_(self_)?;
    let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
    let _below = tls::below_autograd();
    op::DETACH_.kernel(keys)?(keys, self_)
}

fn check_resizable(self_: &Tensor) -> Result<()> {
    check!(!meta::requires_grad(self_), "cannot resize variables that require grad");
    Ok(())
}

fn resize_(keys: DispatchKeySet, self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> Result<()> {
    check_resizable(self_)?;
    let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
    let _below = tls::below_autograd();
    op::RESIZE_.kernel(keys)?(keys, self_, size, memory_format)
}

fn resize_as_(
    keys: DispatchKeySet,
    self_: &Tensor,
    the_template: &Tensor,
    memory_format: Option<MemoryFormat>,
) -> Result<()> {
    check_resizable(self_)?;
    let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
    let _below = tls::below_autograd();
    op::RESIZE_AS_.kernel(keys)?(keys, self_, the_template, memory_format)
}

const SOURCE: &str = "autograd/src/by_hand.rs";

static KERNELS: &[Registration] = &[
    Registration::new(&op::DETACH_, DispatchKey::Autograd, &(detach_ as op::DetachFn_), SOURCE),
    Registration::new(&op::RESIZE_, DispatchKey::Autograd, &(resize_ as op::ResizeFn_), SOURCE),
    Registration::new(&op::RESIZE_AS_, DispatchKey::Autograd, &(resize_as_ as op::ResizeAsFn_), SOURCE),
];

tensor_aten::inventory::submit! {
    Registrations { krate: "tensor-autograd", ops: &[], kernels: KERNELS }
}
