//! [`IValue`]: any argument or result of an operator, for calls by name over a [`Stack`].

use tensor_core::{Complex64, DType, Device, Generator, Layout, MemoryFormat, Scalar};

use crate::Tensor;

/// Arguments pushed in schema order; a boxed call replaces them by its results.
pub type Stack = Vec<IValue>;

/// A value of any type that schemas name.
#[derive(Clone)]
#[non_exhaustive]
pub enum IValue {
    /// an absent optional
    None,
    /// `Tensor`
    Tensor(Tensor),
    /// `Tensor[]` and `Tensor?[]`
    TensorList(Vec<Option<Tensor>>),
    /// `bool`, or a boolean `Scalar`
    Bool(bool),
    /// `int`, or an integer `Scalar`
    Int(i64),
    /// `float`, or a real `Scalar`
    Float(f64),
    /// a complex `Scalar`
    Complex(Complex64),
    /// `str`
    Str(String),
    /// `int[]`
    IntList(Vec<i64>),
    /// `float[]`
    FloatList(Vec<f64>),
    /// `bool[]`
    BoolList(Vec<bool>),
    /// `Scalar[]`
    ScalarList(Vec<Scalar>),
    /// `ScalarType`
    DType(DType),
    /// `Layout`
    Layout(Layout),
    /// `Device`
    Device(Device),
    /// `MemoryFormat`
    MemoryFormat(MemoryFormat),
    /// `Generator`
    Generator(Generator),
}

impl IValue {
    /// What the value is, for error messages.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Tensor(_) => "Tensor",
            Self::TensorList(_) => "List[Tensor]",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Complex(_) => "complex",
            Self::Str(_) => "str",
            Self::IntList(_) => "List[int]",
            Self::FloatList(_) => "List[float]",
            Self::BoolList(_) => "List[bool]",
            Self::ScalarList(_) => "List[number]",
            Self::DType(_) => "dtype",
            Self::Layout(_) => "layout",
            Self::Device(_) => "Device",
            Self::MemoryFormat(_) => "memory_format",
            Self::Generator(_) => "Generator",
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident;)*) => { $(
        impl From<$ty> for IValue {
            fn from(value: $ty) -> Self { Self::$variant(value) }
        }
    )* };
}
from! {
    Tensor => Tensor;
    bool => Bool;
    i64 => Int;
    f64 => Float;
    Complex64 => Complex;
    String => Str;
    Vec<i64> => IntList;
    Vec<f64> => FloatList;
    Vec<bool> => BoolList;
    DType => DType;
    Layout => Layout;
    Device => Device;
    MemoryFormat => MemoryFormat;
    Generator => Generator;
}

impl From<&Tensor> for IValue {
    fn from(value: &Tensor) -> Self {
        Self::Tensor(value.clone())
    }
}

impl From<Vec<Tensor>> for IValue {
    fn from(list: Vec<Tensor>) -> Self {
        Self::TensorList(list.into_iter().map(Some).collect())
    }
}

impl From<Scalar> for IValue {
    fn from(value: Scalar) -> Self {
        match value {
            Scalar::Bool(b) => Self::Bool(b),
            Scalar::Int(i) => Self::Int(i),
            Scalar::Float(f) => Self::Float(f),
            Scalar::Complex(c) => Self::Complex(c),
        }
    }
}

impl From<&str> for IValue {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl<T: Into<IValue>> From<Option<T>> for IValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}
