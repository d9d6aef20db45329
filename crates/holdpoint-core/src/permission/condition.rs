//! Conditions of a rule on the arguments of a call. They match strictly for an `allow`, broadly for an `ask` and a
//! `deny`.

use std::fmt;

use serde_json::Value;

use super::MatchMode;
use super::argument_path::ArgumentPath;
use super::pattern::{Glob, RegexPattern};
use super::short_form;
use crate::equality::json_equal;

#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// A pattern for the primary argument of the tool: a command, a path, an address.
    Primary(Glob),
    Field(ArgumentPath, FieldTest),
}

#[derive(Clone, Debug)]
pub(super) enum FieldTest {
    Glob(Glob),
    Regex(RegexPattern),
    Equals(Value),
}

impl Condition {
    pub(super) fn holds(&self, primary: Option<&str>, arguments: &Value, mode: MatchMode) -> bool {
        match (self, mode) {
            (Self::Primary(glob), MatchMode::Strict) => {
                let argument = primary_argument(primary, arguments);
                argument.and_then(Value::as_str).is_some_and(|text| glob.matches(text))
            }
            // An agent must not avoid a rule by an additional argument that makes the primary one ambiguous.
            (Self::Primary(glob), MatchMode::Broad) => {
                let declared = primary.and_then(|name| arguments.get(name));
                any_within(declared.unwrap_or(arguments), &|value| {
                    matches_as_text(value, |text| glob.matches(text))
                })
            }
            (Self::Field(path, test), MatchMode::Strict) => {
                path.every(arguments, &|value| test.matches_strictly(value))
            }
            (Self::Field(path, test), MatchMode::Broad) => {
                path.any(arguments, &|value| test.matches_broadly(value))
            }
        }
    }

    pub(super) fn is_equality(&self) -> bool {
        matches!(self, Self::Field(_, FieldTest::Equals(_)))
    }

    pub(super) fn is_regex(&self) -> bool {
        matches!(self, Self::Field(_, FieldTest::Regex(_)))
    }

    pub(super) fn literal_chars(&self) -> usize {
        match self {
            Self::Primary(glob) | Self::Field(_, FieldTest::Glob(glob)) => glob.literal_chars(),
            Self::Field(_, FieldTest::Regex(_) | FieldTest::Equals(_)) => 0,
        }
    }
}

/// Returns the declared primary argument. Without a declaration, returns the only string argument, or the arguments if
/// they are a string.
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

impl FieldTest {
    fn matches_strictly(&self, value: &Value) -> bool {
        match self {
            Self::Glob(glob) => value.as_str().is_some_and(|text| glob.matches(text)),
            Self::Regex(expression) => value.as_str().is_some_and(|text| expression.matches(text)),
            Self::Equals(wanted) => json_equal(value, wanted),
        }
    }

    /// Returns true if the value or any value inside it matches. A missing value counts as null.
    fn matches_broadly(&self, value: Option<&Value>) -> bool {
        let value = value.unwrap_or(&Value::Null);
        match self {
            Self::Glob(glob) => any_within(value, &|inner| matches_as_text(inner, |text| glob.matches(text))),
            Self::Regex(expression) => {
                any_within(value, &|inner| matches_as_text(inner, |text| expression.matches(text)))
            }
            Self::Equals(wanted) => any_within(value, &|inner| json_equal(inner, wanted)),
        }
    }
}

fn any_within(value: &Value, holds: &impl Fn(&Value) -> bool) -> bool {
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

/// Returns true if the text of a value matches. The text of a number or a boolean is its JSON.
fn matches_as_text(value: &Value, matches: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => matches(text),
        Value::Number(_) | Value::Bool(_) => matches(&value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(glob) => f.write_str(&short_form::format_primary(glob.text())),
            Self::Field(path, FieldTest::Glob(glob)) => {
                write!(f, "{path} ~ {}", short_form::format_glob(glob.text()))
            }
            Self::Field(path, FieldTest::Regex(expression)) => {
                write!(f, "{path} =~ {}", short_form::format_regex(expression.source()))
            }
            Self::Field(path, FieldTest::Equals(value)) => write!(f, "{path} = {value}"),
        }
    }
}
