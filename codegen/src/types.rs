//! What a schema's types become in Rust: parameters of function pointers and of callers, results, boxed arguments.

use proc_macro2::{Literal, TokenStream};
use quote::quote;

use crate::names::{arg_name, ident};
use crate::schema::{Arg, Base, Schema, Type};

/// Says which type of a schema has no Rust form, if any.
pub fn check(schema: &Schema) -> Result<(), String> {
    for arg in &schema.args {
        if element(&arg.ty).is_none() || boxed_getter(&arg.ty).is_none() {
            return Err(format!("arguments of type '{}' are not supported", arg.ty));
        }
    }
    for ret in &schema.returns {
        if ret.ty.optional || owned(&ret.ty).is_none() {
            return Err(format!("results of type '{}' are not supported", ret.ty));
        }
    }
    Ok(())
}

/// One value, outside lists: `Tensor` gives `&Tensor`.
fn element(ty: &Type) -> Option<TokenStream> {
    Some(match ty.base {
        Base::Tensor => quote!(&Tensor),
        Base::Int | Base::SymInt | Base::DeviceIndex => quote!(i64),
        Base::Float => quote!(f64),
        Base::Bool | Base::SymBool => quote!(bool),
        Base::Str => quote!(&str),
        Base::Scalar => quote!(Scalar),
        Base::ScalarType => quote!(DType),
        Base::Layout => quote!(Layout),
        Base::Device => quote!(Device),
        Base::MemoryFormat => quote!(MemoryFormat),
        Base::Generator => quote!(&Generator),
        Base::Storage | Base::Stream | Base::QScheme => return None,
    })
}

/// The type of an argument in a kernel's function pointer.
pub fn param(ty: &Type) -> TokenStream {
    let one = element(ty).unwrap_or_default();
    let one = match (ty.list, ty.optional_items) {
        (Some(Some(n)), _) if ty.base == Base::Bool => {
            let n = Literal::usize_unsuffixed(n);
            quote!([bool; #n])
        }
        (Some(_), true) => quote!(&[Option<#one>]),
        (Some(_), false) => quote!(&[#one]),
        (None, _) => one,
    };
    if ty.optional { quote!(Option<#one>) } else { one }
}

/// True for a plain `Scalar`, which callers take as `impl Into<Scalar>`.
pub fn is_scalar(ty: &Type) -> bool {
    ty.base == Base::Scalar && ty.list.is_none() && !ty.optional
}

/// True for a plain `Tensor`, which methods take as `impl Operand`.
pub fn is_tensor(ty: &Type) -> bool {
    ty.base == Base::Tensor && ty.list.is_none() && !ty.optional
}

fn owned(ty: &Type) -> Option<TokenStream> {
    let one = match ty.base {
        Base::Tensor => quote!(Tensor),
        Base::Str => quote!(String),
        Base::Generator => quote!(Generator),
        _ => element(ty)?,
    };
    Some(if ty.list.is_some() { quote!(Vec<#one>) } else { one })
}

fn tuple(items: Vec<TokenStream>) -> TokenStream {
    match items.as_slice() {
        [one] => one.clone(),
        _ => quote!((#(#items),*)),
    }
}

/// A result that is no written argument; `Option<Tensor>` where a mask says whether it is computed.
fn fresh(schema: &Schema, ty: &Type) -> Option<TokenStream> {
    let one = owned(ty)?;
    Some(if schema.masks_results() && is_tensor(ty) { quote!(Option<#one>) } else { one })
}

/// What a kernel returns inside `Result`: the results that are no written arguments.
pub fn kernel_result(schema: &Schema) -> TokenStream {
    tuple(schema.fresh_returns().filter_map(|ret| fresh(schema, &ret.ty)).collect())
}

/// What a caller returns inside `Result`: written arguments by reference (with the given lifetime), others owned.
pub fn caller_result(schema: &Schema, lifetime: &TokenStream) -> TokenStream {
    let items = schema.returns.iter();
    tuple(
        items
            .filter_map(|r| if r.ty.is_written() { Some(quote!(&#lifetime Tensor)) } else { fresh(schema, &r.ty) })
            .collect(),
    )
}

/// The parameters of a kernel, `name: type`.
pub fn params(schema: &Schema) -> Vec<TokenStream> {
    schema.args.iter().map(|arg| named(arg, param(&arg.ty))).collect()
}

/// `name: type`.
pub fn named(arg: &Arg, ty: TokenStream) -> TokenStream {
    let name = ident(&arg_name(arg));
    quote!(#name: #ty)
}

/// The types of a kernel's parameters.
pub fn param_types(schema: &Schema) -> Vec<TokenStream> {
    schema.args.iter().map(|arg| param(&arg.ty)).collect()
}

/// The method of `boxed::Args` that reads an argument of this type, and how its value is passed on.
fn boxed_getter(ty: &Type) -> Option<(&'static str, Passed)> {
    use Passed::{AsDeref, Plain, Ref};
    let fixed = ty.list.flatten();
    Some(match (ty.base, ty.list.is_some(), ty.optional) {
        (Base::Tensor, true, false) if ty.optional_items => ("opt_tensor_list", Ref),
        (Base::Tensor, true, false) => ("tensor_list", Ref),
        (Base::Tensor, false, false) => ("tensor", Plain),
        (Base::Tensor, false, true) => ("opt_tensor", Plain),
        (Base::Int | Base::SymInt, true, false) => ("int_list", Ref),
        (Base::Int | Base::SymInt, true, true) => ("opt_int_list", AsDeref),
        (Base::Int | Base::SymInt | Base::DeviceIndex, false, false) => ("int", Plain),
        (Base::Int | Base::SymInt, false, true) => ("opt_int", Plain),
        (Base::Float, true, false) => ("float_list", Ref),
        (Base::Float, true, true) => ("opt_float_list", AsDeref),
        (Base::Float, false, false) => ("float", Plain),
        (Base::Float, false, true) => ("opt_float", Plain),
        (Base::Bool, true, false) if fixed.is_some() => ("bool_array", Plain),
        (Base::Bool, true, false) => ("bool_list", Ref),
        (Base::Bool | Base::SymBool, false, false) => ("bool", Plain),
        (Base::Bool, false, true) => ("opt_bool", Plain),
        (Base::Str, false, false) => ("str", Plain),
        (Base::Str, false, true) => ("opt_str", Plain),
        (Base::Scalar, true, false) => ("scalar_list", Ref),
        (Base::Scalar, false, false) => ("scalar", Plain),
        (Base::Scalar, false, true) => ("opt_scalar", Plain),
        (Base::ScalarType, false, false) => ("dtype", Plain),
        (Base::ScalarType, false, true) => ("opt_dtype", Plain),
        (Base::Layout, false, false) => ("layout", Plain),
        (Base::Layout, false, true) => ("opt_layout", Plain),
        (Base::Device, false, false) => ("device", Plain),
        (Base::Device, false, true) => ("opt_device", Plain),
        (Base::MemoryFormat, false, false) => ("memory_format", Plain),
        (Base::MemoryFormat, false, true) => ("opt_memory_format", Plain),
        (Base::Generator, false, true) => ("opt_generator", Plain),
        _ => return None,
    })
}

enum Passed {
    Plain,
    Ref,
    AsDeref,
}

/// The expression that reads argument `i` of a boxed call from `a`.
pub fn boxed_arg(i: usize, ty: &Type) -> TokenStream {
    let Some((getter, passed)) = boxed_getter(ty) else { return TokenStream::new() };
    let (getter, i) = (ident(getter), Literal::usize_unsuffixed(i));
    let fixed = matches!(ty.base, Base::Int | Base::SymInt) && ty.list.is_some();
    let read = if fixed {
        let n = Literal::usize_unsuffixed(ty.list.flatten().unwrap_or(0));
        quote!(a.#getter(#i, #n)?)
    } else {
        quote!(a.#getter(#i)?)
    };
    match passed {
        Passed::Plain => read,
        Passed::Ref => quote!(&#read),
        Passed::AsDeref => quote!(#read.as_deref()),
    }
}

/// A default's Rust expression; none for one that has no Rust form.
pub fn default_value(arg: &Arg) -> Option<TokenStream> {
    let text = arg.default.as_deref()?;
    let ty = &arg.ty;
    let wrap = |value: TokenStream| if ty.optional { quote!(Some(#value)) } else { value };
    if text == "None" {
        return Some(quote!(None));
    }
    if ty.list.is_some() {
        if ty.base == Base::Tensor {
            return None;
        }
        let items: Vec<&str> = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            Some("") => Vec::new(),
            Some(inner) => inner.split(',').map(str::trim).collect(),
            None => vec![text; ty.list.flatten().unwrap_or(1)],
        };
        let items = items.into_iter().map(|item| scalar_default(ty.base, item)).collect::<Option<Vec<_>>>()?;
        let by_value = ty.base == Base::Bool && ty.list.flatten().is_some();
        return Some(wrap(if by_value { quote!([#(#items),*]) } else { quote!(&[#(#items),*]) }));
    }
    scalar_default(ty.base, text).map(wrap)
}

fn scalar_default(base: Base, text: &str) -> Option<TokenStream> {
    let int = || text.parse::<i64>().ok().and_then(|value| value.to_string().parse::<TokenStream>().ok());
    let float = || text.parse::<f64>().ok().and_then(|value| format!("{value:?}").parse::<TokenStream>().ok());
    Some(match (base, text) {
        (Base::Bool | Base::SymBool, "True" | "true") => quote!(true),
        (Base::Bool | Base::SymBool, "False" | "false") => quote!(false),
        (Base::Scalar, "True") => quote!(Scalar::Bool(true)),
        (Base::Scalar, "False") => quote!(Scalar::Bool(false)),
        (Base::Scalar, _) => match int() {
            Some(value) => quote!(Scalar::Int(#value)),
            None => float().map(|value| quote!(Scalar::Float(#value)))?,
        },
        // c10's enum at::Reduction
        (Base::Int, "Mean") => quote!(1),
        (Base::Int, "Sum") => quote!(2),
        (Base::Int | Base::SymInt | Base::DeviceIndex, _) => int().map(|value| quote!(#value))?,
        (Base::Float, "inf") => quote!(f64::INFINITY),
        (Base::Float, _) => float().map(|value| quote!(#value))?,
        (Base::Str, _) => {
            let inner = text.trim_matches(['"', '\'']);
            quote!(#inner)
        }
        (Base::MemoryFormat, "contiguous_format") => quote!(MemoryFormat::Contiguous),
        (Base::MemoryFormat, "preserve_format") => quote!(MemoryFormat::Preserve),
        (Base::ScalarType, "long") => quote!(DType::I64),
        (Base::ScalarType, "float") => quote!(DType::F32),
        (Base::Layout, "strided") => quote!(Layout::Strided),
        _ => return None,
    })
}
