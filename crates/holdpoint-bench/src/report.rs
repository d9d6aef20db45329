//! The report of a benchmark: one JSON object for scripts, or names and values for people.

use holdpoint_cli::output::Output;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Failure;
use super::measure::{Number, Spread, written};

/// Members for scripts and lines for people, in the order in which they are printed.
#[derive(Default)]
pub(super) struct Facts {
    members: Map<String, Value>,
    lines: Vec<(String, String)>,
}

pub(super) struct Report {
    pub(super) facts: Facts,
    pub(super) errors: usize,
}

impl Facts {
    pub(super) fn of(bench: &str) -> Self {
        Self::default().member("bench", bench)
    }

    /// Adds a member for scripts.
    pub(super) fn member(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        // Numbers, texts and lists of them can always be serialized.
        self.members.insert(name.into(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// Adds a number for scripts; null if it is unknown.
    pub(super) fn number(self, name: impl Into<String>, value: Option<f64>) -> Self {
        self.member(name, Number(value))
    }

    /// Adds a line for people. An empty line is not printed.
    pub(super) fn line(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.lines.push((name.into(), text.into()));
        self
    }

    /// Adds a fact: a member for scripts and a line for people.
    pub(super) fn fact(
        self,
        member: &str,
        value: impl Serialize,
        name: &str,
        text: impl Into<String>,
    ) -> Self {
        self.member(member, value).line(name, text)
    }

    /// Adds percentiles for scripts and people.
    pub(super) fn spread(self, member: &str, name: &str, spread: Option<Spread>) -> Self {
        self.fact(member, spread, name, Spread::text(spread))
    }

    /// Adds a number of bytes for scripts, and megabytes for people.
    pub(super) fn memory(self, member: &str, name: &str, bytes: Option<f64>) -> Self {
        let megabytes = written(bytes.map(|bytes| bytes / 1e6), 1);
        self.fact(member, Number(bytes), name, format!("{megabytes} MB"))
    }

    /// Adds the number of errors and the first one.
    pub(super) fn finish(self, errors: usize, first: Option<&Failure>) -> Report {
        let first = first.map(Failure::message);
        let facts = self.member("errors", errors).member("firstError", first);
        let facts = facts.line("errors", errors.to_string()).line("first error", first.unwrap_or_default());
        Report { facts, errors }
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.members.serialize(serializer)
    }
}

impl Report {
    pub(super) fn print(self, output: &Output) -> Result<(), Failure> {
        let Facts { members, lines } = self.facts;
        let lines: Vec<_> = lines.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
        output.line(&if output.json { Value::Object(members).to_string() } else { output.facts(&lines) });
        match self.errors {
            0 => Ok(()),
            errors => Err(Failure::refused(format!("the benchmark counted {errors} errors"))),
        }
    }
}
