//! What to write for a new operator: the texts that `cargo xtask op new` prints, with the signatures that will compile.

use std::fmt::Write as _;

use quote::quote;

use crate::names::{ident, stem};
use crate::schema::Schema;
use crate::types;

/// The entry, the body in each of its possible places, the kernel and the formula of a new operator.
///
/// # Errors
/// When the schema cannot be read or has a type without a Rust form.
pub fn for_new(text: &str, family: &str) -> Result<String, String> {
    let schema = Schema::parse(text)?;
    types::check(&schema)?;
    let stem = stem(&schema);
    let mut out = String::new();
    let tensors: Vec<&str> =
        schema.args.iter().filter(|arg| arg.ty.is_tensor_like()).map(|arg| arg.name.as_str()).collect();
    let mut variants = vec!["function"];
    if schema.arg("self").is_some_and(|arg| types::is_tensor(&arg.ty)) {
        variants.push("method");
    }
    if schema.derive_in_place().is_ok() {
        variants.push("inplace");
    }
    if schema.derive_out().is_ok() && !schema.is_view() {
        variants.push("out");
    }
    let formulas: String =
        tensors.iter().map(|name| format!("    {name}: EXPRESSION | non_differentiable\n")).collect();
    let _ = write!(
        out,
        "1. native_functions.yaml: keep the variants that upstream has, and one line of each choice.\n\n\
         - func: {schema}\n  doc: WHAT IT COMPUTES\n  family: {family}\n  variants: [{}]\n  \
         meta: RULE | own            (element by element: with dtypes:, kernel_name:)\n  \
         native: own                 (anything else with kernels: with kernels:)\n  \
         composite: explicit | implicit  (made of other operators)\n  \
         derivatives:                (or non_differentiable: true; nothing for composite: implicit)\n    \
         grad_fn: NAMEBackward0\n{formulas}  tags: []\n\n",
        variants.join(", ")
    );
    let params = types::params(&schema);
    let result = types::kernel_result(&schema);
    let name = ident(&stem);
    let function = |with_out: bool, result: proc_macro2::TokenStream| -> Result<String, String> {
        let out = with_out.then(|| quote!(out: Out<'_>,));
        let tokens = quote!(pub fn #name(#out #(#params),*) -> Result<#result> {});
        let file = syn::parse2(tokens).map_err(|e| e.to_string())?;
        Ok(prettyplease::unparse(&file).replace(" {}\n", ""))
    };
    let plan = function(true, quote!(TensorIter))?;
    let native = function(true, result.clone())?;
    let composite = function(false, result)?;
    let _ = write!(
        out,
        "2. The body, in the file that the kind names:\n\n\
         crates/aten/src/meta/{family}.rs (meta: own)\n{plan};\n\n\
         crates/aten/src/native/{family}.rs (native: own)\n{native};\n\n\
         crates/aten/src/composite/{family}.rs (composite)\n{composite};\n\n\
         3. The kernel, crates/backends-cpu/src/{family}.rs, a function for all its dtypes:\n\n\
         pub fn {stem}<I: Isa, T: Element>(iter: &TensorIter) -> Result<()>\n\
         (element by element: its scalar body in `elementwise!`, which makes this function of it)\n\n\
         4. A formula of more than a line, crates/autograd/src/formulas/{family}.rs, from dispatched operators only.\n\n\
         5. cargo xtask codegen && cargo test -p tensor-codegen && cargo xtask conformance --filter '^{}'\n",
        schema.name
    );
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snippets_name_the_files_and_the_signatures() {
        let text = for_new("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", "pointwise").unwrap();
        assert!(text.contains("variants: [function, method, inplace, out]"));
        assert!(
            text.contains("pub fn lerp_scalar(\n    out: Out<'_>,")
                || text.contains("pub fn lerp_scalar(out: Out<'_>, self_: &Tensor")
        );
        assert!(text.contains("    end: EXPRESSION"));
        assert!(for_new("record_stream(Tensor(a!) self, Stream s) -> ()", "x").is_err());
    }
}
