//! Writes `crates/aten/src/generated/FAMILY.rs`: operators, their callers, boxed forms, wrappers, methods, registrations.
//!
//! The tables of kernels are written by [`crate::tables`], nodes by [`crate::autograd`].

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Entry, Kind, Meta, Operator, OutDtype};
use crate::names::{arg_name, camel, ident};
use crate::schema::{Arg, Base, Form, Schema};
use crate::types;

/// `ADD`: the static of an operator.
pub fn static_name(stem: &str) -> Ident {
    ident(&stem.to_uppercase())
}

/// `AddFn`: the type of an operator's kernels. A trailing `_` stays, so that forms differ.
pub fn fn_name(stem: &str) -> Ident {
    let tail = if stem.ends_with('_') { "_" } else { "" };
    let lead = &stem[..stem.len() - stem.trim_start_matches('_').len()];
    format_ident!("{lead}{}Fn{tail}", camel(stem))
}

/// The names of a schema's arguments.
fn arg_idents(schema: &Schema) -> Vec<Ident> {
    schema.args.iter().map(|arg| ident(&arg_name(arg))).collect()
}

/// The file of one family.
pub fn family(name: &str, entries: &[&Entry]) -> TokenStream {
    let doc = format!(" Operators of the family `{name}`.");
    let all = || entries.iter().flat_map(|entry| entry.operators.iter().map(move |op| (*entry, op)));
    let statics = all().map(|(entry, op)| operator(entry, op));
    let callers = all().map(|(entry, op)| caller(entry, op));
    let wrappers: Vec<TokenStream> = entries.iter().map(|entry| wrappers(entry)).collect();
    let methods: Vec<TokenStream> = all().flat_map(|(entry, op)| methods(entry, op)).collect();
    let methods = (!methods.is_empty()).then(|| quote!(impl Tensor { #(#methods)* }));
    let ops = all().map(|(_, op)| {
        let name = static_name(&op.stem);
        quote!(&op::#name)
    });
    let kernels = all().flat_map(|(entry, op)| registrations(entry, op));
    quote! {
        #![doc = #doc]
        #![cfg_attr(rustfmt, rustfmt_skip)]
        #![allow(clippy::needless_lifetimes, clippy::useless_conversion, missing_docs, unused_imports, unused_mut)]

        use super::prelude::*;

        pub mod op {
            use super::*;
            #(#statics)*
        }

        pub mod ops {
            use super::*;
            #(#callers)*
        }

        pub mod native {
            use super::*;
            #(#wrappers)*
        }

        #methods

        static OPS: &[&dyn AnyOp] = &[#(#ops),*];
        static KERNELS: &[Registration] = &[#(#kernels),*];
        inventory::submit! { Registrations { krate: "tensor-aten", ops: OPS, kernels: KERNELS } }
    }
}

/// The static with its boxed form, and the type of its kernels.
fn operator(entry: &Entry, op: &Operator) -> TokenStream {
    let schema = &op.schema;
    let (name, fn_type, caller) = (static_name(&op.stem), fn_name(&op.stem), ident(&op.stem));
    let (types, result) = (types::param_types(schema), types::kernel_result(schema));
    let full = format!("aten::{}", schema.full_name());
    let text = schema.to_string();
    // The Core ATen opset has functional overloads only.
    let own = op.stem == entry.stem;
    let tags = entry.tags.iter().filter(|tag| own || tag.as_str() != "core");
    let count = Literal::usize_unsuffixed(schema.args.len());
    let args = schema.args.iter().enumerate().map(|(i, arg)| types::boxed_arg(i, &arg.ty));
    let label = format!("aten::{}", schema.name);
    let call = quote!(ops::#caller(#(#args),*)?);
    let push = match schema.returns.len() {
        0 => quote!(#call;),
        1 => quote!(results.push(#call.into());),
        n => {
            let parts: Vec<Ident> = (0..n).map(|i| format_ident!("r{i}")).collect();
            quote!(let (#(#parts),*) = #call; #(results.push(#parts.into());)*)
        }
    };
    let binding = if schema.args.is_empty() { quote!(_) } else { quote!(a) };
    let results = if schema.returns.is_empty() { quote!(_) } else { quote!(results) };
    quote! {
        pub type #fn_type = fn(DispatchKeySet, #(#types),*) -> Result<#result>;
        pub static #name: Op<#fn_type> = Op::new(OpInfo {
            name: #full,
            schema: #text,
            boxed: |stack| Args::call(stack, #count, #label, |#binding, #results| {
                #push
                Ok(())
            }),
            tags: &[#(#tags),*],
        });
    }
}

/// The key set of a call: that of its tensors, or of its device where it takes no tensor.
fn keys(schema: &Schema) -> TokenStream {
    let tensors: Vec<TokenStream> = schema
        .args
        .iter()
        .filter(|arg| arg.ty.is_tensor_like())
        .map(|arg| {
            let name = ident(&arg_name(arg));
            if arg.ty.optional || arg.ty.list.is_some() { quote!(#name.keys()) } else { quote!(#name.key_set()) }
        })
        .collect();
    let device = schema.args.iter().find(|arg| arg.ty.base == crate::schema::Base::Device);
    match (tensors.is_empty(), device) {
        (false, _) => quote!(#(#tensors)|*),
        (true, Some(device)) => {
            let name = ident(&arg_name(device));
            quote!(#name.keys())
        }
        (true, None) => quote!(DispatchKeySet::EMPTY),
    }
}

/// The documentation of a caller: the entry's for the entry's own schema, a pointer to it for the other forms.
fn caller_doc(entry: &Entry, op: &Operator) -> Vec<String> {
    let schema = format!(" `aten::{}`", op.schema);
    if op.stem == entry.stem {
        let mut lines: Vec<String> = entry.doc.lines().map(|line| format!(" {line}").trim_end().to_string()).collect();
        lines.extend([String::new(), schema]);
        return lines;
    }
    let form = if op.form == Form::InPlace { "In-place" } else { "Out" };
    vec![format!(" {form} form of [`{}`].", entry.stem), String::new(), schema]
}

fn caller(entry: &Entry, op: &Operator) -> TokenStream {
    let schema = &op.schema;
    let (name, table) = (ident(&op.stem), static_name(&op.stem));
    let doc = caller_doc(entry, op);
    let returned: Vec<&Arg> = schema
        .returns
        .iter()
        .filter(|ret| ret.ty.is_written())
        .filter_map(|ret| schema.args.iter().find(|arg| arg.ty.alias == ret.ty.alias))
        .collect();
    let (generics, lifetime) = if returned.is_empty() { (None, quote!()) } else { (Some(quote!(<'a>)), quote!('a)) };
    let params = schema.args.iter().map(|arg| {
        let ty = if types::is_scalar(&arg.ty) {
            quote!(impl Into<Scalar>)
        } else if returned.iter().any(|out| out.name == arg.name) {
            quote!(&'a Tensor)
        } else {
            types::param(&arg.ty)
        };
        types::named(arg, ty)
    });
    let args = schema.args.iter().map(|arg| {
        let name = ident(&arg_name(arg));
        if types::is_scalar(&arg.ty) { quote!(#name.into()) } else { quote!(#name) }
    });
    let result = types::caller_result(schema, &lifetime);
    let keys = keys(schema);
    let call = quote!(op::#table.kernel(keys)?(keys, #(#args),*));
    let body = if returned.is_empty() {
        call
    } else {
        // Written arguments are given back in schema order, beside what the kernel made.
        let fresh: Vec<Ident> = (0..schema.fresh_returns().count()).map(|i| format_ident!("r{i}")).collect();
        let mut made = fresh.iter();
        let values: Vec<TokenStream> = schema
            .returns
            .iter()
            .filter_map(|ret| {
                if ret.ty.is_written() {
                    let arg = schema.args.iter().find(|arg| arg.ty.alias == ret.ty.alias)?;
                    let name = ident(&arg_name(arg));
                    Some(quote!(#name))
                } else {
                    made.next().map(|name| quote!(#name))
                }
            })
            .collect();
        let bind = match fresh.as_slice() {
            [] => quote!(),
            [one] => quote!(let #one =),
            many => quote!(let (#(#many),*) =),
        };
        match values.as_slice() {
            [one] => quote!(#bind #call?; Ok(#one)),
            many => quote!(#bind #call?; Ok((#(#many),*))),
        }
    };
    quote! {
        #(#[doc = #doc])*
        pub fn #name #generics(#(#params),*) -> Result<#result> {
            let keys = tls::effective(#keys);
            #body
        }
    }
}

/// What runs below autograd: a body over `Out` with one line a form, or calls of composite bodies.
fn wrappers(entry: &Entry) -> TokenStream {
    let forms = entry.operators.iter().map(|op| {
        let (name, params, result) = (ident(&op.stem), types::params(&op.schema), types::kernel_result(&op.schema));
        let apart = op.form == Form::Out && entry.out_dtype.is_some();
        let body = if entry.is_composite() || apart { composite_body(entry, op) } else { native_body(entry, op) };
        quote!(pub fn #name(_: DispatchKeySet, #(#params),*) -> Result<#result> { #body })
    });
    let shared = iterator_body(entry);
    quote!(#shared #(#forms)*)
}

/// For iterator entries, the function over `Out` that every form calls.
fn iterator_body(entry: &Entry) -> Option<TokenStream> {
    let (Kind::Iterator(meta), Some((kernel_family, kernel))) = (&entry.kind, &entry.kernel) else { return None };
    let name = format_ident!("{}_into", entry.stem);
    let (stem, family) = (ident(&entry.stem), ident(&entry.family));
    let inputs = inputs(&entry.schema);
    let params: Vec<TokenStream> = inputs.iter().map(|arg| types::named(arg, types::param(&arg.ty))).collect();
    let plan = match meta {
        Meta::Own => {
            let args: Vec<Ident> = inputs.iter().map(|arg| ident(&arg_name(arg))).collect();
            quote!(meta::#family::#stem(out, #(#args),*)?)
        }
        Meta::Rule { name, args } => {
            let rule = ident(name);
            let args = args.iter().filter_map(|name| entry.schema.arg(name)).map(|arg| ident(&arg_name(arg)));
            quote!(iterate::#rule(out, #(#args),*)?)
        }
    };
    let error_name = Literal::string(entry.kernel_error_name.as_deref().unwrap_or(kernel));
    let (kernel, kernel_family) = (ident(kernel), ident(kernel_family));
    let values: Vec<Ident> =
        entry.params.iter().filter_map(|name| entry.schema.arg(name)).map(|arg| ident(&arg_name(arg))).collect();
    let (mutable, set) = match values.as_slice() {
        [] => (None, None),
        values => (Some(quote!(mut)), Some(quote!(iter.set_params(&[#(#values.into()),*]);))),
    };
    let column = quote!(|device| Ok(&kernels::#kernel_family(device)?.#kernel));
    let results = entry.schema.returns.len();
    let (run, result) = if results > 1 {
        let parts: Vec<Ident> = (0..results).map(|i| format_ident!("r{i}")).collect();
        let next = parts.iter().map(|_| quote!(all.next()));
        let tensors = parts.iter().map(|_| quote!(Tensor));
        let run = quote! {
            let mut all = iterate::run_all(iter, out, #error_name, #column)?;
            match (#(#next),*) {
                (#(Some(#parts)),*) => Ok((#(#parts),*)),
                _ => Err(Error::runtime("the plan has too few outputs")),
            }
        };
        (run, quote!((#(#tensors),*)))
    } else {
        (quote!(iterate::run(iter, out, #error_name, #column)), quote!(Tensor))
    };
    // A wrapper may not use an argument that neither the rule nor the kernel takes.
    Some(quote! {
        #[allow(unused_variables)]
        fn #name(out: Out<'_>, #(#params),*) -> Result<#result> {
            let #mutable iter = #plan;
            #set
            #run
        }
    })
}

/// The arguments that are no out tensors.
fn inputs(schema: &Schema) -> Vec<&Arg> {
    schema.args.iter().filter(|arg| !(arg.kw_only && arg.ty.is_written())).collect()
}

/// The function over `Out` of an entry that is no composite.
fn native_function(entry: &Entry) -> TokenStream {
    let family = ident(&entry.family);
    match entry.kind {
        Kind::Iterator(_) => {
            let name = format_ident!("{}_into", entry.stem);
            quote!(#name)
        }
        _ => {
            let name = ident(&entry.stem);
            quote!(crate::native::#family::#name)
        }
    }
}

fn native_body(entry: &Entry, op: &Operator) -> TokenStream {
    let target = native_function(entry);
    let args = native_args(entry, op);
    let out = match op.form {
        Form::Functional => quote!(Out::Fresh),
        Form::InPlace if op.schema.args.first().is_some_and(|arg| arg.ty.list.is_some()) => quote!(Out::Into(self_)),
        Form::InPlace => quote!(Out::InPlace(self_)),
        Form::Out => {
            let outs = op.schema.args.iter().filter(|arg| arg.kw_only && arg.ty.is_written());
            let list = outs.clone().find(|arg| arg.ty.list.is_some());
            match list {
                Some(arg) => {
                    let name = ident(&arg_name(arg));
                    quote!(Out::Into(#name))
                }
                None => {
                    let names = outs.map(|arg| ident(&arg_name(arg)));
                    quote!(Out::Into(&[#(#names),*]))
                }
            }
        }
    };
    if op.form == Form::Functional {
        quote!(#target(#out, #(#args),*))
    } else {
        quote!(#target(#out, #(#args),*)?; Ok(()))
    }
}

/// Families whose native functions look at a tensor's shape once, or pin by themselves what they look at more often.
const LOOK_ONCE: [&str; 12] = [
    "copy",
    "fill",
    "flip",
    "indexing",
    "joining",
    "matmul",
    "optim",
    "pointwise",
    "reduce",
    "scan",
    "softmax",
    "triangular",
];

/// What a native function is called with: tensors that it reads have shapes that no other thread can change.
fn native_args(entry: &Entry, op: &Operator) -> Vec<TokenStream> {
    let args = forwarded(entry, op);
    if entry.kind != Kind::Native || LOOK_ONCE.contains(&entry.family.as_str()) {
        return args;
    }
    let pin = |(arg, value): (&Arg, TokenStream)| {
        let tensor = arg.ty.base == Base::Tensor && arg.ty.list.is_none() && !arg.ty.is_written();
        match (tensor, arg.ty.optional) {
            (true, false) => quote!(&#value.pinned()),
            (true, true) => quote!(#value.map(Tensor::pinned).as_ref()),
            (false, _) => value,
        }
    };
    inputs(&entry.schema).into_iter().zip(args).map(pin).collect()
}

/// The entry's own arguments as another form has them: dropped tensor options come from the out tensor.
fn forwarded(entry: &Entry, op: &Operator) -> Vec<TokenStream> {
    let out = op.schema.args.iter().find(|arg| arg.kw_only && arg.ty.is_written()).map(|arg| ident(&arg_name(arg)));
    inputs(&entry.schema)
        .into_iter()
        .map(|arg| {
            let name = ident(&arg_name(arg));
            match (op.schema.arg(&arg.name), arg.name.as_str(), &out) {
                (Some(_), ..) | (None, _, None) => quote!(#name),
                (None, "dtype", Some(out)) => quote!(Some(#out.dtype())),
                (None, "device", Some(out)) => quote!(Some(#out.device())),
                (None, ..) => quote!(None),
            }
        })
        .collect()
}

fn composite_body(entry: &Entry, op: &Operator) -> TokenStream {
    let family = ident(&entry.family);
    let own = op.stem == entry.stem;
    if op.form == Form::Out && !own {
        let (name, args) = (ident(&entry.stem), forwarded(entry, op));
        let outs: Vec<&Arg> = op.schema.args.iter().filter(|arg| arg.kw_only && arg.ty.is_written()).collect();
        let names: Vec<Ident> = outs.iter().map(|arg| ident(&arg_name(arg))).collect();
        let call = if entry.is_composite() {
            quote!(composite::#family::#name(#(#args),*)?)
        } else {
            let (function, args) = (native_function(entry), native_args(entry, op));
            quote!(#function(Out::Fresh, #(#args),*)?)
        };
        let rule = match &entry.out_dtype {
            None | Some(OutDtype::Exact) => quote!(out::Dtypes::Exact),
            Some(OutDtype::Any) => quote!(out::Dtypes::Any),
            Some(OutDtype::Cast) => quote!(out::Dtypes::Cast),
            Some(OutDtype::Words(words)) => quote!(out::Dtypes::Words(#words)),
        };
        return match names.as_slice() {
            [out] if outs[0].ty.list.is_some() => {
                let message = format!(
                    "{}_{}() expected an out= argument of size {{}}, got size {{}}",
                    op.schema.name, op.schema.overload
                );
                quote! {
                    let made = #call;
                    if made.len() != #out.len() {
                        return Err(Error::runtime(format!(#message, made.len(), #out.len())));
                    }
                    made.iter().zip(#out).try_for_each(|(made, out)| #rule.copy(out, made))
                }
            }
            [out] => quote!(#rule.copy(#out, &#call)),
            many => {
                let parts: Vec<Ident> = (0..many.len()).map(|i| format_ident!("r{i}")).collect();
                quote!(let (#(#parts),*) = #call; #(#rule.check(#many, &#parts)?;)* #(#rule.copy(#many, &#parts)?;)* Ok(()))
            }
        };
    }
    let (name, args) = (ident(&op.stem), arg_idents(&op.schema));
    quote!(composite::#family::#name(#(#args),*))
}

/// `add` and `add_opt`: the method without trailing defaults, and the one with all arguments.
fn methods(entry: &Entry, op: &Operator) -> Vec<TokenStream> {
    let Some(method) = &op.method else { return Vec::new() };
    let schema = &op.schema;
    let Some(position) = schema.args.iter().position(|arg| arg.name == "self") else { return Vec::new() };
    let rest = |arg: &&Arg| arg.name != "self";
    // What the short form leaves out: the arguments with defaults, unless the entry keeps them.
    let left_out: Vec<bool> = schema
        .args
        .iter()
        .map(|arg| arg.name != "self" && !entry.method_args.contains(&arg.name) && types::default_value(arg).is_some())
        .collect();
    let short_differs = left_out.contains(&true) || schema.args.iter().any(plain_in_short);
    let form = |name: &str, short: bool| {
        let name = ident(name);
        let caller = ident(&op.stem);
        let kept = schema.args.iter().enumerate().filter(|(i, arg)| rest(arg) && !(short && left_out[*i]));
        let params = kept.map(|(_, arg)| {
            let ty = if types::is_tensor(&arg.ty) {
                quote!(impl Operand<'o>)
            } else if types::is_scalar(&arg.ty) {
                quote!(impl Into<Scalar>)
            } else if short && plain_in_short(arg) {
                types::param(&crate::schema::Type { optional: false, ..arg.ty.clone() })
            } else {
                types::param(&arg.ty)
            };
            types::named(arg, ty)
        });
        let args = schema.args.iter().enumerate().map(|(i, arg)| {
            let name = ident(&arg_name(arg));
            if i == position {
                quote!(self)
            } else if short && left_out[i] {
                types::default_value(arg).unwrap_or_default()
            } else if types::is_tensor(&arg.ty) {
                quote!(&*#name.into_arg()?)
            } else if short && plain_in_short(arg) {
                quote!(Some(#name))
            } else {
                quote!(#name)
            }
        });
        let result = types::caller_result(schema, &TokenStream::new());
        let generics = schema.args.iter().any(|arg| rest(&arg) && types::is_tensor(&arg.ty)).then(|| quote!(<'o>));
        let doc = format!(" See [`ops::{}`].", op.stem);
        quote! {
            #[doc = #doc]
            pub fn #name #generics(&self, #(#params),*) -> Result<#result> { ops::#caller(#(#args),*) }
        }
    };
    let mut list = vec![form(method, true)];
    if short_differs {
        let full = match method.strip_suffix('_') {
            Some(base) => format!("{base}_opt_"),
            None => format!("{method}_opt"),
        };
        list.push(form(&full, false));
    }
    list
}

/// A list that may be absent but has no default (`int[1]? dim`): the short method takes it plain.
fn plain_in_short(arg: &Arg) -> bool {
    arg.ty.optional && arg.ty.list.is_some() && arg.default.is_none()
}

fn registrations(entry: &Entry, op: &Operator) -> Vec<TokenStream> {
    let (table, fn_type, name) = (static_name(&op.stem), fn_name(&op.stem), ident(&op.stem));
    let keys: Vec<Ident> = match entry.kind {
        Kind::CompositeExplicit => vec![ident("CompositeExplicitAutograd")],
        Kind::CompositeImplicit => vec![ident("CompositeImplicitAutograd")],
        _ => {
            // Without a tensor outside of lists, empty lists name no backend: the body says what is wrong with them.
            let lists_alone = !op.schema.args.iter().any(|arg| types::is_tensor(&arg.ty));
            let undefined = lists_alone.then(|| ident("Undefined"));
            entry.dispatch.iter().map(|backend| ident(backend.key())).chain([ident("Meta")]).chain(undefined).collect()
        }
    };
    let folder = match entry.kind {
        Kind::Iterator(Meta::Own) => "meta",
        Kind::Iterator(_) => "generated",
        Kind::Native => "native",
        _ => "composite",
    };
    let source = format!("aten/src/{folder}/{}.rs", entry.family);
    let register =
        |key| quote!(Registration::new(&op::#table, DispatchKey::#key, &(native::#name as op::#fn_type), #source));
    keys.into_iter().map(register).collect()
}

/// `generated/mod.rs`: the families together, and what their files import.
pub fn module(families: &[(&str, Vec<&Entry>)], stamp: &str) -> TokenStream {
    let names: Vec<Ident> = families.iter().map(|(name, _)| ident(name)).collect();
    let all = families
        .iter()
        .flat_map(|(_, entries)| entries)
        .flat_map(|entry| entry.operators.iter().map(move |op| (entry, op)));
    let registered = Literal::usize_unsuffixed(all.map(|(entry, op)| registrations(entry, op).len()).sum());
    let count = |of: &dyn Fn(&Ident) -> TokenStream| names.iter().map(of).collect::<Vec<_>>();
    let op = count(&|name| quote!(pub use super::#name::op::*;));
    let ops = count(&|name| quote!(pub use super::#name::ops::*;));
    let native = count(&|name| quote!(pub use super::#name::native::*;));
    quote! {
        //! Operators, written from `native_functions.yaml`: a file a family.
        #![cfg_attr(rustfmt, rustfmt_skip)]

        pub mod kernels;
        #(mod #names;)*

        /// The typed operators, as the dispatcher knows them.
        pub mod op { #(#op)* }

        /// Every overload as a function that takes all its arguments.
        pub mod ops { #(#ops)* }

        /// What runs below autograd, for backends from outside to register at their key: shape rules around the kernels of
        /// their own tables.
        pub mod wrappers { #(#native)* }

        /// What `native_functions.yaml` hashed to when this was written.
        pub const STAMP: &str = #stamp;

        /// How many kernels this crate registers.
        pub const KERNELS: usize = #registered;

        /// What each family's file uses.
        #[allow(unused_imports)]
        mod prelude {
            pub use tensor_core::{
                DType, Device, DispatchKey, DispatchKeySet, Error, Generator, Layout, MemoryFormat, Result, Scalar, tls,
            };

            pub use crate::boxed::Args;
            pub use crate::dispatch::{AnyOp, Keys, Op, OpInfo, Registration, Registrations};
            pub use crate::operand::Operand;
            pub use crate::out::{self, Out};
            pub use crate::{Tensor, composite, iterate, meta};
            pub use super::kernels;
        }
    }
}
