//! What formulas become, what they save, and what is refused.

use super::*;

const OPERATORS: [&str; 30] = [
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "mul.Tensor(Tensor self, Tensor other) -> Tensor",
    "mul.Scalar(Tensor self, Scalar other) -> Tensor",
    "div.Tensor(Tensor self, Tensor other) -> Tensor",
    "div.Scalar(Tensor self, Scalar other) -> Tensor",
    "neg(Tensor self) -> Tensor",
    "reciprocal(Tensor self) -> Tensor",
    "logical_not(Tensor self) -> Tensor",
    "gt.Scalar(Tensor self, Scalar other) -> Tensor",
    "lt.Scalar(Tensor self, Scalar other) -> Tensor",
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "exp(Tensor self) -> Tensor",
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    "layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] shape, Tensor mean, Tensor rstd, Tensor? weight, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
];

fn schemas() -> Vec<Schema> {
    OPERATORS.iter().map(|text| Schema::parse(text).unwrap()).collect()
}

/// Lowers a formula of the named operator of the list for its first inputs.
fn try_lower(operator: &str, differentiable: &[bool], inputs: usize, text: &str) -> Result<Lowered, String> {
    let schemas = schemas();
    let schema = schemas.iter().find(|schema| schema.full_name() == operator).unwrap();
    let mask: Vec<String> = (0..inputs).map(|i| format!("need[{i}]")).collect();
    lower(&Scope { schema, differentiable, operators: &Operators::new(&schemas), mask: &mask }, text, inputs)
}

/// Statements as prettyplease prints them.
fn pretty(body: &str) -> String {
    prettyplease::unparse(&syn::parse_file(&format!("fn f() {{ {body} }}")).unwrap())
}

/// Lowers a formula for the first input and compares its statements and its result, which is given to `out`.
fn check(operator: &str, formula: &str, expected: &str) -> Lowered {
    let lowered = try_lower(operator, &[true], 1, formula).unwrap();
    let got = format!("{} out({});", lowered.statements.join(" "), lowered.results.join(", "));
    assert_eq!(pretty(&got), pretty(expected), "{formula}");
    lowered
}

fn fields(lowered: &Lowered) -> Vec<String> {
    lowered.uses.iter().map(|used| format!("{}: {}", used.field, used.rust_type())).collect()
}

fn refused(operator: &str, formula: &str) -> String {
    try_lower(operator, &[true], 1, formula).unwrap_err()
}

#[test]
fn each_step_is_one_let() {
    let lowered = check(
        "exp",
        "grad * (1 - result * result)",
        "let result = self.result.unpack(node)?;
         let t0 = ops::mul(&result, &result)?;
         let t1 = ops::rsub_scalar(&t0, 1, 1)?;
         let t2 = ops::mul(grad, &t1)?;
         out(t2);",
    );
    assert_eq!(fields(&lowered), ["result: SavedVariable"]);
    assert!(lowered.uses_grad && lowered.uses_node);
}

#[test]
fn numbers_and_tensors_choose_the_overload() {
    check("add.Tensor", "grad * alpha", "let t0 = ops::mul_scalar(grad, self.alpha)?; out(t0);");
    check(
        "pow.Tensor_Scalar",
        "grad * (exponent * self.pow(exponent - 1)).conj()",
        "
        let self_ = self.self_.unpack(node)?;
        let t0 = ops::pow_tensor_scalar(&self_, formulas::scalar::sub(self.exponent, Scalar::from(1)))?;
        let t1 = ops::mul_scalar(&t0, self.exponent)?;
        let t2 = formulas::conj(&t1)?;
        let t3 = ops::mul(grad, &t2)?;
        out(t3);",
    );
    check(
        "div.Tensor",
        "-grad * 2.0 / other",
        "
        let other = self.other.unpack(node)?;
        let t0 = ops::neg(grad)?;
        let t1 = ops::mul_scalar(&t0, 2.0)?;
        let t2 = ops::div(&t1, &other)?;
        out(t2);",
    );
    check(
        "exp",
        "1 / grad + 2",
        "
        let t0 = ops::reciprocal(grad)?;
        let t1 = ops::add_scalar(&t0, 2, 1)?;
        out(t1);",
    );
    check(
        "exp",
        "where_self(0 > grad, grad, 0)",
        "
        let t0 = ops::lt_scalar(grad, 0)?;
        let t1 = ops::where_scalar_other(&t0, grad, 0)?;
        out(t1);",
    );
}

#[test]
fn numbers_become_tensors_where_no_overload_takes_them() {
    check(
        "div.Tensor_mode",
        "where_self(grad > 0, 1, other)",
        "
        let other = self.other.unpack(node)?;
        let t0 = ops::gt_scalar(grad, 0)?;
        let t1 = ops::where_self(&t0, &Tensor::wrapped_number(1)?, &other)?;
        out(t1);",
    );
}

#[test]
fn parts_are_saved_in_place_of_tensors() {
    let lowered = check(
        "sum.dim_IntList",
        "sum_backward(grad, self.sizes(), dim, keepdim, self.size(-1))",
        "
        let t0 = formulas::sum_backward(grad, &self.self_sizes, self.dim.as_deref(), self.keepdim, self.self_size_m1)?;
        out(t0);",
    );
    assert_eq!(fields(&lowered), ["self_sizes: Dims", "dim: Option<Dims>", "keepdim: bool", "self_size_m1: i64"]);
    assert!(!lowered.uses_node);
    let zeros = check(
        "exp",
        "zeros(self.sizes(), self.options())",
        "
        let t0 = ops::zeros(
        &self.self_sizes,
        Some(self.self_options.dtype),
        Some(self.self_options.layout),
        Some(self.self_options.device),
        None,
        )?;
        out(t0);",
    );
    assert_eq!(fields(&zeros), ["self_sizes: Dims", "self_options: Options"]);
}

#[test]
fn saved_values_are_filled_from_references() {
    let save = |operator: &str, formula: &str| -> Vec<String> {
        let lowered = try_lower(operator, &[true], 1, formula).unwrap();
        lowered.uses.iter().map(|used| used.save("x", "yes")).collect()
    };
    assert_eq!(
        save("sum.dim_IntList", "f(grad, self.sizes(), dim)"),
        ["Dims::from_slice(x.sizes())", "x.map(Dims::from_slice)"]
    );
    assert_eq!(save("cat", "f(grad, tensors.sizes(), tensors.len())"), ["record::sizes_of(x)", "x.len() as i64"]);
    assert_eq!(save("cat", "f(grad, tensors, dim)"), ["SavedList::inputs(yes, x)?", "x"]);
    assert_eq!(
        save("native_layer_norm", "f(grad, bias.sizes(), bias.is_some())"),
        ["x.map(|x| Dims::from_slice(x.sizes()))", "x.is_some()"]
    );
    assert_eq!(
        save("div.Tensor_mode", "f(grad, self, rounding_mode)"),
        ["SavedVariable::input(yes, x)?", "x.map(str::to_owned)"]
    );
}

#[test]
fn branches_hold_their_own_steps() {
    let lowered = check(
        "clamp",
        "if min.is_some() { grad * min.unwrap_or(0) } else { grad }",
        "
        let t1 = if self.min.is_some() {
        let t0 = ops::mul_scalar(grad, self.min.unwrap_or(Scalar::from(0)))?;
        t0
        } else {
        grad.clone()
        };
        out(t1);",
    );
    assert_eq!(fields(&lowered), ["min: Option<Scalar>"]);
    check(
        "sum.dim_IntList",
        "if keepdim && self.dim() > 1 { grad } else { -grad }",
        "
        let t1 = if (self.keepdim && (self.self_dim > 1)) {
        grad.clone()
        } else {
        let t0 = ops::neg(grad)?;
        t0
        };
        out(t1);",
    );
}

#[test]
fn several_outputs_name_their_gradients() {
    let both = |formula| try_lower("max.dim", &[true, true], 1, formula).unwrap();
    let text = both("grads[0] * 2 + f(grads[1])").statements.join(" ");
    assert!(text.contains("let grad_0 = grads.or_zeros(0, node)?;"), "{text}");
    assert!(text.contains("ops::mul_scalar(&grad_0, 2)?") && text.contains("formulas::f(grads.at(1))?"), "{text}");
    let one = try_lower("max.dim", &[true, false], 1, "f(grad, indices, grad_values)").unwrap();
    assert_eq!(one.statements.last().unwrap(), "let t0 = formulas::f(grad, &indices, grad)?;");
    assert_eq!(one.uses[0].source, Source::Result(1));
    let error = try_lower("max.dim", &[true, true], 1, "grad").unwrap_err();
    assert!(error.starts_with("'grad' is ambiguous: 2 outputs are differentiable"), "{error}");
    assert!(try_lower("max.dim", &[true, false], 1, "grad_indices * 1").unwrap_err().contains("not differentiable"));
    assert_eq!(
        check(
            "unbind.int",
            "unbind_backward(grads, dim)",
            "
        let t0 = formulas::unbind_backward(&grads, self.dim)?;
        out(t0);"
        )
        .uses
        .len(),
        1
    );
}

#[test]
fn several_inputs_take_a_tuple() {
    let formula = "layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, grad_input_mask)";
    let lowered = try_lower("native_layer_norm", &[true, false, false], 3, formula).unwrap();
    assert_eq!(lowered.results, ["t0.0", "t0.1", "t0.2"]);
    let call = lowered.statements.last().unwrap();
    let expected = "let t0 = ops::layer_norm_backward(grad, &input, &self.normalized_shape, &result1, &result2, \
                    weight.as_ref(), [need[0], need[1], need[2]])?;";
    assert_eq!(call, expected);
    let own = try_lower("native_layer_norm", &[true, false, false], 3, "f(grad, grad_input_mask)").unwrap();
    assert_eq!(
        (own.results.as_slice(), own.statements.last().unwrap().as_str()),
        (["t0".to_string()].as_slice(), "let t0 = formulas::f(grad, [need[0], need[1], need[2]])?;")
    );
    let pair = try_lower("mul.Tensor", &[true], 2, "(grad * other, grad)").unwrap();
    assert_eq!(pair.results, ["t0", "grad.clone()"]);
    assert_eq!(try_lower("mul.Tensor", &[true], 2, "(grad, grad, grad)").unwrap_err(), "3 gradients for 2 inputs");
}

#[test]
fn lists_are_passed_by_reference() {
    check(
        "cat",
        "cat(tensors, dim) + cat([grad, grad])",
        "
        let tensors = self.tensors.unpack(node)?;
        let t0 = ops::cat(&formulas::refs(&tensors), self.dim)?;
        let t1 = ops::cat(&[grad, grad], 0)?;
        let t2 = ops::add(&t0, &t1, 1)?;
        out(t2);",
    );
    check(
        "view",
        "grad.view([1, self.size(0) + 1]).sum(0)",
        "
        let t0 = ops::view(grad, &[1, self.self_size_0.wrapping_add(1)])?;
        let t1 = ops::sum_dim_int_list(&t0, Some(&[0]), false, None)?;
        out(t1);",
    );
}

#[test]
fn refusals_say_what_is_wrong() {
    assert_eq!(refused("exp", "grad * foo"), "unknown name 'foo' (known: grad, grads, result, self)");
    assert!(refused("exp", "grad * ").starts_with("cannot parse 'grad * '"));
    assert_eq!(refused("exp", "grad.frobnicate()"), "no operator 'frobnicate'");
    assert_eq!(
        refused("exp", "grad.exp(1)"),
        "no overload of 'exp' takes (Tensor, Int): there is exp(Tensor self) -> Tensor"
    );
    assert_eq!(refused("add.Tensor", "alpha"), "a gradient must be a tensor, not Scalar");
    assert_eq!(refused("exp", "if grad { grad } else { grad }"), "the condition of `if` is Tensor, not a bool");
    assert_eq!(refused("exp", "mul_(grad, grad)"), "'mul_': formulas call no in-place operators");
    assert_eq!(
        refused("sum.dim_IntList", "grad.view([self.dim() / 2])"),
        "integer division is ambiguous: write one side as a float, or call a function"
    );
    assert_eq!(refused("native_layer_norm", "f(grad, weight.numel())"), "'weight' is Tensor?: it has no numel()");
}
