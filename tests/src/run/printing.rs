//! Checks how tensors print against Python's `repr`.

use serde_json::Map;
use tensor_aten::Tensor;

use super::call::show;
use super::{Item, Run};
use crate::bridge;
use crate::compare::View;
use crate::corpus::Result;
use crate::corpus::case::Printed;

/// The tensors of the file.
pub(super) fn file(run: &Run<'_>, bytes: &[u8]) -> Result<Vec<Item>> {
    let printed: Vec<Printed> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let mut items = Vec::new();
    for (k, want) in printed.iter().enumerate() {
        items.extend(run.item("printing", format!("printing/{k}"), 1, false, || check(want)));
    }
    Ok(items)
}

fn check(printed: &Printed) -> Result<()> {
    let bytes = unhex(&printed.storage_hex).ok_or("storage_hex is not hexadecimal")?;
    let t = &printed.tensor;
    let stride = t.strides();
    let like = View {
        bytes: &[],
        dtype: t.dtype()?,
        size: &t.size,
        stride: &stride,
        offset: t.offset,
        conj: t.conj,
        neg: t.neg,
    };
    let storage = bridge::storage(&bytes).map_err(show)?;
    let mut tensor: Tensor = bridge::view(&storage, &like).map_err(show)?;
    if printed.requires_grad {
        tensor = bridge::leaf(&tensor).map_err(show)?;
    }
    let none = Map::new();
    let got = bridge::repr(&tensor, printed.options.as_ref().unwrap_or(&none)).map_err(show)?;
    // The node behind the recorded tensor is not recorded: what it adds to the text is left out on both sides.
    let (got, want) = match &printed.grad_fn {
        Some(_) => (got.strip_suffix(')').unwrap_or(&got), without_grad_fn(&printed.repr)),
        None => (got.as_str(), printed.repr.as_str()),
    };
    if got == want { Ok(()) } else { Err(format!("got {got:?}, want {want:?}")) }
}

fn without_grad_fn(repr: &str) -> &str {
    let cut = repr.rfind("grad_fn=<").map_or(repr, |at| &repr[..at]);
    let cut = cut.trim_end();
    cut.strip_suffix(',').unwrap_or(cut)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_and_nodes() {
        assert_eq!(unhex("00ff1a"), Some(vec![0, 255, 26]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
        assert_eq!(without_grad_fn("tensor([1., 2.], grad_fn=<AddBackward0>)"), "tensor([1., 2.]");
        assert_eq!(without_grad_fn("tensor([1.],\n       grad_fn=<AddBackward0>)"), "tensor([1.]");
    }
}
