//! Tensors print as PyTorch 2.15 printed them: `tests/data/printing.json` holds storages and the `repr` of views of them.

use serde_json::Value;
use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, Storage};

use super::{PrintOptions, repr};
use crate::Tensor;

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
    Tensor::from_storage(Storage::from_bytes(&bytes).unwrap(), dtype, &sizes, &strides, offset).unwrap()
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
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../tests/data/printing.json")).unwrap();
    assert!(cases.len() > 124);
    for (i, case) in cases.iter().enumerate() {
        let x = tensor(case);
        let node = case["grad_fn"].as_str().map(|name| format!("grad_fn=<{name}>"));
        let origin = node.or_else(|| (case["requires_grad"] == true).then(|| "requires_grad=True".to_owned()));
        let text = repr(&x, &options(case), origin).unwrap();
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
fn extreme_options_do_not_panic() {
    let x = Tensor::from_vec(vec![0.1f64, 1e300], &[2]).unwrap();
    let huge =
        PrintOptions { precision: usize::MAX, threshold: 0, edgeitems: usize::MAX, linewidth: 0, sci_mode: None };
    assert!(x.display(huge).to_string().len() > 2 * 1074);
    assert!(x.display(PrintOptions { sci_mode: Some(false), ..huge }).to_string().len() > 2 * 1074);
}
