//! Second derivatives through a composition: an operator that has no formula of its own for its gradient is written again in
//! operators that have, and those are differentiated.

use tensor_aten::{Tensor, ops};
use tensor_core::{Result, tls};

use crate::{engine, modes};

/// The gradients of `inputs` from those of what `f` makes of them by dispatched operators; `None` where there is nothing to
/// hand on. Graphs follow where the backward pass makes one. `f` gets the inputs under other names: one may be made of
/// another, and what flows between them is not its affair.
pub(super) fn through<const N: usize, const M: usize>(
    inputs: [&Tensor; N],
    grads: [Option<&Tensor>; M],
    f: impl FnOnce([&Tensor; N]) -> Result<[Option<Tensor>; M]>,
) -> Result<[Option<Tensor>; N]> {
    let create = tls::grad_enabled();
    let named = modes::enable_grad(|| inputs.iter().map(|input| ops::alias(input)).collect::<Result<Vec<_>>>())?;
    let named: [&Tensor; N] = std::array::from_fn(|i| &named[i]);
    let outputs = modes::enable_grad(|| f(named))?;
    let known = outputs.iter().zip(grads).filter_map(|(output, grad)| Some((output.as_ref()?, grad?)));
    let known: Vec<(&Tensor, &Tensor)> = known.filter(|(output, _)| output.requires_grad()).collect();
    let wanted: Vec<&Tensor> = named.into_iter().filter(|input| input.requires_grad()).collect();
    let mut results = std::array::from_fn(|_| None);
    if known.is_empty() || wanted.is_empty() {
        return Ok(results);
    }
    let (outputs, grads): (Vec<&Tensor>, Vec<Option<&Tensor>>) = known.iter().map(|(o, g)| (*o, Some(*g))).unzip();
    let mut found = engine::grad(&outputs, &wanted, Some(&grads), Some(create), create, true)?.into_iter();
    for (result, input) in results.iter_mut().zip(named) {
        if input.requires_grad() {
            *result = found.next().flatten();
        }
    }
    Ok(results)
}

/// The gradients that an operator's own backward gives, as a differentiable function of everything that it depends on.
pub(super) fn first_order(output: &Tensor, inputs: &[&Tensor], grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let wanted: Vec<&Tensor> = inputs.iter().copied().filter(|input| input.requires_grad()).collect();
    if wanted.is_empty() || !output.requires_grad() {
        return Ok(vec![None; inputs.len()]);
    }
    let mut found = engine::grad(&[output], &wanted, Some(&[Some(grad)]), Some(true), true, true)?.into_iter();
    Ok(inputs.iter().map(|input| if input.requires_grad() { found.next().flatten() } else { None }).collect())
}
