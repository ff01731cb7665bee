//! [`Streamed`]: numbers in error messages as C++'s streams write them. How Python prints numbers is no matter of this crate.

use std::fmt;

/// A number as `std::ostream <<` writes a double: six significant digits, `1e+10`, `nan`.
///
/// ```
/// use tensor_core::stream::Streamed;
/// let text = |x| Streamed(x).to_string();
/// assert_eq!([text(0.1), text(-2.0), text(1e10), text(1.0 / 3e5)], ["0.1", "-2", "1e+10", "3.33333e-06"]);
/// assert_eq!([text(f64::NAN), text(f64::NEG_INFINITY), text(123456.7)], ["nan", "-inf", "123457"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Streamed(pub f64);

impl fmt::Display for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        if x.is_nan() {
            return f.write_str(if x.is_sign_negative() { "-nan" } else { "nan" });
        }
        if x.is_infinite() {
            return write!(f, "{x}");
        }
        let text = format!("{x:.5e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let strip = |digits: &str| match digits.contains('.') {
            true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => digits.to_owned(),
        };
        match exponent {
            -4..=5 => f.write_str(&strip(&format!("{x:.*}", (5 - exponent) as usize))),
            _ => {
                let sign = if exponent < 0 { '-' } else { '+' };
                write!(f, "{}e{sign}{:02}", strip(digits), exponent.abs())
            }
        }
    }
}
