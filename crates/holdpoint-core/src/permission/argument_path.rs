//! Paths into the arguments of a call: `a.b[*].c`. In strict mode, a path selects exactly the values that it names. In
//! broad mode, it also accepts a list in place of one value and one value in place of a list.

use std::fmt;

use serde_json::Value;

use super::{PATH_CHARS_MAX, PATH_STEPS_MAX};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArgumentPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Member(String),
    Each,
}

impl ArgumentPath {
    /// Parses the path at the start of a text and returns it with the rest. None if the text does not start with a
    /// path.
    pub(super) fn parse_prefix(text: &str) -> Result<Option<(Self, &str)>, String> {
        let mut steps = Vec::new();
        let (mut rest, mut wants_name) = (text, true);
        loop {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, after) = match bracket(inside) {
                    Some(found) => found,
                    // A text that starts with a bracket may be a pattern. After a name, the bracket is an error.
                    None if steps.is_empty() => return Ok(None),
                    None => return Err("a step in brackets must be [*] or [\"a name\"]".to_owned()),
                };
                steps.push(step);
                rest = after;
            } else if wants_name {
                let (name, after) = name(rest);
                if name.is_empty() {
                    return Ok(None);
                }
                steps.push(PathStep::Member(name.to_owned()));
                rest = after;
            } else {
                break;
            }
            wants_name = rest.starts_with('.');
            rest = if wants_name { &rest[1..] } else { rest };
        }
        Ok(Some((Self(steps), rest)))
    }

    pub(super) fn check_limits(self) -> Result<Self, String> {
        let chars: usize = self.0.iter().map(|step| step.name().chars().count()).sum();
        if self.0.len() > PATH_STEPS_MAX || chars > PATH_CHARS_MAX {
            return Err(format!(
                "a path has at most {PATH_STEPS_MAX} steps, and {PATH_CHARS_MAX} characters in their names"
            ));
        }
        Ok(self)
    }

    /// Returns true if the path selects values and all of them satisfy the predicate. A list must not be empty.
    pub(super) fn every(&self, arguments: &Value, holds: &impl Fn(&Value) -> bool) -> bool {
        every(arguments, &self.0, holds)
    }

    /// Returns true if any selected value satisfies the predicate. The predicate receives None if a member is missing.
    /// A list in place of a value stands for each of its elements; a value in place of a list stands for a list of one.
    pub(super) fn any(&self, arguments: &Value, holds: &impl Fn(Option<&Value>) -> bool) -> bool {
        // Not recursive, because the nesting of arguments is not limited.
        let mut open = vec![(arguments, self.0.as_slice())];
        while let Some((value, steps)) = open.pop() {
            let found = match (steps, value) {
                ([], _) => holds(Some(value)),
                ([PathStep::Each, rest @ ..], Value::Array(items)) => {
                    open.extend(items.iter().map(|item| (item, rest)));
                    false
                }
                ([PathStep::Each, rest @ ..], _) => {
                    open.push((value, rest));
                    false
                }
                ([PathStep::Member(_), ..], Value::Array(items)) => {
                    open.extend(items.iter().map(|item| (item, steps)));
                    false
                }
                ([PathStep::Member(name), rest @ ..], _) => match value.get(name) {
                    Some(member) => {
                        open.push((member, rest));
                        false
                    }
                    None => holds(None),
                },
            };
            if found {
                return true;
            }
        }
        false
    }
}

/// Recurses as deep as the path, whose length is limited.
fn every(value: &Value, steps: &[PathStep], holds: &impl Fn(&Value) -> bool) -> bool {
    match steps {
        [] => holds(value),
        [PathStep::Member(name), rest @ ..] => {
            let member = value.as_object().and_then(|members| members.get(name));
            member.is_some_and(|member| every(member, rest, holds))
        }
        [PathStep::Each, rest @ ..] => value
            .as_array()
            .is_some_and(|items| !items.is_empty() && items.iter().all(|item| every(item, rest, holds))),
    }
}

impl PathStep {
    fn name(&self) -> &str {
        match self {
            Self::Member(name) => name,
            Self::Each => "*",
        }
    }
}

/// Parses a step in brackets and returns it with the rest.
fn bracket(inside: &str) -> Option<(PathStep, &str)> {
    if let Some(after) = inside.strip_prefix("*]") {
        return Some((PathStep::Each, after));
    }
    let mut read = serde_json::Deserializer::from_str(inside).into_iter::<String>();
    let name = inside.starts_with('"').then(|| read.next()).flatten()?.ok()?;
    let after = inside[read.byte_offset()..].strip_prefix(']')?;
    Some((PathStep::Member(name), after))
}

fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || "_-$".contains(c))).unwrap_or(text.len());
    text.split_at(end)
}

impl fmt::Display for ArgumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Each => f.write_str("[*]")?,
                PathStep::Member(member) if !member.is_empty() && name(member).1.is_empty() => {
                    f.write_str(if place > 0 { "." } else { "" })?;
                    f.write_str(member)?;
                }
                PathStep::Member(member) => write!(f, "[{}]", Value::from(member.as_str()))?,
            }
        }
        Ok(())
    }
}
