//! Arithmetic and comparisons of formulas, on tensors (operators) and on numbers (plain Rust that cannot overflow).

use syn::BinOp;

use super::lower::{Lowerer, Result};
use super::value::{Form, Kind, Shape, Value};

impl Lowerer<'_> {
    /// `-x`
    pub(super) fn negate(&mut self, value: Value) -> Result<Value> {
        if value.is_tensor() {
            return self.operator("neg", &[value]);
        }
        let code = value.code();
        Ok(match (&value, value.single()) {
            (Value::Typed { form: Form::Literal, .. }, Some(kind @ (Kind::Int | Kind::Float))) => {
                let code = code.strip_prefix('-').map_or_else(|| format!("-{code}"), str::to_string);
                Value::one(code, kind, Form::Literal)
            }
            (_, Some(Kind::Int)) => Value::one(format!("{code}.wrapping_neg()"), Kind::Int, Form::Plain),
            (_, Some(Kind::Float)) => Value::one(format!("(-{code})"), Kind::Float, Form::Plain),
            (_, Some(Kind::Scalar)) => Value::one(format!("formulas::scalar::neg({code})"), Kind::Scalar, Form::Plain),
            _ => return Err(format!("-x: x is {}", value.describe())),
        })
    }

    /// `!x`
    pub(super) fn not(&mut self, value: Value) -> Result<Value> {
        if value.is_tensor() {
            return self.operator("logical_not", &[value]);
        }
        match value.single() {
            Some(Kind::Bool) => Ok(Value::one(format!("(!{})", value.code()), Kind::Bool, Form::Plain)),
            _ => Err(format!("!x: x is {}", value.describe())),
        }
    }

    /// `a + b` and the like: an operator where a tensor takes part, else plain arithmetic.
    pub(super) fn binary(&mut self, op: &BinOp, a: Value, b: Value) -> Result<Value> {
        let one = || Value::one("1", Kind::Int, Form::Literal);
        let reversed = !a.is_tensor() && b.is_tensor();
        if !a.is_tensor() && !b.is_tensor() {
            return number(op, &a, &b);
        }
        let (name, args) = match (op, reversed) {
            (BinOp::Add(_), false) => ("add", vec![a, b, one()]),
            (BinOp::Add(_), true) => ("add", vec![b, a, one()]),
            (BinOp::Sub(_), false) => ("sub", vec![a, b, one()]),
            (BinOp::Sub(_), true) => ("rsub", vec![b, a, one()]),
            (BinOp::Mul(_), false) => ("mul", vec![a, b]),
            (BinOp::Mul(_), true) => ("mul", vec![b, a]),
            (BinOp::Div(_), false) => ("div", vec![a, b]),
            (BinOp::Div(_), true) => {
                let reciprocal = self.operator("reciprocal", &[b])?;
                return if a.code() == "1" { Ok(reciprocal) } else { self.operator("mul", &[reciprocal, a]) };
            }
            (BinOp::Eq(_), _) => ("eq", ordered(a, b, reversed)),
            (BinOp::Ne(_), _) => ("ne", ordered(a, b, reversed)),
            (BinOp::Lt(_), _) => (if reversed { "gt" } else { "lt" }, ordered(a, b, reversed)),
            (BinOp::Le(_), _) => (if reversed { "ge" } else { "le" }, ordered(a, b, reversed)),
            (BinOp::Gt(_), _) => (if reversed { "lt" } else { "gt" }, ordered(a, b, reversed)),
            (BinOp::Ge(_), _) => (if reversed { "le" } else { "ge" }, ordered(a, b, reversed)),
            (BinOp::BitAnd(_), false) => ("bitwise_and", vec![a, b]),
            (BinOp::BitOr(_), false) => ("bitwise_or", vec![a, b]),
            _ => return Err(format!("no such operator of {} and {}", a.describe(), b.describe())),
        };
        self.operator(name, &args)
    }
}

fn ordered(a: Value, b: Value, reversed: bool) -> Vec<Value> {
    if reversed { vec![b, a] } else { vec![a, b] }
}

/// Arithmetic and comparison without tensors.
fn number(op: &BinOp, a: &Value, b: &Value) -> Result<Value> {
    let (Some(left), Some(right)) = (a.single(), b.single()) else {
        return Err(format!("no such operator of {} and {}", a.describe(), b.describe()));
    };
    let symbol = match op {
        BinOp::Add(_) => "+",
        BinOp::Sub(_) => "-",
        BinOp::Mul(_) => "*",
        BinOp::Div(_) => "/",
        BinOp::Eq(_) => "==",
        BinOp::Ne(_) => "!=",
        BinOp::Lt(_) => "<",
        BinOp::Le(_) => "<=",
        BinOp::Gt(_) => ">",
        BinOp::Ge(_) => ">=",
        BinOp::And(_) => "&&",
        BinOp::Or(_) => "||",
        _ => return Err("no such operator in formulas".into()),
    };
    let plain = |code: String, kind| Ok(Value::one(code, kind, Form::Plain));
    let float = |value: &Value| value.as_parameter(Kind::Float, Shape::One).unwrap_or_default();
    let numbers = a.is_number() && b.is_number();
    match symbol {
        "&&" | "||" if left == Kind::Bool && right == Kind::Bool => {
            plain(format!("({} {symbol} {})", a.code(), b.code()), Kind::Bool)
        }
        "&&" | "||" => Err(format!("{symbol} of {} and {}", a.describe(), b.describe())),
        "+" | "-" | "*" | "/" if !numbers => Err(format!("{symbol} of {} and {}", a.describe(), b.describe())),
        "/" if left == Kind::Int && right == Kind::Int => {
            Err("integer division is ambiguous: write one side as a float, or call a function".into())
        }
        "+" | "-" | "*" | "/" if left == Kind::Scalar || right == Kind::Scalar => {
            let name = match symbol {
                "+" => "add",
                "-" => "sub",
                "*" => "mul",
                _ => "div",
            };
            let scalar = |value: &Value| match value.single() {
                Some(Kind::Scalar) => value.code().to_string(),
                _ => format!("Scalar::from({})", value.code()),
            };
            plain(format!("formulas::scalar::{name}({}, {})", scalar(a), scalar(b)), Kind::Scalar)
        }
        "+" | "-" | "*" if left == Kind::Int && right == Kind::Int => {
            let name = match symbol {
                "+" => "wrapping_add",
                "-" => "wrapping_sub",
                _ => "wrapping_mul",
            };
            let receiver = match a {
                Value::Typed { form: Form::Literal, code, .. } => format!("({code}i64)"),
                _ => a.code().to_string(),
            };
            plain(format!("{receiver}.{name}({})", b.code()), Kind::Int)
        }
        "+" | "-" | "*" | "/" => plain(format!("({} {symbol} {})", float(a), float(b)), Kind::Float),
        "==" | "!=" if left == Kind::Scalar && right != Kind::Scalar && b.is_number() => {
            let not = if symbol == "!=" { "!" } else { "" };
            plain(format!("{not}{}.equals({})", a.code(), float(b)), Kind::Bool)
        }
        _ if left == right && !(numbers && left == Kind::Scalar) => {
            plain(format!("({} {symbol} {})", a.code(), b.code()), Kind::Bool)
        }
        _ if numbers => plain(format!("({} {symbol} {})", float(a), float(b)), Kind::Bool),
        _ => Err(format!("{symbol} of {} and {}", a.describe(), b.describe())),
    }
}
