//! `x.i(..)` and `x.i_set_(..)` do what Python's `x[..]` did: `data/indexing.json` holds PyTorch 2.15's answers.

use serde_json::Value;
use tensor_aten::indexing::{IntoIndex, Slice, TensorIndex, slice};
use tensor_aten::{Arg, Tensor, ops};
use tensor_core::{Bool, DType, Result, Scalar, dispatch};
use tensor_core::{Element, strides};

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
}

fn counted(sizes: &[i64], f: impl Fn(i64) -> f32) -> Tensor {
    let numel = strides::numel(sizes).unwrap();
    Tensor::from_vec((0..numel).map(f).collect(), sizes).unwrap()
}

fn tensor(part: &Value) -> Tensor {
    let dtype: DType = part[1].as_str().unwrap().parse().unwrap();
    let numbers = part[3].as_array().unwrap();
    let scalar = |value: &Value| match value {
        Value::Bool(b) => Scalar::Bool(*b),
        other => Scalar::Float(other.as_f64().unwrap()),
    };
    dispatch!(dtype, T => {
        let values = numbers.iter().map(|n| <T as Element>::from_scalar(scalar(n))).collect::<Vec<T>>();
        Tensor::from_vec(values, &integers(&part[2]))
    })
    .unwrap()
}

fn index(parts: &Value) -> Vec<TensorIndex<'static>> {
    let part = |part: &Value| match part[0].as_str().unwrap() {
        "i" => TensorIndex::Int(part[1].as_i64().unwrap()),
        "s" => TensorIndex::Slice(Slice {
            start: part[1].as_i64(),
            stop: part[2].as_i64(),
            step: part[3].as_i64().unwrap_or(1),
        }),
        "n" => TensorIndex::None,
        "e" => TensorIndex::Ellipsis,
        "b" => TensorIndex::Bool(part[1].as_bool().unwrap()),
        _ => TensorIndex::Tensor(Arg::Owned(tensor(part))),
    };
    parts.as_array().unwrap().iter().map(part).collect()
}

fn run(case: &Value, x: &Tensor) -> Result<Tensor> {
    let index = index(&case["index"]);
    match &case["value"] {
        Value::Null => x.i(index),
        Value::Array(_) => x.i_set_(index, counted(&integers(&case["value"]), |i| -(i + 1) as f32)).cloned(),
        number => match number.as_i64() {
            Some(n) => x.i_set_(index, n).cloned(),
            None => x.i_set_(index, number.as_f64().unwrap()).cloned(),
        },
    }
}

#[test]
fn every_recorded_index_gives_what_pytorch_gave() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../data/indexing.json")).unwrap();
    let mut wrong = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        let x = counted(&integers(&case["shape"]), |i| i as f32);
        let found = match run(case, &x) {
            Ok(y) => {
                let values: Vec<f64> = y.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
                let view = case.get("view").map(|_| y.storage().ptr_eq(x.storage()));
                (None, Some((y.sizes().to_vec(), values, view)))
            }
            Err(error) => (Some((error.kind().exception().to_owned(), error.message().to_owned())), None),
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let expected = match &case["error"] {
            Value::Null => {
                let values = case["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
                (None, Some((integers(&case["sizes"]), values, case["view"].as_bool())))
            }
            error => (Some((text(&error[0]), text(&error[1]))), None),
        };
        if found != expected {
            wrong.push(format!("case {i}: {case}\n   found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Checks an index against its written-out form.
fn same<'a>(x: &Tensor, written: impl IntoIndex<'a>, parts: Vec<TensorIndex<'a>>) {
    let (a, b) = (x.i(written).unwrap(), x.i(parts).unwrap());
    assert_eq!((a.sizes(), a.to_vec::<f32>().unwrap()), (b.sizes(), b.to_vec::<f32>().unwrap()));
}

fn range(start: impl Into<Option<i64>>, stop: impl Into<Option<i64>>) -> TensorIndex<'static> {
    slice(start, stop, None)
}

#[test]
fn rust_spellings_of_an_index() {
    use tensor_aten::indexing::Ellipsis;
    let x = counted(&[4, 5, 6], |i| i as f32);
    let k = 3usize;
    same(&x, 2, vec![TensorIndex::Int(2)]);
    same(&x, 1..3, vec![range(1, 3)]);
    same(&x, ..-1, vec![range(None, -1)]);
    let last_but_one = -2;
    same(&x, 1..=last_but_one, vec![range(1, -1)]);
    same(&x, ..=-1, vec![range(None, None)]);
    same(&x, -2.., vec![range(-2, None)]);
    same(&x, (k, ..k), vec![TensorIndex::Int(3), range(None, 3)]);
    same(&x, (Ellipsis, 0), vec![TensorIndex::Ellipsis, TensorIndex::Int(0)]);
    same(&x, (.., None, slice(None, None, 2)), vec![range(None, None), TensorIndex::None, slice(None, None, 2)]);
    let positions = Tensor::from_vec(vec![0i64, 2], &[2]).unwrap();
    same(&x, (.., [0, 2]), vec![range(None, None), TensorIndex::Tensor(Arg::Ref(&positions))]);
    let mask = Tensor::from_vec([true, false, true, true].map(Bool::new).to_vec(), &[4]).unwrap();
    same(&x, [true, false, true, true], vec![TensorIndex::Tensor(Arg::Ref(&mask))]);
    same(&x, &mask, vec![TensorIndex::Tensor(Arg::Owned(mask.clone()))]);
    same(&x, (), vec![TensorIndex::Ellipsis]);
}

/// An index that names whole slices, as an expanded one does, is refused in the words of single elements, before anything is
/// written.
#[test]
fn expanded_indices_out_of_bounds_change_nothing() {
    let numbers = |x: &Tensor| x.to_vec::<f32>().unwrap();
    for (dim, sizes, shape) in [(0i64, [2i64, 1], [2i64, 4]), (1, [1, 2], [3, 2])] {
        let source = counted(&shape, |_| 1.0);
        for bad in [-1i64, 4] {
            let index = Tensor::from_vec(vec![0, bad], &sizes).and_then(|index| index.expand(&shape)).unwrap();
            let (x, out) = (counted(&[3, 4], |i| i as f32), counted(&shape, |_| 7.0));
            let errors = [
                ops::gather(&x, dim, &index, false).err(),
                ops::gather_out(&x, dim, &index, false, &out).err(),
                ops::scatter_src_(&x, dim, &index, &source).err(),
                ops::scatter_add_(&x, dim, &index, &source).err(),
                ops::scatter_add(&x, dim, &index, &source).err(),
            ];
            let words =
                format!("index {bad} is out of bounds for dimension {dim} with size {}", x.sizes()[dim as usize]);
            for error in errors {
                assert_eq!(error.map(|error| error.to_string()), Some(words.clone()));
            }
            assert!(numbers(&x) == numbers(&counted(&[3, 4], |i| i as f32)) && numbers(&out).iter().all(|&v| v == 7.0));
        }
    }
}
