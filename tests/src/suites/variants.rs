//! The corpus in other forms: on the meta device, and in other memory layouts.

use std::collections::BTreeMap;

use regex::Regex;
use tensor_tests::corpus::Corpus;
use tensor_tests::run::{Options, Outcome, Variant, run};

/// Checks that all cases hold in a variant which hold as recorded, but for some operators or single cases.
fn holds_where_recorded(variant: Variant, exempt: &[(&str, &str)]) {
    let corpus = Corpus::open(&Corpus::default_path()).unwrap();
    let outcomes = |variant| {
        let options = Options { variant, gradients: false, ..Options::default() };
        run(&corpus, &options).unwrap()
    };
    let recorded: BTreeMap<String, bool> =
        outcomes(Variant::Recorded).into_iter().map(|i| (i.id, i.outcome == Outcome::Passed)).collect();
    let exempt: Vec<Regex> =
        exempt.iter().map(|(op, _)| Regex::new(&format!("^(?:aten::)?(?:{op})$")).unwrap()).collect();
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in outcomes(variant) {
        if let Outcome::Failed(reason) = item.outcome
            && recorded.get(&item.id) == Some(&true)
            && !exempt.iter().any(|re| re.is_match(&item.group) || re.is_match(&item.id))
        {
            wrong.entry(item.group).or_default().push(format!("{}: {reason}", item.id));
        }
    }
    let lines: Vec<String> =
        wrong.iter().map(|(op, cases)| format!("{op}: {} cases, first {}", cases.len(), cases[0])).collect();
    assert!(lines.is_empty(), "{} operators\n{}", lines.len(), lines.join("\n"));
}

/// A call on meta tensors gives the dtypes, sizes, strides and aliases of the real call.
#[test]
fn the_meta_device_tells_the_truth() {
    holds_where_recorded(
        Variant::Meta,
        &[
            ("item|_local_scalar_dense|equal|allclose|is_nonzero", "a value is read"),
            ("narrow.Tensor|index_fill_?.int_Tensor|(lin|log)space.*Tensor.*", "a value is read"),
            ("one_hot|tensor_split.tensor_indices_or_sections|(lstm|gru|rnn_tanh|rnn_relu).data", "a value is read"),
            ("nonzero.*|argwhere|where|masked_select.*|.*unique.*", "the size depends on values"),
            ("repeat_interleave.*|bincount", "the size depends on values"),
            ("index.Tensor.*|index_put_?", "a mask's size depends on its values"),
            ("_?native_batch_norm.*|_batch_norm_with_update", "PyTorch's meta rule is that of its GPU kernels"),
        ],
    );
}

/// Values do not depend on how the arguments lie in memory.
#[test]
fn other_memory_layouts_give_the_same_values() {
    holds_where_recorded(
        Variant::Relayout,
        &[
            (
                "view|view_as|view.dtype|_unsafe_view(.out)?|_reshape_alias|view_as_complex",
                "a view needs strides that allow it",
            ),
            ("_pdist_(for|back)ward", "refuses what is not contiguous, as PyTorch's does"),
            ("_?embedding_bag.*", "the shape of an output follows the strides of the indices, as in PyTorch"),
            ("kron", "views its product, as PyTorch's does"),
            ("scaled_dot_product_attention/31", "half-precision weights, rounded after sums in another order"),
            (
                "_linalg_(slog)?det",
                "the factors are those of the transpose where a matrix lies row by row, as PyTorch's",
            ),
            (
                "as_strided.*|stride.*|sym_stride.*|sym_storage_offset|(sym_)?is_contiguous.*",
                "the result is about the layout",
            ),
            ("set_.source_Tensor", "memory is taken over as it lies, under another dtype"),
        ],
    );
}
