//! Pins what one entry becomes. After a deliberate change: `UPDATE=1 cargo test -p tensor-codegen --test generate`.

const ENTRY: &str = "\
- func: lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
  doc: Goes from `self` to `end` by `weight`.
  family: pointwise
  variants: [function, method, inplace, out]
  meta: binary
  kernel_name: lerp_kernel_scalar
  dtypes: f32+f64
  params: [weight]
  non_differentiable: true
  tags: [pointwise]
- func: std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)
  doc: The standard deviation and the mean.
  family: reduce
  variants: [function, out]
  native: own
  kernels: { std_mean: { type: MomentsKernel, dtypes: floating, isa: false } }
  non_differentiable: true
- func: chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
  doc: Pieces along a dimension.
  family: view
  variants: [function, method]
  composite: implicit
";

#[test]
fn one_entry_of_each_kind() {
    let files = tensor_codegen::generate(ENTRY).unwrap();
    let again = tensor_codegen::generate(ENTRY).unwrap();
    assert_eq!(files, again, "generation is deterministic");
    let text: String = files
        .iter()
        .filter(|(path, _)| !path.ends_with("/mod.rs"))
        .map(|(path, text)| format!("// ---- {path}\n{text}\n"))
        .collect();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/generated.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    let expected = std::fs::read_to_string(golden).unwrap();
    for (i, (got, want)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, want, "line {} of tests/generated.txt", i + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count());
}

#[test]
fn the_stamp_ignores_documentation() {
    use tensor_codegen::stamp::stamp;
    let changed =
        ENTRY.replace("doc: Goes from `self` to `end` by `weight`.", "doc: |\n    Other words.\n\n    More of them.");
    assert_eq!(stamp(ENTRY), stamp(&format!("# a comment\n\n{changed}")));
    assert_ne!(stamp(ENTRY), stamp(&ENTRY.replace("f32+f64", "f32")));
}
