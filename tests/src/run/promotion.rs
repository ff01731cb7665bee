//! Checks type promotion against PyTorch's tables.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;
use tensor_core::{Complex, DType, Scalar};

use super::call::show;
use super::{Item, Run};
use crate::bridge::{self, Operand};
use crate::corpus::Result;
use crate::corpus::value::dtype;

#[derive(Deserialize)]
struct Tables {
    promote_types: BTreeMap<String, BTreeMap<String, Json>>,
    can_cast: BTreeMap<String, BTreeMap<String, Json>>,
    result_type: Vec<(String, String, String, String, Json)>,
}

/// The rows of the tables.
pub(super) fn file(run: &Run<'_>, bytes: &[u8]) -> Result<Vec<Item>> {
    let tables: Tables = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let mut items = Vec::new();
    let mut row = |table: &str, names: String, dtypes: [&str; 2], want: &Json, check: &dyn Fn() -> Result<Json>| {
        let id = format!("promotion/{table} {names}");
        let check = || agree(check(), want);
        items.extend(run.item(&format!("promotion {table}"), id, tier(dtypes), false, check));
    };
    for (a, columns) in &tables.promote_types {
        for (b, want) in columns {
            row("promote_types", format!("{a} {b}"), [a, b], want, &|| {
                Ok(bridge::promote_types(dtype(a)?, dtype(b)?).map_err(show)?.name().into())
            });
        }
    }
    for (from, columns) in &tables.can_cast {
        for (to, want) in columns {
            row("can_cast", format!("{from} {to}"), [from, to], want, &|| {
                Ok(bridge::can_cast(dtype(from)?, dtype(to)?).map_err(show)?.into())
            });
        }
    }
    for (ka, a, kb, b, want) in &tables.result_type {
        row("result_type", format!("{ka} {a} {kb} {b}"), [a, b], want, &|| {
            let (x, y) = (operand(ka, dtype(a)?)?, operand(kb, dtype(b)?)?);
            Ok(bridge::result_type(&x, &y).map_err(show)?.name().into())
        });
    }
    Ok(items)
}

/// The wide unsigned types belong to no operator of tiers 1 and 2.
fn tier(dtypes: [&str; 2]) -> u8 {
    if dtypes.iter().any(|d| ["uint16", "uint32", "uint64"].contains(d)) { 3 } else { 1 }
}

/// The recorder had no name for half-precision complex dtypes: it wrote a `KeyError` with the dtype as its text. Errors must
/// have PyTorch's class and text.
fn agree(got: Result<Json>, want: &Json) -> Result<()> {
    let error = want.get("error");
    let part = |name: &str| error.and_then(|e| e.get(name)).and_then(Json::as_str).unwrap_or_default();
    match got {
        Ok(got) if got == *want => Ok(()),
        Ok(Json::String(got)) if part("type") == "KeyError" && part("message") == format!("torch.{got}") => Ok(()),
        Ok(got) => Err(format!("{got}, want {want}")),
        Err(text) if error.is_some() && text == format!("{}: {}", part("type"), part("message")) => Ok(()),
        Err(text) => Err(format!("{text}, want {want}")),
    }
}

fn operand(kind: &str, dtype: DType) -> Result<Operand> {
    let size: &[i64] = match kind {
        "tensor" => &[2],
        "zero_dim" => &[],
        _ => {
            return Ok(Operand::Number(match dtype {
                DType::Bool => Scalar::Bool(true),
                DType::I64 => Scalar::Int(2),
                DType::F64 => Scalar::Float(1.5),
                _ => Scalar::Complex(Complex::new(1.0, 2.0)),
            }));
        }
    };
    let numel = size.iter().product::<i64>() as usize;
    Ok(Operand::Tensor(bridge::dense(&vec![0; numel * dtype.itemsize()], dtype, size).map_err(show)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_agree_by_class_and_text() {
        let want: Json = serde_json::from_str(r#"{"error": {"type": "RuntimeError", "message": "no"}}"#).unwrap();
        assert!(agree(Err("RuntimeError: no".to_owned()), &want).is_ok());
        assert!(agree(Err("TypeError: no".to_owned()), &want).is_err());
        assert!(agree(Ok("float32".into()), &want).is_err());
        assert!(agree(Ok("float32".into()), &"float32".into()).is_ok());
        assert!(agree(Err("RuntimeError: no".to_owned()), &"float32".into()).is_err());
        let want: Json =
            serde_json::from_str(r#"{"error": {"type": "KeyError", "message": "torch.complex32"}}"#).unwrap();
        assert!(agree(Ok("complex32".into()), &want).is_ok());
        assert!(agree(Ok("complex64".into()), &want).is_err());
    }
}
