//! Upstream's names in Rust: stems of overloads, argument names, dtype sets.

use crate::schema::{Arg, Form, Schema};

/// The bases that have both a default overload and one named `Tensor`: there `Tensor` is spelled out.
pub const DEFAULT_AND_TENSOR: [&str; 17] = [
    "_ctc_loss",
    "_ctc_loss_backward",
    "_cudnn_ctc_loss",
    "_philox_key_fold_in",
    "_use_cudnn_ctc_loss",
    "_use_miopen_ctc_loss",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "miopen_ctc_loss",
    "narrow",
    "randint_like",
];

/// `dim_IntList` -> `dim_int_list`, `LU` -> `lu`.
pub fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() && i > 0 && chars[i - 1] != '_' {
            let after_lower = !chars[i - 1].is_ascii_uppercase();
            let before_lower = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
            if after_lower || before_lower {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// `add_int_list` -> `AddIntList`.
pub fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect::<String>())
        .collect()
}

/// The stem of an overload: base, `_`, overload in snake case; an in-place `_` comes last.
pub fn stem(schema: &Schema) -> String {
    let dunder = schema.name.ends_with("__");
    let in_place = schema.form() == Form::InPlace && !dunder && schema.name.ends_with('_');
    let base = if in_place { &schema.name[..schema.name.len() - 1] } else { &schema.name };
    let silent = schema.overload.is_empty()
        || (schema.overload == "Tensor" && DEFAULT_AND_TENSOR.binary_search(&schema.name.as_str()).is_err());
    let mut stem = snake(base);
    if !silent {
        // One underscore between the two, after Python's `__and__` as well: Rust has no use for more.
        stem.truncate(stem.trim_end_matches('_').len());
        stem.push('_');
        stem.push_str(&snake(&schema.overload));
    }
    if in_place {
        stem.push('_');
    }
    stem
}

/// An argument's name in Rust text: `self_` for `self`; other keywords stay and become raw identifiers in [`ident`].
pub fn arg_name(arg: &Arg) -> String {
    let name = snake(&arg.name);
    if name == "self" { "self_".to_string() } else { name }
}

/// An identifier, raw if it is a keyword.
pub fn ident(name: &str) -> proc_macro2::Ident {
    let span = proc_macro2::Span::call_site();
    match syn::parse_str::<proc_macro2::Ident>(name) {
        Ok(_) => proc_macro2::Ident::new(name, span),
        Err(_) if syn::parse_str::<proc_macro2::Ident>(&format!("r#{name}")).is_ok() => {
            proc_macro2::Ident::new_raw(name, span)
        }
        Err(_) => proc_macro2::Ident::new(&format!("{name}_"), span),
    }
}

/// The Rust type of one element, by the name that dtype sets use.
pub const DTYPES: [(&str, &str, &str); 14] = [
    ("u8", "U8", "u8"),
    ("i8", "I8", "i8"),
    ("i16", "I16", "i16"),
    ("i32", "I32", "i32"),
    ("i64", "I64", "i64"),
    ("f16", "F16", "f16"),
    ("f32", "F32", "f32"),
    ("f64", "F64", "f64"),
    ("c64", "C64", "Complex32"),
    ("c128", "C128", "Complex64"),
    ("bool", "Bool", "Bool"),
    ("bf16", "BF16", "bf16"),
    ("c32", "C32", "ComplexHalf"),
    ("bc32", "BC32", "BComplex32"),
];

/// A set of dtypes, in the order of [`DTYPES`].
pub type DtypeSet = [bool; DTYPES.len()];

/// The dtypes that only few kernels have: no set holds them, and entries name them one by one.
const HALF_COMPLEX: [&str; 2] = ["c32", "bc32"];

fn named_set(name: &str) -> Result<DtypeSet, String> {
    let of = |names: &[&str]| DTYPES.map(|(short, _, _)| names.contains(&short));
    Ok(match name {
        "all" => DTYPES.map(|(short, _, _)| !HALF_COMPLEX.contains(&short)),
        "numeric" => DTYPES.map(|(short, _, _)| short != "bool" && !HALF_COMPLEX.contains(&short)),
        "integral" => of(&["u8", "i8", "i16", "i32", "i64"]),
        "floating" => of(&["f16", "bf16", "f32", "f64"]),
        "complex" => of(&["c64", "c128"]),
        "real" => DTYPES.map(|(short, _, _)| !short.starts_with('c') && short != "bc32"),
        "none" => [false; DTYPES.len()],
        one if DTYPES.iter().any(|(short, _, _)| *short == one) => of(&[one]),
        other => return Err(format!("unknown dtype set '{other}'")),
    })
}

/// A set of dtypes in the order of `DType::ALL`: `floating+complex`, `all-bool`, `f32+f64`.
pub fn dtype_set(text: &str) -> Result<DtypeSet, String> {
    let mut set = [false; DTYPES.len()];
    let (mut add, mut rest) = (true, text);
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let part = named_set(rest[..end].trim())?;
        for (have, new) in set.iter_mut().zip(part) {
            if new {
                *have = add;
            }
        }
        if end == rest.len() {
            return Ok(set);
        }
        add = rest[end..].starts_with('+');
        rest = &rest[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_follow_the_architecture_page() {
        let stem = |head: &str, args: &str| stem(&Schema::parse(&format!("{head}({args}) -> Tensor")).unwrap());
        assert_eq!(stem("add.Tensor", "Tensor self"), "add");
        assert_eq!(stem("add_.Scalar", "Tensor(a!) self"), "add_scalar_");
        assert_eq!(stem("sum.dim_IntList", "Tensor self"), "sum_dim_int_list");
        assert_eq!(stem("where.self", "Tensor self"), "where_self");
        assert_eq!(stem("add.out", "Tensor self, *, Tensor(a!) out"), "add_out");
        assert_eq!(stem("clamp.Tensor", "Tensor self"), "clamp_tensor");
        assert_eq!(stem("clamp_.Tensor", "Tensor(a!) self"), "clamp_tensor_");
        assert_eq!(stem("__and__.Tensor", "Tensor self"), "__and__");
        assert_eq!(stem("__and__.Scalar", "Tensor self"), "__and_scalar");
    }

    #[test]
    fn dtype_sets_compose() {
        let names = |text| -> Vec<&str> {
            dtype_set(text).unwrap().iter().zip(DTYPES).filter(|(on, _)| **on).map(|(_, d)| d.0).collect()
        };
        assert_eq!(names("floating+complex"), ["f16", "f32", "f64", "c64", "c128", "bf16"]);
        assert_eq!(names("all-bool"), names("numeric"));
        assert_eq!(names("f32 + i64"), ["i64", "f32"]);
        assert!(dtype_set("float").is_err());
    }
}
