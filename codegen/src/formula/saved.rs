//! What formulas save: a field of the node, how it is filled when the operator runs, and its Rust type.

use super::value::{Kind, Shape};

/// Where a saved value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The i-th argument of the schema.
    Argument(usize),
    /// The i-th return.
    Result(usize),
}

/// Which part of it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum What {
    Whole,
    Sizes,
    DType,
    Dim,
    Numel,
    Device,
    Size(i64),
    Strides,
    StorageOffset,
    Options,
    IsSome,
    Len,
}

/// The parts that methods of tensors name: method, part, kind and shape of the value, for one tensor and for a list.
pub(super) const PARTS: [(&str, What, Kind, Shape); 8] = [
    ("sizes", What::Sizes, Kind::Int, Shape::List),
    ("strides", What::Strides, Kind::Int, Shape::List),
    ("storage_offset", What::StorageOffset, Kind::Int, Shape::One),
    ("dtype", What::DType, Kind::DType, Shape::One),
    ("dim", What::Dim, Kind::Int, Shape::One),
    ("numel", What::Numel, Kind::Int, Shape::One),
    ("device", What::Device, Kind::Device, Shape::One),
    ("options", What::Options, Kind::Tensor, Shape::One),
];

/// One field of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The field's name.
    pub field: String,
    /// Argument or result.
    pub source: Source,
    /// The part.
    pub what: What,
    /// What the argument or result is made of.
    pub kind: Kind,
    /// One, optional, or a list.
    pub shape: Shape,
}

impl Use {
    /// The field of a part of a value that is called `name` in Rust.
    pub fn new(name: &str, source: Source, what: What, kind: Kind, shape: Shape) -> Self {
        let suffix = match what {
            What::Whole => String::new(),
            What::Sizes => "sizes".into(),
            What::Strides => "strides".into(),
            What::StorageOffset => "storage_offset".into(),
            What::DType => "dtype".into(),
            What::Dim => "dim".into(),
            What::Numel => "numel".into(),
            What::Device => "device".into(),
            What::Size(dim) if dim < 0 => format!("size_m{}", dim.unsigned_abs()),
            What::Size(dim) => format!("size_{dim}"),
            What::Options => "options".into(),
            What::IsSome => "is_some".into(),
            What::Len => "len".into(),
        };
        let field =
            if suffix.is_empty() { name.to_string() } else { format!("{}_{suffix}", name.trim_end_matches('_')) };
        Self { field, source, what, kind, shape }
    }

    /// True for tensors, which are saved only if an input whose formula names them needs a gradient.
    pub fn is_tensor(&self) -> bool {
        self.what == What::Whole && self.kind == Kind::Tensor
    }

    /// True if the argument is a list of tensors.
    fn is_list(&self) -> bool {
        matches!(self.shape, Shape::List | Shape::OptionalItems)
    }

    /// The field's type.
    pub fn rust_type(&self) -> String {
        match self.what {
            What::Whole => self.whole_type(),
            What::Sizes if self.is_list() => "Vec<Dims>".into(),
            What::Sizes if self.shape == Shape::Optional => "Option<Dims>".into(),
            What::Sizes | What::Strides => "Dims".into(),
            What::DType if self.is_list() => "Vec<DType>".into(),
            What::DType => "DType".into(),
            What::Dim | What::Numel | What::StorageOffset | What::Size(_) | What::Len => "i64".into(),
            What::Device => "Device".into(),
            What::Options => "Options".into(),
            What::IsSome => "bool".into(),
        }
    }

    fn whole_type(&self) -> String {
        if self.kind == Kind::Tensor {
            return if self.is_list() { "SavedList".into() } else { "SavedVariable".into() };
        }
        let item = match self.kind {
            Kind::Int => "i64",
            Kind::Float => "f64",
            Kind::Bool => "bool",
            Kind::Str => "String",
            Kind::Scalar => "Scalar",
            Kind::DType => "DType",
            Kind::Layout => "Layout",
            Kind::Device => "Device",
            Kind::MemoryFormat => "MemoryFormat",
            Kind::Generator => "Generator",
            Kind::Tensor => "Tensor",
        };
        let list = if self.kind == Kind::Int { "Dims".to_string() } else { format!("Vec<{item}>") };
        match self.shape {
            Shape::One => item.into(),
            Shape::Optional => format!("Option<{item}>"),
            Shape::List | Shape::OptionalItems => list,
            Shape::OptionalList => format!("Option<{list}>"),
            Shape::Array(size) => format!("[{item}; {size}]"),
        }
    }

    /// The expression that fills the field from `value`, a reference to a tensor or an argument as it was passed. Whole
    /// tensors of arguments only: results are the wrapper's, which knows their numbers.
    pub fn save(&self, value: &str, needed: &str) -> String {
        let list = self.is_list();
        let receiver = value.trim_start_matches('&');
        match self.what {
            What::Whole if self.kind == Kind::Tensor => {
                let make = match self.shape {
                    Shape::Optional => "SavedVariable::input_opt",
                    Shape::List => "SavedList::inputs",
                    Shape::OptionalItems => "SavedList::inputs_opt",
                    _ => "SavedVariable::input",
                };
                format!("{make}({needed}, {value})?")
            }
            What::Whole => self.save_value(value),
            What::Sizes if list => format!("record::sizes_of({value})"),
            What::DType if list => format!("record::dtypes_of({value})"),
            What::Sizes if self.shape == Shape::Optional => format!("{value}.map(|x| Dims::from_slice(x.sizes()))"),
            What::Sizes => format!("Dims::from_slice({receiver}.sizes())"),
            What::Strides => format!("Dims::from_slice({receiver}.strides())"),
            What::StorageOffset => format!("{receiver}.storage_offset()"),
            What::DType => format!("{receiver}.dtype()"),
            What::Dim => format!("{receiver}.dim() as i64"),
            What::Numel => format!("{receiver}.numel()"),
            What::Device => format!("{receiver}.device()"),
            What::Size(dim) => format!("{receiver}.size({dim})?"),
            What::Options => format!("Options::of({value})"),
            What::IsSome => format!("{receiver}.is_some()"),
            What::Len => format!("{receiver}.len() as i64"),
        }
    }

    fn save_value(&self, value: &str) -> String {
        match (self.shape, self.kind) {
            (Shape::List, Kind::Int) => format!("Dims::from_slice({value})"),
            (Shape::OptionalList, Kind::Int) => format!("{value}.map(Dims::from_slice)"),
            (Shape::List, _) => format!("{value}.to_vec()"),
            (Shape::OptionalList, _) => format!("{value}.map(<[_]>::to_vec)"),
            (Shape::One, Kind::Str) => format!("{value}.to_owned()"),
            (Shape::Optional, Kind::Str) => format!("{value}.map(str::to_owned)"),
            (Shape::One, Kind::Generator) => format!("{value}.clone()"),
            (Shape::Optional, Kind::Generator) => format!("{value}.cloned()"),
            _ => value.into(),
        }
    }
}
