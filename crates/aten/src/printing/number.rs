//! Numbers as text: a [`Column`] is a list of them, all written in the way that suits the whole list. No layout here.

use std::borrow::Cow;

use super::PrintOptions;

/// No number has more digits than this after the decimal point: zeros alone would follow.
const MOST_DIGITS: usize = 1100;

/// Numbers written alike, padded on the left to one width (nan and inf may be wider than the rest).
pub(super) struct Column {
    texts: Vec<String>,
    width: usize,
}

/// How a list of real numbers is written.
#[derive(Clone, Copy)]
enum Style {
    /// `1.`
    Whole,
    /// `1.0000`
    Fixed,
    /// `1.0000e+00`
    Scientific,
}

impl Column {
    /// Integers and truth values.
    pub fn exact(texts: Vec<String>) -> Self {
        let width = texts.iter().map(String::len).max().unwrap_or(1);
        Self { texts, width }
    }

    /// Real numbers. The style comes from the finite ones that are not zero, and so does the width.
    pub fn real(values: &[f64], options: &PrintOptions) -> Self {
        let counts = |v: f64| v.is_finite() && v != 0.0;
        let significant = || values.iter().copied().filter(|&v| counts(v));
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for v in significant() {
            (least, most) = (least.min(v.abs()), most.max(v.abs()));
        }
        let style = if most == 0.0 {
            Style::Whole
        } else if options.sci_mode.unwrap_or(most / least > 1000.0 || most > 1.0e8 || least < 1.0e-4) {
            Style::Scientific
        } else if significant().all(|v| v == v.ceil()) {
            Style::Whole
        } else {
            Style::Fixed
        };
        let texts: Vec<String> = values.iter().map(|&v| style.write(v, options.precision)).collect();
        let widths = texts.iter().zip(values).filter(|(_, v)| counts(**v)).map(|(text, _)| text.len());
        let width = widths.max().unwrap_or(1);
        Self { texts, width }
    }

    /// The width that most of the texts are padded to.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A number's text without padding.
    pub fn text(&self, i: usize) -> &str {
        self.texts.get(i).map_or("", String::as_str)
    }

    /// A number's text, padded.
    pub fn padded(&self, i: usize) -> Cow<'_, str> {
        let text = self.text(i);
        match self.width.checked_sub(text.len()) {
            Some(missing) if missing > 0 => Cow::Owned(" ".repeat(missing) + text),
            _ => Cow::Borrowed(text),
        }
    }
}

impl Style {
    fn write(self, value: f64, precision: usize) -> String {
        if value.is_nan() {
            return "nan".to_owned();
        }
        if value.is_infinite() {
            return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
        }
        let precision = precision.min(MOST_DIGITS);
        match self {
            Self::Whole => format!("{value:.0}."),
            Self::Fixed => format!("{value:.precision$}"),
            Self::Scientific => scientific(value, precision),
        }
    }
}

/// C's `%e`: an exponent with a sign and two digits at least.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_cs() {
        assert_eq!(scientific(1e-7, 4), "1.0000e-07");
        assert_eq!(scientific(-1.25e100, 1), "-1.2e+100");
        assert_eq!(scientific(0.0, 2), "0.00e+00");
    }

    #[test]
    fn nan_does_not_widen_a_column() {
        let column = Column::real(&[f64::NAN, 1.0], &PrintOptions::DEFAULT);
        assert_eq!((column.width(), &*column.padded(0), &*column.padded(1)), (2, "nan", "1."));
    }
}
