//! Writes the tables of kernels: `aten/src/generated/kernels.rs`, and the columns of each backend.
//!
//! A missing, misnamed or mistyped kernel of a backend does not build.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Backend, Entry, Kernel, Levels};
use crate::names::{DTYPES, camel, ident};

/// `PointwiseKernels`
fn struct_name(family: &str) -> Ident {
    format_ident!("{}Kernels", camel(family))
}

/// `PointwiseTable`
fn table_name(family: &str) -> Ident {
    format_ident!("{}Table", camel(family))
}

/// The kernels of a family, by name.
pub fn kernels_of<'a>(entries: &[&'a Entry]) -> Vec<&'a Kernel> {
    let mut kernels: Vec<&Kernel> = entries.iter().flat_map(|entry| &entry.kernels).collect();
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    kernels
}

/// `aten/src/generated/kernels.rs`: a struct a family, what backends submit, and the look-up by device.
pub fn aten(families: &[(&str, Vec<&Entry>)]) -> TokenStream {
    let parts = families.iter().filter_map(|(family, entries)| {
        let kernels = kernels_of(entries);
        if kernels.is_empty() {
            return None;
        }
        let (structure, table, get) = (struct_name(family), table_name(family), ident(family));
        let fields: Vec<Ident> = kernels.iter().map(|kernel| ident(&kernel.name)).collect();
        let types = kernels.iter().map(|kernel| ident(&kernel.ty));
        let docs = kernels.iter().map(|kernel| format!(" `{}`", kernel.error_name));
        let doc = format!(" The kernels of `{family}`: a column a dtype.");
        let table_doc = format!(" A backend's kernels of `{family}`: what it submits.");
        let get_doc = format!(" The kernels of `{family}` on a device.");
        let columns = kernels.iter().map(|kernel| {
            let (field, name) = (ident(&kernel.name), &kernel.name);
            quote!((#name, self.#field.dtypes()))
        });
        Some(quote! {
            #[doc = #doc]
            pub struct #structure { #(#[doc = #docs] pub #fields: Columns<#types>),* }

            impl #structure {
                /// No kernel at all: what a backend fills up with.
                pub const NONE: Self = Self { #(#fields: Columns::NONE),* };

                /// Each kernel with the dtypes that it has.
                pub fn coverage(&self) -> Vec<(&'static str, Vec<DType>)> {
                    vec![#(#columns),*]
                }
            }

            #[doc = #table_doc]
            pub struct #table {
                /// the backend
                pub device: DeviceType,
                /// its kernels, for the machine that runs
                pub kernels: fn() -> &'static #structure,
            }

            inventory::collect!(#table);

            #[doc = #get_doc]
            ///
            /// # Errors
            /// When no linked backend brings them.
            pub fn #get(device: Device) -> Result<&'static #structure> {
                static FOUND: [OnceLock<Option<&'static #structure>>; DeviceType::ALL.len()] =
                    [const { OnceLock::new() }; DeviceType::ALL.len()];
                let kind = device.kind();
                let find = || inventory::iter::<#table>().find(|table| table.device == kind).map(|table| (table.kernels)());
                FOUND[kind as usize].get_or_init(find).ok_or_else(|| no_table(#family, device))
            }
        })
    });
    let parts: Vec<TokenStream> = parts.collect();
    let lines = families.iter().filter(|(_, entries)| !kernels_of(entries).is_empty()).map(|(family, _)| {
        let get = ident(family);
        quote!(if let Ok(table) = #get(device) { all.push((#family, table.coverage())); })
    });
    quote! {
        //! The tables of kernels, a struct a family. Backends submit them; wrappers look them up by device and dtype.
        #![cfg_attr(rustfmt, rustfmt_skip)]

        use std::sync::OnceLock;

        use tensor_core::{DType, Device, DeviceType, Result};

        use crate::kernels::*;

        #(#parts)*

        /// Every family that a device has kernels of, with the dtypes of each kernel.
        pub fn coverage(device: Device) -> Vec<(&'static str, Vec<(&'static str, Vec<DType>)>)> {
            let mut all = Vec::new();
            #(#lines)*
            all
        }
    }
}

/// Dtypes whose kernels are worth a column of their own at the highest level. Every further one costs build time.
const WIDE: [&str; 5] = ["f16", "bf16", "f32", "f64", "i64"];
/// Dtypes whose kernels are compiled at one level only: their elements are so small that the memory rules.
const NARROW: [&str; 4] = ["u8", "i8", "i16", "bool"];

/// `backends-cpu/src/generated/FAMILY.rs`; none for a family without CPU kernels.
pub fn cpu(family: &str, entries: &[&Entry]) -> Option<TokenStream> {
    let kernels = kernels_of(entries);
    if !kernels.iter().any(|kernel| kernel.dispatch.contains(&Backend::Cpu)) {
        return None;
    }
    let (structure, table, module) = (struct_name(family), table_name(family), ident(family));
    let fields = kernels.iter().map(|kernel| {
        let name = ident(&kernel.name);
        if !kernel.dispatch.contains(&Backend::Cpu) {
            return quote!(#name: Columns::NONE);
        }
        let columns = DTYPES.iter().zip(kernel.dtypes).map(|((short, _, rust), on)| {
            let ty = ident(rust);
            let level = ident(match short {
                short if WIDE.contains(short) => "I",
                short if NARROW.contains(short) => "Baseline",
                _ => "N",
            });
            match (on, kernel.levels) {
                (false, _) => quote!(None),
                (true, Levels::Each) => quote!(Some(#module::#name::<#level, #ty>)),
                (true, Levels::Baseline) => quote!(Some(#module::#name::<Baseline, #ty>)),
                (true, Levels::None) => quote!(Some(#module::#name::<#ty>)),
            }
        });
        quote!(#name: Columns([#(#columns),*]))
    });
    let doc = format!(" The columns of `{family}` on the CPU.");
    Some(quote! {
        #![doc = #doc]
        #![cfg_attr(rustfmt, rustfmt_skip)]
        #![allow(unused_imports, clippy::extra_unused_type_parameters)]

        use tensor_aten::generated::kernels::{#structure, #table};
        use tensor_aten::inventory;
        use tensor_aten::kernels::Columns;
        use tensor_core::{BComplex32, Bool, Complex32, Complex64, ComplexHalf, DeviceType, bf16, f16};

        use crate::isa::{Baseline, Isa, Level, V3, V4, level};
        use crate::#module;

        /// The kernels at level `I`; dtypes that gain little from the highest one are at level `N`.
        const fn table<I: Isa, N: Isa>() -> #structure { #structure { #(#fields),* } }

        // Unoptimised code gains nothing from a level, and a third of it builds in a third of the time.
        #[cfg(debug_assertions)]
        fn kernels() -> &'static #structure {
            static BASELINE: #structure = table::<Baseline, Baseline>();
            &BASELINE
        }

        #[cfg(not(debug_assertions))]
        fn kernels() -> &'static #structure {
            static BASELINE: #structure = table::<Baseline, Baseline>();
            static V3_TABLE: #structure = table::<V3, V3>();
            static V4_TABLE: #structure = table::<V4, V3>();
            match level() {
                Level::Baseline => &BASELINE,
                Level::V3 => &V3_TABLE,
                Level::V4 => &V4_TABLE,
            }
        }

        inventory::submit! { #table { device: DeviceType::Cpu, kernels } }
    })
}

/// `generated/mod.rs` of a backend.
pub fn backend_module(families: &[&str]) -> TokenStream {
    let names = families.iter().map(|name| ident(name));
    quote! {
        //! The tables of this backend, written from `native_functions.yaml`: a file a family.
        #![cfg_attr(rustfmt, rustfmt_skip)]

        #(mod #names;)*
    }
}
