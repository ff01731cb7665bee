//! Tensors print as PyTorch 2.15 printed them: `data/printing.json` holds storages and the `repr` of views of them.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;
use tensor_aten::hooks::{AutogradHooks, GradFn};
use tensor_aten::printing::PrintOptions;
use tensor_aten::{Tensor, inventory};
use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, Result, Storage};

thread_local! {
    /// The name of the node that every tensor of this thread claims to come from.
    static NODE: RefCell<Option<String>> = const { RefCell::new(None) };
}

struct Named(String);

impl GradFn for Named {
    fn name(&self) -> String {
        self.0.clone()
    }
    fn next_functions(&self) -> Vec<Option<(Arc<dyn GradFn>, usize)>> {
        Vec::new()
    }
    fn as_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync> {
        self
    }
}

fn grad_fn(_: &Tensor) -> Result<Option<Arc<dyn GradFn>>> {
    match NODE.with_borrow(Clone::clone).as_deref() {
        Some("") => tensor_core::bail!(Runtime, "the graph was lost"),
        name => Ok(name.map(|name| Arc::new(Named(name.to_owned())) as Arc<dyn GradFn>)),
    }
}

// Printing asks for nothing but `grad_fn`.
inventory::submit! {
    AutogradHooks {
        requires_grad_: |_, _| Ok(()),
        grad: |_| None,
        set_grad: |_, _| Ok(()),
        grad_fn,
        is_leaf: |_| true,
        output_nr: |_| 0,
        is_view: |_| false,
        retain_grad: |_| Ok(()),
        retains_grad: |_| false,
        backward: |_, _, _, _, _| Ok(()),
    }
}

fn dims(value: &Value) -> Option<Dims> {
    value.as_array().map(|list| list.iter().map(|n| n.as_i64().unwrap()).collect())
}

fn tensor(case: &Value) -> Tensor {
    let dtype: DType = case["dtype"].as_str().unwrap().parse().unwrap();
    let sizes = dims(&case["size"]).unwrap();
    if case["meta"] == true {
        return Tensor::new_dense(&sizes, dtype, Device::META).unwrap();
    }
    let hex = case["hex"].as_str().unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let strides = dims(&case["stride"]).unwrap_or_else(|| strides::contiguous(&sizes));
    let offset = case["offset"].as_i64().unwrap_or(0);
    Tensor::from_storage(Storage::from_bytes(&bytes).unwrap(), dtype, sizes, strides, offset).unwrap()
}

fn options(case: &Value) -> PrintOptions {
    let given = &case["options"];
    let base = match given["profile"].as_str() {
        Some("short") => PrintOptions::SHORT,
        Some("full") => PrintOptions::FULL,
        _ => PrintOptions::DEFAULT,
    };
    let number = |name: &str, default: usize| given[name].as_u64().map_or(default, |n| n as usize);
    PrintOptions {
        precision: number("precision", base.precision),
        threshold: number("threshold", base.threshold),
        edgeitems: number("edgeitems", base.edgeitems),
        linewidth: number("linewidth", base.linewidth),
        sci_mode: given["sci_mode"].as_bool(),
    }
}

#[test]
fn every_recorded_repr_is_reproduced() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/printing.json")).unwrap();
    assert!(cases.len() > 124);
    for (i, case) in cases.iter().enumerate() {
        let x = tensor(case);
        x.as_impl().set_requires_grad(case["requires_grad"] == true);
        NODE.set(case["grad_fn"].as_str().map(str::to_owned));
        let text = x.display(options(case)).to_string();
        NODE.set(None);
        assert_eq!(text, case["repr"].as_str().unwrap(), "case {i}");
    }
}

#[test]
fn a_borrowed_storage_prints_a_note() {
    let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2]).unwrap();
    let writer = x.storage().borrow_mut().unwrap();
    let text = format!("{x:?}");
    assert!(text.starts_with("tensor(<storage is borrowed") && text.ends_with("size=(2,))"), "{text}");
    drop(writer);
    assert_eq!(format!("{x:?}"), "tensor([1., 2.])");
}

#[test]
fn a_lost_graph_prints_invalid() {
    let x = Tensor::from_vec(vec![1.0f32], &[1]).unwrap();
    NODE.set(Some(String::new()));
    assert_eq!(x.to_string(), "tensor([1.], grad_fn=<Invalid>)");
    NODE.set(None);
}

#[test]
fn extreme_options_do_not_panic() {
    let x = Tensor::from_vec(vec![0.1f64, 1e300], &[2]).unwrap();
    let huge =
        PrintOptions { precision: usize::MAX, threshold: 0, edgeitems: usize::MAX, linewidth: 0, sci_mode: None };
    assert!(x.display(huge).to_string().len() > 2 * 1074);
    assert!(x.display(PrintOptions { sci_mode: Some(false), ..huge }).to_string().len() > 2 * 1074);
}
