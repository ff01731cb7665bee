//! Values as Python prints them, for the texts of modules.

/// `True` or `False`.
pub(crate) fn bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// `repr` of a float: `0.1`, `1e-05`, `1.0`.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    // Rust changes to exponents where Python does; it writes them without sign and padding.
    let text = format!("{value:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// `repr` of a tuple of numbers: `(3,)`, `(3, 6)`.
pub(crate) fn tuple(values: &[i64]) -> String {
    match values {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_print_as_in_python() {
        let cases =
            [(0.1, "0.1"), (1e-5, "1e-05"), (1.5e-7, "1.5e-07"), (1.0, "1.0"), (1e16, "1e+16"), (0.0001, "0.0001")];
        for (value, text) in cases {
            assert_eq!(super::float(value), text);
        }
        assert_eq!(super::float(f64::NEG_INFINITY), "-inf");
        assert_eq!((super::tuple(&[3]), super::tuple(&[])), ("(3,)".to_owned(), "()".to_owned()));
    }
}
