//! Bool tensors over any bytes: what is not 0 is true, wherever it is read, and what is written is 0 or 1.
//!
//! PyTorch lets such bytes in by `view(dtype)`, `from_blob` and files; Rust's `bool` may never hold them.

use tensor::nn::StateDict;
use tensor::prelude::*;
use tensor::{Bool, core, ops, serialize};

const BYTES: [u8; 8] = [0, 1, 2, 255, 0, 128, 3, 1];
const TRUTH: [bool; 8] = [false, true, true, true, false, true, true, true];

/// The bytes as a bool tensor, repeated up to `n` elements, so that vector code and its tails meet them.
fn strange(n: usize) -> Tensor {
    let bytes: Vec<u8> = BYTES.into_iter().cycle().take(n).collect();
    Tensor::from_vec(bytes, &[n as i64]).unwrap().view_dtype(DType::Bool).unwrap()
}

fn truth(n: usize) -> Vec<bool> {
    TRUTH.into_iter().cycle().take(n).collect()
}

/// A bool tensor's elements, which must be the bytes 0 and 1.
fn clean(x: &Tensor) -> Vec<bool> {
    let bytes = x.view_dtype(DType::U8).unwrap().to_vec::<u8>().unwrap();
    assert_eq!(x.dtype(), DType::Bool);
    assert!(bytes.iter().all(|&b| b <= 1), "bytes that are not canonical: {bytes:?}");
    bytes.into_iter().map(|b| b == 1).collect()
}

const LENGTHS: [usize; 6] = [1, 8, 13, 64, 70, 200];

#[test]
fn every_way_in() {
    let viewed = strange(8);
    // SAFETY is the callee's: the vector owns the bytes, as memory of another library would.
    let owned = core::Storage::from_vec(BYTES.to_vec());
    let blob = Tensor::from_storage(owned, DType::Bool, &[8], &[1], 0).unwrap();
    let typed = Tensor::from_vec(BYTES.map(Bool).to_vec(), &[8]).unwrap();
    let file = {
        let mut state = StateDict::new();
        state.insert("x".to_owned(), Tensor::from_slice(&BYTES, &[8]).unwrap());
        let bytes = serialize::save(&state).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let text = String::from_utf8(bytes[8..8 + header].to_vec()).unwrap();
        assert!(text.contains("\"U8\""));
        // The same bytes under another dtype; the header's length stays.
        let text = text.replace("\"U8\"", "\"BOOL\"").trim_end().to_owned();
        let mut lying = (text.len() as u64).to_le_bytes().to_vec();
        lying.extend_from_slice(text.as_bytes());
        lying.extend_from_slice(&bytes[8 + header..]);
        serialize::load(&lying).unwrap().get("x").unwrap().clone()
    };
    for x in [viewed, blob, typed, file] {
        assert_eq!(x.dtype(), DType::Bool);
        assert_eq!(clean(&x.logical_not().unwrap().logical_not().unwrap()), TRUTH);
        assert_eq!(x.to_string(), "tensor([False,  True,  True,  True, False,  True,  True,  True])");
        let values = x.to_vec::<Bool>().unwrap();
        assert!(values.iter().map(|b| b.get()).eq(TRUTH));
        let acc = x.accessor::<Bool, 1>().unwrap();
        assert!((0..8).all(|i| acc[[i]].get() == TRUTH[i]));
        assert!(x.as_slice::<Bool>().unwrap().iter().map(|b| b.get()).eq(TRUTH));
        for (i, &expected) in TRUTH.iter().enumerate() {
            assert_eq!(x.i(i as i64).unwrap().item().unwrap(), Scalar::Bool(expected));
        }
        // What is written to a file is what other readers take.
        let mut state = StateDict::new();
        state.insert("x".to_owned(), x);
        let back = serialize::load(&serialize::save(&state).unwrap()).unwrap();
        assert_eq!(clean(back.get("x").unwrap()), TRUTH);
    }
}

/// A truth function of two values, and the operator that computes it.
type Binary = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, fn(bool, bool) -> bool);

#[test]
fn logic_and_comparisons() {
    let binary: [Binary; 12] = [
        ("logical_and", |x, y| x.logical_and(y), |a, b| a & b),
        ("logical_or", |x, y| x.logical_or(y), |a, b| a | b),
        ("eq", |x, y| x.eq(y), |a, b| a == b),
        ("ne", |x, y| x.ne(y), |a, b| a != b),
        ("lt", |x, y| x.lt(y), |a, b| !a & b),
        ("le", |x, y| x.le(y), |a, b| a <= b),
        ("gt", |x, y| x.gt(y), |a, b| a & !b),
        ("ge", |x, y| x.ge(y), |a, b| a >= b),
        ("maximum", |x, y| x.maximum(y), |a, b| a | b),
        ("minimum", |x, y| x.minimum(y), |a, b| a & b),
        ("add", |x, y| x + y, |a, b| a | b),
        ("mul", |x, y| x * y, |a, b| a & b),
    ];
    for n in LENGTHS {
        let (x, a) = (strange(n), truth(n));
        // Another order of the same bytes, so that 2 meets 255 and 3, not itself alone.
        let (y, b) = (x.flip(&[0]).unwrap(), a.iter().rev().copied().collect::<Vec<_>>());
        for (name, op, naive) in binary {
            let expected: Vec<bool> = a.iter().zip(&b).map(|(&a, &b)| naive(a, b)).collect();
            assert_eq!(clean(&op(&x, &y).unwrap()), expected, "{name} of {n}");
            let sliced = |t: &Tensor| t.i(slice(None, None, 2)).unwrap();
            let every_other: Vec<bool> = expected.iter().copied().step_by(2).collect();
            assert_eq!(clean(&op(&sliced(&x), &sliced(&y)).unwrap()), every_other, "{name} of every other of {n}");
            let against_one = clean(&op(&x, &Tensor::full(&[], true, ()).unwrap()).unwrap());
            assert_eq!(against_one, a.iter().map(|&a| naive(a, true)).collect::<Vec<_>>(), "{name} and True");
        }
        let not: Vec<bool> = a.iter().map(|a| !a).collect();
        assert_eq!(clean(&x.logical_not().unwrap()), not);
        assert_eq!(clean(&x.bitwise_not().unwrap()), not);
        assert_eq!(clean(&x.isnan().unwrap()), vec![false; n]);
        assert_eq!(
            clean(&x.logical_and_(&y).unwrap().copy().unwrap()),
            a.iter().zip(&b).map(|(a, b)| a & b).collect::<Vec<_>>()
        );
    }
}

#[test]
fn conversions_and_sums() {
    use DType::*;
    for n in LENGTHS {
        let (x, a) = (strange(n), truth(n));
        let count = a.iter().filter(|&&t| t).count() as i64;
        for dtype in [U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128] {
            let numbers = x.to_dtype(dtype).unwrap().to_dtype(F64).unwrap().to_vec::<f64>().unwrap();
            assert!(numbers.iter().map(|&v| v == 1.0).eq(a.iter().copied()), "to {dtype}: {numbers:?}");
            assert!(numbers.iter().all(|&v| v == 0.0 || v == 1.0), "to {dtype}: {numbers:?}");
            let into = Tensor::zeros(&[n as i64], dtype).unwrap();
            into.copy_(&x).unwrap();
            assert!(into.ne_scalar(0).unwrap().eq(&x).unwrap().all().unwrap().is_true());
            let mixed = (&x + Tensor::zeros(&[n as i64], dtype).unwrap()).unwrap();
            assert_eq!(
                mixed.sum_opt(Some(F64)).unwrap().item().unwrap(),
                Scalar::Float(count as f64),
                "bool + {dtype}"
            );
        }
        assert_eq!(x.sum().unwrap().item().unwrap(), Scalar::Int(count));
        assert_eq!(x.sum_dim(&[0], false).unwrap().item().unwrap(), Scalar::Int(count));
        assert_eq!(x.cumsum(0).unwrap().i(-1).unwrap().item().unwrap(), Scalar::Int(count));
        assert_eq!(x.prod().unwrap().item().unwrap(), Scalar::Int((count == n as i64) as i64));
        assert_eq!(x.any().unwrap().item().unwrap(), Scalar::Bool(count > 0));
        assert_eq!(x.all().unwrap().item().unwrap(), Scalar::Bool(count == n as i64));
        assert_eq!(clean(&x.amax().unwrap()), [count > 0]);
        assert_eq!(clean(&x.amin().unwrap()), [count == n as i64]);
        assert_eq!(clean(&x.max().unwrap()), [count > 0]);
        let (values, at) = x.max_dim(0, false).unwrap();
        assert_eq!(clean(&values), [count > 0]);
        let first = a.iter().position(|&t| t).unwrap_or(0);
        assert_eq!(at.item().unwrap(), Scalar::Int(first as i64), "the first of the largest, all true bytes alike");
        assert!(x.argmax().is_err(), "refused, as in PyTorch");
    }
    // All bytes true, none of them 1: no bit is set in all of them.
    let x = Tensor::from_slice(&[2u8, 4, 8], &[3]).unwrap().view_dtype(DType::Bool).unwrap();
    assert!(x.all().unwrap().is_true() && x.prod().unwrap().is_true());
    assert_eq!(clean(&x.all_dim(0).unwrap()), [true]);
    assert_eq!(x.sum().unwrap().item().unwrap(), Scalar::Int(3));
}

trait IsTrue {
    /// The truth of the only element.
    fn is_true(&self) -> bool;
}

impl IsTrue for Tensor {
    fn is_true(&self) -> bool {
        self.item().unwrap().to_bool()
    }
}

#[test]
fn masks() {
    for n in LENGTHS {
        let (mask, a) = (strange(n), truth(n));
        let size = [n as i64];
        let x = Tensor::from_vec((0..n as i64).collect(), &size).unwrap();
        let y = (&x + 1000).unwrap();
        let chosen: Vec<i64> = (0..n).filter(|&i| a[i]).map(|i| i as i64).collect();
        let merged: Vec<i64> = (0..n).map(|i| if a[i] { i as i64 } else { i as i64 + 1000 }).collect();
        let filled: Vec<i64> = (0..n).map(|i| if a[i] { -1 } else { i as i64 }).collect();
        let ints = |t: Result<Tensor>| t.unwrap().to_vec::<i64>().unwrap();
        assert_eq!(ints(x.where_self(&mask, &y)), merged);
        assert_eq!(ints(x.masked_fill_scalar(&mask, -1)), filled);
        assert_eq!(ints(x.masked_fill(&mask, Tensor::full(&[], -1, ()).unwrap())), filled);
        assert_eq!(ints(x.masked_select(&mask)), chosen);
        assert_eq!(ints(x.i(&mask)), chosen);
        assert_eq!(ints(mask.nonzero().unwrap().squeeze_dim(1)), chosen);
        assert_eq!(ints(x.copy().unwrap().i_set_(&mask, -1).cloned()), filled);
        let source = Tensor::full(&size, -1, ()).unwrap();
        assert_eq!(ints(x.masked_scatter(&mask, &source)), filled);
        // The values that a mask chooses may be strange themselves.
        let expected: Vec<bool> = a.iter().copied().filter(|&t| t).collect();
        assert!(mask.masked_select(&mask).unwrap().to_vec::<Bool>().unwrap().iter().map(|b| b.get()).eq(expected));
        let wide = ops::cat(&[&mask, &mask], 0).unwrap();
        assert_eq!(wide.sum().unwrap().item().unwrap(), Scalar::Int(2 * chosen.len() as i64));
        let boxed = tensor::dispatch::invoke("aten::is_nonzero", [(&mask.i(n as i64 - 1).unwrap()).into()]);
        if let Ok(result) = boxed {
            assert!(matches!(&result[..], [tensor::IValue::Bool(t)] if *t == a[n - 1]));
        }
    }
}

#[test]
fn matrices_of_masks() {
    let mask = strange(64).view(&[8, 8]).unwrap();
    let rows = mask.any_dim(1).unwrap();
    assert_eq!(clean(&rows), [true; 8]);
    assert_eq!(clean(&mask.t().unwrap().all_dim(1).unwrap()), TRUTH);
    assert_eq!(clean(&mask.t().unwrap().any_dim(0).unwrap()), [true; 8]);
    assert_eq!(mask.sum_dim(&[0], false).unwrap().to_vec::<i64>().unwrap(), TRUTH.map(|t| 8 * t as i64));
    assert_eq!(mask.t().unwrap().sum_dim(&[-1], false).unwrap().to_vec::<i64>().unwrap(), TRUTH.map(|t| 8 * t as i64));
    let kept = mask.tril().unwrap();
    assert_eq!(
        kept.sum().unwrap().item().unwrap(),
        Scalar::Int((0..8).map(|i| TRUTH[..=i].iter().filter(|&&t| t).count() as i64).sum())
    );
    let attention =
        Tensor::zeros(&[8, 8], ()).unwrap().masked_fill_scalar(mask.logical_not().unwrap(), f64::NEG_INFINITY).unwrap();
    let weights = attention.softmax(1).unwrap();
    assert_eq!(weights.i((0, 1)).unwrap().item().unwrap(), weights.i((0, 3)).unwrap().item().unwrap());
}
