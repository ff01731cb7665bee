//! Tagged values: the arguments and outputs of recorded calls, as JSON spells them.

use serde::{Deserialize, Deserializer};
use tensor_core::{Complex, DType, Scalar, strides};

use super::Result;

/// A real number; NaN and the infinities are strings in JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Spelling {
            Plain(f64),
            Named(String),
        }
        match Spelling::deserialize(deserializer)? {
            Spelling::Plain(value) => Ok(Self(value)),
            Spelling::Named(name) => name.parse().map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// A strided view of a numbered storage, or a meta tensor.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct TensorRef {
    /// The storage's number in its case; none on the meta device.
    pub storage: Option<usize>,
    /// The element type's Python name.
    pub dtype: String,
    /// The sizes.
    pub size: Vec<i64>,
    /// The strides in elements; row-major where absent.
    pub stride: Option<Vec<i64>>,
    /// The first element's index.
    #[serde(default)]
    pub offset: i64,
    /// True if the lazy conjugation bit is set.
    #[serde(default)]
    pub conj: bool,
    /// True if the lazy negation bit is set.
    #[serde(default)]
    pub neg: bool,
}

impl TensorRef {
    /// The element type.
    ///
    /// # Errors
    /// When the library does not build it.
    pub fn dtype(&self) -> Result<DType> {
        dtype(&self.dtype)
    }

    /// The strides, filled in where the case leaves them out.
    pub fn strides(&self) -> Vec<i64> {
        self.stride.clone().unwrap_or_else(|| strides::contiguous(&self.size).to_vec())
    }
}

/// A dtype by its Python name.
///
/// # Errors
/// When the library does not build it.
pub fn dtype(name: &str) -> Result<DType> {
    name.parse().map_err(|e: tensor_core::Error| e.message().to_owned())
}

/// A sparse tensor by its component tensors.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct SparseRef {
    /// `sparse_coo`, `sparse_csr` or `sparse_csc`.
    pub layout: String,
    /// The sizes.
    pub size: Vec<i64>,
    /// Whether COO indices are unique and sorted.
    pub coalesced: Option<bool>,
    /// Indices and values, or the compressed pair and values.
    pub parts: Vec<TensorRef>,
}

/// A value with its tag. `None` around it is Python's None.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[allow(missing_docs)] // the tags of the format, one for one
pub enum Value {
    #[serde(rename = "bool")]
    Bool(bool),
    #[serde(rename = "int")]
    Int(i64),
    #[serde(rename = "float")]
    Float(Number),
    #[serde(rename = "complex")]
    Complex(Number, Number),
    #[serde(rename = "str")]
    Str(String),
    #[serde(rename = "dtype")]
    DType(String),
    #[serde(rename = "layout")]
    Layout(String),
    #[serde(rename = "device")]
    Device(String),
    #[serde(rename = "memory_format")]
    MemoryFormat(String),
    #[serde(rename = "number")]
    Number(Box<Value>),
    #[serde(rename = "tensor")]
    Tensor(TensorRef),
    #[serde(rename = "sparse")]
    Sparse(SparseRef),
    #[serde(rename = "tensor[]")]
    TensorList(Vec<Option<TensorRef>>),
    #[serde(rename = "int[]")]
    IntList(Vec<i64>),
    #[serde(rename = "float[]")]
    FloatList(Vec<Number>),
    #[serde(rename = "bool[]")]
    BoolList(Vec<bool>),
    #[serde(rename = "list")]
    List(Vec<Option<Value>>),
    #[serde(rename = "var")]
    Var(String),
    #[serde(rename = "var[]")]
    VarList(Vec<String>),
}

impl Value {
    /// The value as a number, if it is one.
    pub fn scalar(&self) -> Option<Scalar> {
        Some(match self {
            Self::Bool(b) => Scalar::Bool(*b),
            Self::Int(i) => Scalar::Int(*i),
            Self::Float(f) => Scalar::Float(f.0),
            Self::Complex(re, im) => Scalar::Complex(Complex::new(re.0, im.0)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn tags_are_read() {
        assert_eq!(read("null"), None);
        assert_eq!(read(r#"{"float": "-inf"}"#).unwrap().scalar(), Some(Scalar::Float(f64::NEG_INFINITY)));
        assert_eq!(read(r#"{"float": 2}"#).unwrap().scalar(), Some(Scalar::Float(2.0)));
        assert_eq!(
            read(r#"{"complex": [1, "inf"]}"#).unwrap().scalar(),
            Some(Scalar::Complex(Complex::new(1.0, f64::INFINITY)))
        );
        assert_eq!(read(r#"{"list": [null, {"int": 3}]}"#), Some(Value::List(vec![None, Some(Value::Int(3))])));
        let nan = read(r#"{"float[]": ["nan"]}"#).unwrap();
        assert!(matches!(nan, Value::FloatList(v) if v[0].0.is_nan()));
    }

    #[test]
    fn strides_and_offset_have_defaults() {
        let json = r#"{"tensor": {"storage": 0, "dtype": "float32", "size": [2, 0, 3]}}"#;
        let Some(Value::Tensor(t)) = read(json) else { panic!("not a tensor") };
        assert_eq!((t.strides(), t.offset, t.conj), (vec![3, 3, 1], 0, false));
        assert_eq!(t.dtype().unwrap(), DType::F32);
        assert!(dtype("uint64").is_err());
    }
}
