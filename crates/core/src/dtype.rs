//! [`DType`]: the element types, their names, sizes and categories. Promotion between them is in [`crate::promotion`].

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind};

/// An element type. Discriminants are `c10::ScalarType`'s numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum DType {
    /// `torch.uint8`
    U8 = 0,
    /// `torch.int8`
    I8 = 1,
    /// `torch.int16`
    I16 = 2,
    /// `torch.int32`
    I32 = 3,
    /// `torch.int64`
    I64 = 4,
    /// `torch.float16`
    F16 = 5,
    /// `torch.float32`
    F32 = 6,
    /// `torch.float64`
    F64 = 7,
    /// `torch.complex64`
    C64 = 9,
    /// `torch.complex128`
    C128 = 10,
    /// `torch.bool`
    Bool = 11,
    /// `torch.bfloat16`
    BF16 = 15,
    /// `torch.complex32`: what f16 and a complex number promote to; few operators compute in it
    C32 = 8,
    /// `torch.bcomplex32`: what bf16 and a complex number promote to; fewer do
    BC32 = 46,
}

/// The category that decides between tensors of different rank in type promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// `bool`
    Bool,
    /// the integers
    Int,
    /// the real floating types
    Float,
    /// the complex types
    Complex,
}

struct Facts(DType, &'static str, &'static str, usize, Category);

/// One row a dtype: Python name, C++ name, bytes, category.
const FACTS: [Facts; DType::ALL.len()] = [
    Facts(DType::U8, "uint8", "Byte", 1, Category::Int),
    Facts(DType::I8, "int8", "Char", 1, Category::Int),
    Facts(DType::I16, "int16", "Short", 2, Category::Int),
    Facts(DType::I32, "int32", "Int", 4, Category::Int),
    Facts(DType::I64, "int64", "Long", 8, Category::Int),
    Facts(DType::F16, "float16", "Half", 2, Category::Float),
    Facts(DType::F32, "float32", "Float", 4, Category::Float),
    Facts(DType::F64, "float64", "Double", 8, Category::Float),
    Facts(DType::C64, "complex64", "ComplexFloat", 8, Category::Complex),
    Facts(DType::C128, "complex128", "ComplexDouble", 16, Category::Complex),
    Facts(DType::Bool, "bool", "Bool", 1, Category::Bool),
    Facts(DType::BF16, "bfloat16", "BFloat16", 2, Category::Float),
    Facts(DType::C32, "complex32", "ComplexHalf", 4, Category::Complex),
    Facts(DType::BC32, "bcomplex32", "BComplex32", 4, Category::Complex),
];

/// Names of PyTorch dtypes that this library knows of and does not build.
const RESERVED: [&str; 8] = [
    "uint16",
    "uint32",
    "uint64",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "float8_e8m0fnu",
];

impl DType {
    /// Every dtype, in the order of [`DType::index`].
    pub const ALL: [DType; 14] = [
        Self::U8,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
        Self::Bool,
        Self::BF16,
        Self::C32,
        Self::BC32,
    ];

    /// How many dtypes there are: the length of a kernel table's column list.
    pub const COUNT: usize = Self::ALL.len();

    /// A dense number from 0 to [`DType::COUNT`].
    #[inline]
    pub const fn index(self) -> usize {
        match self as u8 {
            n @ 0..=7 => n as usize,
            n @ 9..=11 => n as usize - 1,
            15 => 11,
            8 => 12,
            _ => 13,
        }
    }

    #[inline]
    const fn facts(self) -> &'static Facts {
        &FACTS[self.index()]
    }

    /// The Python name, `"float32"`.
    #[inline]
    pub const fn name(self) -> &'static str {
        self.facts().1
    }

    /// The C++ name, as kernels' error messages spell it: `"Float"`.
    #[inline]
    pub const fn cpp_name(self) -> &'static str {
        self.facts().2
    }

    /// The C name, as some error messages spell it: `"float"`, `"long int"`, `"c10::Half"`.
    #[inline]
    pub const fn c_name(self) -> &'static str {
        match self {
            Self::U8 => "unsigned char",
            Self::I8 => "signed char",
            Self::I16 => "short int",
            Self::I32 => "int",
            Self::I64 => "long int",
            Self::F16 => "c10::Half",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::C64 => "c10::complex<float>",
            Self::C128 => "c10::complex<double>",
            Self::Bool => "bool",
            Self::BF16 => "c10::BFloat16",
            Self::C32 => "c10::complex<c10::Half>",
            Self::BC32 => "c10::complex<c10::BFloat16>",
        }
    }

    /// Bytes of one element.
    #[inline]
    pub const fn itemsize(self) -> usize {
        self.facts().3
    }

    /// The promotion category.
    #[inline]
    pub const fn category(self) -> Category {
        self.facts().4
    }

    /// True for the real floating types.
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        matches!(self.category(), Category::Float)
    }

    /// True for the complex types.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self.category(), Category::Complex)
    }

    /// True for floating and complex types: those that can require a gradient.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        matches!(self.category(), Category::Float | Category::Complex)
    }

    /// True for the integers, and for `bool` when `include_bool`.
    #[inline]
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self.category() {
            Category::Int => true,
            Category::Bool => include_bool,
            _ => false,
        }
    }

    /// True for the signed integers and all floating and complex types.
    #[inline]
    pub const fn is_signed(self) -> bool {
        !matches!(self, Self::U8 | Self::Bool)
    }

    /// The real type of a complex type's parts; a real type gives itself.
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            Self::C32 => Self::F16,
            Self::BC32 => Self::BF16,
            other => other,
        }
    }

    /// The complex type whose parts hold this type (`c10::toComplexType`).
    #[inline]
    pub const fn to_complex(self) -> DType {
        match self {
            Self::F64 | Self::C128 => Self::C128,
            Self::F16 | Self::C32 => Self::C32,
            Self::BF16 | Self::BC32 => Self::BC32,
            _ => Self::C64,
        }
    }

    /// The type that sums of this type accumulate in (`toOpMathType`): f32 for f16 and bf16, and so for complex ones.
    #[inline]
    pub const fn opmath(self) -> DType {
        match self {
            Self::F16 | Self::BF16 => Self::F32,
            Self::C32 | Self::BC32 => Self::C64,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    /// Writes the name as Python's `repr` does: `torch.float32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    /// Reads a Python name, with or without `torch.`, and PyTorch's aliases (`float`, `double`, `half`, `long`, `int`,
    /// `short`, `cfloat`, `cdouble`).
    fn from_str(name: &str) -> Result<Self, Error> {
        let bare = name.strip_prefix("torch.").unwrap_or(name);
        let bare = match bare {
            "float" => "float32",
            "double" => "float64",
            "half" => "float16",
            "long" => "int64",
            "int" => "int32",
            "short" => "int16",
            "cfloat" => "complex64",
            "cdouble" => "complex128",
            other => other,
        };
        match FACTS.iter().find(|row| row.1 == bare) {
            Some(row) => Ok(row.0),
            None if RESERVED.contains(&bare) => {
                Err(Error::new(ErrorKind::NotImplemented, format!("dtype torch.{bare} is not supported yet")))
            }
            None => Err(Error::new(ErrorKind::Type, format!("unknown dtype '{name}'"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_index() {
        for (i, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype.index(), i);
            assert_eq!(dtype.facts().0, dtype);
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        assert_eq!("float8_e5m2".parse::<DType>().unwrap_err().kind(), ErrorKind::NotImplemented);
    }
}
