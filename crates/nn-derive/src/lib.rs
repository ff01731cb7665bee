//! `#[derive(Module)]`: the members of a struct as a module's parameters, buffers and children. Nothing else is generated.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Fields, LitStr, parse_macro_input};

/// Implements `tensor_nn::Module` for a struct with named fields, and `Display` with the text that PyTorch prints.
///
/// Every field is a member, named as the field: parameters, buffers, child modules, the training flag, each of them also as
/// an `Option`; a `Vec` of modules is a `ModuleList`. Numbers, strings and the like are settings and no members;
/// `#[module(skip)]` leaves any other field out. `#[module(rename = "0")]` gives a member another name.
///
/// On the struct, `#[module(repr)]` prints what its method `extra_repr(&self) -> String` says, and
/// `#[module(crate = "tensor_nn")]` says where `tensor_nn` is found, if not at `tensor::nn`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// What `#[module(..)]` says of a field or struct.
#[derive(Default)]
struct Options {
    skip: bool,
    repr: bool,
    krate: Option<syn::Path>,
    rename: Option<String>,
}

fn options(attributes: &[syn::Attribute]) -> syn::Result<Options> {
    let mut options = Options::default();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                options.skip = true;
            } else if meta.path.is_ident("repr") {
                options.repr = true;
            } else if meta.path.is_ident("rename") {
                options.rename = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("crate") {
                options.krate = Some(meta.value()?.parse::<LitStr>()?.parse()?);
            } else {
                return Err(meta.error("expected `skip`, `repr`, `rename = \"..\"` or `crate = \"..\"`"));
            }
            Ok(())
        })?;
    }
    Ok(options)
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(&input.ident, "`Module` can be derived for structs alone"));
    };
    let fields = match &data.fields {
        Fields::Named(fields) => fields.named.iter().collect(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(_) => {
            return Err(syn::Error::new_spanned(&input.ident, "members need names: use a struct with named fields"));
        }
    };
    let of_struct = options(&input.attrs)?;
    let nn = of_struct.krate.map_or_else(|| quote!(::tensor::nn), |path| quote!(#path));
    let mut visits = Vec::new();
    for field in fields {
        let of_field = options(&field.attrs)?;
        let (false, Some(ident)) = (of_field.skip, &field.ident) else { continue };
        let name = of_field.rename.unwrap_or_else(|| ident.to_string().trim_start_matches("r#").to_string());
        visits.push(quote!(#nn::Member::accept(&self.#ident, #name, visitor);));
    }
    let name = &input.ident;
    let text = name.to_string();
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let repr = of_struct.repr.then(|| {
        quote! {
            fn extra_repr(&self) -> ::std::string::String { #name::extra_repr(self) }
        }
    });
    Ok(quote! {
        impl #impl_generics #nn::Module for #name #type_generics #where_clause {
            fn name(&self) -> &'static str { #text }
            #[allow(unused_variables)]
            fn visit<'visited>(&'visited self, visitor: &mut dyn #nn::Visitor<'visited>) { #(#visits)* }
            #repr
        }

        impl #impl_generics ::std::fmt::Display for #name #type_generics #where_clause {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&#nn::Module::repr(self))
            }
        }
    })
}
