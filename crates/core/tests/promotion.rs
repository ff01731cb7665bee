//! Replays PyTorch's promotion tables: every pair of dtypes, as tensors, 0-dim tensors and numbers.

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
    assert_eq!(dtypes, DType::ALL[..dtypes.len()]);
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
