//! A YAML tree that keeps line numbers and leaves every scalar as the text that was written.
//!
//! What the keys mean is in [`crate::model`].

use saphyr_parser::{Event, Parser};

/// A failure that names its place: `native_functions.yaml:12: ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Error {
    /// An error at a line.
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "native_functions.yaml:{}: {}", self.line, self.message)
    }
}

impl std::error::Error for Error {}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, unquoted.
    Scalar(String),
    /// `[a, b]` or lines of `- a`.
    List(Vec<Node>),
    /// `{a: b}` or lines of `a: b`.
    Map(Vec<(Node, Node)>),
}

/// A value and the line on which it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// The value.
    pub kind: Kind,
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Result<&str, Error> {
        match &self.kind {
            Kind::Scalar(text) => Ok(text),
            _ => Err(Error::new(self.line, "expected text")),
        }
    }

    /// The items of a list; a scalar is a list of one.
    pub fn items(&self) -> Result<&[Node], Error> {
        match &self.kind {
            Kind::List(items) => Ok(items),
            Kind::Scalar(_) => Ok(std::slice::from_ref(self)),
            Kind::Map(_) => Err(Error::new(self.line, "expected a list")),
        }
    }

    /// The texts of a list.
    pub fn texts(&self) -> Result<Vec<String>, Error> {
        self.items()?.iter().map(|item| item.text().map(str::to_string)).collect()
    }

    /// The pairs of a map.
    pub fn pairs(&self) -> Result<&[(Node, Node)], Error> {
        match &self.kind {
            Kind::Map(pairs) => Ok(pairs),
            _ => Err(Error::new(self.line, "expected `key: value` pairs")),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Result<bool, Error> {
        match self.text()? {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(Error::new(self.line, format!("expected true or false, got '{other}'"))),
        }
    }
}

/// A list or map that is being read.
enum Open {
    List(usize, Vec<Node>),
    Map(usize, Vec<(Node, Node)>, Option<Node>),
}

/// Reads one document. Anchors and duplicate keys are errors.
pub fn parse(text: &str) -> Result<Node, Error> {
    let mut stack: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| Error::new(e.marker().line(), e.info()))?;
        let line = span.start.line();
        let node = match event {
            Event::Scalar(value, _, 0, None) => Node { line, kind: Kind::Scalar(value.into_owned()) },
            Event::SequenceStart(0, None) => {
                stack.push(Open::List(line, Vec::new()));
                continue;
            }
            Event::MappingStart(0, None) => {
                stack.push(Open::Map(line, Vec::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some(Open::List(line, items)) => Node { line, kind: Kind::List(items) },
                Some(Open::Map(line, pairs, _)) => Node { line, kind: Kind::Map(pairs) },
                None => return Err(Error::new(line, "unbalanced document")),
            },
            Event::Alias(_) | Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) => {
                return Err(Error::new(line, "anchors, aliases and tags are not used in this file; quote the value"));
            }
            _ => continue,
        };
        match stack.last_mut() {
            None if root.is_none() => root = Some(node),
            None => return Err(Error::new(line, "more than one document")),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, pairs, key)) => match key.take() {
                None => {
                    let name = node.text()?;
                    if pairs.iter().any(|(other, _)| other.kind == node.kind) {
                        return Err(Error::new(node.line, format!("key '{name}' stands twice in one entry")));
                    }
                    *key = Some(node);
                }
                Some(key) => pairs.push((key, node)),
            },
        }
    }
    Ok(root.unwrap_or(Node { line: 1, kind: Kind::List(Vec::new()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_stay_text_and_keep_their_lines() {
        let tree = parse("# note\n- func: a(b) -> c\n  ok: true\n  derivatives:\n    self: grad * 1.0\n").unwrap();
        let entry = &tree.items().unwrap()[0];
        assert_eq!(entry.line, 2);
        let pairs = entry.pairs().unwrap();
        assert_eq!(pairs[0].1.text(), Ok("a(b) -> c"));
        assert_eq!(pairs[1].1.boolean(), Ok(true));
        let (key, value) = &pairs[2].1.pairs().unwrap()[0];
        assert_eq!((key.text().unwrap(), value.text().unwrap(), value.line), ("self", "grad * 1.0", 5));
    }

    #[test]
    fn errors_name_the_line() {
        let twice = parse("- a: 1\n  b: 2\n  a: 3\n").unwrap_err();
        assert_eq!(twice.to_string(), "native_functions.yaml:3: key 'a' stands twice in one entry");
        assert_eq!(parse("- a: *b\n").unwrap_err().line, 1);
        assert_eq!(parse("a: [1\nb: 2").unwrap_err().line, 2);
    }
}
