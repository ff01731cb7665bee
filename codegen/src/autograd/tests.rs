//! Whole entries: the node and wrappers that they become, and the lines that errors name.

use super::*;

const YAML: &str = "
- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  doc: Sum.
  family: e
  variants: [function]
  native: own
  derivatives: { grad_fn: AddBackward0, self: grad, other: grad * alpha }
- func: mul.Scalar(Tensor self, Scalar other) -> Tensor
  doc: Product.
  family: e
  variants: [function]
  native: own
  derivatives: { grad_fn: MulBackward1, self: grad * other }
- func: exp(Tensor self) -> Tensor
  doc: e^x.
  family: f
  variants: [function, method, inplace, out]
  native: own
  derivatives: { grad_fn: ExpBackward0, self: grad * result.conj() }
- func: mul.Tensor(Tensor self, Tensor other) -> Tensor
  doc: Product.
  family: f
  variants: [function, method, inplace]
  native: own
  derivatives: { grad_fn: MulBackward0, self: grad * other.conj(), other: grad * self.conj() }
- func: max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
  doc: Largest.
  family: g
  variants: [function]
  native: own
  derivatives:
    grad_fn: MaxBackward0
    output_differentiability: [true, false]
    self: \"values_backward(grad, dim, indices, self.sizes(), keepdim)\"
- func: stack_two(Tensor self, Tensor[] tensors, Tensor? weight=None) -> Tensor
  doc: Made up.
  family: g
  variants: [function]
  native: own
  derivatives: { grad_fn: StackTwoBackward0, self: grad, tensors: \"f(grad, tensors.sizes())\", weight: \"g(grad, tensors)\" }
- func: split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
  doc: Parts.
  family: h
  variants: [function]
  composite: explicit
  derivatives: { grad_fn: SplitBackward0, self: \"split_backward(grads, self.options(), split_size, dim)\" }
- func: view_as_real(Tensor(a) self) -> Tensor(a)
  doc: Pairs.
  family: h
  variants: [function]
  composite: explicit
  derivatives: { grad_fn: ViewAsRealBackward0, self: grad.exp() }
- func: eq.Tensor(Tensor self, Tensor other) -> Tensor
  doc: Same.
  family: h
  variants: [function, inplace]
  native: own
  non_differentiable: true
- func: norm3(Tensor input, Tensor? weight, Tensor? bias, Tensor mask) -> (Tensor, Tensor, Tensor)
  doc: Made up.
  family: i
  variants: [function]
  native: own
  derivatives:
    grad_fn: Norm3Backward0
    output_differentiability: [true, false, true]
    \"input, weight\": \"h(grads[0], grads[1], input, weight, result1, result2, grad_input_mask)\"
    bias: grads[0] + grads[1]
    mask: not_implemented
";

fn generated(family_name: &str) -> String {
    let entries = crate::load::load(YAML).unwrap();
    let of_family: Vec<&Entry> = entries.iter().filter(|entry| entry.family == family_name).collect();
    let (tokens, _) = family(family_name, &of_family, &operators(&entries)).unwrap().unwrap();
    prettyplease::unparse(&syn::parse2(tokens).unwrap())
}

/// That the generated text holds some lines, whatever their indentation.
fn check(family_name: &str, expected: &str) {
    let flat = |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let (text, expected) = (flat(&generated(family_name)), flat(expected));
    assert!(text.contains(&expected), "expected\n{expected}\nin\n{text}");
}

#[test]
fn a_node_unpacks_what_its_formulas_name() {
    check(
        "f",
        "
        /// Backward of `mul.Tensor(Tensor self, Tensor other) -> Tensor`.
        ///
        /// self: `grad * other.conj()`
        ///
        /// other: `grad * self.conj()`
        struct MulBackward0 {
            other: SavedVariable,
            self_: SavedVariable,
        }
        impl Function for MulBackward0 {
            fn name(&self) -> &'static str {
                \"MulBackward0\"
            }
            fn apply(&self, node: &NodeRef, grads: Grads, need: &[bool]) -> Result<Grads> {
                let mut out = Grads::none(need.len());
                let Some(grad) = grads.at(0) else { return Ok(out) };
                if need[0] {
                    let other = self.other.unpack(node)?;
                    let t0 = formulas::conj(&other)?;
                    let t1 = ops::mul(grad, &t0)?;
                    out.set(0, t1);
                }",
    );
    check("f", "fn release(&self) {\nself.other.release();\nself.self_.release();\n}");
}

#[test]
fn a_wrapper_records_below_the_call() {
    check(
        "f",
        "
        fn mul(keys: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
            let needed = record::needs_grad(&[self_, other]);
            let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
            let result = {
                let _below = tls::below_autograd();
                op::MUL.kernel(keys)?(keys, self_, other)
            }?;
            if needed {
                let edges = Edges::of(&[self_, other])?;
                let function = MulBackward0 {
                    other: SavedVariable::input(edges.needs(0), other)?,
                    self_: SavedVariable::input(edges.needs(1), self_)?,
                };
                record::record(edges, function, &[&result]);
            }
            Ok(result)
        }",
    );
    check("f", "Registration::new(\n&op::MUL,\nDispatchKey::Autograd,\n&(mul as op::MulFn),");
}

#[test]
fn in_place_forms_save_before_the_write() {
    check(
        "f",
        "
            record::check_inplace(self_)?;
            let edges = Edges::of(&[self_, other])?;
            let saved_other = SavedVariable::input(edges.needs(0), other)?;
            let saved_self_ = SavedVariable::original(edges.needs(1), self_)?;
            call()?;
            let function = MulBackward0 {
                other: saved_other,
                self_: saved_self_,
            };
            record::rebase_history(self_, &record::node(edges, function))
        }",
    );
    // A saved result is `self` after the write, and told its grad_fn.
    check(
        "f",
        "
            call()?;
            let function = ExpBackward0 {
                result: SavedVariable::output(true, self_, 0)?,
            };",
    );
    check("f", "fn saved_result(&self) -> Option<&SavedVariable> {\nSome(&self.result)\n}");
}

#[test]
fn out_forms_refuse_gradients() {
    check(
        "f",
        "
        fn exp_out(keys: DispatchKeySet, self_: &Tensor, out: &Tensor) -> Result<()> {
            record::check_out(&[self_, out], \"exp\")?;
            let keys = keys & DispatchKeySet::AFTER_AUTOGRAD;
            let _below = tls::below_autograd();
            op::EXP_OUT.kernel(keys)?(keys, self_, out)
        }",
    );
}

#[test]
fn outputs_without_gradient_are_saved_as_inputs() {
    check(
        "g",
        "indices: SavedVariable::input(true, &result.1)?,\nself_sizes: Dims::from_slice(self_.sizes()),\nkeepdim,",
    );
    check("g", "record::record(edges, function, &[&result.0]);");
}

#[test]
fn a_list_has_an_edge_a_tensor() {
    check(
        "g",
        "
        if need[1..need.len() - 1].contains(&true) {
            let t0 = formulas::f(grad, &self.tensors_sizes)?;
            out.set_list(1, t0);
        }
        if need[need.len() - 1] {
            let tensors = self.tensors.unpack(node)?;
            let t0 = formulas::g(grad, &tensors)?;
            out.set(need.len() - 1, t0);
        }",
    );
    check(
        "g",
        "
        let mut edges = Edges::of(&[self_])?;
        edges.add(tensors)?;
        edges.add_opt(&[weight])?;
        let function = StackTwoBackward0 {
            tensors_sizes: record::sizes_of(tensors),
            tensors: SavedList::inputs(edges.needs(edges.len() - 1), tensors)?,
        };",
    );
}

#[test]
fn views_are_registered_before_their_history() {
    check("h", "record::as_views(self_, &result);\nif needed {");
    check("h", "record::set_history_list(&record::node(edges, function), &result);");
    check("h", "Some(Arc::new(move |base: &Tensor| ops::view_as_real(base))),");
}

#[test]
fn in_place_forms_without_gradient_overwrite() {
    check("h", "record::overwrite(\nself_,\n\"EqBackward0\",\n|| {");
    assert!(!generated("h").contains("fn eq("), "the functional form falls through");
}

#[test]
fn several_outputs_and_inputs() {
    check(
        "i",
        "
                [need[0], need[1]],
            )?;
            let (d0, d1) = t0;
            if need[0] {
                out.set(0, d0);
            }",
    );
    check("i", "let grad_0 = grads.or_zeros(0, node)?;\nlet grad_1 = grads.or_zeros(1, node)?;");
    check("i", "let t0 = formulas::not_implemented(\"mask\")?;\nout.set(3, t0);");
    check("i", "result2: SavedVariable::output(\nedges.needs(0) || edges.needs(1),\n&result.2,\n1,\n)?,");
}

#[test]
fn errors_name_their_line() {
    let yaml = YAML.replace("self: grad * result.conj()", "self: grad * foo");
    let entries = crate::load::load(&yaml).unwrap();
    let of_family: Vec<&Entry> = entries.iter().filter(|entry| entry.family == "f").collect();
    let error = family("f", &of_family, &operators(&entries)).unwrap_err();
    let expected =
        "native_functions.yaml:19: derivative of self: unknown name 'foo' (known: grad, grads, result, self)";
    assert_eq!(error.to_string(), expected);
}
