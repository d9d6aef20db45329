//! Paths into the arguments of a call: `a.b[*].c`. Where a path leads depends on who asks: strictly it leads where it
//! says or nowhere, broadly it does not stumble over a list where one value was expected, or the other way round.

use std::fmt;

use serde_json::Value;

use super::{PATH_CHARS_MAX, PATH_STEPS_MAX};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Each,
}

impl Path {
    /// The path at the start of a text, and what follows it. Nothing where the text begins otherwise.
    pub(super) fn at_start(text: &str) -> Result<Option<(Self, &str)>, String> {
        let mut steps = Vec::new();
        let (mut rest, mut wants_name) = (text, true);
        loop {
            if let Some(inside) = rest.strip_prefix('[') {
                let (step, after) = match bracket(inside) {
                    Some(found) => found,
                    // A text that begins with a bracket may be anything; after a name it can only be a mistake.
                    None if steps.is_empty() => return Ok(None),
                    None => return Err("a step in brackets is [*] or [\"a name\"]".to_owned()),
                };
                steps.push(step);
                rest = after;
            } else if wants_name {
                let (name, after) = name(rest);
                if name.is_empty() {
                    return Ok(None);
                }
                steps.push(Step::Member(name.to_owned()));
                rest = after;
            } else {
                break;
            }
            wants_name = rest.starts_with('.');
            rest = if wants_name { &rest[1..] } else { rest };
        }
        Ok(Some((Self(steps), rest)))
    }

    pub(super) fn checked(self) -> Result<Self, String> {
        let chars: usize = self.0.iter().map(|step| step.name().chars().count()).sum();
        if self.0.len() > PATH_STEPS_MAX || chars > PATH_CHARS_MAX {
            return Err(format!(
                "a path has at most {PATH_STEPS_MAX} steps, and {PATH_CHARS_MAX} characters in their names"
            ));
        }
        Ok(self)
    }

    /// Strictly: the path leads somewhere, and whatever it leads to holds; a list must not be empty.
    pub(super) fn every(&self, arguments: &Value, holds: &impl Fn(&Value) -> bool) -> bool {
        every(arguments, &self.0, holds)
    }

    /// Broadly: something holds that the path leads to. It is called with nothing where the path ends too early. A list
    /// in the way stands for each of its elements, and a value in the place of a list for a list of it.
    pub(super) fn any(&self, arguments: &Value, holds: &impl Fn(Option<&Value>) -> bool) -> bool {
        // Not recursive: how deep arguments are nested is not ours to say.
        let mut open = vec![(arguments, self.0.as_slice())];
        while let Some((value, steps)) = open.pop() {
            let found = match (steps, value) {
                ([], _) => holds(Some(value)),
                ([Step::Each, rest @ ..], Value::Array(items)) => {
                    open.extend(items.iter().map(|item| (item, rest)));
                    false
                }
                ([Step::Each, rest @ ..], _) => {
                    open.push((value, rest));
                    false
                }
                ([Step::Member(_), ..], Value::Array(items)) => {
                    open.extend(items.iter().map(|item| (item, steps)));
                    false
                }
                ([Step::Member(name), rest @ ..], _) => match value.get(name) {
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

/// As deep as the path, which is bounded.
fn every(value: &Value, steps: &[Step], holds: &impl Fn(&Value) -> bool) -> bool {
    match steps {
        [] => holds(value),
        [Step::Member(name), rest @ ..] => {
            let member = value.as_object().and_then(|members| members.get(name));
            member.is_some_and(|member| every(member, rest, holds))
        }
        [Step::Each, rest @ ..] => value
            .as_array()
            .is_some_and(|items| !items.is_empty() && items.iter().all(|item| every(item, rest, holds))),
    }
}

impl Step {
    fn name(&self) -> &str {
        match self {
            Self::Member(name) => name,
            Self::Each => "*",
        }
    }
}

/// What stands in brackets, and what follows them.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    if let Some(after) = inside.strip_prefix("*]") {
        return Some((Step::Each, after));
    }
    let mut read = serde_json::Deserializer::from_str(inside).into_iter::<String>();
    let name = inside.starts_with('"').then(|| read.next()).flatten()?.ok()?;
    let after = inside[read.byte_offset()..].strip_prefix(']')?;
    Some((Step::Member(name), after))
}

fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || "_-$".contains(c))).unwrap_or(text.len());
    text.split_at(end)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Each => f.write_str("[*]")?,
                Step::Member(member) if !member.is_empty() && name(member).1.is_empty() => {
                    f.write_str(if place > 0 { "." } else { "" })?;
                    f.write_str(member)?;
                }
                Step::Member(member) => write!(f, "[{}]", Value::from(member.as_str()))?,
            }
        }
        Ok(())
    }
}
