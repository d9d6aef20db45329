//! What a rule wants of the arguments of a call. Read strictly for an `allow`, broadly for an `ask` and a `deny`.

use std::fmt;

use serde_json::Value;

use super::Reading;
use super::path::Path;
use super::pattern::{Expression, Glob};
use super::text;
use crate::equality::same;

#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// The argument that a tool is mostly about: a command, a path, an address.
    Primary(Glob),
    Field(Path, Test),
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Glob(Glob),
    Regex(Expression),
    Equals(Value),
}

impl Condition {
    pub(super) fn holds(&self, primary: Option<&str>, arguments: &Value, reading: Reading) -> bool {
        match (self, reading) {
            (Self::Primary(glob), Reading::Strict) => {
                let argument = primary_argument(primary, arguments);
                argument.and_then(Value::as_str).is_some_and(|text| glob.matches(text))
            }
            // An agent must not get around a rule by one more argument that makes it unclear which one is meant.
            (Self::Primary(glob), Reading::Broad) => {
                let declared = primary.and_then(|name| arguments.get(name));
                within(declared.unwrap_or(arguments), &|value| like(value, |text| glob.matches(text)))
            }
            (Self::Field(path, test), Reading::Strict) => path.every(arguments, &|value| test.surely(value)),
            (Self::Field(path, test), Reading::Broad) => path.any(arguments, &|value| test.possibly(value)),
        }
    }

    pub(super) fn is_equality(&self) -> bool {
        matches!(self, Self::Field(_, Test::Equals(_)))
    }

    pub(super) fn is_regex(&self) -> bool {
        matches!(self, Self::Field(_, Test::Regex(_)))
    }

    pub(super) fn literal_chars(&self) -> usize {
        match self {
            Self::Primary(glob) | Self::Field(_, Test::Glob(glob)) => glob.literal_chars(),
            Self::Field(_, Test::Regex(_) | Test::Equals(_)) => 0,
        }
    }
}

/// The declared one; without a declaration the only string among the arguments, or the arguments where they are one.
fn primary_argument<'v>(declared: Option<&str>, arguments: &'v Value) -> Option<&'v Value> {
    if let Some(name) = declared {
        return arguments.as_object()?.get(name);
    }
    let Value::Object(members) = arguments else {
        return arguments.is_string().then_some(arguments);
    };
    let mut strings = members.values().filter(|value| value.is_string());
    strings.next().filter(|_| strings.next().is_none())
}

impl Test {
    fn surely(&self, value: &Value) -> bool {
        match self {
            Self::Glob(glob) => value.as_str().is_some_and(|text| glob.matches(text)),
            Self::Regex(expression) => value.as_str().is_some_and(|text| expression.matches(text)),
            Self::Equals(wanted) => same(value, wanted),
        }
    }

    /// The value itself, or anything in it. What is not there is null, and no text.
    fn possibly(&self, value: Option<&Value>) -> bool {
        let value = value.unwrap_or(&Value::Null);
        match self {
            Self::Glob(glob) => within(value, &|inner| like(inner, |text| glob.matches(text))),
            Self::Regex(expression) => within(value, &|inner| like(inner, |text| expression.matches(text))),
            Self::Equals(wanted) => within(value, &|inner| same(inner, wanted)),
        }
    }
}

fn within(value: &Value, holds: &impl Fn(&Value) -> bool) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if holds(value) {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

/// A number or a flag is looked at as it is written in JSON.
fn like(value: &Value, matches: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => matches(text),
        Value::Number(_) | Value::Bool(_) => matches(&value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(glob) => f.write_str(&text::written_primary(glob.text())),
            Self::Field(path, Test::Glob(glob)) => write!(f, "{path} ~ {}", text::written_glob(glob.text())),
            Self::Field(path, Test::Regex(expression)) => {
                write!(f, "{path} =~ {}", text::written_regex(expression.source()))
            }
            Self::Field(path, Test::Equals(value)) => write!(f, "{path} = {value}"),
        }
    }
}
