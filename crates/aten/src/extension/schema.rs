//! Schemas read while a crate is built: the functions here are `const`, so that `define_op!` fails to build rather than to
//! run. A failed check is a panic of the compiler's; nothing here is called by a program that runs.

use tensor_core::DispatchKey;

/// `my::twice` of `my::twice(Tensor x) -> Tensor`.
///
/// # Panics
/// When the schema has no namespace or no arguments in parentheses.
pub const fn name(schema: &'static str) -> &'static str {
    let end = find(schema.as_bytes(), 0, b"(");
    assert!(end < schema.len(), "the schema has no arguments in parentheses");
    let _ = namespace_end(schema);
    schema.split_at(end).0
}

/// `twice(Tensor x) -> Tensor` of `my::twice(Tensor x) -> Tensor`.
///
/// # Panics
/// When the schema has no namespace.
pub const fn without_namespace(schema: &'static str) -> &'static str {
    schema.split_at(namespace_end(schema)).1
}

const fn namespace_end(schema: &str) -> usize {
    let colons = find(schema.as_bytes(), 0, b":(");
    let text = schema.as_bytes();
    assert!(
        colons > 0 && colons + 1 < text.len() && text[colons] == b':' && text[colons + 1] == b':',
        "the schema has no namespace: \"my::op(..) -> ..\""
    );
    colons + 2
}

/// Checks a schema against a signature: the names that schemas have for each argument's type, and for the result's.
///
/// # Panics
/// When they differ.
pub const fn check(schema: &str, arguments: &[&[&str]], returns: &[&str]) {
    let text = schema.as_bytes();
    let mut walk = Arguments::of(text);
    let mut count = 0;
    while let Some((start, end)) = walk.next() {
        assert!(count < arguments.len(), "the schema has more arguments than the function");
        assert!(is_one_of(text, start, end, arguments[count]), "an argument has another type than the schema says");
        count += 1;
    }
    assert!(count == arguments.len(), "the schema has fewer arguments than the function");
    let arrow = find(text, walk.at + 1, b">");
    assert!(arrow < text.len(), "the schema does not say what is returned: `-> Tensor`");
    let start = spaces(text, arrow + 1);
    assert!(is_one_of(text, start, text.len(), returns), "the function returns another type than the schema says");
}

/// For each argument, whether the operator writes to it (`Tensor(a!)`).
pub const fn mutates<const N: usize>(schema: &str) -> [bool; N] {
    let text = schema.as_bytes();
    let mut walk = Arguments::of(text);
    let mut all = [false; N];
    let mut i = 0;
    while i < N
        && let Some((start, end)) = walk.next()
    {
        let mut at = start;
        while at < end {
            all[i] |= text[at] == b'!';
            at += 1;
        }
        i += 1;
    }
    all
}

/// True if one of the keys brings gradients.
pub const fn differentiable(keys: &[DispatchKey]) -> bool {
    let mut i = 0;
    while i < keys.len() {
        if keys[i] as u8 == DispatchKey::Autograd as u8 || keys[i] as u8 == DispatchKey::CompositeImplicitAutograd as u8
        {
            return true;
        }
        i += 1;
    }
    false
}

/// The places of the arguments' types in a schema.
struct Arguments<'a> {
    text: &'a [u8],
    /// Where the next argument starts; at the end the closing parenthesis.
    at: usize,
}

impl<'a> Arguments<'a> {
    const fn of(text: &'a [u8]) -> Self {
        Self { text, at: find(text, 0, b"(") + 1 }
    }

    /// Start and end of the next argument's type.
    const fn next(&mut self) -> Option<(usize, usize)> {
        loop {
            let start = spaces(self.text, self.at);
            assert!(start < self.text.len(), "the arguments of the schema do not end");
            if self.text[start] == b')' {
                self.at = start;
                return None;
            }
            let end = find(self.text, start, b",)");
            assert!(end < self.text.len(), "the arguments of the schema do not end");
            self.at = if self.text[end] == b',' { end + 1 } else { end };
            // A lone star: what follows are keyword arguments.
            if self.text[start] != b'*' {
                return Some((start, find(self.text, start, b" ,)")));
            }
        }
    }
}

/// The first of some bytes outside of nested brackets and quotes, or the end.
const fn find(text: &[u8], from: usize, stops: &[u8]) -> usize {
    let (mut at, mut depth, mut quoted) = (from, 0i32, false);
    while at < text.len() {
        let byte = text[at];
        if depth == 0 && !quoted && contains(stops, byte) {
            return at;
        }
        match byte {
            b'"' | b'\'' => quoted = !quoted,
            b'(' | b'[' if !quoted => depth += 1,
            b')' | b']' if !quoted => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

const fn contains(bytes: &[u8], byte: u8) -> bool {
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

const fn spaces(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    at
}

const fn is_one_of(text: &[u8], start: usize, end: usize, types: &[&str]) -> bool {
    let mut i = 0;
    while i < types.len() {
        if is_type(text, start, end, types[i].as_bytes()) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether a type in a schema is the given one, but for aliases (`(a!)`), fixed lengths (`[2]`) and names of results.
const fn is_type(text: &[u8], start: usize, end: usize, wanted: &[u8]) -> bool {
    let (mut at, mut matched) = (start, 0);
    while at < end {
        let before = if at > start { text[at - 1] } else { b' ' };
        let byte = text[at];
        if byte == b'(' && before.is_ascii_alphanumeric() {
            at = find(text, at + 1, b")") + 1;
        } else if byte.is_ascii_digit() && before == b'[' {
            while at < end && text[at].is_ascii_digit() {
                at += 1;
            }
        } else if byte == b' ' && at > start && before != b',' {
            at = find(text, at, b",)");
        } else if matched < wanted.len() && wanted[matched] == byte {
            matched += 1;
            at += 1;
        } else {
            return false;
        }
    }
    matched == wanted.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "my::f.over(Tensor(a!) self, int[2] size=[1, 2], *, str mode=\"a, b\", Tensor? w=None) -> (Tensor(a!) x, Tensor y)";

    #[test]
    fn parts_of_a_schema() {
        assert_eq!(name(SCHEMA), "my::f.over");
        assert!(without_namespace(SCHEMA).starts_with("f.over(Tensor"));
        assert_eq!(mutates::<4>(SCHEMA), [true, false, false, false]);
        check(SCHEMA, &[&["Tensor"], &["SymInt[]", "int[]"], &["str"], &["Tensor?"]], &["(Tensor, Tensor)"]);
        check("my::g() -> ()", &[], &["()"]);
    }

    #[test]
    #[should_panic(expected = "another type than the schema says")]
    fn an_optional_tensor_is_no_tensor() {
        check("my::f(Tensor? x) -> Tensor", &[&["Tensor"]], &["Tensor"]);
    }

    #[test]
    #[should_panic(expected = "fewer arguments")]
    fn a_missing_argument_is_seen() {
        check("my::f(Tensor x) -> Tensor", &[&["Tensor"], &["int"]], &["Tensor"]);
    }

    #[test]
    #[should_panic(expected = "returns another type")]
    fn a_wrong_result_is_seen() {
        check("my::f(Tensor x) -> Tensor[]", &[&["Tensor"]], &["Tensor"]);
    }
}
