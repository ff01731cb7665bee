//! What the runner needs from a schema string: the arguments' types, and which of them the operator writes.

/// One argument of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The type without its alias annotation: `Tensor`, `Scalar[]`, `int[2]?`.
    pub ty: String,
    /// True for `Tensor(a!)`.
    pub writes: bool,
}

impl Argument {
    /// True for `Scalar[]`, whose elements may be of any kind.
    pub fn is_scalar_list(&self) -> bool {
        self.ty.starts_with("Scalar[")
    }
}

/// The arguments of a schema, `aten::add.Tensor(Tensor self, ..) -> Tensor`, in order.
pub fn arguments(schema: &str) -> Vec<Argument> {
    let Some(open) = schema.find('(') else { return Vec::new() };
    let (mut depth, mut start, mut out) = (0, open + 1, Vec::new());
    for (i, c) in schema.char_indices().skip_while(|(i, _)| *i < open) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth == 1) || depth == 0 {
            out.extend(argument(schema[start..i].trim()));
            start = i + 1;
        }
        if depth == 0 {
            break;
        }
    }
    out
}

fn argument(text: &str) -> Option<Argument> {
    let (ty, _name) = text.split_once(' ')?;
    // `Tensor(a -> *)` has spaces inside its annotation.
    let ty = match text.find('(') {
        Some(open) if open < ty.len() => &text[..text.find(')').map_or(ty.len(), |close| close + 1)],
        _ => ty,
    };
    let suffix = &text[ty.len()..text[ty.len()..].find(' ').map_or(text.len(), |n| ty.len() + n)];
    let bare = ty.split('(').next().unwrap_or(ty);
    Some(Argument { ty: format!("{bare}{suffix}"), writes: ty.contains('!') })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_writes_are_found() {
        let schema = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)";
        let found: Vec<_> = arguments(schema).into_iter().map(|a| (a.ty, a.writes)).collect();
        let want = [("Tensor", false), ("Tensor", false), ("Scalar", false), ("Tensor", true)];
        assert_eq!(found, want.map(|(t, w)| (t.to_owned(), w)));
    }

    #[test]
    fn lists_and_wild_aliases_are_read() {
        let schema =
            "aten::x(Tensor(a -> *) self, int[2] k=[1, 2], Tensor(b!)[] outs, Scalar[]? s=None, str m=\"a,b\") -> ()";
        let found: Vec<_> = arguments(schema).into_iter().map(|a| (a.ty, a.writes)).collect();
        let want = [("Tensor", false), ("int[2]", false), ("Tensor[]", true), ("Scalar[]?", false)];
        assert_eq!(found[..4], want.map(|(t, w)| (t.to_owned(), w)));
        assert!(arguments("aten::seed()").is_empty());
    }
}
