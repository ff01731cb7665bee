//! Replays PyTorch's promotion tables: every pair of dtypes, as tensors, 0-dim tensors and numbers.

use proptest::prelude::*;
use serde_json::Value;
use tensor_core::promotion::{ResultType, can_cast, promote_types};
use tensor_core::{DType, Scalar};

fn data() -> Value {
    serde_json::from_str(include_str!("data/promotion.json")).unwrap()
}

fn dtype(name: &Value) -> DType {
    name.as_str().unwrap().parse().unwrap()
}

#[test]
fn pairs_promote_and_cast_as_pytorchs() {
    let data = data();
    let dtypes: Vec<DType> = data["dtypes"].as_array().unwrap().iter().map(dtype).collect();
    assert!(dtypes.len() >= 12 && dtypes.iter().all(|dtype| DType::ALL.contains(dtype)));
    for (i, &a) in dtypes.iter().enumerate() {
        for (j, &b) in dtypes.iter().enumerate() {
            let promoted = data["promote_types"][i][j].as_u64().unwrap() as usize;
            assert_eq!(promote_types(a, b), dtypes[promoted], "promote_types({a}, {b})");
            assert_eq!(can_cast(a, b), data["can_cast"][i][j] == 1, "can_cast({a}, {b})");
        }
    }
}

#[test]
fn operands_promote_by_rank_as_pytorchs() {
    let add = |operands: ResultType, kind: &Value, dtype: DType| match kind.as_str().unwrap() {
        "tensor" => operands.dtype_of(dtype, 1, false),
        "zero_dim" => operands.dtype_of(dtype, 0, false),
        _ => operands.scalar(match dtype {
            DType::Bool => Scalar::Bool(true),
            DType::I64 => Scalar::Int(2),
            DType::F64 => Scalar::Float(1.5),
            _ => Scalar::Complex(tensor_core::Complex::new(1.0, 2.0)),
        }),
    };
    let data = data();
    let rows = data["result_type"].as_array().unwrap();
    assert_eq!(rows.len(), 784);
    for row in rows {
        let (a, b) = (dtype(&row[1]), dtype(&row[3]));
        let got = add(add(ResultType::default(), &row[0], a), &row[2], b).finish();
        // The half-precision complex dtypes have no name in the table.
        let wanted = match (row[4].is_null(), [a, b].contains(&DType::F16)) {
            (false, _) => dtype(&row[4]),
            (true, true) => DType::C32,
            (true, false) => DType::BC32,
        };
        assert_eq!(got, wanted, "{row}");
    }
}

#[test]
fn half_precision_complex_dtypes_promote_by_their_parts() {
    for (a, b, wanted) in [
        (DType::C32, DType::I64, DType::C32),
        (DType::C32, DType::F16, DType::C32),
        (DType::BC32, DType::BF16, DType::BC32),
        (DType::C32, DType::BF16, DType::C64),
        (DType::C32, DType::BC32, DType::C64),
        (DType::C32, DType::F32, DType::C64),
        (DType::BC32, DType::F64, DType::C128),
        (DType::BC32, DType::C128, DType::C128),
    ] {
        assert_eq!((promote_types(a, b), promote_types(b, a)), (wanted, wanted), "{a} {b}");
    }
}

/// Every pair and triple of dtypes: the lattice that the tables must be.
#[test]
fn dtypes_are_a_lattice() {
    for a in DType::ALL {
        assert_eq!(promote_types(a, a), a);
        assert!(can_cast(a, a));
        for b in DType::ALL {
            let both = promote_types(a, b);
            assert_eq!(both, promote_types(b, a), "{a}, {b}");
            assert_eq!(both.category(), a.category().max(b.category()), "{a}, {b}");
            assert!(can_cast(a, both) && can_cast(b, both));
            assert_eq!(can_cast(a, b), a.category() <= b.category(), "{a}, {b}");
            // An upper bound takes in what is below it.
            assert_eq!(promote_types(both, a), both, "{a}, {b}");
            for c in DType::ALL {
                assert_eq!(promote_types(both, c), promote_types(a, promote_types(b, c)), "{a}, {b}, {c}");
                assert!(!(can_cast(a, b) && can_cast(b, c)) || can_cast(a, c));
            }
        }
    }
}

/// An operand: a dtype, and whether it is a tensor with dimensions (0), a 0-dim tensor (1) or a number (2).
fn operand() -> impl Strategy<Value = (DType, u8)> {
    (prop::sample::select(&DType::ALL[..]), 0..3u8)
}

fn result_of(operands: &[(DType, u8)]) -> DType {
    let add =
        |state: ResultType, &(dtype, class): &(DType, u8)| state.dtype_of(dtype, usize::from(class == 0), class == 2);
    operands.iter().fold(ResultType::default(), add).finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_order(operands in prop::collection::vec(operand(), 1..6), turn in 0..6usize) {
        let whole = result_of(&operands);
        let mut other = operands.clone();
        other.rotate_left(turn % operands.len());
        prop_assert_eq!(result_of(&other), whole);
        other.reverse();
        prop_assert_eq!(result_of(&other), whole);
        let highest = operands.iter().map(|(dtype, _)| dtype.category()).max();
        prop_assert_eq!(Some(whole.category()), highest);
        prop_assert!(operands.iter().all(|(dtype, _)| can_cast(*dtype, whole)));
    }

    /// What a lower class adds is its category alone.
    #[test]
    fn tensors_with_dimensions_decide(operands in prop::collection::vec(operand(), 1..5), extra in operand()) {
        let dims: Vec<_> = operands.iter().copied().filter(|(_, class)| *class == 0).collect();
        let alone = dims.iter().map(|(dtype, _)| *dtype).reduce(promote_types);
        if let Some(alone) = alone {
            let whole = result_of(&operands);
            let lifted = operands.iter().any(|(dtype, _)| dtype.category() > alone.category());
            prop_assert!(lifted || whole == alone, "{:?} gave {}", operands, whole);
        }
        // A number of no higher category changes nothing beside any tensor.
        let number = (extra.0, 2);
        let tensors: Vec<_> = operands.iter().copied().filter(|(_, class)| *class < 2).collect();
        if !tensors.is_empty() && number.0.category() <= result_of(&tensors).category() {
            prop_assert_eq!(result_of(&[&tensors[..], &[number]].concat()), result_of(&tensors));
        }
    }

    /// Tensors of one class promote as their dtypes do, and numbers as their categories' defaults.
    #[test]
    fn one_class_promotes_as_dtypes_do(dtypes in prop::collection::vec(prop::sample::select(&DType::ALL[..]), 1..5), class in 0..2u8) {
        let operands: Vec<_> = dtypes.iter().map(|&dtype| (dtype, class)).collect();
        prop_assert_eq!(Some(result_of(&operands)), dtypes.iter().copied().reduce(promote_types));
    }
}
