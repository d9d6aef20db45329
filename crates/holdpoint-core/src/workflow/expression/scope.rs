//! Where names lead: paths such as `output.items[0]` and the scope that resolves their first segment.
//! Borrows everything; building a scope copies no JSON.

use serde_json::Value;

use super::{ParseError, parse};

/// A way into a JSON value: `a.b[0]["key with space"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub(super) name: String,
    pub(super) rest: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    pub fn parse(text: &str) -> Result<Path, ParseError> {
        parse::path(text)
    }
}

/// What the first segment of a path can name: a root, else a member of the first fallback object that has it.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    roots: Vec<(&'a str, &'a Value)>,
    fallbacks: Vec<&'a Value>,
}

impl<'a> Scope<'a> {
    pub fn new() -> Scope<'a> {
        Scope::default()
    }

    #[must_use]
    pub fn root(mut self, name: &'a str, value: &'a Value) -> Scope<'a> {
        self.roots.push((name, value));
        self
    }

    #[must_use]
    pub fn fallback(mut self, object: &'a Value) -> Scope<'a> {
        self.fallbacks.push(object);
        self
    }

    /// The value a path leads to. Absent and null are told apart here; expressions treat both as null.
    pub fn lookup(&self, path: &Path) -> Option<&'a Value> {
        path.rest.iter().try_fold(self.named(&path.name)?, |value, segment| match segment {
            Segment::Key(key) => value.as_object()?.get(key),
            Segment::Index(index) => value.as_array()?.get(*index),
        })
    }

    fn named(&self, name: &str) -> Option<&'a Value> {
        let root = self.roots.iter().find(|(root, _)| *root == name).map(|(_, value)| *value);
        root.or_else(|| self.fallbacks.iter().find_map(|object| object.as_object()?.get(name)))
    }
}
