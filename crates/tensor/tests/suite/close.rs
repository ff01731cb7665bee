//! Comparing with recorded numbers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tensor::nn::StateDict;
use tensor::prelude::*;
use tensor::serialize;

/// Keeps the default generator, which all tests share, to one of them until the guard is dropped: whoever draws takes it.
pub fn generator() -> MutexGuard<'static, ()> {
    static DEFAULT: Mutex<()> = Mutex::new(());
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two numbers are equal within a relative and an absolute tolerance.
pub fn near(found: f64, expected: f64, rtol: f64, atol: f64) -> bool {
    found == expected || (found - expected).abs() <= atol + rtol * expected.abs()
}

/// Fails with the first element that differs.
#[track_caller]
pub fn assert_close(what: &str, found: &Tensor, expected: &Tensor, rtol: f64, atol: f64) {
    assert_eq!(found.sizes(), expected.sizes(), "{what}: shape");
    assert_eq!(found.dtype(), expected.dtype(), "{what}: dtype");
    let numbers = |x: &Tensor| x.detach()?.to_dtype(DType::F64)?.to_vec::<f64>();
    let (found, expected) = (numbers(found).unwrap(), numbers(expected).unwrap());
    for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
        assert!(near(*f, *e, rtol, atol), "{what}: element {i} is {f}, PyTorch's {e}");
    }
}

/// Tensors of a file in `tests/data`.
pub fn data(file: &str) -> StateDict {
    serialize::load_file(path(file)).unwrap()
}

/// A JSON file in `tests/data`.
pub fn json(file: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path(file)).unwrap()).unwrap()
}

/// A file in `tests/data`.
pub fn path(file: &str) -> String {
    format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A list of numbers.
pub fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}
