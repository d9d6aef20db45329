//! Paths such as `output.items[0]`, and the scope that resolves their first segment. A scope borrows its values.

use serde_json::Value;

use super::{ParseError, parse};

/// A path into a JSON value: `a.b[0]["key with space"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePath {
    pub(super) name: String,
    pub(super) rest: Vec<PathSegment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathSegment {
    Key(String),
    Index(usize),
}

impl ValuePath {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<ValuePath, ParseError> {
        parse::path(text)
    }
}

/// The names that an expression can use: the roots, then the members of the fallback objects in order.
#[derive(Clone, Debug, Default)]
pub struct ExpressionScope<'a> {
    roots: Vec<(&'a str, &'a Value)>,
    fallbacks: Vec<&'a Value>,
}

impl<'a> ExpressionScope<'a> {
    /// Creates an empty scope.
    pub fn new() -> ExpressionScope<'a> {
        ExpressionScope::default()
    }

    /// Adds a named value.
    #[must_use]
    pub fn root(mut self, name: &'a str, value: &'a Value) -> ExpressionScope<'a> {
        self.roots.push((name, value));
        self
    }

    /// Adds an object whose members can be used by name. Roots and earlier fallbacks have precedence.
    #[must_use]
    pub fn fallback(mut self, object: &'a Value) -> ExpressionScope<'a> {
        self.fallbacks.push(object);
        self
    }

    /// Returns the value at a path. A missing value is `None` here; expressions treat it as null.
    pub fn lookup(&self, path: &ValuePath) -> Option<&'a Value> {
        path.rest.iter().try_fold(self.named(&path.name)?, |value, segment| match segment {
            PathSegment::Key(key) => value.as_object()?.get(key),
            PathSegment::Index(index) => value.as_array()?.get(*index),
        })
    }

    fn named(&self, name: &str) -> Option<&'a Value> {
        let root = self.roots.iter().find(|(root, _)| *root == name).map(|(_, value)| *value);
        root.or_else(|| self.fallbacks.iter().find_map(|object| object.as_object()?.get(name)))
    }
}
